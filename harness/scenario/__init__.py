"""Scenarios: what a run is to do and what it must show, read from TOML."""
