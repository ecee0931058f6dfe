"""Sealing: journals become tables."""
