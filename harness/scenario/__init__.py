"""Scenarios: what a run does and what it must show, read from TOML."""
