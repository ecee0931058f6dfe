"""Faults of nodes: they are killed, stopped, restarted or paused."""
