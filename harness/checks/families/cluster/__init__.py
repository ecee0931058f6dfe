"""Families about the cluster as a whole: leaders, elections, availability, a plan's expectations."""
