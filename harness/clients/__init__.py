"""One module per client library; outcomes.py classifies every error code. Only this package imports a Kafka client."""
