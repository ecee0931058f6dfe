"""Everything about running a Kafka-like system under faults and judging what it did; nothing about Kafka's inside."""
