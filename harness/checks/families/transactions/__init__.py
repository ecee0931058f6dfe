"""Families about transactions: atomicity, isolation, fencing, cycles."""
