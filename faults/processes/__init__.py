"""Faults of nodes: killed, stopped, restarted or paused."""
