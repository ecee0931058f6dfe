"""Histories by an outsider: somebody who knew Kafka and the promise, and had not read the code that decides."""
