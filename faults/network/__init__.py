"""Faults of links: cut by one pattern or another, slowed or impaired."""
