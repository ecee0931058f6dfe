"""One file per client library; outcomes.py classes every error code once. Only this package imports a Kafka client."""
