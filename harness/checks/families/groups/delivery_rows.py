"""The rows of group_delivery.py: what it answers, and what its queries do on the way there."""

from typing import Literal, TypedDict


class DeliveryRow(TypedDict):
    """Records of a partition that were delivered to a group's members again, late or never.

    low, last: the first and last of them. high: what had been committed; of `at-least-once` the last once more.
    why: of `at-least-once`, as group_delivery.py names it; committed: what certainly was, then.
    """

    run: int
    partition_id: int
    group: str
    kind: Literal["after-commit", "at-least-once", "skipped", "ahead"]
    count: int
    low: int
    last: int
    high: int
    process: int | None
    assignment: int | None
    first_ns: int
    last_ns: int
    why: str
    committed: int | None
    operations: list[int]
    values: list[int]


class StartRow(TypedDict):
    """An assignment: the offsets that were read in it, and when its polls began and ended."""

    run: int
    partition_id: int
    group: str
    process: int
    assignment: int
    low: int
    high: int
    time_ns: int
    heard: int
    until: int


class WhoseRow(TypedDict):
    process: int
    assignment: int


class TwiceRow(TypedDict):
    run: int
    partition_id: int
    group: str
    whose: WhoseRow
    seen: str
    count: int
    low: int
    high: int
    invoked_ns: int
    completed_ns: int
    committed: int | None


class AfterCommitRow(TypedDict):
    run: int
    partition_id: int
    group: str
    process: int
    assignment: int
    high: int
    count: int
    low: int
    last: int
    invoked_ns: int
    completed_ns: int
    operations: list[int]


class SkippedRow(TypedDict):
    run: int
    partition_id: int
    group: str
    high: int
    time_ns: int
    process: int | None
    count: int
    low: int
    last: int
    values: list[int]


class LateRow(TypedDict):
    run: int
    partition_id: int
    group: str
    time_ns: int
    offset: int
    had: int | None


class AheadRow(TypedDict):
    run: int
    partition_id: int
    group: str
    count: int
    low: int
    last: int
    high: int
    time_ns: int


class SpanRow(TypedDict):
    """Offsets of a partition, from `low` to before `high`, and what a group's member had to do with them."""

    run: int
    partition_id: int
    group: str
    process: int | None
    assignment: int | None
    low: int
    high: int
    time_ns: int


class StepRow(TypedDict):
    """At a moment a group had read as far as `reached`, or committed `offset`."""

    run: int
    partition_id: int
    group: str
    time_ns: int
    reached: int | None
    offset: int | None
