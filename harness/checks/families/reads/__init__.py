"""Families about what consumers saw: dirty, skipped and repeated reads."""
