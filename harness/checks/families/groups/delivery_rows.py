"""The row types of group_delivery.py: of its answer, and of its intermediate queries."""

from typing import Literal, TypedDict


class CommitTimes(TypedDict):
    """Of `after-commit`: of the last commit before the assignment, the request and the answer; when a fetch began that
    was still answered lawfully; when the assignment began, by when the member had its first records, and by when the
    first that had been committed."""

    committed_sent: int | None
    committed_ns: int | None
    shown_ns: int | None
    assigned_ns: int | None
    started_ns: int | None
    reread_ns: int | None


NO_TIMES = CommitTimes(
    committed_sent=None, committed_ns=None, shown_ns=None, assigned_ns=None, started_ns=None, reread_ns=None
)


class DeliveryRow(CommitTimes):
    """Records of a partition that were delivered to a group's members again, late or never.

    low, last: the first and last of them. high: the committed offset; for `at-least-once` the same as last. why: the
    reason for `at-least-once`, as group_delivery.py names it; committed: the offset that was certainly committed then.
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
    """An assignment: the offsets read in it, and the times of its polls."""

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
    reread_ns: int
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
    """Offsets of a partition, from `low` to before `high`, and the group's member concerned."""

    run: int
    partition_id: int
    group: str
    process: int | None
    assignment: int | None
    low: int
    high: int
    time_ns: int


class StepRow(TypedDict):
    """A moment at which a group had read up to `reached`, or committed `offset`."""

    run: int
    partition_id: int
    group: str
    time_ns: int
    reached: int | None
    offset: int | None
