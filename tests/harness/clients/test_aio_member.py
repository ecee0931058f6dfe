"""aiokafka in a group and with transactions: what the library says becomes events and outcomes."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import aiokafka
import pytest
from aiokafka import errors
from aiokafka.client import ConnectionGroup
from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchResponse_v3

from harness.clients import aio
from harness.clients.aio_member import AioMember, RebalancedError
from harness.ports.clients import ClientUse
from harness.ports.cluster import TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.membership import GroupClient, TransactionalClient

USE = ClientUse(
    role="both",
    group="g",
    session_timeout_ms=1200,
    transactional_id="x",
    isolation="read_committed",
    offset_reset="earliest",
)
SETTINGS = WorkloadSpec(delivery_timeout_ms=300, request_timeout_ms=200)
PLACE = TopicPartition(topic="orders", partition=0)
JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14
Make = Callable[..., "tuple[Library, AioMember]"]


class Library:
    """Stands for consumer, producer and coordinator at once. `raises`: what a method raises, by its name."""

    def __init__(self, raises: dict[str, Exception]) -> None:
        self.configuration: dict[str, Any] = {}
        self.calls: list[str] = []
        self.generation, self.member_id = 7, "m-1"
        self.moves_on = False  # a rebalance comes while it commits
        self.listener: Any = None
        self.answer: Any = None  # the coordinator's to any request
        self._raises = raises
        self._coordinator = self
        self._client = self.client = self._subscription = self
        self.coordinator_id = 2
        self._request_timeout = 0.2
        self._conns = {(2, ConnectionGroup.COORDINATION): self}
        self.times_s: list[float] = []  # that each request to the coordinator had
        self.reassignment_in_progress = True
        self._sender = self
        self.sender_task = None

    def __call__(self, **configuration: Any) -> "Library":
        self.configuration |= configuration
        return self

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self._raises:
            raise self._raises[name]

    async def start(self) -> None:
        await self._called("start")

    async def stop(self) -> None:
        await self._maybe_leave_group()

    async def close(self) -> None:
        await self._called("close")

    async def _maybe_leave_group(self) -> None:
        await self._called("leave")

    async def _send_req(self, request: Any) -> Any:
        self.times_s.append(self._request_timeout)
        return self.answer

    async def ready(self, node: int, *, group: ConnectionGroup) -> bool:
        return (node, group) in self._conns

    def coordinator_dead(self) -> None:
        self.calls.append("coordinator dead")

    def subscribe(self, topics: list[str], listener: Any) -> None:
        self.listener = listener

    async def commit(self, offsets: Any) -> None:
        self.generation += self.moves_on
        await self._called("commit")

    async def committed(self, partition: Any) -> int | None:
        await self._called("committed")
        return 41

    def seek(self, partition: Any, offset: int) -> None:
        self.calls.append(f"seek {partition.partition} {offset}")

    async def begin_transaction(self) -> None:
        await self._called("begin")

    async def send_offsets_to_transaction(self, offsets: Any, group: str) -> None:
        await self._called(f"send offsets of {group}")

    async def commit_transaction(self) -> None:
        await self._called("commit_transaction")

    async def abort_transaction(self) -> None:
        await self._called("abort")

    async def getmany(self, **_: Any) -> dict[Any, Any]:
        await self._called("getmany")
        return {}


@pytest.fixture
def member_of(monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(raises: dict[str, Exception] | None = None) -> tuple[Library, AioMember]:
        library = Library(raises or {})
        monkeypatch.setattr(aiokafka, "AIOKafkaConsumer", library)
        monkeypatch.setattr(aiokafka, "AIOKafkaProducer", library)
        monkeypatch.setattr(aio, "watch", lambda *_: None)  # of the real one: test_client_events.py
        return library, AioMember(bootstrap="127.0.0.1:1", settings=SETTINGS, use=USE)

    return make


async def test_the_library_is_set_up_for_its_use(member_of: Make) -> None:
    library, member = member_of()

    await member.subscribe(["orders"])
    await member.begin_transaction()

    wanted = {
        "group_id": "g",
        "session_timeout_ms": 1200,
        "heartbeat_interval_ms": 200,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "transactional_id": "x",
        "transaction_timeout_ms": 10_000,
        "enable_auto_commit": False,
    }
    assert {key: library.configuration[key] for key in wanted} == wanted
    assert isinstance(member, GroupClient)
    assert isinstance(member, TransactionalClient)


async def test_rebalances_carry_generation_and_member(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])

    library.listener.on_partitions_assigned([aiokafka.TopicPartition("orders", 0)])
    library.listener.on_partitions_revoked([aiokafka.TopicPartition("orders", 0)])

    heard = member.rebalances()
    assert [(event.event, event.generation, event.member) for event in heard] == [
        ("assigned", 7, "m-1"),
        ("revoked", 7, "m-1"),
    ]


async def test_a_processor_has_its_producer_before_it_joins(member_of: Make) -> None:
    library, member = member_of()

    await member.subscribe(["orders"])
    await member.begin_transaction()

    assert library.configuration["transactional_id"] == "x"
    assert library.calls == ["start", "start", "begin"]


async def test_a_coordinator_has_the_time_of_a_rebalance_to_answer_who_joins(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    send: Any = library._send_req

    for key in (JOIN_GROUP, HEARTBEAT, SYNC_GROUP):
        await send(SimpleNamespace(API_KEY=key))
    library._conns = {}
    await send(SimpleNamespace(API_KEY=JOIN_GROUP))  # which has to fail by itself

    assert library.times_s == [20.0, 0.2, 20.0, 0.2]


@pytest.mark.parametrize("rebalances", [True, False])
async def test_a_poll_that_waits_for_a_rebalance_ends_with_nothing(member_of: Make, rebalances: bool) -> None:
    library, member = member_of({"getmany": TimeoutError()})
    await member.subscribe(["orders"])
    library.reassignment_in_progress = rebalances

    if rebalances:
        assert await member.poll(10, timeout_s=0) == []
    else:
        with pytest.raises(TimeoutError):
            await member.poll(10, timeout_s=0)


async def test_what_the_library_says_while_it_is_closed_is_heard(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    await member.close()

    library.listener.on_partitions_assigned([aiokafka.TopicPartition("orders", 0)])

    assert [event.event for event in member.rebalances()] == ["assigned"]


async def test_a_processor_ends_after_a_rebalance(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    library.listener.on_partitions_assigned([aiokafka.TopicPartition("orders", 0)])
    assert await member.poll(10, timeout_s=0) == []

    library.listener.on_partitions_assigned([aiokafka.TopicPartition("orders", 0)])
    with pytest.raises(RebalancedError):
        await member.poll(10, timeout_s=0)


@pytest.mark.parametrize(
    ("raised", "status"),
    [(None, "ok"), (errors.CommitFailedError(), "fail"), (errors.RequestTimedOutError(), "info")],
)
async def test_a_commit_is_refused_for_certain_or_nobody_knows(
    member_of: Make, raised: Exception | None, status: str
) -> None:
    _, member = member_of({} if raised is None else {"commit": raised})

    committed = await member.commit({PLACE: 5})

    assert (committed.status, committed.generation) == (status, 7)


async def test_the_generation_of_a_commit_is_unknown_if_another_came_meanwhile(member_of: Make) -> None:
    library, member = member_of()
    library.moves_on = True

    assert (await member.commit({PLACE: 5})).generation is None


async def test_committed_offsets_are_never_known_to_be_stable(member_of: Make) -> None:
    _, member = member_of()

    fetched = await member.committed([PLACE])

    assert (dict(fetched.offsets), fetched.require_stable) == ({PLACE: 41}, False)


@pytest.mark.parametrize(
    ("error", "looked_up"), [(errors.GroupLoadInProgressError, False), (errors.NotCoordinatorForGroupError, True)]
)
async def test_an_error_of_a_whole_question_for_offsets_is_no_answer(
    member_of: Make, error: type[errors.KafkaError], looked_up: bool
) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    library.answer = OffsetFetchResponse_v3(0, [], error.errno)

    with pytest.raises(error):
        await library._coordinator._send_req(OffsetFetchRequest("g", []))
    assert ("coordinator dead" in library.calls) == looked_up


async def test_an_answer_without_an_error_is_the_librarys(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    library.answer = OffsetFetchResponse_v3(0, [], 0)

    assert await library._coordinator._send_req(OffsetFetchRequest("g", [])) is library.answer


async def test_offsets_in_a_transaction_have_no_generation(member_of: Make) -> None:
    library, member = member_of()
    await member.begin_transaction()

    sent = await member.send_offsets({PLACE: 5})

    assert (sent.event, sent.status, sent.generation) == ("committed", "ok", None)
    assert "send offsets of g" in library.calls


@pytest.mark.parametrize(
    ("raises", "commit", "outcome"),
    [
        ({}, True, "committed"),
        ({}, False, "aborted"),
        ({"commit_transaction": TimeoutError()}, True, "unknown"),
        ({"commit_transaction": errors.ProducerFenced()}, True, "aborted"),
        ({"commit_transaction": errors.ProducerFenced(), "abort": errors.ProducerFenced()}, True, "unknown"),
        ({"abort": errors.ProducerFenced()}, False, "aborted"),
    ],
)
async def test_how_a_transaction_ended(
    member_of: Make, raises: dict[str, Exception], commit: bool, outcome: str
) -> None:
    _, member = member_of(raises)
    await member.begin_transaction()

    assert (await member.end_transaction(commit=commit)).outcome == outcome


async def test_a_member_that_crashes_does_not_leave_its_group(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])

    await member.crash()
    await asyncio.sleep(0)

    assert "leave" not in library.calls
