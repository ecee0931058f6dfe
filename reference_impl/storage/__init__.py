"""Segments, indexes, checkpoints and recovery, in Kafka's own file formats."""
