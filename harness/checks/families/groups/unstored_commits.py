"""Commits that stand in no log: nobody fetches a group's offset after its last commit, and the group's own log says all
the same that it is gone.

A coordinator answers a commit when its record is in every in-sync log of the group's partition of __consumer_offsets
(it appends with acks=all, whatever `acks` its clients have). Such a log is read as a fetch would be: what its newest
record of the group and partition says is the committed offset. A commit that was answered long before the logs were
read is gone if every in-sync replica's log was read, each of them is whole from that newest record on, and none has a
record of the group and partition that was written since the commit was asked for. A newer record (another commit, or
the tombstone of an expired, reset or deleted offset) explains its absence, and so may a hole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.checks.families.groups.group_partition import place_of_group
from harness.checks.families.groups.group_register import Commit, Fetch, Key, Register, registers
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory
from harness.history.facts.incarnations import client_name
from harness.history.facts.internal_topics import CLOCKS_APART_NS
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, ConsumerOffsetsRow

_READ_AFTER_NS = 10 * 10**9  # a commit that was answered so long before the logs were read was in them


@dataclass(frozen=True, kw_only=True)
class Unstored:
    """held: what was committed. read: what the in-sync logs answer instead."""

    key: Key
    held: Commit | Fetch
    read: Fetch


def unstored(runs: JudgedRuns) -> Iterator[Unstored]:
    known = runs.once(registers)
    for history in runs.histories:
        own = {key: register for key, register in known.items() if key[0] == history.run}
        if not own or not history.internal:
            continue
        rows = runs.tables.rows(CONSUMER_OFFSETS, history.run)
        newest = _newest_of(rows)
        for key, register in own.items():
            partition = history.partitions.get(key[2])
            place = place_of_group(history, rows, key[1]) if key[1] else None
            if place is None or partition is None or not _is_recorded(place, partition):
                continue
            found = _unstored(key, register, place, newest.get((place.partition, key[1], *_name(partition)), ()))
            if found is not None:
                yield found


def _is_recorded(place: PartitionHistory, partition: PartitionHistory) -> bool:
    """Whether the logs of all that are in sync were read, and speak of this very topic."""
    anew = partition.is_set_apart or partition.is_recreated or partition.deletion is not None
    in_sync = set(place.final_isr)
    return not anew and place.exact and bool(in_sync) and in_sync <= place.end_snapshots.keys()


def _name(partition: PartitionHistory) -> tuple[str, int]:
    return client_name(partition.topic), partition.partition


def _newest_of(
    rows: Iterable[ConsumerOffsetsRow],
) -> Mapping[tuple[int, str, str, int], Sequence[ConsumerOffsetsRow]]:
    """(partition, group, topic, its partition) -> the records of their offsets, tombstones too, in order."""
    found: dict[tuple[int, str, str, int], list[ConsumerOffsetsRow]] = {}
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        group, topic, part = row["group"], row["topic"], row["topic_partition"]
        if row["kind"] == "offset" and group is not None and topic is not None and part is not None:
            found.setdefault((row["partition"], group, topic, part), []).append(row)
    return found


def _unstored(
    key: Key, register: Register, place: PartitionHistory, records: Sequence[ConsumerOffsetsRow]
) -> Unstored | None:
    ends = [place.end_snapshots[node] for node in place.final_isr]
    numbers = {end["snapshot"] for end in ends}
    newest = next((row for row in reversed(records) if numbers & set(row["snapshots"])), None)
    starts = [end["log_start_offset"] for end in ends]
    if any(start is None or (newest is None and start > 0) for start in starts):
        return None  # it may have stood where nothing was read
    read_ns = min(end["time_ns"] for end in ends)
    stands = None if newest is None or newest["removed"] else newest["committed_offset"]
    read = Fetch(stands, read_ns - _READ_AFTER_NS, read_ns)
    held = register.held_by(read, "late")
    if held is None or stands in register.may_answer(read, "late"):
        return None
    sent_ns = register.asked_for(held)
    if newest is not None and (newest["time_ns"] is None or newest["time_ns"] + CLOCKS_APART_NS >= sent_ns):
        return None
    return Unstored(key=key, held=held, read=read)
