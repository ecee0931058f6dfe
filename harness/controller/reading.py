"""Reading partitions from the beginning to the end offset that the leader answers: final reads and read probes."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.clock import Clock
from harness.interfaces import Client, Journal, ReadRecord, TopicPartition

POLL_S = 0.5
RECORDS_MAX = 5000


@dataclass(kw_only=True)
class Reading:
    """How far a reading got. A partition is done when its records reach the end offset, or when that offset is 0."""

    ends: Mapping[TopicPartition, int]
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    records: list[ReadRecord] = field(default_factory=list)

    def done(self, partition: TopicPartition) -> bool:
        return partition in self.ends and self.next_offsets.get(partition, 0) >= self.ends[partition]

    def all_done(self) -> bool:
        return all(self.done(partition) for partition in self.ends)


async def read_to_end(
    client: Client,
    journal: Journal,
    partitions: Sequence[TopicPartition],
    *,
    f: str,
    deadline_ns: int,
    clock: Clock,
    keep: bool = False,
    stall_s: float = 3.0,
) -> Reading:
    """Reads until every partition is done, time is up, or nothing came for `stall_s`.

    Raises what the client raises; what was read before is in the journal all the same.
    """
    left_s = max(0.1, (deadline_ns - clock.monotonic_ns()) / 1e9)
    async with asyncio.timeout(left_s):
        ends = await client.end_offsets(partitions)
        await client.assign(partitions, from_beginning=True)
    journal.assigned(partitions)
    reading = Reading(ends=dict(ends))
    moved_ns = clock.monotonic_ns()
    while not reading.all_done() and clock.monotonic_ns() < min(deadline_ns, moved_ns + int(stall_s * 1e9)):
        operation = journal.invoke(f)
        try:
            records = await client.poll(RECORDS_MAX, timeout_s=POLL_S)
        except Exception as error:  # whatever a client library raises, nothing was read
            journal.complete_poll(operation, (), error=type(error).__name__)
            raise
        journal.complete_poll(operation, records)
        if records:
            moved_ns = clock.monotonic_ns()
        for record in records:
            reading.next_offsets[TopicPartition(topic=record.topic, partition=record.partition)] = record.offset + 1
        if keep:
            reading.records.extend(records)
    return reading
