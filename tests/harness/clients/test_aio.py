"""The aiokafka adapter: it keeps the delivery time-out that the library has not, and trusts no made-up offset."""

import asyncio
import time
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import aiokafka
import pytest
from aiokafka import errors

from harness.clients import aio, answers
from harness.clients.aio import AioClient, limits
from harness.host.clock import SystemClock
from harness.ports.cluster import Send, TopicPartition
from harness.ports.load import WorkloadSpec

SETTINGS = WorkloadSpec(delivery_timeout_ms=300, request_timeout_ms=200)
RECORDS = [Send(topic="t", partition=0, value=b"%d" % number) for number in range(3)]
Metadata = namedtuple("Metadata", "offset log_start_offset timestamp timestamp_type", defaults=[1700, 0])
Make = Callable[..., AioClient]


class Connections:
    """Stands for the library's AIOKafkaClient."""

    closed = False

    async def close(self) -> None:
        self.closed = True


class Producer:
    """Stands for AIOKafkaProducer. `answer(number)`: what a record's future comes to; None: it never does."""

    def __init__(self, answer: Callable[[int], Any] = lambda _: None, *, starts: bool = True) -> None:
        self.configuration: dict[str, Any] = {}
        self.client = Connections()
        self._answer = answer
        self._starts = starts
        self._sent = 0
        self._sender = self
        self.sender_task = None
        self.flushed = False

    def __call__(self, **configuration: Any) -> "Producer":
        self.configuration = configuration
        return self

    async def start(self) -> None:
        if not self._starts:
            await asyncio.Event().wait()
        self.sender_task = asyncio.create_task(asyncio.Event().wait())  # type: ignore[assignment]

    async def send(self, topic: str, *, value: bytes, partition: int, timestamp_ms: int) -> "asyncio.Future[Any]":
        answer, self._sent = self._answer(self._sent), self._sent + 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(answer, BaseException):
            asyncio.get_running_loop().call_later(0.01, future.set_exception, answer)
        elif answer is not None:
            asyncio.get_running_loop().call_later(0.01, future.set_result, answer)
        return future

    async def stop(self) -> None:
        """As the library's: waits for everything that is queued, or for its sender's end."""
        if self.sender_task is not None and not self.sender_task.cancelled():
            await self.sender_task
        if self.sender_task is not None and not self.sender_task.cancelled():
            self.flushed = True


@pytest.fixture
def client_with(monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(answers, "GRACE_S", 0.0)
    monkeypatch.setattr(answers, "MAX_BLOCK_MS", 200)
    monkeypatch.setattr(answers, "CLOSE_S", 0.4)

    def make(producer: Producer, settings: WorkloadSpec = SETTINGS) -> AioClient:
        monkeypatch.setattr(aiokafka, "AIOKafkaProducer", producer)
        monkeypatch.setattr(aio, "watch", lambda *_: None)  # of the real one: test_client_events.py
        return AioClient(bootstrap="127.0.0.1:1", settings=settings)

    return make


async def test_each_future_is_its_records_outcome(client_with: Make) -> None:
    client = client_with(Producer(lambda number: Metadata(40 + number, 0)))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [(each.status, each.offset, each.code) for each in outcomes] == [
        ("ok", 40, 0),
        ("ok", 41, 0),
        ("ok", 42, 0),
    ]
    assert all((each.begin_ns or 0) < each.end_ns for each in outcomes)


async def test_a_records_time_is_the_one_it_was_sent_with_though_its_batch_is_answered_with_the_firsts(
    client_with: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((1700, 1701, 1702))
    monkeypatch.setattr(SystemClock, "wall_ns", lambda _: next(clock) * 1_000_000)
    client = client_with(Producer(lambda number: Metadata(40 + number, 0, 1700)))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [each.timestamp_ms for each in outcomes] == [1700, 1701, 1702]


@pytest.mark.parametrize("answered", [Metadata(40, 0, 1700, 1), Metadata(40, 0, -1), Metadata(40, 0, None)])
async def test_a_time_that_a_broker_stamped_or_that_nobody_did_is_not_known(client_with: Make, answered: Any) -> None:
    client = client_with(Producer(lambda _: answered))

    outcomes = await client.send(RECORDS[:1])
    await client.close()

    assert [each.timestamp_ms for each in outcomes] == [None]


async def test_offsets_counted_up_from_nowhere_are_no_acknowledgement(client_with: Make) -> None:
    """What aiokafka makes of DUPLICATE_SEQUENCE_NUMBER for a batch of three: offsets -1, 0 and 1."""
    client = client_with(Producer(lambda number: Metadata(-1 + number, -1)))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert {(each.status, each.offset, each.error) for each in outcomes} == {
        ("info", None, "acknowledged without offset")
    }


async def test_the_offsets_of_a_broker_without_a_log_start_are_taken(client_with: Make) -> None:
    client = client_with(Producer(lambda number: Metadata(40 + number, None)))

    outcomes = await client.send(RECORDS[:1])
    await client.close()

    assert [(each.status, each.offset) for each in outcomes] == [("ok", 40)]


async def test_a_record_without_an_answer_is_unknown_after_the_delivery_time_out(client_with: Make) -> None:
    producer = Producer(lambda number: Metadata(7, 0) if number == 1 else None)
    client = client_with(producer)

    began = time.monotonic()
    outcomes = await client.send(RECORDS)
    took_s = time.monotonic() - began
    await client.close()

    assert [each.status for each in outcomes] == ["info", "ok", "info"]
    assert outcomes[0].error == "no answer within 300 ms"
    assert took_s >= 0.3
    assert producer.client.closed
    assert not producer.flushed


@pytest.mark.parametrize(
    ("error", "expected", "code"),
    [
        (errors.RequestTimedOutError(), "RequestTimedOutError", None),  # the library raises it itself too
        (errors.NotLeaderForPartitionError(), "NotLeaderForPartitionError", None),
        (errors.NotEnoughReplicasError(), "NotEnoughReplicasError 19", 19),
        (errors.ProducerFenced(), "ProducerFenced 47", 47),
        (errors.NodeNotReadyError(), "NodeNotReadyError", None),
    ],
)
async def test_only_what_a_broker_answered_for_certain_has_a_code(
    client_with: Make, error: BaseException, expected: str, code: int | None
) -> None:
    client = client_with(Producer(lambda _: error))

    outcomes = await client.send(RECORDS[:1])
    await client.close()

    assert [(each.status, each.error, each.code) for each in outcomes] == [("info", expected, code)]


async def test_a_producer_that_never_starts_has_sent_nothing(client_with: Make) -> None:
    client = client_with(Producer(starts=False))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [each.status for each in outcomes] == ["fail"] * 3


async def test_acks_0_is_never_counted_as_acknowledged(client_with: Make) -> None:
    client = client_with(Producer(lambda _: Metadata(-1, None)), WorkloadSpec(acks="0", delivery_timeout_ms=300))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert {(each.status, each.offset, each.error) for each in outcomes} == {("info", None, None)}


async def test_the_workloads_settings_go_by_aiokafkas_names_and_what_has_none_is_reported(client_with: Make) -> None:
    producer = Producer(lambda number: Metadata(number, 0))
    settings = WorkloadSpec(acks="1", retries=0, linger_ms=7, delivery_timeout_ms=300)
    client = client_with(producer, settings)

    await client.send(RECORDS)
    await client.close()

    asked = {"acks": 1, "enable_idempotence": False, "linger_ms": 7, "request_timeout_ms": 3000}
    assert {key: producer.configuration[key] for key in asked} == asked
    reported = "; ".join(limits(settings))
    for words in ("delivery_timeout_ms = 300", "retries = 0", "request_timeout_ms = 3000"):
        assert words in reported


async def test_a_cluster_that_is_not_there_is_a_definite_fail_and_an_error_for_readers() -> None:
    client = AioClient(bootstrap="127.0.0.1:1", settings=SETTINGS)

    outcomes = await client.send(RECORDS)
    with pytest.raises(errors.KafkaConnectionError):
        await client.end_offsets([TopicPartition(topic="t", partition=0)])
    await client.close()

    assert [each.status for each in outcomes] == ["fail"] * 3
