package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

type segmentio struct {
	bootstrap []string
	topic     string
}

func (c segmentio) perform(ctx context.Context, operation string) (string, error) {
	kind, detail, _ := strings.Cut(operation, "-")
	client := &kafka.Client{Addr: kafka.TCP(c.bootstrap...), Timeout: 10 * time.Second}
	switch kind {
	case "topics":
		return c.topics(ctx, client)
	case "partitions":
		answer, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
			Topics: []kafka.TopicPartitionsConfig{{Name: c.topic, Count: 3}},
		})
		if err == nil {
			err = answer.Errors[c.topic]
		}
		return "increased to 3", err
	case "alter":
		return c.alter(ctx, client)
	case "configuration":
		described, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: c.topic}},
		})
		if err == nil {
			err = described.Resources[0].Error
		}
		return "described", err
	case "elections":
		answer, err := client.ElectLeaders(ctx, &kafka.ElectLeadersRequest{Topic: c.topic, Partitions: []int{0}})
		if err == nil {
			err = answer.Error
		}
		return "asked for the preferred leader", err
	case "codec":
		codecs := map[string]kafka.Compression{
			"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
		}
		return c.produce(ctx, kafka.RequireAll, codecs[detail])
	case "acks":
		acks := map[string]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll}
		return c.produce(ctx, acks[detail], 0)
	case "read":
		return c.read(ctx)
	case "time":
		answer, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
			Topics: map[string][]kafka.OffsetRequest{c.topic: {kafka.TimeOffsetOf(0, at(5))}},
		})
		if err != nil {
			return "", err
		}
		found := answer.Topics[c.topic][0]
		for offset := range found.Offsets {
			return fmt.Sprintf("offset %d", offset), found.Error
		}
		return "no offset", found.Error
	case "group":
		reader := kafka.NewReader(kafka.ReaderConfig{Brokers: c.bootstrap, GroupID: c.topic + "-group", Topic: c.topic})
		_, err := reader.ReadMessage(ctx)
		return "records", err
	case "transaction":
		answer, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{
			TransactionalID: c.topic + "-writer", TransactionTimeoutMs: 10_000,
		})
		if err == nil {
			err = answer.Error
		}
		return "given a producer id", err
	}
	return "", errLacks
}

func (c segmentio) topics(ctx context.Context, client *kafka.Client) (string, error) {
	gone := c.topic + ".gone"
	made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: c.topic, NumPartitions: 1, ReplicationFactor: 3}, {Topic: gone, NumPartitions: 1, ReplicationFactor: 1},
	}})
	if err == nil {
		err = made.Errors[c.topic]
	}
	if err != nil {
		return "", err
	}
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{gone}})
	if err == nil {
		err = deleted.Errors[gone]
	}
	return "created, deleted, listed", err
}

func (c segmentio) alter(ctx context.Context, client *kafka.Client) (string, error) {
	altered, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: c.topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{
				Name: "retention.ms", Value: "-1", ConfigOperation: kafka.ConfigOperationSet,
			}},
		}},
	})
	if err == nil {
		err = altered.Resources[0].Error
	}
	return "altered", err
}

// onlyFirst puts everything into partition 0.
type onlyFirst struct{}

func (onlyFirst) Balance(kafka.Message, ...int) int { return 0 }

func (c segmentio) produce(ctx context.Context, acks kafka.RequiredAcks, codec kafka.Compression) (string, error) {
	writer := &kafka.Writer{
		Addr: kafka.TCP(c.bootstrap...), Topic: c.topic, Balancer: onlyFirst{}, RequiredAcks: acks, Compression: codec,
		BatchTimeout: 10 * time.Millisecond,
	}
	defer writer.Close()
	var batch []kafka.Message
	for number := range records {
		batch = append(batch, kafka.Message{Time: at(number), Value: value(number)})
	}
	return fmt.Sprintf("%d records", records), writer.WriteMessages(ctx, batch...)
}

func (c segmentio) read(ctx context.Context) (string, error) {
	leader, err := kafka.DialLeader(ctx, "tcp", c.bootstrap[0], c.topic, 0)
	if err != nil {
		return "", err
	}
	defer leader.Close()
	end, err := leader.ReadLastOffset()
	if err != nil {
		return "", err
	}
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: c.bootstrap, Topic: c.topic, Partition: 0})
	defer reader.Close()
	count := int64(0)
	for ; count < end; count++ {
		if _, err := reader.ReadMessage(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d records", count), nil
}
