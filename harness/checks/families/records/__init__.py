"""Families about single records: lost, duplicated, moved, out of order, never sent."""
