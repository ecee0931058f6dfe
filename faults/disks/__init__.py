"""Faults of disks: wiped, filled, damaged, or a power loss that removes unflushed data."""
