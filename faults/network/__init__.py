"""Faults of links: cut by different patterns, slowed or impaired."""
