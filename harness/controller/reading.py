"""Reads partitions from the beginning to the end offset that the leader returns, for final reads and read probes; and
fetches once more what a final read did not get although it is known, each missing range at its very offset.

A new leader returns no end offset until its high watermark moves (OFFSET_NOT_AVAILABLE, KIP-207: R15 of
docs/replication.md), although it serves the records below it. With `quiet_s` such a read goes on until nothing more
arrives.

A leader may also answer an end that is too low. With `Beyond` a read goes on to where records are known to be, and asks
for the end again, until neither the answers nor the records have changed for a while.

A record that comes when it is fetched again was late, and is not lost. Of very many ranges those that lie closest
together are fetched as one, so that the number of requests follows neither the records nor the gaps.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.controller.recorder import Recorder
from harness.history.facts.offset_ranges import OffsetRanges, Range, in_at_most, length_of
from harness.host.clock import Clock
from harness.ports.cluster import Client, Journal, ReadRecord, TopicPartition
from harness.ports.membership import KnowsPositions, StartsAnywhere

POLL_S = 0.5
RECORDS_MAX = 5000
ASK_AGAIN_S = 0.5
SETTLED_S = 1.0  # without a change


@dataclass(frozen=True, kw_only=True)
class Beyond:
    """Where to read on to: `known`, one above the highest offset at which a record is known to be.

    told: hears the answered ends, when they were asked for, and how far the reader had come by then.
    """

    known: Mapping[TopicPartition, int]
    answered: Callable[[Client, Mapping[TopicPartition, int], int, Mapping[TopicPartition, int]], None]


@dataclass(kw_only=True)
class Reading:
    """How far a reading got. A partition is done when the reader is at the end offset, or when that offset is 0; if
    more is `known` to be there, when it has that too, or it was `settled` that no more comes.

    The last offsets may hold nothing that a reader gets (a transaction's marker, an aborted record): if the client
    knows its position, that counts. `ends_error` says why there are no end offsets; then no partition is ever done.
    `starts`: the earliest offsets when the reading began, if they were requested and answered.
    """

    ends: dict[TopicPartition, int]
    known: Mapping[TopicPartition, int] = field(default_factory=dict)
    settled: set[TopicPartition] = field(default_factory=set)
    ends_error: str | None = None
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    records: list[ReadRecord] = field(default_factory=list)

    def done(self, partition: TopicPartition) -> bool:
        return self._is_at(partition, self.ends) and (partition in self.settled or self._is_at(partition, self.known))

    def _is_at(self, partition: TopicPartition, ends: Mapping[TopicPartition, int]) -> bool:
        """A partition whose end was not answered is nowhere; one of which nothing is known lacks nothing."""
        end = ends.get(partition, None if ends is self.ends else 0)
        return end is not None and self.next_offsets.get(partition, 0) >= end

    def too_low(self) -> list[TopicPartition]:
        """The partitions that were read to their answered ends, and of which more is known."""
        return [each for each in self.ends if self._is_at(each, self.ends) and not self.done(each)]

    def all_done(self) -> bool:
        return self.ends_error is None and all(self.done(partition) for partition in self.ends)


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
    quiet_s: float | None = None,
    with_starts: bool = False,
    beyond: Beyond | None = None,
    on_records: Callable[[Sequence[ReadRecord]], None] | None = None,
) -> Reading:
    """Reads until every partition is done, the time is up, or nothing changed for `stall_s`.

    `on_records` gets every record, once it is in the journal. `quiet_s`: reads even without end offsets, until nothing
    arrives for this long after a record.
    Raises what the client raises; what was read before is in the journal anyway.
    """
    left_s = max(0.1, (deadline_ns - clock.monotonic_ns()) / 1e9)
    asked_ns = clock.monotonic_ns()
    async with asyncio.timeout(left_s):
        reading = await _begun(client, partitions, left_s=left_s, settles=quiet_s is not None)
        if with_starts and isinstance(client, KnowsPositions):
            reading.starts = await client.first_offsets(partitions)
        if beyond is not None:
            reading.known = beyond.known
            beyond.answered(client, reading.ends, asked_ns, {})
        await client.assign(partitions, from_beginning=True)
    journal.assigned(partitions)
    moved_ns = asked_ns = clock.monotonic_ns()
    while not reading.all_done() and clock.monotonic_ns() < min(deadline_ns, moved_ns + int(stall_s * 1e9)):
        operation = journal.invoke(f)
        try:
            records = await client.poll(RECORDS_MAX, timeout_s=POLL_S)
        except Exception as error:  # any error of a client library: nothing was read
            journal.complete_poll(operation, (), error=type(error).__name__)
            raise
        journal.complete_poll(operation, records)
        if on_records is not None:
            on_records(records)
        if records:
            moved_ns = clock.monotonic_ns()
            if reading.ends_error is not None and quiet_s is not None:
                stall_s = quiet_s
        for record in records:
            reading.next_offsets[TopicPartition(topic=record.topic, partition=record.partition)] = record.offset + 1
        if not records and isinstance(client, KnowsPositions):
            for partition, position in (await client.positions(partitions)).items():
                reading.next_offsets[partition] = max(position, reading.next_offsets.get(partition, 0))
        if keep:
            reading.records.extend(records)
        if beyond is None or records:
            continue
        if clock.monotonic_ns() - asked_ns >= int(ASK_AGAIN_S * 1e9) and (low := reading.too_low()):
            asked_ns = clock.monotonic_ns()
            if await _asked_again(client, reading, low, beyond, asked_ns):
                moved_ns = clock.monotonic_ns()
        if clock.monotonic_ns() - moved_ns >= int(SETTLED_S * 1e9):
            reading.settled.update(reading.too_low())
    if with_starts and isinstance(client, KnowsPositions):
        reading.starts = await client.first_offsets(partitions)  # again: retention may delete records during the read
    return reading


async def _asked_again(
    client: Client, reading: Reading, partitions: Sequence[TopicPartition], beyond: Beyond, asked_ns: int
) -> bool:
    """Whether an end changed. The higher one counts: what was read is there."""
    ends = await client.end_offsets(partitions)
    beyond.answered(client, ends, asked_ns, reading.next_offsets)
    higher = {each: end for each, end in ends.items() if end > reading.ends[each]}
    reading.ends |= higher
    return bool(higher)


async def _begun(client: Client, partitions: Sequence[TopicPartition], *, left_s: float, settles: bool) -> Reading:
    """A reading with its end offsets; without them if `settles` allows that."""
    if not settles:
        return Reading(ends=dict(await client.end_offsets(partitions)))
    try:
        async with asyncio.timeout(left_s / 2):
            return Reading(ends=dict(await client.end_offsets(partitions)))
    except Exception as error:  # noqa: BLE001  # each library wraps error 78 differently, or reports a time-out
        return Reading(ends={}, ends_error=in_words(error))


def in_words(error: BaseException) -> str:
    """The error with its class in front; some libraries already put it there."""
    name = type(error).__name__
    return str(error) if str(error).startswith(name) else f"{name}: {error}".rstrip(": ")


# ---- reading again --------------------------------------------------------------------------------------------------


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
