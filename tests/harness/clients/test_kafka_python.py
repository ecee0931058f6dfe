"""The kafka-python adapter: every record gets one outcome, timed when it came, and nothing hangs the worker."""

import threading
import time
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import aiokafka.record.default_records
import aiokafka.record.legacy_records
import pytest
from kafka import errors
from kafka.future import Future
from kafka.record import MemoryRecords

from harness.clients import answers, kafka_python
from harness.clients.kafka_python import KafkaPythonClient
from harness.host.record_codecs import GZIP, LZ4, SNAPPY, ZSTD
from harness.ports.cluster import Send
from harness.ports.load import WorkloadSpec

Metadata = namedtuple("Metadata", "offset timestamp", defaults=[1700])
SETTINGS = WorkloadSpec(delivery_timeout_ms=300, request_timeout_ms=200)
RECORDS = [Send(topic="t", partition=0, value=b"%d" % number) for number in range(3)]


class Producer:
    """Stands for KafkaProducer; `answer` settles each future from another thread, as the sender does: one after the
    other, once `sends` records were sent."""

    def __init__(
        self, answer: Any = None, *, sends: int = len(RECORDS), refuse: Exception | None = None, **configuration: Any
    ) -> None:
        self.configuration = configuration
        self._answer = answer
        self._sends = sends
        self._refuse = refuse
        self._futures: list[Future] = []
        self.hang = threading.Event()

    def send(self, topic: str, *, value: bytes, key: bytes | None, partition: int, timestamp_ms: int) -> Future:
        if self._refuse is not None:
            raise self._refuse
        future = Future()
        self._futures.append(future)
        if self._answer is not None and len(self._futures) == self._sends:
            threading.Thread(target=self._answer_all).start()
        return future

    def _answer_all(self) -> None:
        for number, future in enumerate(self._futures):
            self._answer(future, number)

    def close(self, timeout: float) -> None:
        self.hang.wait(30 if self._answer is None else 0)


@pytest.fixture
def client_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(answers, "CLOSE_S", 0.2)
    monkeypatch.setattr(answers, "GRACE_S", 0.0)
    monkeypatch.setattr(answers, "MAX_BLOCK_MS", 100)

    def make(producer: Producer, settings: WorkloadSpec = SETTINGS) -> KafkaPythonClient:
        def create(**configuration: Any) -> Producer:
            producer.configuration = configuration
            return producer

        monkeypatch.setattr(kafka_python, "KafkaProducer", create)
        monkeypatch.setattr(kafka_python, "watch_producer", lambda *_: None)  # of the real one: test_client_events.py
        return KafkaPythonClient(bootstrap="127.0.0.1:1", settings=settings)

    return make


async def test_each_record_is_acknowledged_with_its_offset_and_its_own_time(client_with: Any) -> None:
    client = client_with(Producer(lambda future, number: future.success(Metadata(40 + number))))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [(outcome.status, outcome.offset) for outcome in outcomes] == [("ok", 40), ("ok", 41), ("ok", 42)]
    assert outcomes[0].end_ns < outcomes[1].end_ns < outcomes[2].end_ns
    assert all(outcome.begin_ns < outcome.end_ns for outcome in outcomes)


async def test_a_records_time_is_what_the_broker_answered_unless_it_had_the_batch_already(
    client_with: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10))
    monkeypatch.setattr(kafka_python, "time", SimpleNamespace(time_ns=lambda: next(clock) * 1_000_000))
    # Created at 0, 1 and 2 ms. The broker's own time; the client's, left as it was; that of the batch's last record.
    answered = [1700, 1, 2]
    client = client_with(Producer(lambda future, number: future.success(Metadata(number, answered[number]))))
    outcomes = [*await client.send(RECORDS)]
    await client.close()
    again = client_with(Producer(lambda future, number: future.success(Metadata(number, 5))))
    outcomes += await again.send(RECORDS)
    await again.close()

    assert [outcome.timestamp_ms for outcome in outcomes] == [1700, 1, 2, None, None, 5]


async def test_acks_0_is_never_counted_as_acknowledged(client_with: Any) -> None:
    settings = WorkloadSpec(acks="0", delivery_timeout_ms=300)
    client = client_with(Producer(lambda future, number: future.success(Metadata(-1))), settings)

    outcomes = await client.send(RECORDS)
    await client.close()

    assert {(outcome.status, outcome.offset, outcome.error) for outcome in outcomes} == {("info", None, None)}


async def test_a_refusal_by_the_broker_is_reported_with_its_code(client_with: Any) -> None:
    producer = Producer(lambda future, number: future.failure(errors.NotEnoughReplicasError()), sends=1)
    client = client_with(producer, WorkloadSpec(retries=0, idempotence=False, delivery_timeout_ms=300))

    outcomes = await client.send(RECORDS[:1])
    await client.close()

    assert [(outcome.status, outcome.error, outcome.code) for outcome in outcomes] == [
        ("fail", "NotEnoughReplicasError 19", 19)
    ]
    assert producer.configuration["enable_idempotence"] is False
    assert producer.configuration["retries"] == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RequestTimedOutError(), 7),
        (errors.KafkaTimeoutError("expired"), None),
        (errors.KafkaConnectionError("gone"), None),
        (ConnectionResetError(104, "reset"), None),
    ],
)
async def test_only_what_a_broker_answered_has_a_code(client_with: Any, error: Exception, code: int | None) -> None:
    client = client_with(Producer(lambda future, number: future.failure(error), sends=1))

    outcomes = await client.send(RECORDS[:1])
    await client.close()

    assert [(outcome.status, outcome.code) for outcome in outcomes] == [("info", code)]


async def test_a_library_that_never_answers_leaves_the_outcome_unknown_and_close_returns(client_with: Any) -> None:
    producer = Producer()
    producer._sender = type("Sender", (), {"force_close": lambda self: None})()  # type: ignore[attr-defined]
    client = client_with(producer)

    outcomes = await client.send(RECORDS)
    began = time.monotonic()
    await client.close()
    producer.hang.set()

    assert [outcome.status for outcome in outcomes] == ["info"] * 3
    assert time.monotonic() - began < 20, "it did not wait for the library to come back"


async def test_records_that_the_library_refused_were_never_sent(client_with: Any) -> None:
    client = client_with(Producer(lambda future, number: None, refuse=errors.KafkaTimeoutError("no metadata")))

    outcomes = await client.send(RECORDS)
    await client.close()

    assert [outcome.status for outcome in outcomes] == ["fail"] * 3


async def test_no_broker_at_all_is_a_definite_fail_and_an_error_for_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_BLOCK_MS", 200)
    client = KafkaPythonClient(bootstrap="127.0.0.1:1", settings=SETTINGS)

    outcomes = await client.send(RECORDS)
    with pytest.raises(Exception, match=r".*"):
        await client.end_offsets([])
    await client.close()

    assert [outcome.status for outcome in outcomes] == ["fail"] * 3


async def test_idempotence_is_asked_for_only_where_kafka_python_allows_it(client_with: Any) -> None:
    producer = Producer(lambda future, number: future.success(Metadata(number)))
    client = client_with(producer, WorkloadSpec(acks="1", idempotence=True, delivery_timeout_ms=300))

    await client.send(RECORDS)
    await client.close()

    assert producer.configuration["enable_idempotence"] is False
    assert producer.configuration["max_in_flight_requests_per_connection"] == 1


@pytest.mark.parametrize(("version", "configured"), [((0, 9, 0, 1), (0, 9)), ((), None)])
async def test_only_brokers_that_cannot_be_asked_for_their_version_are_taken_for_a_given_one(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], configured: tuple[int, int] | None
) -> None:
    producer = Producer(lambda future, number: future.success(Metadata(0)), sends=1)

    def create(**configuration: Any) -> Producer:
        producer.configuration = configuration
        return producer

    monkeypatch.setattr(kafka_python, "KafkaProducer", create)
    client = kafka_python.make_client(bootstrap="127.0.0.1:1", settings=SETTINGS, brokers_version=version)

    await client.send(RECORDS[:1])
    await client.close()

    assert producer.configuration.get("api_version") == configured


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_an_application_compressed_is_read_by_every_reader_of_ours(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_python, "KafkaConsumer", lambda **configuration: SimpleNamespace())
    monkeypatch.setattr(kafka_python, "watch_consumer", lambda consumer, log: None)
    KafkaPythonClient(bootstrap="127.0.0.1:1", settings=SETTINGS)._open_consumer()
    written = aiokafka.record.default_records.DefaultRecordBatchBuilder(
        2, codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=0, batch_size=10_000
    )
    written.append(0, 1700, key=None, value=b"tea" * 500, headers=[])
    batches = [bytes(written.build())]
    if codec != ZSTD:  # which is younger than these formats
        for magic in (1,) if codec == LZ4 else (0, 1):  # aiokafka writes no LZ4 of format 0
            old = aiokafka.record.legacy_records.LegacyRecordBatchBuilder(magic, codec, 10_000)
            old.append(0, 1700, key=None, value=b"tea" * 500)
            batches.append(bytes(old.build()))
    for batch in batches:
        read = MemoryRecords(batch).next_batch()
        assert [record.value for record in read] == [b"tea" * 500]
