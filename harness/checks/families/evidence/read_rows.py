"""The rows of disks_against_reads.py: what it answers, and what its queries do on the way there."""

from typing import TypedDict


class SpanRow(TypedDict):
    """What was read of a partition: from where to where, and a number for all of it."""

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
    """A record that a final read was given and no final log holds at its offset, with what the logs hold there.

    last: the last offset that any log has; most_held: the logs hold at least half of what was read.
    """

    last: int
    most_held: bool


class ReadRow(TypedDict):
    """What was read of a partition, from when on, and the number of what each log has of that below its mark."""

    run: int
    partition_id: int
    last: int
    invoked_ns: int
    logs: dict[int, int]


class EvidenceAnswer(TypedDict):
    """One of the two."""

    run: int
    read: ReadRow | None
    unheld: UnheldRow | None
