"""produce_and_poll: unique values over all partitions, at the rate asked for, with fresh clients after trouble."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from harness.history.facts import values
from harness.ports.clients import ClientUse
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
from tests.waiting import PATIENCE_S
from tests.workloads.notes import Notes
from workloads.produce_and_poll import ProduceAndPollSettings

PARTITIONS = [TopicPartition(topic="t", partition=number) for number in range(3)]


class Scripted:
    """A client whose answers a test decides; the end is set once `operations` were done."""

    def __init__(self, script: "Script") -> None:
        self._script = script
        self.closed = False

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        self._script.step()
        await asyncio.sleep(0)
        status, error = self._script.answer(self._script.operations)
        last = (error or "").rpartition(" ")[2]
        code = int(last) if last.isdigit() else None
        return [SendOutcome(status=status, offset=None, error=error, code=code, end_ns=1) for _ in records]

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        assert from_beginning

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        self._script.step()
        await asyncio.sleep(0)
        status, error = self._script.answer(self._script.operations)
        if status == "info":
            raise ConnectionError(error)
        return []

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    async def close(self) -> None:
        self.closed = True


class Script:
    def __init__(self, answer: Any, *, operations: int) -> None:
        self.answer = answer
        self.notes = Notes()
        self.clients: list[Scripted] = []
        self.until = asyncio.Event()
        self.operations = 0
        self._most = operations

    def step(self) -> None:
        self.operations += 1
        if self.operations >= self._most:
            self.until.set()

    def make(self, use: ClientUse | None = None) -> Scripted:
        self.notes.process += 1
        self.clients.append(Scripted(self))
        return self.clients[-1]

    async def act(self, role: str, **settings: Any) -> None:
        wanted = ProduceAndPollSettings(**{"rate_per_second": 5000, "batch": 4} | settings)
        workload = wanted.make_worker(role=role, place=0, places=1, partitions=PARTITIONS)
        async with asyncio.timeout(PATIENCE_S):
            await workload.act(self.make, self.notes, random.Random(1), self.until)


def ok(operation: int) -> tuple[str, str | None]:
    return "ok", None


async def test_values_are_unique_padded_and_go_to_every_partition() -> None:
    script = Script(ok, operations=20)

    await script.act("producer", value_bytes=40)

    sent = [record for _, record in script.notes.sent]
    assert len(sent) == 80
    assert len({record.value for record in sent}) == 80
    assert {len(record.value) for record in sent} == {40}
    assert {record.partition for record in sent} == {0, 1, 2}
    assert [values.decode(record.value) for record in sent[:2]] == [values.number(0, 0), values.number(0, 1)]


async def test_an_unknown_outcome_ends_the_client_and_values_carry_the_next_process() -> None:
    script = Script(lambda operation: ("info", "KafkaTimeoutError") if operation == 2 else ("ok", None), operations=4)

    await script.act("producer")

    assert len(script.clients) == 2
    assert all(client.closed for client in script.clients)
    assert [process for process, _ in script.notes.sent] == [0] * 8 + [1] * 8
    assert values.decode(script.notes.sent[8][1].value) == values.number(1, 0)


async def test_a_client_that_shall_not_be_replaced_goes_on_after_an_unknown_outcome() -> None:
    script = Script(lambda operation: ("info", "KafkaTimeoutError"), operations=4)

    await script.act("producer", replace_client=False)

    assert len(script.clients) == 1
    assert [process for process, _ in script.notes.sent] == [0] * 16


@pytest.mark.parametrize("error", ["OutOfOrderSequenceNumberError 45", "INVALID_PRODUCER_EPOCH 47", "_FATAL"])
async def test_a_sequence_error_ends_an_idempotent_client(error: str) -> None:
    script = Script(lambda operation: ("fail", error) if operation == 1 else ("ok", None), operations=3)

    await script.act("producer")

    assert len(script.clients) == 2


async def test_a_definite_refusal_does_not_end_the_client() -> None:
    script = Script(lambda operation: ("fail", "NotEnoughReplicasError 19"), operations=5)

    await script.act("producer")

    assert len(script.clients) == 1


async def test_unanswered_records_of_acks_0_do_not_end_the_client() -> None:
    script = Script(lambda operation: ("info", None), operations=5)

    await script.act("producer", acks="0", idempotence=False)

    assert len(script.clients) == 1


async def test_keys_are_drawn_by_the_seed_from_as_many_as_asked_for() -> None:
    script = Script(ok, operations=40)

    await script.act("producer", keys=3)

    keys = [record.key for _, record in script.notes.sent]
    assert set(keys) == {b"k0", b"k1", b"k2"}
    again = Script(ok, operations=40)
    await again.act("producer", keys=3)
    assert [record.key for _, record in again.notes.sent] == keys


async def test_without_keys_records_have_none() -> None:
    script = Script(ok, operations=3)

    await script.act("producer")

    assert {record.key for _, record in script.notes.sent} == {None}


async def test_the_rate_is_kept_by_the_loops_time() -> None:
    script = Script(ok, operations=10)
    loop = asyncio.get_running_loop()
    began = loop.time()

    await script.act("producer", rate_per_second=200)

    # Ten operations of four records at 200/s: nine intervals of 20 ms.
    assert loop.time() - began >= 0.17


async def test_a_consumer_whose_poll_fails_starts_anew_from_the_beginning() -> None:
    script = Script(lambda operation: ("info", "gone") if operation == 2 else ("ok", None), operations=4)

    await script.act("consumer")

    assert script.notes.polls == [(0, None), (0, "ConnectionError"), (1, None), (1, None)]
    assert script.notes.assignments == 2
