"""A consumer group as most stories of one have it: its members, a topic of two partitions, and what they read."""

from typing import Any

from tests.outsiders.history_builder import HistoryBuilder, led


def group_of(
    *processes: int,
    protocol: str | None = "classic",
    reset: str = "earliest",
    isolation: str = "read_uncommitted",
    **more: Any,
) -> HistoryBuilder:
    """t-0 has values 0 to 9, t-1 is empty; nobody has been assigned anything yet."""
    history = led(**more).place(1, "t", 1)
    return history.members(*processes, reset=reset, isolation=isolation, group_protocol=protocol)
