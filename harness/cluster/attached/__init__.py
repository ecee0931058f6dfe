"""Clusters that somebody else runs: observed by Kafka's own requests, harmed and healed by the means they give us."""
