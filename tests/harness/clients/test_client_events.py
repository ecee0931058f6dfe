"""What clients met is told as it was: each attempt that failed, before its records have their answer."""

import asyncio
import logging
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from aiokafka import errors

from harness.clients import aio, confluent
from harness.clients.catalogue import CLIENTS
from harness.clients.client_log import ClientLog
from harness.clients.outcomes import library_error_of
from harness.cluster.local.cluster import LocalCluster
from harness.ports.clients import ClientEvent, ReportsEvents
from harness.ports.cluster import ClientId, NodeId, Send, SendOutcome
from harness.ports.load import WorkloadSpec
from tests.waiting import PATIENCE_S

LIBRARIES = list(CLIENTS)
SETTINGS = WorkloadSpec(idempotence=False, request_timeout_ms=1000, delivery_timeout_ms=4000)


class Producer:
    """One library's client at work on its own partition; what it met is kept with what it was answered."""

    def __init__(self, library: str, cluster: LocalCluster) -> None:
        self.partition = LIBRARIES.index(library)
        self._bootstrap = cluster.bootstrap(ClientId(1 + self.partition))
        self.client = CLIENTS[library](bootstrap=self._bootstrap, settings=SETTINGS)
        self.events: list[ClientEvent] = []
        self.sent = 0

    async def send(self) -> SendOutcome:
        self.sent += 1
        record = Send(topic="orders", partition=self.partition, value=b"v%d" % self.sent)
        (outcome,) = await self.client.send([record])
        assert isinstance(self.client, ReportsEvents)
        assert self.client.tells_attempts
        self.events += self.client.take_events()
        return outcome

    def failed(self, outcome: SendOutcome) -> list[ClientEvent]:
        return [
            event
            for event in self.events
            if event.event == "attempt_failed" and (outcome.begin_ns or 0) <= event.t_ns <= outcome.end_ns
        ]

    async def acknowledged(self) -> SendOutcome:
        async with asyncio.timeout(PATIENCE_S):
            while (outcome := await self.send()).status != "ok":
                pass
        return outcome


@pytest.mark.cluster
async def test_each_library_reports_the_attempt_that_a_paused_leader_left_unanswered_and_the_leader_after_it(
    cluster: LocalCluster,
) -> None:
    producers = [Producer(library, cluster) for library in LIBRARIES]
    quiet = await asyncio.gather(*(producer.acknowledged() for producer in producers))
    undisturbed = [await producer.send() for producer in producers]
    await cluster.pause(NodeId(1))
    try:
        hit = await asyncio.gather(*(producer.send() for producer in producers))
    finally:
        await cluster.resume(NodeId(1))
    await cluster.kill(NodeId(1))
    await asyncio.gather(*(producer.acknowledged() for producer in producers))
    for producer in producers:
        async with asyncio.timeout(PATIENCE_S):
            while not any(event.event == "leader" and event.node in (2, 3) for event in producer.events):
                await producer.send()
        await producer.client.close()

    for library, producer, first, calm, outcome in zip(LIBRARIES, producers, quiet, undisturbed, hit, strict=True):
        assert calm.status == "ok", library
        assert producer.failed(calm) == [], library
        assert (first.begin_ns or 0) < first.end_ns, library
        attempts = producer.failed(outcome)
        assert {event.status for event in attempts} == {"info"}, (library, producer.events)
        assert {(event.topic, event.partition) for event in attempts} == {("orders", producer.partition)}, library
        assert 1 in {event.node for event in attempts}, (library, attempts)
        rows = [(event.topic, event.partition, event.node) for event in producer.events if event.event == "leader"]
        assert rows[0][2] == 1 or ("orders", producer.partition, 1) in rows, library
        lost = {event.node for event in producer.events if event.event in ("timeout", "disconnect")}
        assert 1 in lost, (library, producer.events)
        assert {event.node for event in producer.events if event.event == "connect"} >= {1}, library


# ---- librdkafka's log -----------------------------------------------------------------------------------------------


def read(*lines: str) -> list[tuple[str, int | None, int | None, str | None, str | None]]:
    log = ClientLog()
    logger = confluent.logger_of(log)
    for line in lines:
        logger.log(logging.DEBUG, line)
    return [(event.event, event.node, event.partition, event.status, event.error) for event in log.take()]


AT = "[rdkafka#producer-1] [thrd:127.0.0.1:21001/2]: 127.0.0.1:21001/2:"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            f"MSGSET {AT} or.ders [3]: MessageSet with 17 message(s) (MsgId 0, BaseSeq -1) encountered error: Broker: "
            "Not leader for partition (actions Refresh,MsgNotPersisted)",
            ("attempt_failed", 2, 3, "info", "NOT_LEADER_FOR_PARTITION 6"),
        ),
        (
            f"MSGSET {AT} orders [0]: MessageSet with 1 message(s) (MsgId 0, BaseSeq -1) encountered error: Local: "
            "Timed out in queue (actions Retry,MsgNotPersisted)",
            ("attempt_failed", 2, 0, "fail", "_TIMED_OUT_QUEUE"),
        ),
        (
            f"MSGSET {AT} orders [0]: MessageSet with 1 message(s) (MsgId 0, BaseSeq -1) encountered error: a word of "
            "tomorrow (actions Retry)",
            ("attempt_failed", 2, 0, "info", "_FAIL"),
        ),
        (
            f"FAIL {AT} 3 request(s) timed out: disconnect (average rtt 8.1ms) (after 4996ms in state UP) (_TIMED_OUT)",
            ("timeout", 2, None, None, "_TIMED_OUT"),
        ),
        (
            f"FAIL {AT} Disconnected: connection closed by peer: receive 0 after POLLIN (after 3007ms in state UP) "
            "(_TRANSPORT)",
            ("disconnect", 2, None, None, "_TRANSPORT"),
        ),
        (f"STATE {AT} Broker changed state APIVERSION_QUERY -> UP", ("connect", 2, None, None, None)),
        (
            f"TOPBRK {AT} Topic orders [1]: joining broker (rktp 0x7fec, 0 message(s) queued)",
            ("leader", 2, 1, None, None),
        ),
    ],
)
def test_a_line_of_librdkafkas_log_becomes_the_event_it_reports(
    line: str, expected: tuple[str, int | None, int | None, str | None, str | None]
) -> None:
    assert read(line) == [expected]


def test_lines_that_tell_of_no_failure_and_what_librdkafka_does_of_its_own_accord_are_no_events() -> None:
    assert (
        read(
            f"MSGSET {AT} orders [0]: MessageSet with 1 message(s) (MsgId 0, BaseSeq -1) delivered",
            f"FAIL {AT} Decommissioning this broker (after 6ms in state INIT) (_DESTROY_BROKER)",
            f"STATE {AT} Broker changed state UP -> DOWN",
            "FAIL [rdkafka#producer-1] [thrd:127.0.0.1:1/bootstrap]: 127.0.0.1:1/bootstrap: gone (_TRANSPORT)",
            "whatever else",
        )
        == []
    )


def test_every_error_that_a_broker_may_answer_is_known_by_librdkafkas_words_for_it() -> None:
    known = confluent._errors()

    for number in (2, 3, 5, 6, 7, 19, 20, -185, -195, -192):
        error = confluent_kafka.KafkaError(number)
        assert known[error.str()].code() == number


# ---- aiokafka's requests --------------------------------------------------------------------------------------------

TOPICS = [("orders", [(0, b""), (1, b"")])]
REQUESTS = {
    "since 0.13": SimpleNamespace(API_KEY=0, required_acks=-1, _topics=TOPICS),
    "before": SimpleNamespace(API_KEY=0, required_acks=-1, topics=TOPICS),
}


class AioKafkaClient:
    """Stands for the library's; `answer` is what a request comes to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.cluster = SimpleNamespace(add_listener=lambda _: None)
        self._conns: dict[Any, Any] = {}

    async def send(self, _: int, __: Any, **___: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def _get_conn(self, _: int | str) -> None: ...

    def _on_connection_closed(self, *_: Any) -> None: ...


async def met_by(answer: Any, request: Any) -> list[tuple[int | None, str | None, str | None]]:
    log, client = ClientLog(), AioKafkaClient(answer)
    aio.watch(client, log, library_error_of)
    with suppress(errors.KafkaError):
        assert await client.send(2, request) is answer
    return [(event.partition, event.status, event.error) for event in log.take()]


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_a_produce_request_of_aiokafka_that_got_no_answer_failed_for_each_of_its_partitions(
    request_: Any,
) -> None:
    lost = [(part, "info", "RequestTimedOutError 7") for part in (0, 1)]
    assert await met_by(errors.RequestTimedOutError(), request_) == lost


async def test_only_partitions_that_a_broker_refused_failed_and_only_of_produce_requests() -> None:
    request, other = REQUESTS["before"], SimpleNamespace(API_KEY=3)
    answer = SimpleNamespace(topics=[("orders", [(0, 0, 17), (1, 19, -1)]), ("audit", [(0, 46, -1)])])

    assert await met_by(answer, request) == [(1, "fail", "NotEnoughReplicasError 19")]
    assert await met_by(errors.RequestTimedOutError(), other) == []


async def test_a_connection_of_aiokafka_to_no_broker_it_knows_by_its_id_is_not_reported() -> None:
    log, client = ClientLog(), AioKafkaClient(None)
    aio.watch(client, log, library_error_of)
    await client._get_conn("bootstrap")
    await client._get_conn(2)

    assert [(event.event, event.node) for event in log.take()] == [("disconnect", 2)]


# ---- what is kept ---------------------------------------------------------------------------------------------------


def test_metadata_is_reported_where_it_says_otherwise_than_before_and_what_a_client_meets_while_it_closes_is_not() -> (
    None
):
    log = ClientLog()
    log.leaders([("t", 0, 1, 5), ("t", 1, 2, 3)])
    log.leaders([("t", 0, 1, 5), ("t", 1, -1, 3)])
    log.close()
    log.connection("disconnect", 1)

    kept = [(event.partition, event.node, event.epoch) for event in log.take()]
    assert kept == [(0, 1, 5), (1, 2, 3), (1, -1, 3)]
    assert log.take() == []


def test_a_broker_that_stays_out_of_reach_is_reported_once() -> None:
    log = ClientLog()
    for kind in ("connect", "disconnect", "disconnect", "connect", "disconnect"):
        log.connection(kind, 1)
    log.connection("disconnect", 2)

    rows = [(event.event, event.node) for event in log.take()]
    assert rows == [("connect", 1), ("disconnect", 1), ("connect", 1), ("disconnect", 1), ("disconnect", 2)]


def test_an_attempt_is_reported_with_what_the_one_table_of_outcomes_says_of_it() -> None:
    log = ClientLog()
    refused = SimpleNamespace(errno=19)
    before = time.monotonic_ns()
    log.failed("t", 0, refused, node=1)
    log.failed("t", 0, ConnectionResetError(), node=None)

    first, second = log.take()
    assert (first.status, second.status, second.error) == ("fail", "info", "ConnectionResetError")
    assert before <= first.t_ns <= second.t_ns
