"""kafka-python in a group and with transactions: what the library says becomes events and outcomes."""

import threading
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kafka import TopicPartition as Theirs
from kafka import errors

from harness.clients import answers, kafka_python
from harness.clients.catalogue import CLIENTS
from harness.clients.kafka_python_member import KafkaPythonMember
from harness.clients.members import Listener
from harness.host.clock import SystemClock
from harness.ports.clients import ClientUse
from harness.ports.cluster import TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.membership import GroupClient, TransactionalClient

SETTINGS = WorkloadSpec(delivery_timeout_ms=300, request_timeout_ms=200)
USE = ClientUse(
    role="both",
    group="g",
    session_timeout_ms=1200,
    group_instance_id="g-1",
    transactional_id="x",
    isolation="read_committed",
    offset_reset="earliest",
)
ORDERS = TopicPartition(topic="orders", partition=1)
Membership = namedtuple("Membership", "generation_id member_id")


class Coordinator:
    def __init__(self) -> None:
        self.left = 0
        self._heartbeat_closed = False
        self._offset_fetch_futures: dict[frozenset[Any], object] = {}

    def maybe_leave_group(self, timeout_ms: int | None = None) -> None:
        self.left += 1


class Library:
    """Stands for KafkaConsumer and KafkaProducer both; `raises[call]` is what that call ends with.

    Each call takes `takes_s` by the member's clock, and no time otherwise."""

    def __init__(self, raises: dict[str, Exception], *, takes_s: float = 0.0) -> None:
        self.raises = raises
        self.takes_s = takes_s
        self.now_ns = 1
        self.configuration: dict[str, Any] = {}
        self.calls: list[str] = []
        self.listener: Any = None
        self.generation = 4
        self.stored: dict[Any, Any] = {}
        self._coordinator = Coordinator()
        self._sender = self

    def __call__(self, **configuration: Any) -> "Library":
        self.configuration |= configuration
        return self

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.now_ns += int(self.takes_s * 1e9)
        if name in self.raises:
            raise self.raises[name]

    def subscribe(self, *, topics: Sequence[str], listener: Any) -> None:
        self._call("subscribe")
        self.listener = listener

    def group_metadata(self) -> Membership:
        return Membership(self.generation, "m-1")

    def commit(self, offsets: dict[Any, Any], timeout_ms: int) -> None:
        self._call("commit")
        self.stored |= offsets

    def committed(self, partition: Any, timeout_ms: int) -> int | None:
        self._call("committed")
        return self.stored[partition].offset if partition in self.stored else None

    def seek(self, partition: Any, offset: int) -> None:
        self._call(f"seek {partition.partition} {offset}")

    def init_transactions(self) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def send_offsets_to_transaction(self, offsets: dict[Any, Any], membership: Any) -> None:
        self._call("offsets")
        assert membership == Membership(self.generation, "m-1")

    def commit_transaction(self) -> None:
        self._call("commit_transaction")

    def abort_transaction(self) -> None:
        self._call("abort")

    def force_close(self) -> None:
        self.calls.append("force_close")

    def close(self, autocommit: bool = False, timeout_ms: int = 0, timeout: float = 0) -> None:
        self._coordinator.maybe_leave_group()


Make = Callable[..., tuple[Library, KafkaPythonMember]]


@pytest.fixture
def member_of(monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(raises: dict[str, Exception] | None = None, *, takes_s: float = 0.0) -> tuple[Library, KafkaPythonMember]:
        library = Library(raises or {}, takes_s=takes_s)
        monkeypatch.setattr(SystemClock, "monotonic_ns", lambda _: library.now_ns)
        monkeypatch.setattr(kafka_python, "KafkaConsumer", library)
        monkeypatch.setattr(kafka_python, "KafkaProducer", library)
        for watch in ("watch_producer", "watch_consumer"):  # of the real ones: test_client_events.py
            monkeypatch.setattr(kafka_python, watch, lambda *_: None)
        return library, KafkaPythonMember(bootstrap="127.0.0.1:1", settings=SETTINGS, use=USE)

    return make


async def test_the_library_is_set_up_for_its_use(member_of: Make) -> None:
    library, member = member_of()

    await member.subscribe(["orders"])
    await member.begin_transaction()
    await member.close()

    wanted = {
        "group_id": "g",
        "group_instance_id": "g-1",
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


@pytest.mark.parametrize("library", CLIENTS)
def test_a_client_is_a_member_where_it_is_used_as_one(library: str) -> None:
    assert isinstance(CLIENTS[library](bootstrap="127.0.0.1:1", settings=SETTINGS, use=USE), GroupClient)
    reads = ClientUse(role="consumer", isolation="read_committed")
    assert not isinstance(CLIENTS[library](bootstrap="127.0.0.1:1", settings=SETTINGS, use=reads), GroupClient)


async def test_rebalances_are_reported_once_in_order_with_generation_and_member(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    library.listener.on_partitions_revoked(set())  # at a first join
    library.listener.on_partitions_assigned({Theirs("orders", 1), Theirs("orders", 0)})
    library.generation = -1  # the membership is gone when the library tells of it
    library.listener.on_partitions_lost({Theirs("orders", 0)})
    library.listener.on_partitions_revoked({Theirs("orders", 0), Theirs("orders", 1)})
    library.listener.on_partitions_revoked({Theirs("orders", 0), Theirs("orders", 1)})  # it must join once more

    rows = [(event.event, [each.partition for each in event.offsets]) for event in member.rebalances()]

    assert rows == [("assigned", [0, 1]), ("lost", [0]), ("revoked", [1])]
    assert member.rebalances() == []
    await member.close()


def test_what_follows_a_rebalance_carries_its_generation() -> None:
    listener = Listener(lambda: (7, "m-2"), SystemClock())
    listener.on_partitions_assigned([Theirs("orders", 0)])
    listener.on_partitions_revoked([Theirs("orders", 0)])

    assert [(event.generation, event.member) for event in listener.take()] == [(7, "m-2")] * 2


async def test_committed_offsets_that_the_library_kept_from_an_earlier_generation_are_forgotten(
    member_of: Make,
) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    kept = library._coordinator._offset_fetch_futures
    kept[frozenset([Theirs("orders", 0)])] = "50, asked for two generations ago"

    library.listener.on_partitions_assigned({Theirs("orders", 0)})
    await member.close()

    assert kept == {}


@pytest.mark.parametrize(
    ("error", "takes_s", "status"),
    [
        (None, 0.0, "ok"),
        (errors.CommitFailedError(), 0.0, "fail"),
        (errors.RebalanceInProgressError(), 0.0, "fail"),
        # A second attempt was refused: nobody knows whether the first was stored.
        (errors.CommitFailedError(), 0.12, "info"),
        (errors.KafkaTimeoutError(), 0.0, "info"),
    ],
    ids=["stored", "refused", "refused by itself", "refused later", "no answer"],
)
async def test_a_commit_is_refused_for_certain_only_at_its_first_attempt(
    member_of: Make, error: Exception | None, takes_s: float, status: str
) -> None:
    _, member = member_of({} if error is None else {"commit": error}, takes_s=takes_s)

    event = await member.commit({ORDERS: 12})
    await member.close()

    assert (event.event, event.status, event.offsets) == ("committed", status, {ORDERS: 12})
    assert (event.error is None) == (status == "ok")
    assert event.end_ns >= event.begin_ns


async def test_committed_offsets_are_reported_as_answered(member_of: Make) -> None:
    _, member = member_of()
    other = TopicPartition(topic="orders", partition=2)

    await member.commit({ORDERS: 12})
    event = await member.committed([ORDERS, other])
    sought = await member.seek({ORDERS: 3})
    await member.close()

    assert (event.event, event.offsets, event.status) == ("fetched", {ORDERS: 12, other: None}, "ok")
    assert (sought.event, sought.offsets) == ("seek", {ORDERS: 3})


async def test_what_could_not_be_fetched_is_reported_too(member_of: Make) -> None:
    _, member = member_of({"committed": errors.NotCoordinatorError()})

    event = await member.committed([ORDERS])
    await member.close()

    assert (event.status, event.error, event.offsets) == ("fail", "NotCoordinatorError 16", {ORDERS: None})


@pytest.mark.parametrize(
    ("raises", "commit", "outcome", "error"),
    [
        ({}, True, "committed", None),
        ({}, False, "aborted", None),
        ({"commit_transaction": errors.OutOfOrderSequenceNumberError()}, True, "aborted", "OutOfOrderSequence"),
        (
            {"commit_transaction": errors.ProducerFencedError(), "abort": errors.ProducerFencedError()},
            True,
            "unknown",
            "ProducerFenced",
        ),
        ({"abort": errors.ProducerFencedError()}, False, "aborted", "ProducerFenced"),
    ],
    ids=["committed", "aborted", "abort after a refused commit", "nobody knows", "never asked to commit"],
)
async def test_only_a_transaction_that_was_asked_to_commit_may_have_committed(
    member_of: Make, raises: dict[str, Exception], commit: bool, outcome: str, error: str | None
) -> None:
    _, member = member_of(raises)
    await member.begin_transaction()

    end = await member.end_transaction(commit=commit)
    await member.close()

    assert end.outcome == outcome
    assert error is None or (end.error or "").startswith(error)


async def test_a_commit_without_an_answer_is_unknown(member_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    await member.begin_transaction()
    release = threading.Event()
    monkeypatch.setattr(library, "commit_transaction", lambda: release.wait(20))
    monkeypatch.setattr(member, "_send_s", 0.1)
    monkeypatch.setattr(answers, "CLOSE_S", 0.1)

    end = await member.end_transaction(commit=True)
    await member.close()

    assert (end.outcome, library.calls.count("abort")) == ("unknown", 0)
    # A member that hangs must not keep its group waiting.
    assert library._coordinator._heartbeat_closed
    release.set()


async def test_a_transaction_that_cannot_begin_raises_and_its_id_is_claimed_once(member_of: Make) -> None:
    library, member = member_of()
    await member.begin_transaction()
    await member.begin_transaction()
    await member.close()

    assert library.calls == ["init", "begin", "begin"]
    broken, other = member_of({"init": errors.KafkaTimeoutError()})
    with pytest.raises(errors.KafkaTimeoutError):
        await other.begin_transaction()
    await other.close()
    assert "begin" not in broken.calls


async def test_offsets_go_to_the_transaction_with_the_members_generation(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    await member.begin_transaction()

    event = await member.send_offsets({ORDERS: 5})
    library.generation = -1  # the library heard in the background that it is no member any more
    without = await member.send_offsets({ORDERS: 6})
    await member.close()

    assert (event.event, event.status, event.offsets, event.generation) == ("committed", "ok", {ORDERS: 5}, 4)
    assert library.calls[-1] == "offsets"
    assert without.generation == -1


async def test_a_crash_says_nothing_to_the_group_and_sends_nothing_more(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    await member.begin_transaction()

    await member.crash()

    assert library._coordinator.left == 0
    assert library.calls[-1] == "force_close"
    library, member = member_of()
    await member.subscribe(["orders"])
    await member.close()
    assert library._coordinator.left == 1
