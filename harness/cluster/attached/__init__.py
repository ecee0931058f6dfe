"""Clusters that the user runs: observed with Kafka requests, faults injected and healed by the means that the user
gives."""
