"""What an application promises its own users, on top of what Kafka promises it."""
