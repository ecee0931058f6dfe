"""Families about single records: lost, doubled, moved, out of order, never sent."""
