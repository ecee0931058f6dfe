"""The final read beside a broker that answers its end too low, or whose records come late: nothing known is believed
to be gone before it was asked for at its very offset, and asking again never goes record by record."""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.controller.answered_ends import CHANGES_MAX
from harness.controller.final_read import FinalRead
from harness.controller.reading import RANGES_MAX
from harness.controller.recorder import Recorder
from harness.history.facts.values import encode
from harness.history.journals.controller_rows import ROWS, read_rows
from harness.history.journals.journal import JournalFile, ProcessNumbers
from harness.history.schema.cluster_rows import FINAL_READS, PARTITIONS, FinalReadRow, PartitionRow
from harness.ports.clients import ClientEvent, ClientUse
from harness.ports.cluster import NodeId, ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.membership import TransactionEnd
from harness.scenario.model import Scenario
from tests.harness.history.test_tables import converted
from tests.jumping_time import CLOCK

ORDERS = TopicPartition(topic="orders", partition=0)
SECOND = 10**9


class OutOfRangeError(Exception):
    """As a library raises it: with the partitions and their offsets."""


@dataclasses.dataclass
class Broker:
    """One partition's log of `length` records. told: the answered end by the number of the question, from 0.

    hidden_until_s: offsets that no fetch returns before that time. marks: the high watermark on the disk of broker 1.
    """

    length: int
    answers: Callable[[int], int] | None = None
    hidden_until_s: Mapping[int, float] = dataclasses.field(default_factory=dict)
    marks: int = 0
    questions: int = 0
    assignments: int = 0

    def bootstrap(self, client: Any) -> str:
        return "memory"

    def high_watermarks(self, node: NodeId) -> Mapping[tuple[str, int], int]:
        return {("orders", 0): self.marks} if int(node) == 1 else {}

    def shown(self, first: int) -> list[int]:
        now_s = CLOCK.monotonic_ns() / SECOND
        return [each for each in range(first, self.length) if self.hidden_until_s.get(each, 0) <= now_s]


class Reader:
    """Implements Client, KnowsPositions, StartsAnywhere and ReportsEvents."""

    tells_attempts = False

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._position = 0

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        broker = self._broker
        broker.questions += 1
        return {ORDERS: broker.length if broker.answers is None else broker.answers(broker.questions - 1)}

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        self._position = 0

    async def assign_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._broker.assignments += 1
        self._position = offsets[ORDERS]

    def out_of_range(self, error: BaseException) -> frozenset[TopicPartition]:
        return frozenset(error.args[0]) if isinstance(error, OutOfRangeError) else frozenset()

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        if self._position > self._broker.length:
            raise OutOfRangeError({ORDERS: self._position})
        shown = self._broker.shown(self._position)[:limit]
        if not shown:
            await asyncio.sleep(timeout_s)
            return []
        self._position = shown[-1] + 1
        return [ReadRecord(topic="orders", partition=0, offset=at, epoch=0, value=encode(0, at)) for at in shown]

    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {ORDERS: self._position}

    async def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {ORDERS: 0}

    def take_events(self) -> Sequence[ClientEvent]:
        return [ClientEvent(event="leader", t_ns=1, node=2, topic="orders", partition=0, epoch=7)]

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        raise AssertionError

    async def close(self) -> None:
        self._position = 0


@dataclasses.dataclass(frozen=True)
class Read:
    """What a final read left: the offsets it returned, in order, and its rows."""

    offsets: Sequence[int]
    ends: Sequence[FinalReadRow]
    again: Sequence[FinalReadRow]
    partition: PartitionRow


def acknowledge(journal: JournalFile, offsets: Sequence[int], *, transaction: int | None = None) -> None:
    records = [Send(topic="orders", partition=0, value=encode(0, offset)) for offset in offsets]
    operation = journal.invoke("send", records, transaction=transaction)
    outcomes = [SendOutcome(status="ok", offset=offset, error=None, end_ns=2, code=0) for offset in offsets]
    journal.complete_send(operation, outcomes)


@pytest.fixture
def final_read(tmp_path: Path, scenario: Scenario) -> Any:
    async def read(
        broker: Broker,
        *,
        acknowledged: Sequence[int] = (),
        in_an_aborted_transaction: Sequence[int] = (),
        **changes: Any,
    ) -> Read:
        folder = tmp_path / "history"
        journal = JournalFile(folder / "producer-1.jsonl", worker="producer-1", clock=CLOCK)
        journal.begin_process(0, client="producer-1", acks="all")
        acknowledge(journal, acknowledged)
        if in_an_aborted_transaction:
            number = journal.begin_transaction()
            acknowledge(journal, in_an_aborted_transaction, transaction=number)
            journal.end_transaction(number, TransactionEnd(outcome="aborted"))
        journal.close()
        recorder = Recorder(folder=folder, clock=CLOCK)

        def make_client(*, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Any:
            return Reader(broker)

        wanted = dataclasses.replace(scenario, **changes)
        context: Any = SimpleNamespace(scenario=wanted, cluster=broker, recorder=recorder, clock=CLOCK)
        final = FinalRead(
            context=context,
            make_client=make_client,
            numbers=ProcessNumbers(first=1, step=2),
            folder=folder,
            layout={ORDERS: (1, 2, 3)},
            timeout_s=30,
        )
        assert await final.read_all() == []
        recorder.close()
        rows, records = read_rows(folder / ROWS), converted(folder / "final-read.jsonl").records.to_pylist()
        answers = rows[FINAL_READS]
        return Read(
            offsets=[row["offset"] for row in records if row["kind"] == 2],
            ends=[row for row in answers if row["event"] == "end"],
            again=[row for row in answers if row["event"] == "again"],
            partition=rows[PARTITIONS][0],
        )

    return read


async def test_an_end_below_what_was_acknowledged_is_read_past(final_read: Any) -> None:
    seen = await final_read(Broker(10, answers=lambda question: 8), acknowledged=range(10))

    assert seen.offsets == [*range(10)]
    (row,) = seen.ends
    assert (row["to_offset"], row["from_offset"], row["node"], row["leader_epoch"]) == (8, 10, 2, 7)
    assert (seen.partition["read_to_end"], seen.partition["end_offset"]) == (True, 8)
    assert seen.again == []


async def test_an_end_below_a_replicas_own_high_watermark_is_read_past(final_read: Any) -> None:
    seen = await final_read(Broker(10, answers=lambda question: 8, marks=10))

    assert seen.offsets == [*range(10)]


async def test_the_end_is_asked_for_again_until_nothing_changes(final_read: Any) -> None:
    broker = Broker(10, answers=lambda question: min(5 + question, 8), hidden_until_s={8: 1e9, 9: 1e9})

    seen = await final_read(broker, acknowledged=range(10))

    assert [row["to_offset"] for row in seen.ends] == [5, 6, 7, 8]
    assert seen.partition["end_offset"] == 8
    assert all(row["completed_ns"] >= row["invoked_ns"] for row in seen.ends)


async def test_a_record_that_comes_half_a_minute_later_is_late_and_not_lost(final_read: Any) -> None:
    there = CLOCK.monotonic_ns() / SECOND + 30

    seen = await final_read(
        Broker(10, hidden_until_s={3: there, 4: there}), acknowledged=range(10), read_again_after_s=31
    )

    (row,) = seen.again
    assert (row["from_offset"], row["to_offset"], row["known"], row["found"]) == (3, 5, 2, 2)
    assert row["completed_ns"] - row["since_ns"] >= 31 * SECOND
    assert {3, 4} <= {*seen.offsets}


async def test_a_record_that_never_comes_was_asked_for_at_its_very_offset(final_read: Any) -> None:
    broker = Broker(8)

    seen = await final_read(broker, acknowledged=range(12))

    (row,) = seen.again
    assert (row["from_offset"], row["to_offset"], row["known"], row["found"]) == (8, 12, 4, 0)
    assert seen.partition["read_to_end"]


async def test_a_leader_that_has_nothing_at_that_offset_has_answered(final_read: Any) -> None:
    broker = Broker(8)

    seen = await final_read(broker, acknowledged=[*range(8), 20, 21])

    assert [(row["from_offset"], row["to_offset"], row["found"]) for row in seen.again] == [(20, 22, 0)]
    assert broker.assignments == 1, "nobody is asked twice what was answered"


async def test_asking_again_goes_by_a_few_ranges_however_many_records_are_missing(final_read: Any) -> None:
    far = CLOCK.monotonic_ns() / SECOND + 1000
    broker = Broker(4000, hidden_until_s=dict.fromkeys(range(0, 4000, 2), far))

    seen = await final_read(broker, acknowledged=range(4000))

    assert len(seen.again) <= RANGES_MAX
    assert broker.assignments <= RANGES_MAX
    assert (sum(row["known"] for row in seen.again), sum(row["found"] for row in seen.again)) == (2000, 0)


async def test_an_end_that_never_stops_changing_leaves_a_bounded_number_of_rows(final_read: Any) -> None:
    there = CLOCK.monotonic_ns() / SECOND + 1000
    broker = Broker(
        1000, answers=lambda question: min(question, 60), hidden_until_s=dict.fromkeys(range(60, 1000), there)
    )

    seen = await final_read(broker, acknowledged=range(1000))

    assert len(seen.ends) == CHANGES_MAX
    assert seen.ends[-1]["to_offset"] == 60


async def test_a_sound_broker_is_asked_once(final_read: Any) -> None:
    broker = Broker(10, marks=10)

    seen = await final_read(broker, acknowledged=range(10))

    assert (broker.questions, broker.assignments, seen.again) == (1, 0, [])
    assert [(row["to_offset"], row["from_offset"]) for row in seen.ends] == [(10, 10)]


async def test_what_was_acknowledged_in_an_aborted_transaction_is_not_missed(final_read: Any) -> None:
    broker = Broker(8)

    seen = await final_read(broker, acknowledged=range(8), in_an_aborted_transaction=[8, 9])

    assert (broker.questions, seen.again) == (1, [])
