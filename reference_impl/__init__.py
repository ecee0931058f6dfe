"""A Kafka-compatible broker cluster with ISR replication. It knows nothing of the harness that torments it."""
