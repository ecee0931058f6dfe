"""Members of groups by either protocol, static ones, ones whose library errs; applications that record little; nodes
and disks that fail by themselves."""

from typing import Any

from harness.ports.load import WorkloadSpec
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

A, B, C = 11, 12, 13
AGAIN = ("group-redelivery observation",)


def _members(**more: Any) -> HistoryBuilder:
    return group_of(A, B, C, **more).state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)


def _done(history: HistoryBuilder) -> HistoryBuilder:
    history.finish()
    return history.finish_partition(1, [])


# ---- libraries that start at the wrong place ---------------------------------------------------------------------


def _starts(first: int, *, reset: str, committed_at: float = 4) -> HistoryBuilder:
    """A commits 3; B's fetch of the offset is answered STALE_MEMBER_EPOCH (113), and it begins at `first`."""
    history = _members(reset=reset, protocol="consumer", system="kafka:4.3.1")
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(3), at=3)
    history.group("committed", at=committed_at, process=A, generation=1, offset=3)
    history.group("revoked", at=8, process=A, generation=1)
    history.group("fetched", at=10, process=B, offset=None, status=1, error="StaleMemberEpochError")
    history.group("assigned", at=10.1, process=B, generation=3, offset=None)
    history.reads(B, range(first, 10), at=11)
    return _done(history)


@case(
    "platformatic/kafka 267: a member's fetch of its offset is refused with STALE_MEMBER_EPOCH, and its library starts "
    "at offset 7, though the group had committed 3",
    VIOLATION,
    {"head-skip violation": SOME},
    why="a member starts where its group committed; auto.offset.reset is for groups without an offset",
)
def starts_behind_a_refused_fetch() -> HistoryBuilder:
    return _starts(7, reset="latest")


@case(
    "the same, and it asks again and starts at 3",
    PASS,
    why="that is where the group was",
)
def asks_again_behind_a_refused_fetch() -> HistoryBuilder:
    return _starts(3, reset="latest")


@case(
    "the same, and it starts at 0 again",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=AGAIN,
    why="what the group has committed does not come again",
)
def starts_over_behind_a_refused_fetch() -> HistoryBuilder:
    return _starts(0, reset="earliest")


# ---- static members and KIP-848 ----------------------------------------------------------------------------------


@case(
    "a static member is killed and is back within its session time-out, in the same generation; it reads what "
    "it had not committed once more",
    PASS,
    also=AGAIN,
    why="KIP-345: no rebalance, and at least once",
)
def static_member_comes_back() -> HistoryBuilder:
    history = _members(system="kafka:2.8.2")
    for row in history.rows["processes"][:2]:
        row["group_instance_id"] = "shop-1"
    history.group("assigned", at=2.5, process=A, generation=4, offset=0)
    history.reads(A, range(6), at=3)
    history.group("committed", at=4, process=A, generation=4, offset=4)
    history.crash(A, at=6)
    history.group("assigned", at=8, process=B, generation=4, offset=4)
    history.reads(B, range(4, 10), at=9)
    history.group("committed", at=10, process=B, generation=4, offset=10)
    return _done(history)


@case(
    "the same, but the old one was only paused, and its commit is accepted after the new one had taken over",
    VIOLATION,
    {"zombie-commit violation": SOME},
    also=AGAIN,
    why="KIP-345: the one before is fenced (FENCED_INSTANCE_ID)",
)
def static_member_comes_back_beside_itself() -> HistoryBuilder:
    history = _members(system="kafka:3.9.1")
    for row in history.rows["processes"][:2]:
        row["group_instance_id"] = "shop-1"
    history.group("assigned", at=2.5, process=A, generation=4, offset=0)
    history.reads(A, range(6), at=3)
    history.group("committed", at=4, process=A, generation=4, offset=4)
    history.group("assigned", at=8, process=B, generation=4, offset=4)
    history.reads(B, range(4, 10), at=9)
    history.group("committed", at=10, process=B, generation=4, offset=10)
    history.group("committed", at=14, process=A, generation=4, offset=6)
    return _done(history)


@case(
    "Kafka 4.0, KIP-848: of two partitions a member keeps one and gives up the other; it commits that one while it is "
    "revoked, with its own epoch, and the next member goes on from there",
    PASS,
    why="members are reconciled one by one, each with an epoch of its own",
)
def given_up_in_its_own_epoch() -> HistoryBuilder:
    history = _members(protocol="consumer", system="kafka:4.0.0")
    for number in (0, 1):
        history.group("assigned", at=2.5, process=A, generation=5, offset=0, partition_id=number)
    history.reads(A, range(6), at=3)
    history.group("committed", at=9.9, process=A, generation=5, offset=6)
    history.group("revoked", at=10, process=A, generation=5)
    history.group("assigned", at=11, process=B, generation=6, offset=6)
    history.reads(B, range(6, 10), at=12)
    history.group("committed", at=13, process=B, generation=6, offset=10)
    history.group("committed", at=14, process=A, generation=6, offset=0, partition_id=1)
    return _done(history)


@case(
    "KIP-848: two members are told one partition in epoch 7, and neither has given it up; both read on",
    VIOLATION,
    {"two-owners violation": SOME},
    also=AGAIN,
    why="a partition has one owner in an epoch of its assignment",
)
def one_partition_for_two_in_an_epoch() -> HistoryBuilder:
    history = _members(protocol="consumer", system="kafka:4.3.1")
    history.group("assigned", at=2.5, process=A, generation=7, offset=0)
    history.group("assigned", at=2.6, process=B, generation=7, offset=0)
    history.reads(A, range(10), at=3)
    history.reads(B, range(10), at=3.1)
    return _done(history)


@case(
    "three members crash and are replaced in turn, each in the next generation; everything is read at least once",
    PASS,
    also=AGAIN,
    why="at least once is what was promised",
)
def three_crashes_in_turn() -> HistoryBuilder:
    history = _members(system="kafka:1.1.1")
    position = 0
    for number, process in enumerate((A, B, C)):
        at = 10.0 * (number + 1)
        history.group("assigned", at=at, process=process, generation=number + 1, offset=position)
        history.reads(process, range(position, 10), at=at + 1)
        position += 3
        history.group("committed", at=at + 2, process=process, generation=number + 1, offset=position)
        history.crash(process, at=at + 3)
    return _done(history)


@case(
    "KAFKA-5600 once more: a coordinator forgets generations 13 and 14, and tells 12 to another member, long after the "
    "first one of that number has crashed; a committed offset went with them",
    VIOLATION,
    {"generation-regression violation": SOME, "lost-group-offset violation": SOME},
    also=("group-redelivery observation", "group-redelivery violation"),
    why="an ownership ends with its process, so nobody shares the partition; the coordinator forgot: that is the fault",
)
def forgotten_generations_come_again() -> HistoryBuilder:
    history = _members(system="kafka:0.11.0.0").group("assigned", at=2.5, process=A, generation=12, offset=0)
    history.reads(A, range(4), at=3)
    history.group("committed", at=4, process=A, generation=12, offset=2)
    history.crash(A, at=6)
    history.group("assigned", at=12, process=B, generation=13, offset=2)
    history.reads(B, range(2, 8), at=13)
    history.group("committed", at=14, process=B, generation=13, offset=8)
    history.crash(B, at=16)
    history.fault("kill", [1], at=30, until=33)
    history.state(2, 1, (2, 3), at=32, start=10)
    history.started(1, at=33)
    history.group("fetched", at=50, process=C, offset=2)
    history.group("assigned", at=50.1, process=C, generation=12, offset=2)
    history.reads(C, range(2, 10), at=51)
    return _done(history)


# ---- what an application records ---------------------------------------------------------------------------------


def _application(count: int = 3, *, isolation: str | None = None, **more: Any) -> HistoryBuilder:
    history = led(count, workload=WorkloadSpec(), system="kafka:4.3.1", **more).client(1, role="producer", acks=-1)
    return history.client(9, role="consumer", isolation=isolation)


@case(
    "an application's reader, of which nobody knows what it asked for, passes over an aborted record",
    PASS,
    why="it is not accused of what it passes over of transactions that did not commit",
)
def little_known_reader_and_an_aborted_record() -> HistoryBuilder:
    history = _application().send(90, 3, at=3, process=1, transaction=1, status=1)
    history.transaction(1, 1, at=2.9, until=3.5, transactional_id="p")
    history.log.append((3, 0, 90))
    history.send(5, 5, at=5)
    history.log.append((5, 0, 5))
    return history.poll([(0, 0), (1, 1), (2, 2), (5, 5)], at=6).finish(snapshots=False)


@case(
    "the same reader is given the aborted record, and at the end it is there",
    PASS,
    also=("aborted-read permitted",),
    why="it may be a reader of everything",
)
def little_known_reader_is_given_an_aborted_record() -> HistoryBuilder:
    history = _application().send(90, 3, at=3, process=1, transaction=1, status=1)
    history.transaction(1, 1, at=2.9, until=3.5, transactional_id="p")
    history.log.append((3, 0, 90))
    return history.poll([(0, 0), (1, 1), (2, 2), (3, 90)], at=6).finish(snapshots=False)


@case(
    "an application reads from the beginning again, with a new assignment for its seek",
    PASS,
    why="control.md: A is written at an assignment and after a seek",
)
def application_seeks_back() -> HistoryBuilder:
    history = _application().poll([(0, 0), (1, 1), (2, 2)], at=6)
    return history.poll([(0, 0), (1, 1), (2, 2)], at=7, assignment=1).finish()


@case(
    "two processes of an application send the same value, each once; it is there twice",
    PASS,
    why="control.md: lawfully there as often as it was sent without being refused for certain",
)
def two_processes_send_one_value() -> HistoryBuilder:
    history = _application().client(2, role="producer", acks=-1)
    history.ack(3, at=4)
    history.send(3, 4, at=4.05, process=2)
    history.log.append((4, 0, 3))
    return history.finish()


@case(
    "the same, and it is there three times; both producers are idempotent",
    VIOLATION,
    {"duplicate violation": {3}},
    why="one copy too many, and idempotent producers make none",
)
def two_processes_send_one_value_and_it_is_there_three_times() -> HistoryBuilder:
    history = _application()
    for row in history.rows["processes"]:
        row["idempotent"] = True
    history.client(2, role="producer", acks=-1, idempotent=True)
    history.ack(3, at=4)
    history.send(3, 4, at=4.05, process=2)
    history.log += [(4, 0, 3), (5, 0, 3)]
    return history.finish()


@case(
    "an application sends a value to two topics: each of them has it",
    PASS,
    why="values are told apart within a topic and partition",
)
def one_value_in_two_topics() -> HistoryBuilder:
    history = _application(topics={"t": {}, "audit": {}}).place(1, "audit", 0)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    for value in range(3):
        history.send(value, value, at=3 + value / 10, partition_id=1)
    history.finish()
    return history.finish_partition(1, [(value, 0, value) for value in range(3)])


@case(
    "an application re-sends after a refusal and after a time-out, and the record is there once, where the third said",
    PASS,
    why="f20: one of its sends accounts for it",
)
def refused_timed_out_and_acknowledged() -> HistoryBuilder:
    history = _application().send(3, None, at=4, status=1, error="NotEnoughReplicasError")
    history.send(3, None, at=5, status=2, error="KafkaTimeoutError")
    return history.ack(3, at=7).finish()


@case(
    "an application's send is answered without an offset (-1 is no place), and the record is there",
    PASS,
    why="a library may not know the place of what it sent again",
)
def application_without_an_offset() -> HistoryBuilder:
    history = _application().send(3, None, at=4)
    history.log.append((3, 0, 3))
    return history.finish()


@case(
    "an application's send is answered without an offset, and the record is nowhere",
    VIOLATION,
    {"lost-write violation": {3}},
    why="it was acknowledged by all; the final read decides by its value",
)
def application_without_an_offset_and_lost() -> HistoryBuilder:
    return _application().send(3, None, at=4).finish()


# ---- nodes and disks that fail -----------------------------------------------------------------------------------


def _ended(history: HistoryBuilder, node: int, *, at: float, **columns: Any) -> None:
    history._add(
        "node_ends", **{"node": node, "time_ns": int(at * SECOND), "uncertainty_ns": 0, "fresh": True, **columns}
    )


@case(
    "one of a broker's log directories fails: its replica leaves the ISR, the broker goes on, nothing is lost",
    PASS,
    why="KIP-112: with several directories a broker outlives one of them",
)
def one_directory_fails() -> HistoryBuilder:
    history = led(system="kafka:3.9.1").broker_event(2, "directory_lost", at=20)
    history.state(1, 0, (1, 3), at=21)
    return history.ack(10, at=25).finish(only=(1, 3))


@case(
    "the leader's log directory fails; the next leader has what was acknowledged by all, and not the two with acks=1",
    PASS,
    {"lost-write permitted": {10, 11}},
    why="leadership moved, and acks=1 waits for nobody",
)
def the_leaders_directory_fails() -> HistoryBuilder:
    history = led(system="kafka:3.9.1").ack(10, at=19.8, acks=1)
    history.ack(11, at=19.9, acks=1)
    history.broker_event(1, "directory_lost", at=20)
    history.state(2, 1, (2, 3), at=21, start=10)
    history.log = history.log[:10]
    return history.finish(only=(2, 3))


@case(
    "the same, and two that were acknowledged by all are gone as well",
    VIOLATION,
    {"lost-write violation": {8, 9}},
    why="one directory of three was lost, and two replicas in sync had the records",
)
def the_leaders_directory_fails_and_records_by_all_are_gone() -> HistoryBuilder:
    history = led(system="kafka:3.9.1").broker_event(1, "directory_lost", at=20)
    history.state(2, 1, (2, 3), at=21, start=8)
    history.log = history.log[:8]
    return history.finish(only=(2, 3))


@case(
    "two brokers get a signal that nobody of the harness sent, and come back with all they had",
    OPEN,
    {"node-ended observation": SOME},
    why="somebody did something that no scenario states",
)
def two_are_killed_from_outside() -> HistoryBuilder:
    history = led(system="kafka:4.3.1")
    for node in (2, 3):
        _ended(history, node, at=20, signal=9, reason="none", back_ns=30 * SECOND)
    history.state(1, 0, (1,), at=22)
    return history.state(1, 0, (1, 2, 3), at=35).finish()


@case(
    "the clients were cut off from broker 2, and broker 3 ends itself with an exception",
    VIOLATION,
    {"node-ended violation": SOME},
    why="no fault had touched broker 3, its disk or its links",
)
def ended_while_others_were_cut_off_from_clients() -> HistoryBuilder:
    history = led(system="kafka:4.3.1").fault("cut", [2], at=10, until=15)
    history.rows["faults"][-1]["links"] = [{"source": None, "client": 1, "target": 2}]
    _ended(history, 3, at=20, exit_status=1, reason="exception")
    return history.state(1, 0, (1, 2), at=24).finish(only=(1, 2))


@case(
    "a broker of somebody else's cluster refuses connections for a while, and nothing is lost",
    OPEN,
    {"node-ended observation": SOME},
    why="how it ended, and why, nobody knows",
)
def one_of_somebody_elses_goes_away() -> HistoryBuilder:
    history = led(system="attached")
    _ended(history, 3, at=20, fresh=None, back_ns=30 * SECOND)
    return history.finish()
