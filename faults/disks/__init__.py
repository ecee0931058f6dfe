"""Faults of disks: wiped, filled, damaged, or without what was never flushed."""
