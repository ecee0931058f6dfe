"""The confluent-kafka adapter: delivery reports become outcomes, and nothing hangs the worker or outlives it."""

import threading
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.clients import answers
from harness.clients.confluent import ConfluentClient, limits
from harness.ports.cluster import Send, TopicPartition
from harness.ports.load import WorkloadSpec

SETTINGS = WorkloadSpec(delivery_timeout_ms=300, request_timeout_ms=200)
RECORDS = [Send(topic="t", partition=0, value=b"%d" % number) for number in range(3)]
Make = Callable[..., ConfluentClient]


class Message:
    """A delivery report, or a record that was read."""

    def __init__(self, offset: int, error: KafkaError | None = None) -> None:
        self._offset = offset
        self._error = error

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def leader_epoch(self) -> int | None:
        return 3 if self._offset else None

    def value(self) -> bytes:
        return b"v%d" % self._offset

    def key(self) -> bytes | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 2, 1000 + self._offset  # by the broker


class Library:
    """Stands for Producer and Consumer both. `report(number)` is the answer to a record; None: there is none."""

    def __init__(self, report: Callable[[int], Any] = lambda _: None, *, refuse: Exception | None = None) -> None:
        self.configuration: dict[str, Any] = {}
        self.purged = False
        self.breaks = 0
        self._report = report
        self._refuse = refuse
        self._waiting: list[Any] = []
        self._sent = 0
        self.messages: list[Message] = []

    def __call__(self, configuration: dict[str, Any]) -> "Library":
        self.configuration = configuration
        return self

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Any) -> None:
        if self._refuse is not None and self._sent == 1:
            raise self._refuse
        answer, self._sent = self._report(self._sent), self._sent + 1
        if answer is not None:
            self._waiting.append((on_delivery, answer))

    def poll(self, timeout: float) -> Message | None:
        if self.breaks:
            self.breaks -= 1
            raise KafkaException(KafkaError(KafkaError._FATAL))
        if self.messages:
            return self.messages.pop(0)
        if self._waiting:
            report, answer = self._waiting.pop(0)
            report(*((answer, None) if isinstance(answer, KafkaError) else (None, Message(answer))))
        else:
            threading.Event().wait(min(timeout, 0.01))  # as the library blocks
        return None

    def consume(self, limit: int, *, timeout: float) -> list[Message]:
        taken, self.messages = self.messages[:limit], self.messages[limit:]
        return taken

    def purge(self, *, blocking: bool) -> None:
        self.purged = True

    def close(self) -> None:
        self.purged = True


@pytest.fixture
def client_with(monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(answers, "GRACE_S", 0.0)
    monkeypatch.setattr(answers, "MAX_BLOCK_MS", 100)

    def make(library: Library, settings: WorkloadSpec = SETTINGS) -> ConfluentClient:
        monkeypatch.setattr(confluent_kafka, "Producer", library)
        monkeypatch.setattr(confluent_kafka, "Consumer", library)
        return ConfluentClient(bootstrap="127.0.0.1:1", settings=settings)

    return make


async def test_each_delivery_report_is_its_records_outcome_at_its_own_time(client_with: Make) -> None:
    client = client_with(Library(lambda number: KafkaError(KafkaError._MSG_TIMED_OUT) if number == 1 else 40 + number))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [(each.status, each.offset, each.error, each.code) for each in outcomes] == [
        ("ok", 40, None, 0),
        ("info", None, "_MSG_TIMED_OUT", None),
        ("ok", 42, None, 0),
    ]
    assert outcomes[0].end_ns < outcomes[1].end_ns < outcomes[2].end_ns


async def test_a_refusal_is_unknown_even_with_retries_0_because_librdkafka_may_have_tried_before(
    client_with: Make,
) -> None:
    settings = WorkloadSpec(retries=0, delivery_timeout_ms=300)
    client = client_with(Library(lambda _: KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)), settings)

    outcomes = await client.send(RECORDS[:1])
    await client.close()

    assert [(each.status, each.error, each.code) for each in outcomes] == [("info", "NOT_ENOUGH_REPLICAS 19", 19)]
    assert "retries = 0" in limits(settings)[0]


async def test_what_produce_did_not_take_was_never_sent_nor_what_came_behind_it(client_with: Make) -> None:
    client = client_with(Library(lambda number: 40 + number, refuse=BufferError("queue full")))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [each.status for each in outcomes] == ["ok", "fail", "fail"]


async def test_acks_0_is_never_counted_as_acknowledged(client_with: Make) -> None:
    client = client_with(Library(lambda _: -1001), WorkloadSpec(acks="0", delivery_timeout_ms=300))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert {(each.status, each.offset, each.error) for each in outcomes} == {("info", None, None)}


async def test_a_library_that_never_answers_leaves_it_open_and_what_it_still_holds_is_never_sent(
    client_with: Make,
) -> None:
    library = Library()
    client = client_with(library)

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [each.status for each in outcomes] == ["info"] * 3
    assert library.purged


async def test_the_delivery_reports_behind_a_fatal_error_are_waited_for(client_with: Make) -> None:
    library = Library(lambda number: KafkaError(KafkaError._FATAL) if number else 40)
    library.breaks = 1
    client = client_with(library)

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [(each.status, each.error) for each in outcomes] == [("ok", None), ("info", "_FATAL"), ("info", "_FATAL")]


async def test_a_library_that_breaks_while_it_is_waited_for_leaves_the_outcome_open(client_with: Make) -> None:
    library = Library()
    library.breaks = 9
    client = client_with(library)

    outcomes = await client.send(RECORDS)
    await client.close()

    assert {(each.status, each.error) for each in outcomes} == {("info", "the client library broke: KafkaException")}


async def test_the_workloads_settings_go_by_librdkafkas_names(client_with: Make) -> None:
    library = Library(lambda number: number)
    client = client_with(library, WorkloadSpec(acks="1", retries=5, linger_ms=7, delivery_timeout_ms=300))

    await client.send(RECORDS)
    await client.close()

    asked = {
        "acks": "1",
        "enable.idempotence": False,  # needs acks=all
        "linger.ms": 7,
        "request.timeout.ms": 3000,
        "socket.timeout.ms": 3000,
        "message.timeout.ms": 300,
        "retries": 5,
        "max.in.flight.requests.per.connection": 1,
    }
    assert {key: library.configuration[key] for key in asked} == asked


async def test_an_error_behind_records_is_raised_after_they_were_returned(client_with: Make) -> None:
    library = Library()
    library.messages = [Message(0), Message(1), Message(0, KafkaError(KafkaError._AUTO_OFFSET_RESET)), Message(9)]
    client = client_with(library)

    records = await client.poll(10, timeout_s=0.1)
    with pytest.raises(KafkaException, match="_AUTO_OFFSET_RESET"):
        await client.poll(10, timeout_s=0.1)
    await client.close()

    assert [(record.offset, record.epoch, record.value) for record in records] == [(0, None, b"v0"), (1, 3, b"v1")]


async def test_readers_of_a_cluster_that_is_not_there_get_an_error_in_time() -> None:
    client = ConfluentClient(bootstrap="127.0.0.1:1", settings=SETTINGS)

    with pytest.raises(KafkaException):
        await client.end_offsets([TopicPartition(topic="t", partition=0)])
    await client.close()


async def test_records_for_a_cluster_that_is_not_there_are_unknown_after_the_delivery_time_out() -> None:
    client = ConfluentClient(bootstrap="127.0.0.1:1", settings=SETTINGS)

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [(each.status, each.error) for each in outcomes] == [("info", "_MSG_TIMED_OUT")] * 3
