"""The row types of the queries of disks against reads, and of their answer (killed_members.py has its own part)."""

from typing import TypedDict


class EndRow(TypedDict):
    """A replica's log at the end, and its high watermark."""

    run: int
    partition_id: int
    node: int
    snapshot: int
    mark: int


class SpanRow(TypedDict):
    """The offsets read of a partition, first to last, and a digest of all records."""

    run: int
    partition_id: int
    first: int
    last: int
    invoked_ns: int
    number: int
    count: int


class LogNumberRow(TypedDict):
    run: int
    partition_id: int
    node: int
    number: int
    below_mark: int
    count: int


class CopyRow(TypedDict):
    node: int
    leader_epoch: int | None
    value: int


class ComparedRow(TypedDict):
    run: int
    partition_id: int
    offset: int
    value: int
    leader_epoch: int | None
    invoked_ns: int
    completed_ns: int
    acknowledged_ns: int | None
    held: list[CopyRow] | None


class LastRow(TypedDict):
    run: int
    partition_id: int
    last: int


class UnheldRow(ComparedRow):
    """A record of a final read that no final log has at its offset, with what the logs have there.

    last: the last offset that any log has; most_held: the logs hold at least half of what was read.
    """

    last: int
    most_held: bool


class ReadRow(TypedDict):
    """What was read of a partition, since when, and the digest of the same offsets in each log below its mark."""

    run: int
    partition_id: int
    last: int
    invoked_ns: int
    logs: dict[int, int]


class KilledRow(TypedDict):
    """The log of a replica that was killed in sync: where it ended, and the time in which it surely was in sync."""

    run: int
    partition_id: int
    snapshot: int
    end: int
    since_ns: int
    until_ns: int


class AnsweredRow(TypedDict):
    """What was answered in that time at or above that end: how many, up to which offset, and when the last was."""

    run: int
    partition_id: int
    snapshot: int
    since_ns: int
    last: int
    count: int
    answered_ns: int


class EvidenceAnswer(TypedDict):
    """Exactly one of the three is set."""

    run: int
    read: ReadRow | None
    unheld: UnheldRow | None
    answered: AnsweredRow | None
