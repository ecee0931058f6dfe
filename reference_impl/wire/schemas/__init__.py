"""JSON schemas of the messages between brokers, in Apache Kafka's schema language."""
