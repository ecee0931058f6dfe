package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct {
	bootstrap []string
	topic     string
}

func (c franz) open(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(c.bootstrap...))...)
}

func (c franz) perform(ctx context.Context, operation string) (string, error) {
	kind, detail, _ := strings.Cut(operation, "-")
	switch kind {
	case "codec":
		codecs := map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
			"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		}
		return c.produce(ctx, kgo.ProducerBatchCompression(codecs[detail]))
	case "idempotent":
		return c.produce(ctx)
	case "acks":
		acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
		return c.produce(ctx, kgo.RequiredAcks(acks[detail]), kgo.DisableIdempotentWrite())
	case "read":
		return c.read(ctx)
	case "group":
		return c.group(ctx)
	case "transaction":
		return c.transaction(ctx)
	}
	opened, err := c.open()
	if err != nil {
		return "", err
	}
	defer opened.Close()
	return c.administer(ctx, kadm.NewClient(opened), kind)
}

func (c franz) administer(ctx context.Context, admin *kadm.Client, kind string) (string, error) {
	switch kind {
	case "topics":
		if _, err := admin.CreateTopic(ctx, 1, 3, nil, c.topic); err != nil {
			return "", err
		}
		if _, err := admin.CreateTopic(ctx, 1, 1, nil, c.topic+".gone"); err != nil {
			return "", err
		}
		if _, err := admin.DeleteTopic(ctx, c.topic+".gone"); err != nil {
			return "", err
		}
		for {
			found, err := admin.ListTopics(ctx)
			if err != nil {
				return "", err
			}
			if found.Has(c.topic) && !found.Has(c.topic+".gone") {
				return "created, deleted, listed", nil
			}
			time.Sleep(50 * time.Millisecond)
		}
	case "partitions":
		answers, err := admin.UpdatePartitions(ctx, 3, c.topic)
		if err == nil {
			err = answers.Error()
		}
		return "increased to 3", err
	case "alter":
		setting := "-1"
		altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &setting}}, c.topic)
		if err == nil {
			err = altered[0].Err
		}
		return "altered", err
	case "configuration":
		described, err := admin.DescribeTopicConfigs(ctx, c.topic)
		if err == nil {
			err = described[0].Err
		}
		return "described", err
	case "elections":
		partitions := kadm.TopicsSet{}
		partitions.Add(c.topic, 0)
		_, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, partitions)
		return "asked for the preferred leader", err
	case "time":
		found, err := admin.ListOffsetsAfterMilli(ctx, firstTimeMs+5, c.topic)
		if err != nil {
			return "", err
		}
		offset, _ := found.Lookup(c.topic, 0)
		return fmt.Sprintf("offset %d", offset.Offset), offset.Err
	}
	return "", errLacks
}

func (c franz) produce(ctx context.Context, options ...kgo.Opt) (string, error) {
	opened, err := c.open(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	var batch []*kgo.Record
	for number := range records {
		batch = append(batch, &kgo.Record{Topic: c.topic, Partition: 0, Timestamp: at(number), Value: value(number)})
	}
	return fmt.Sprintf("%d records", records), opened.ProduceSync(ctx, batch...).FirstErr()
}

func (c franz) read(ctx context.Context) (string, error) {
	opened, err := c.open(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return "", err
	}
	defer opened.Close()
	ends, err := kadm.NewClient(opened).ListEndOffsets(ctx, c.topic)
	if err != nil {
		return "", err
	}
	end, _ := ends.Lookup(c.topic, 0)
	count := 0
	for int64(count) < end.Offset {
		fetched := opened.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return "", err
		}
		count += fetched.NumRecords()
	}
	return fmt.Sprintf("%d records", count), nil
}

func (c franz) group(ctx context.Context) (string, error) {
	opened, err := c.open(kgo.ConsumerGroup(c.topic + "-group"), kgo.ConsumeTopics(c.topic))
	if err != nil {
		return "", err
	}
	defer opened.CloseAllowingRebalance()
	fetched := opened.PollFetches(ctx)
	return fmt.Sprintf("%d records", fetched.NumRecords()), fetched.Err()
}

func (c franz) transaction(ctx context.Context) (string, error) {
	opened, err := c.open(kgo.TransactionalID("somebody"))
	if err != nil {
		return "", err
	}
	defer opened.Close()
	if err := opened.BeginTransaction(); err != nil {
		return "", err
	}
	if err := opened.ProduceSync(ctx, &kgo.Record{Topic: c.topic, Value: value(0)}).FirstErr(); err != nil {
		return "", err
	}
	return "committed", opened.EndTransaction(ctx, kgo.TryCommit)
}
