"""confluent-kafka in a group and with transactions: what the library says becomes events and outcomes."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from harness.clients.confluent_member import ConfluentMember
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
SETTINGS = WorkloadSpec(delivery_timeout_ms=20_000, request_timeout_ms=200)
PLACE = TopicPartition(topic="orders", partition=0)
Make = Callable[..., "tuple[Library, ConfluentMember]"]


def error(name: str) -> KafkaException:
    return KafkaException(KafkaError(getattr(KafkaError, name)))


class Place:
    """A partition as the library answers it."""

    def __init__(self, offset: int, failed: KafkaError | None = None) -> None:
        self.topic, self.partition, self.offset, self.error = "orders", 0, offset, failed


class Library:
    """Stands for consumer and producer at once. `raises`: what a method raises, by its name, and how often."""

    def __init__(self, raises: dict[str, list[Exception]]) -> None:
        self.configuration: dict[str, Any] = {}
        self.calls: list[str] = []
        self.generation = 7
        self.moves_on = False  # a rebalance comes while it commits
        self.answered: Sequence[Place] = [Place(41)]
        self.tells: dict[str, Callable[[Any, Any], None]] = {}
        self._raises = raises

    def __call__(self, configuration: dict[str, Any]) -> "Library":
        self.configuration |= configuration
        return self

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self._raises.get(name):
            raise self._raises[name].pop(0)

    def subscribe(self, topics: Sequence[str], **tells: Callable[[Any, Any], None]) -> None:
        self.tells = tells

    def consumer_group_metadata(self) -> bytes:
        return struct.pack("=7si", b"CGMDv2:", self.generation) + b"g\0m-1\0"

    def memberid(self) -> str:
        return "m-1"

    def commit(self, *, offsets: Any, asynchronous: bool) -> Sequence[Place]:
        assert not asynchronous
        self.generation += self.moves_on
        self._called("commit")
        return self.answered

    def committed(self, partitions: Any, timeout: float) -> Sequence[Place]:
        self._called("committed")
        return self.answered

    def seek(self, place: Any) -> None:
        self._called(f"seek {place.partition} {place.offset}")

    def init_transactions(self, timeout: float) -> None:
        self._called("init")

    def begin_transaction(self) -> None:
        self._called("begin")

    def send_offsets_to_transaction(self, offsets: Any, metadata: bytes, timeout: float) -> None:
        self._called(f"send offsets {[each.offset for each in offsets]} with {len(metadata)} bytes")

    def commit_transaction(self, timeout: float) -> None:
        self._called("commit_transaction")

    def abort_transaction(self, timeout: float) -> None:
        self._called("abort")

    def purge(self, *, blocking: bool) -> None:
        self._called("purge")

    def poll(self, timeout: float) -> None:
        return None

    def close(self) -> None:
        self._called("leave")


@pytest.fixture
def member_of(monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(**raises: list[Exception]) -> tuple[Library, ConfluentMember]:
        library = Library(raises)
        monkeypatch.setattr(confluent_kafka, "Consumer", library)
        monkeypatch.setattr(confluent_kafka, "Producer", library)
        return library, ConfluentMember(bootstrap="127.0.0.1:1", settings=SETTINGS, use=USE)

    return make


async def test_the_library_is_set_up_for_its_use(member_of: Make) -> None:
    library, member = member_of()

    await member.subscribe(["orders"])
    await member.begin_transaction()

    wanted = {
        "group.id": "g",
        "session.timeout.ms": 1200,
        "heartbeat.interval.ms": 200,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "transactional.id": "x",
        "transaction.timeout.ms": 10_000,
        "message.timeout.ms": 10_000,  # the library takes no longer one
        "enable.auto.commit": False,
    }
    assert {key: library.configuration[key] for key in wanted} == wanted
    assert isinstance(member, GroupClient)
    assert isinstance(member, TransactionalClient)


async def test_with_the_consumer_protocol_the_brokers_say_how_long_a_session_lasts(member_of: Make) -> None:
    library, _ = member_of()
    use = replace(USE, group_protocol="consumer", group_instance_id="g-1")

    await ConfluentMember(bootstrap="127.0.0.1:1", settings=SETTINGS, use=use).subscribe(["orders"])

    assert library.configuration["group.protocol"] == "consumer"
    assert library.configuration["group.instance.id"] == "g-1"
    assert not library.configuration.keys() & {"session.timeout.ms", "heartbeat.interval.ms"}


async def test_rebalances_carry_generation_and_member(member_of: Make) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])

    library.tells["on_assign"](library, [Place(OFFSET_INVALID)])
    library.tells["on_revoke"](library, [Place(OFFSET_INVALID)])
    library.generation = 8
    library.tells["on_assign"](library, [Place(OFFSET_INVALID)])
    library.tells["on_lost"](library, [Place(OFFSET_INVALID)])

    heard = member.rebalances()
    assert [(event.event, event.generation, event.member, list(event.offsets)) for event in heard] == [
        ("assigned", 7, "m-1", [PLACE]),
        ("revoked", 7, "m-1", [PLACE]),
        ("assigned", 8, "m-1", [PLACE]),
        ("lost", 8, "m-1", [PLACE]),
    ]
    assert member.rebalances() == []


@pytest.mark.parametrize(
    ("raised", "status"),
    [(None, "ok"), ("ILLEGAL_GENERATION", "fail"), ("UNKNOWN_MEMBER_ID", "fail"), ("_TIMED_OUT", "info")],
)
async def test_a_commit_is_refused_for_certain_or_nobody_knows(
    member_of: Make, raised: str | None, status: str
) -> None:
    _, member = member_of() if raised is None else member_of(commit=[error(raised)])

    committed = await member.commit({PLACE: 5})

    assert (committed.status, committed.generation) == (status, 7)


async def test_a_partition_that_was_refused_is_the_outcome_of_a_commit(member_of: Make) -> None:
    library, member = member_of()
    library.answered = [Place(5, KafkaError(KafkaError.REBALANCE_IN_PROGRESS))]

    committed = await member.commit({PLACE: 5})

    assert (committed.status, committed.error) == ("fail", "REBALANCE_IN_PROGRESS 27")


async def test_the_generation_of_a_commit_is_unknown_if_another_came_meanwhile(member_of: Make) -> None:
    library, member = member_of()
    library.moves_on = True

    assert (await member.commit({PLACE: 5})).generation is None


@pytest.mark.parametrize(("stored", "offset"), [(41, 41), (OFFSET_INVALID, None)])
async def test_whether_committed_offsets_are_stable_is_not_known(
    member_of: Make, stored: int, offset: int | None
) -> None:
    library, member = member_of()
    library.answered = [Place(stored)]

    fetched = await member.committed([PLACE])

    assert (dict(fetched.offsets), fetched.require_stable) == ({PLACE: offset}, None)


@pytest.mark.parametrize(
    ("raised", "status", "tried"), [(["_STATE"], "ok", 2), (["_STATE", "_FATAL"], "fail", 2), (["_FATAL"], "fail", 1)]
)
async def test_a_seek_waits_until_the_library_can(
    member_of: Make, raised: Sequence[str], status: str, tried: int
) -> None:
    library, member = member_of(**{"seek 0 3": [error(name) for name in raised]})

    assert (await member.seek({PLACE: 3})).status == status
    assert library.calls == ["seek 0 3"] * tried


async def test_offsets_in_a_transaction_carry_the_members_generation(member_of: Make) -> None:
    library, member = member_of()
    await member.begin_transaction()

    sent = await member.send_offsets({PLACE: 5})

    assert (sent.event, sent.status, sent.generation) == ("committed", "ok", 7)
    assert library.calls == ["init", "begin", "send offsets [5] with 17 bytes"]


@pytest.mark.parametrize(
    ("raises", "commit", "outcome"),
    [
        ({}, True, "committed"),
        ({}, False, "aborted"),
        ({"commit_transaction": "_TIMED_OUT"}, True, "unknown"),
        ({"commit_transaction": "_FENCED"}, True, "aborted"),
        ({"commit_transaction": "_FENCED", "abort": "_FENCED"}, True, "unknown"),
        ({"abort": "_FENCED"}, False, "aborted"),
    ],
)
async def test_how_a_transaction_ended(member_of: Make, raises: dict[str, str], commit: bool, outcome: str) -> None:
    _, member = member_of(**{call: [error(name)] for call, name in raises.items()})
    await member.begin_transaction()

    assert (await member.end_transaction(commit=commit)).outcome == outcome


async def test_a_client_that_got_no_producer_id_has_begun_nothing(member_of: Make) -> None:
    library, member = member_of(init=[error("_TIMED_OUT")])

    with pytest.raises(KafkaException):
        await member.begin_transaction()
    assert library.calls == ["init"]


@pytest.mark.parametrize(("end", "leaves"), [("close", True), ("crash", False)])
async def test_a_member_that_crashes_does_not_leave_its_group(member_of: Make, end: str, leaves: bool) -> None:
    library, member = member_of()
    await member.subscribe(["orders"])
    await member.begin_transaction()

    await getattr(member, end)()

    assert ("leave" in library.calls) == leaves
    assert "purge" in library.calls
