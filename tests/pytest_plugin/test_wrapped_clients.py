"""What the plugin knows of an application's own clients: their acks, their isolation, and their transactions."""

import asyncio
import json
import warnings
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from kafka_chaos_pytest.clients import acks_of, idempotence_of, isolation_of, recorded_consumer, recorded_producer
from kafka_chaos_pytest.errors import ChaosError
from kafka_chaos_pytest.journal import Journal

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
NOWHERE = {"bootstrap.servers": ""}


class PythonProducer(kafka.KafkaProducer):  # type: ignore[misc]
    """Of kafka-python, without a broker; its next commit fails if it is told so."""

    fails = False

    def __init__(self, **config: Any) -> None:
        self.config = config

    def __del__(self) -> None:
        """It has nothing to close."""

    def begin_transaction(self) -> None:
        """It is local in every library."""

    def commit_transaction(self) -> None:
        if self.fails:
            raise TimeoutError

    def abort_transaction(self) -> None:
        """It was answered well."""


class AioProducer(aiokafka.AIOKafkaProducer):  # type: ignore[misc]
    def __init__(self) -> None:
        self._closed = True

    async def begin_transaction(self) -> None:
        """As above."""

    async def commit_transaction(self) -> None:
        """As above."""

    async def abort_transaction(self) -> None:
        """As above."""

    @property
    def _txn_manager(self) -> Any:
        return type("Manager", (), {"is_fatal_error": staticmethod(lambda: False)})


class PythonConsumer(kafka.KafkaConsumer):  # type: ignore[misc]
    def __init__(self, **config: Any) -> None:
        self.config = config


def outcomes(path: Path) -> list[int | None]:
    """Of the journal's transactions, in the order in which they began; None: it does not say."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    ended = {line[1]: line[3] for line in lines if line[0] == "E"}
    return [ended.get(line[1]) for line in lines if line[0] == "B"]


def test_the_outcome_of_each_transaction_is_kept_as_far_as_its_producer_knows_it(tmp_path: Path) -> None:
    own = PythonProducer(acks=-1)
    producer = recorded_producer(own, Journal(tmp_path / "j", process=0, worker="shop"))
    producer.begin_transaction()
    producer.commit_transaction()
    producer.begin_transaction()
    producer.abort_transaction()
    producer.begin_transaction()
    own.fails = True
    with pytest.raises(TimeoutError):
        producer.commit_transaction()
    producer.abort_transaction()  # what the commit came to by then nobody knows
    own.fails = False
    producer.begin_transaction()
    assert outcomes(tmp_path / "j") == [COMMITTED, ABORTED, UNKNOWN, None]


def test_a_commit_that_succeeds_when_it_is_tried_again_is_a_commit(tmp_path: Path) -> None:
    own = PythonProducer(acks=-1)
    producer = recorded_producer(own, Journal(tmp_path / "j", process=0, worker="shop"))
    producer.begin_transaction()
    own.fails = True
    with pytest.raises(TimeoutError):
        producer.commit_transaction()
    own.fails = False
    producer.commit_transaction()
    assert outcomes(tmp_path / "j") == [COMMITTED]


def test_the_context_of_aiokafka_is_recorded_too(tmp_path: Path) -> None:
    async def transactions() -> None:
        producer = recorded_producer(AioProducer(), Journal(tmp_path / "j", process=0, worker="shop"))
        async with producer.transaction():
            pass
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                raise ZeroDivisionError

    asyncio.run(transactions())
    assert outcomes(tmp_path / "j") == [COMMITTED, ABORTED]


def test_the_acks_of_a_producer_are_its_own_whatever_the_test_says() -> None:
    assert acks_of(PythonProducer(acks=1), given=None) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert acks_of(PythonProducer(acks=-1), given="all") == -1
        assert acks_of(confluent_kafka.Producer(NOWHERE), given=1) == 1
    with pytest.warns(UserWarning, match="acks=1, which counts"):
        assert acks_of(PythonProducer(acks=1), given="all") == 1

    async def own() -> Any:
        return acks_of(aiokafka.AIOKafkaProducer(bootstrap_servers="localhost:1", acks=0), given=None)

    assert asyncio.run(own()) == 0


def test_acks_that_neither_the_producer_nor_the_test_tells_are_asked_for() -> None:
    with pytest.raises(ChaosError, match="does not tell its acks"):
        acks_of(confluent_kafka.Producer(NOWHERE), given=None)
    with pytest.raises(ChaosError, match="no setting"):
        acks_of(confluent_kafka.Producer(NOWHERE), given="some")


def test_the_isolation_of_a_consumer_is_its_own_or_told_or_not_known() -> None:
    theirs = confluent_kafka.Consumer({**NOWHERE, "group.id": "g"})
    assert isolation_of(PythonConsumer(isolation_level="read_committed"), given=None) == "read_committed"
    assert isolation_of(theirs, given=None) is None
    assert isolation_of(theirs, given="read_committed") == "read_committed"
    with pytest.raises(ChaosError, match="read_uncommitted"):
        isolation_of(theirs, given="committed")

    async def own() -> Any:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers="localhost:1", isolation_level="read_committed")
        return isolation_of(consumer, given=None)

    assert asyncio.run(own()) == "read_committed"


def test_the_idempotence_of_a_producer_is_its_own_or_told_or_not_known() -> None:
    theirs = confluent_kafka.Producer(NOWHERE)
    assert idempotence_of(PythonProducer(enable_idempotence=False), given=None) is False
    assert idempotence_of(theirs, given=None) is None
    assert idempotence_of(theirs, given=True) is True
    with pytest.warns(UserWarning, match="idempotence=False, which counts"):
        assert idempotence_of(PythonProducer(enable_idempotence=False), given=True) is False

    async def own() -> list[bool | None]:
        made = [
            aiokafka.AIOKafkaProducer(bootstrap_servers="localhost:1", enable_idempotence=each)
            for each in (True, False)
        ]
        return [idempotence_of(each, given=None) for each in made]

    assert asyncio.run(own()) == [True, False]


@pytest.fixture
def librdkafka(tmp_path: Path) -> Any:
    """A producer on the broker that librdkafka has within itself, and its journal."""
    own = confluent_kafka.Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1})
    journal = Journal(tmp_path / "j", process=0, worker="shop")
    journal.begin_process(role="producer", acks="all")
    return recorded_producer(own, journal), tmp_path / "j"


def answered(path: Path) -> list[tuple[str, int, int | None]]:
    """The values sent, each with the status and the offset of its answer."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    values = {line[1]: line[6][0] for line in lines if line[0] == "I"}
    answers = {line[1]: line for line in lines if line[0] == "S"}
    return [(value, answers[number][3][0], answers[number][4][0]) for number, value in values.items()]


def test_a_batch_of_librdkafka_is_recorded_message_by_message(librdkafka: Any) -> None:
    producer, path = librdkafka
    given: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        given.append((message.value(), message.partition()))

    messages: list[dict[str, Any]] = [
        {"value": b"tea"},
        {"value": "jam"},
        {"value": b"nut", "partition": 2, "callback": delivered},
    ]
    assert producer.produce_batch("orders", messages, partition=0) == 3
    producer.flush(20)
    assert answered(path) == [("tea", 0, 0), ("jam", 0, 1), ("nut", 0, 0)]
    assert given == [(b"nut", 2)]
    assert "callback" not in messages[0], "the application's own messages stay as they were"


def test_what_the_library_refuses_of_a_batch_stays_open_and_is_told_to_the_application(librdkafka: Any) -> None:
    producer, path = librdkafka
    messages: list[dict[str, Any]] = [{"value": b"tea"}, {"value": b"jam" * 1_000_000}]
    assert producer.produce_batch("orders", messages, partition=0) == 1
    producer.flush(20)
    assert "_error" in messages[1]
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(line[1], line[3]) for line in lines if line[0] == "S"] == [(1, [0])]


def test_the_timestamp_that_the_library_tells_is_recorded(librdkafka: Any) -> None:
    producer, path = librdkafka
    producer.produce("orders", b"tea", partition=0)
    producer.flush(20)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line[8] for line in lines if line[0] == "S"] == [[1234]], "what that broker always answers"


def test_reading_begins_anew_where_partitions_are_added(tmp_path: Path) -> None:
    class Consumer(confluent_kafka.Consumer):  # type: ignore[misc]
        def incremental_assign(self, partitions: Any) -> None:
            self.given = partitions

        def subscribe(self, topics: Any, on_assign: Any = None) -> None:
            on_assign(self, [confluent_kafka.TopicPartition("orders", 0)])

        def poll(self) -> None:
            """Nothing came."""

        def assignment(self) -> list[Any]:
            return [confluent_kafka.TopicPartition("orders", 0)]

    own = Consumer({**NOWHERE, "group.id": "g"})
    consumer = recorded_consumer(own, Journal(tmp_path / "j", process=0, worker="shop"))
    consumer.poll()
    consumer.incremental_assign([confluent_kafka.TopicPartition("orders", 0, 7)])
    consumer.poll()
    seen: list[Any] = []
    consumer.subscribe(["orders"], on_assign=lambda given, partitions: seen.append(given))
    consumer.poll()
    lines = [json.loads(line)[0] for line in (tmp_path / "j").read_text(encoding="utf-8").splitlines()]
    assert lines.count("A") == 3
    assert own.given[0].offset == 7
    assert seen == [consumer], "what it seeks in its callback is recorded"


def beginnings(path: Path) -> int:
    """How often reading began."""
    return [json.loads(line)[0] for line in path.read_text(encoding="utf-8").splitlines()].count("A")


def test_reading_begins_anew_where_kafka_python_was_given_a_partition_again_between_two_polls(tmp_path: Path) -> None:
    class Consumer(PythonConsumer):
        def poll(self) -> dict[Any, Any]:
            return {}

        def assignment(self) -> Any:
            return self._subscription.assigned_partitions()

    own, orders = Consumer(), [kafka.TopicPartition("orders", 0)]
    own._subscription = kafka.consumer.subscription_state.SubscriptionState()
    consumer = recorded_consumer(own, Journal(tmp_path / "j", process=0, worker="shop"))
    own._subscription.assign_from_user(orders)
    consumer.poll()
    consumer.poll()
    assert beginnings(tmp_path / "j") == 1
    own._subscription.unsubscribe()
    own._subscription.assign_from_user(orders)
    consumer.poll()
    assert beginnings(tmp_path / "j") == 2


def test_reading_begins_anew_where_one_poll_of_confluent_kafka_takes_a_partition_and_gives_it_again(
    tmp_path: Path,
) -> None:
    class Consumer(confluent_kafka.Consumer):  # type: ignore[misc]
        on_assign: Any = None

        def subscribe(self, topics: Any, on_assign: Any = None) -> None:
            self.on_assign = on_assign

        def poll(self) -> None:
            if self.on_assign is not None:
                self.on_assign(self, self.assignment())

        def assignment(self) -> list[Any]:
            return [confluent_kafka.TopicPartition("orders", 0)]

    journal = Journal(tmp_path / "j", process=0, worker="shop")
    consumer = recorded_consumer(Consumer({**NOWHERE, "group.id": "g"}), journal)
    consumer.subscribe(["orders"])
    consumer.poll()
    consumer.poll()
    assert beginnings(tmp_path / "j") == 2


def test_reading_begins_anew_where_aiokafka_goes_back_to_what_was_committed(tmp_path: Path) -> None:
    class Consumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]
        def __init__(self) -> None:
            self._closed = True

        async def getmany(self) -> dict[Any, Any]:
            return {}

        def assignment(self) -> Any:
            return frozenset({aiokafka.TopicPartition("orders", 0)})

        async def seek_to_committed(self, *partitions: Any) -> None:
            """It is elsewhere now."""

    async def reading() -> None:
        consumer = recorded_consumer(Consumer(), Journal(tmp_path / "j", process=0, worker="shop"))
        await consumer.getmany()
        await consumer.getmany()
        assert beginnings(tmp_path / "j") == 1
        await consumer.seek_to_committed()
        await consumer.getmany()

    asyncio.run(reading())
    assert beginnings(tmp_path / "j") == 2


def test_a_batch_of_aiokafka_is_recorded_record_by_record(tmp_path: Path) -> None:
    class Producer(AioProducer):
        def create_batch(self) -> Any:
            return aiokafka.producer.message_accumulator.BatchBuilder(100_000, 0)

        async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
            done = asyncio.get_running_loop().create_future()
            done.set_result(type("Told", (), {"offset": 7, "timestamp": -1}))
            return done

    async def sending() -> None:
        journal = Journal(tmp_path / "j", process=0, worker="shop")
        journal.begin_process(role="producer", acks="all")
        producer = recorded_producer(Producer(), journal)
        batch = producer.create_batch()
        for value in (b"tea", b"jam"):
            batch.append(timestamp=None, key=None, value=value)
        assert batch.record_count() == 2
        await (await producer.send_batch(batch, "orders", partition=0))
        await asyncio.sleep(0)
        with pytest.raises(ChaosError, match="not recorded"):
            await producer.send_batch(Producer().create_batch(), "orders", partition=0)

    asyncio.run(sending())
    assert answered(tmp_path / "j") == [("tea", 0, 7), ("jam", 0, 8)]


def test_the_statements_of_the_libraries_take_the_recorded_clients(tmp_path: Path) -> None:
    class Consumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]
        def __init__(self) -> None:
            self._closed = True
            self.calls: list[str] = []

        async def start(self) -> None:
            self.calls.append("started")

        async def stop(self) -> None:
            self.calls.append("stopped")

        async def getone(self) -> Any:
            raise aiokafka.errors.ConsumerStoppedError

    async def reading() -> list[str]:
        own = Consumer()
        async with recorded_consumer(own, Journal(tmp_path / "j", process=0, worker="shop")) as consumer:
            async for _ in consumer:
                raise AssertionError("it is stopped")
        return own.calls

    assert asyncio.run(reading()) == ["started", "stopped"]
    with recorded_consumer(
        confluent_kafka.Consumer({**NOWHERE, "group.id": "g"}), Journal(tmp_path / "c", process=0, worker="shop")
    ) as consumer:
        assert consumer.assignment() == []


def test_what_aiokafka_makes_of_a_value_is_recorded(tmp_path: Path) -> None:
    class Producer(AioProducer):
        async def send(self, topic: str, **named: Any) -> Any:
            done = asyncio.get_running_loop().create_future()
            done.set_result(type("Told", (), {"offset": 7, "timestamp": -1}))
            return done

    async def sending() -> None:
        journal = Journal(tmp_path / "j", process=0, worker="shop")
        journal.begin_process(role="producer", acks="all")
        own = Producer()
        serialized = aiokafka.AIOKafkaProducer(value_serializer=lambda value: json.dumps(value).encode())
        own._value_serializer, own._key_serializer = serialized._value_serializer, serialized._key_serializer
        await recorded_producer(own, journal).send_and_wait("orders", "tea", partition=0)
        await asyncio.sleep(0)

    asyncio.run(sending())
    assert answered(tmp_path / "j") == [('"tea"', 0, 7)]


def test_clients_of_confluent_kafka_that_convert_values_are_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", process=0, worker="shop")
    producer = confluent_kafka.SerializingProducer({**NOWHERE, "value.serializer": lambda value, context: b"x"})
    with pytest.raises(ChaosError, match="serializer"):
        recorded_producer(producer, journal)
    settings = {**NOWHERE, "group.id": "g", "value.deserializer": lambda value, context: "x"}
    with pytest.raises(ChaosError, match="deserializer"):
        recorded_consumer(confluent_kafka.DeserializingConsumer(settings), journal)


def test_a_poll_that_leaves_kafka_python_where_it_was_is_no_step_back(tmp_path: Path) -> None:
    class Consumer(PythonConsumer):
        def poll(self, timeout_ms: int = 0, max_records: int = 1, update_offsets: bool = True) -> dict[Any, Any]:
            return {}

        def assignment(self) -> Any:
            return {kafka.TopicPartition("orders", 0)}

    consumer = recorded_consumer(Consumer(), Journal(tmp_path / "j", process=0, worker="shop"))
    consumer.poll(update_offsets=False)
    consumer.poll()
    consumer.poll()
    assert beginnings(tmp_path / "j") == 2
