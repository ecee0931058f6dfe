"""Pairs of histories that differ in one thing, which decides."""
