"""Jepsen's histories, read and written."""
