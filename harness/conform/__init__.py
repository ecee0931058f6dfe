"""Whether a cluster keeps Kafka's protocol, promise by promise: requests of our own bytes, and no client library.

A run under faults shows what a system loses; these rows show beforehand whether it answers as Kafka does. Any cluster
may be asked, one that is not ours too: only of topics, groups and ids that carry this run's mark.
"""
