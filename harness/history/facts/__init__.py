"""Typed facts of a run, read from its tables."""
