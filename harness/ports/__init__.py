"""The interfaces between the parts of the harness: clusters, their optional capabilities, and requests to brokers."""
