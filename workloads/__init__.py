"""One workload per file: what the clients of a run do."""
