package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct {
	bootstrap []string
	topic     string
}

func configured() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func (c saramaClient) perform(ctx context.Context, operation string) (string, error) {
	kind, detail, _ := strings.Cut(operation, "-")
	config := configured()
	switch kind {
	case "codec":
		codecs := map[string]sarama.CompressionCodec{
			"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
			"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
		}
		config.Producer.Compression = codecs[detail]
		return c.produce(config)
	case "idempotent":
		config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
		return c.produce(config)
	case "acks":
		acks := map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}
		config.Producer.RequiredAcks = acks[detail]
		return c.produce(config)
	case "read":
		return c.read(config)
	case "time":
		client, err := sarama.NewClient(c.bootstrap, config)
		if err != nil {
			return "", err
		}
		defer client.Close()
		offset, err := client.GetOffset(c.topic, 0, firstTimeMs+5)
		return fmt.Sprintf("offset %d", offset), err
	case "group":
		return c.group(ctx, config)
	case "transaction":
		return c.transaction(config)
	}
	admin, err := sarama.NewClusterAdmin(c.bootstrap, config)
	if err != nil {
		return "", err
	}
	defer admin.Close()
	return c.administer(admin, kind)
}

func (c saramaClient) administer(admin sarama.ClusterAdmin, kind string) (string, error) {
	switch kind {
	case "topics":
		if err := admin.CreateTopic(c.topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 3}, false); err != nil {
			return "", err
		}
		gone := c.topic + ".gone"
		if err := admin.CreateTopic(gone, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false); err != nil {
			return "", err
		}
		if err := admin.DeleteTopic(gone); err != nil {
			return "", err
		}
		for {
			found, err := admin.ListTopics()
			if err != nil {
				return "", err
			}
			_, made := found[c.topic]
			_, left := found[gone]
			if made && !left {
				return "created, deleted, listed", nil
			}
			time.Sleep(50 * time.Millisecond)
		}
	case "partitions":
		return "increased to 3", admin.CreatePartitions(c.topic, 3, nil, false)
	case "alter":
		setting := "-1"
		entries := map[string]sarama.IncrementalAlterConfigsEntry{
			"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &setting},
		}
		return "altered", admin.IncrementalAlterConfig(sarama.TopicResource, c.topic, entries, false)
	case "configuration":
		_, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: c.topic})
		return "described", err
	case "elections":
		_, err := admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{c.topic: {0}})
		return "asked for the preferred leader", err
	}
	return "", errLacks
}

func (c saramaClient) produce(config *sarama.Config) (string, error) {
	producer, err := sarama.NewSyncProducer(c.bootstrap, config)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	var batch []*sarama.ProducerMessage
	for number := range records {
		batch = append(batch, &sarama.ProducerMessage{
			Topic: c.topic, Partition: 0, Timestamp: at(number), Value: sarama.ByteEncoder(value(number)),
		})
	}
	return fmt.Sprintf("%d records", records), producer.SendMessages(batch)
}

func (c saramaClient) read(config *sarama.Config) (string, error) {
	consumer, err := sarama.NewConsumer(c.bootstrap, config)
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(c.topic, 0, sarama.OffsetOldest)
	if err != nil {
		return "", err
	}
	defer partition.Close()
	count := 1
	for message := <-partition.Messages(); message.Offset+1 < partition.HighWaterMarkOffset(); count++ {
		message = <-partition.Messages()
	}
	return fmt.Sprintf("%d records", count), nil
}

type oneMessage struct{ got chan string }

func (h oneMessage) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h oneMessage) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (h oneMessage) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	<-claim.Messages()
	h.got <- "records"
	return nil
}

func (c saramaClient) group(ctx context.Context, config *sarama.Config) (string, error) {
	group, err := sarama.NewConsumerGroup(c.bootstrap, c.topic+"-group", config)
	if err != nil {
		return "", err
	}
	got := make(chan string, 8)
	if err := group.Consume(ctx, []string{c.topic}, oneMessage{got}); err != nil {
		return "", err
	}
	return <-got, nil
}

func (c saramaClient) transaction(config *sarama.Config) (string, error) {
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.Transaction.ID = "somebody"
	producer, err := sarama.NewSyncProducer(c.bootstrap, config)
	if err != nil {
		return "", err
	}
	if err := producer.BeginTxn(); err != nil {
		return "", err
	}
	if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: c.topic, Value: sarama.ByteEncoder(value(0))}); err != nil {
		return "", err
	}
	return "committed", producer.CommitTxn()
}
