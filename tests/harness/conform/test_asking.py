"""What a row comes to where answers fail: bytes that cannot be read, connections that are closed, busy clusters.

No answer is a traceback, and none is held against a broker that may only be slow."""

import asyncio
import struct
from collections.abc import Iterator

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from harness.cluster.attached.administration import Administration
from harness.cluster.broker_requests import BrokerConnection
from harness.conform import probe as probing_module
from harness.conform.asking import ROWS, results
from harness.conform.probe import probing
from harness.conform.row import State
from harness.host.clock import SystemClock
from harness.ports.cluster import TopicDefinition
from tests.harness.conform.falsifying import Lie
from tests.harness.conform.lies import of_partition, sets
from tests.harness.conform.rows_asked import Addresses, asked, cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with cluster(tmp_path_factory.mktemp("conform"), "--brokers", "1") as addresses:
        yield addresses


def test_an_answer_that_cannot_be_decoded_is_told_with_api_version_and_bytes(one_broker: Addresses) -> None:
    sent = []

    def cut(frame: bytes, number: int) -> bytes:
        sent.append(frame[:-1])
        return frame[:-1]

    result, _ = asked(one_broker, "produce", Lie(api=ProduceRequest, frame=cut))
    assert result.state is State.VIOLATES
    assert result.undecodable is not None
    assert (result.undecodable.api, result.undecodable.version) == ("ProduceRequest", 3)
    assert bytes.fromhex(result.undecodable.answer) == sent[0]
    assert sent[0].hex()[:40] in result.seen


def test_bytes_behind_an_answer_are_told_too(one_broker: Addresses) -> None:
    result, _ = asked(one_broker, "metadata", Lie(api=MetadataRequest, frame=lambda frame, number: frame + b"\0"))
    assert result.state is State.VIOLATES
    assert "1 bytes more than that version" in result.seen


def test_where_the_versions_cannot_be_read_that_row_alone_is_broken(one_broker: Addresses) -> None:
    lie = Lie(api=ApiVersionsRequest, frame=lambda frame, number: frame[:6])
    assert asked(one_broker, "api-versions", lie)[0].state is State.VIOLATES
    assert asked(one_broker, "produce", lie)[0].state is State.UNDECIDED


def test_an_answer_without_what_was_asked_for_breaks_the_row(one_broker: Addresses) -> None:
    result, _ = asked(one_broker, "produce", Lie(api=ProduceRequest, alter=sets(responses=[])))
    assert result.state is State.VIOLATES
    assert result.seen == "ProduceRequest version 3, broker 1: its answer has no topics, and was asked about one"


def test_a_null_that_the_protocol_does_not_have_is_a_line(one_broker: Addresses) -> None:
    def null(frame: bytes, number: int) -> bytes:
        return frame[:6] + struct.pack(">i", -1) if number else frame  # the second answer: no array of APIs

    result, _ = asked(one_broker, "api-versions", Lie(api=ApiVersionsRequest, frame=null))
    assert result.state in (State.VIOLATES, State.UNDECIDED)
    assert "\n" not in result.seen


def test_a_connection_that_is_closed_once_is_asked_again(one_broker: Addresses) -> None:
    lie = Lie(api=ProduceRequest, frame=lambda frame, number: None if number == 0 else frame)
    result, altered = asked(one_broker, "produce", lie)
    assert (result.state, altered) == (State.CONFORMS, 1), result.seen


def test_a_broker_that_closes_twice_and_answers_others_breaks_the_row(one_broker: Addresses) -> None:
    result, _ = asked(one_broker, "produce", Lie(api=ProduceRequest, frame=lambda frame, number: None))
    assert result.state is State.VIOLATES
    assert "closes the connection instead of an answer to ProduceRequest version 3, twice" in result.seen


def test_a_broker_that_closes_everything_is_not_accused(one_broker: Addresses) -> None:
    lie = Lie(frame=lambda frame, number: None if number >= 1 else frame)
    assert asked(one_broker, "producer-ids", lie)[0].state is State.UNDECIDED


def test_a_cluster_that_stays_busy_is_not_accused(one_broker: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing_module, "SETTLES_S", 0.3)
    for code in (14, 15, 16):
        lie = Lie(api=InitProducerIdRequest, alter=sets(error_code=code))
        assert asked(one_broker, "producer-ids", lie)[0].state is State.UNDECIDED
    lie = Lie(api=ProduceRequest, alter=of_partition(error_code=6))
    assert asked(one_broker, "produce", lie)[0].state is State.UNDECIDED


def test_silence_is_not_held_against_a_broker(one_broker: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing_module, "ASK_S", 0.5)
    silent = Lie(api=InitProducerIdRequest, frame=lambda frame, number: b"")
    result, _ = asked(one_broker, "producer-ids", silent)
    assert (result.state, "no answer to InitProducerIdRequest" in result.seen) == (State.UNDECIDED, True), result.seen


def test_what_is_not_asked_in_time_is_undecided_and_needs_no_time(one_broker: Addresses) -> None:
    async def ask() -> list[State]:
        async with probing(one_broker, connect=BrokerConnection, clock=SystemClock()) as probe:
            return [each.state async for each in results({"there": probe}, ROWS, all_s=0)]

    assert set(asyncio.run(ask())) == {State.UNDECIDED}


def test_a_row_for_several_brokers_cannot_be_asked_of_one(one_broker: Addresses) -> None:
    assert asked(one_broker, "produce-not-leader")[0].state is State.NOT_OFFERED


def test_a_topic_whose_creation_was_not_waited_for_is_deleted_though_it_comes_late(
    one_broker: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[set[str]] = []

    async def delete() -> tuple[list[str], bool]:  # what is left, whether it is there
        async with (
            probing(one_broker, connect=BrokerConnection, clock=SystemClock()) as probe,
            probing(one_broker, connect=BrokerConnection, clock=SystemClock()) as late,
        ):
            wanted = TopicDefinition(name=probe.name("late"), partitions=1, replication_factor=1)
            creation = asyncio.create_task(probe.request_creation(wanted))
            await asyncio.sleep(0)
            creation.cancel()
            look = Administration.topics

            async def topics(administration: Administration) -> set[str]:
                seen = await look(administration)
                if not looks:
                    assert (await late.request_creation(wanted)).error_code == 0
                looks.append(seen)
                return seen

            monkeypatch.setattr(Administration, "topics", topics)
            left = await probe.delete_topics()
            there = await probe.becomes(lambda: probe.is_there(wanted.name), lambda seen: not seen)
            return left, there

    assert asyncio.run(delete()) == ([], False)
    assert len(looks) > 1
