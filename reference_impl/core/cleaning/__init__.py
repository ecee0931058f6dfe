"""What the log cleaner leaves of a compacted log."""
