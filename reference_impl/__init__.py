"""A Kafka-compatible broker cluster with ISR replication. It imports nothing of the harness that tests it."""
