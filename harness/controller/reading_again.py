"""Fetches once more what a final read did not get although it is known: each missing range at its very offset.

A record that comes now was late, and is not lost. Of very many ranges those that lie closest together are fetched as
one, so that the number of requests follows neither the records nor the gaps.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.controller.reading import POLL_S, RECORDS_MAX
from harness.controller.recorder import Recorder
from harness.history.facts.offset_ranges import OffsetRanges, Range, in_at_most, length_of
from harness.host.clock import Clock
from harness.ports.cluster import Client, Journal, TopicPartition
from harness.ports.membership import KnowsPositions, StartsAnywhere

RANGES_MAX = 8  # of one partition
QUIET_S = 1.0  # after the last record
_TRIES = 2

Missing = Mapping[TopicPartition, Sequence[Range]]


@dataclass(kw_only=True)
class _Asked:
    """One range of one partition, fetched again. lacking: the offsets in it that the final read lacked."""

    at: Range
    lacking: OffsetRanges
    begin_ns: int
    returned: OffsetRanges = field(default_factory=OffsetRanges)
    last_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class ReadingAgain:
    """`new_client` begins a client in the journal. since_ns: when the final read had come to its end."""

    new_client: Callable[[], Client]
    journal: Journal
    recorder: Recorder
    clock: Clock
    since_ns: int
    deadline_ns: int

    async def read(self, missing: Missing) -> Mapping[TopicPartition, OffsetRanges]:
        """Returns what came, by partition."""
        came: dict[TopicPartition, OffsetRanges] = {}
        wanted = {partition: in_at_most(ranges, RANGES_MAX) for partition, ranges in missing.items()}
        for turn in range(max(map(len, wanted.values()), default=0)):
            asked = {
                partition: _Asked(
                    at=ranges[turn],
                    lacking=_within(missing[partition], ranges[turn]),
                    begin_ns=self.clock.monotonic_ns(),
                )
                for partition, ranges in wanted.items()
                if turn < len(ranges)
            }
            await self._turn(dict(asked))
            for partition, each in asked.items():
                self._record(partition, each)
                came.setdefault(partition, OffsetRanges()).add_ranges(each.returned.ranges)
        return came

    async def _turn(self, left: dict[TopicPartition, _Asked]) -> None:
        """One range of each partition. A leader that has nothing at that offset has answered, too."""
        tries = 0
        while left and tries < _TRIES and self.clock.monotonic_ns() < self.deadline_ns:
            client = self.new_client()
            try:
                await self._fetch(client, left)
                return
            except Exception as error:  # noqa: BLE001  # a client library may raise anything: the next client tries
                gone = client.out_of_range(error) & left.keys() if isinstance(client, StartsAnywhere) else frozenset()
                for partition in gone:
                    del left[partition]
                tries += 0 if gone else 1
            finally:
                await client.close()

    async def _fetch(self, client: Client, asked: Mapping[TopicPartition, _Asked]) -> None:
        if isinstance(client, StartsAnywhere):
            await client.assign_at({partition: each.at[0] for partition, each in asked.items()})
        else:
            await client.assign(list(asked), from_beginning=True)
        self.journal.assigned(list(asked))
        reached: dict[TopicPartition, int] = {}
        moved_ns = self.clock.monotonic_ns()
        while any(reached.get(partition, 0) < each.at[1] for partition, each in asked.items()):
            now = self.clock.monotonic_ns()
            if now - moved_ns >= int(QUIET_S * 1e9) or now >= self.deadline_ns:
                return
            operation = self.journal.invoke("final_poll")
            try:
                records = await client.poll(RECORDS_MAX, timeout_s=POLL_S)
            except Exception as error:  # any error of a client library: nothing was read
                self.journal.complete_poll(operation, (), error=type(error).__name__)
                raise
            self.journal.complete_poll(operation, records)
            now = self.clock.monotonic_ns()
            moved_ns = now if records else moved_ns
            for record in records:
                partition = TopicPartition(topic=record.topic, partition=record.partition)
                reached[partition] = record.offset + 1
                if partition in asked:
                    asked[partition].returned.add((record.offset,))
                    asked[partition].last_ns = now
            if not records and isinstance(client, KnowsPositions):
                reached |= await client.positions(list(asked))
            await asyncio.sleep(0)

    def _record(self, partition: TopicPartition, asked: _Asked) -> None:
        known = len(asked.lacking)
        self.recorder.write(
            "final_reads",
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "event": "again",
                "process": self.journal.process,
                "since_ns": self.since_ns,
                "invoked_ns": asked.begin_ns,
                "completed_ns": max(asked.begin_ns, asked.last_ns or self.clock.monotonic_ns()),
                "from_offset": asked.at[0],
                "to_offset": asked.at[1],
                "known": known,
                "found": known - length_of(asked.lacking.without(asked.returned)),
            },
        )


def _within(ranges: Sequence[Range], at: Range) -> OffsetRanges:
    found = OffsetRanges()
    found.add_ranges(each for each in ranges if at[0] <= each[0] and each[1] <= at[1])
    return found
