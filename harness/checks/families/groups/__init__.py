"""Families about consumer groups: owners, committed offsets, delivery."""
