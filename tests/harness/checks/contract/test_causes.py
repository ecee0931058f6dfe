"""How few copies an acknowledgement rested on, what that says of prevention, and why a follower left the ISR."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.checks.contract.rulings import Ruling
from harness.checks.explaining.causes import cause_chain, in_sync_at_acknowledgement, prevention, what_held
from harness.checks.model.elections import NOWHERE, Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import DiskLoss, Faults, PartitionHistory
from harness.checks.model.unclean_rules import Permission
from harness.checks.spark.detection import Copy, Flagged
from harness.history.facts.disk_facts import DiskEvent
from harness.history.facts.finding_facts import Hold
from harness.history.schema.cluster_rows import FaultRow, PartitionStateRow
from tests.links import struck
from tests.rows import row_of

REPLICAS = (1, 2, 3)


def _state(time_ns: int, leader: int, epoch: int, isr: Sequence[int]) -> PartitionStateRow:
    return row_of(PartitionStateRow, time_ns=time_ns, leader=leader, leader_epoch=epoch, isr=list(isr))


def _story(*, faults: Sequence[FaultRow] = ()) -> PartitionHistory:
    """Broker 1 leads, its followers leave the ISR at 40, and broker 2 takes over at 60."""
    states = (_state(0, 1, 0, REPLICAS), _state(40, 1, 0, [1]), _state(60, 2, 1, [2]))
    return PartitionHistory(
        run=0,
        partition_id=0,
        topic="t",
        partition=0,
        replicas=REPLICAS,
        read_to_end=True,
        end_offset=9,
        states=states,
        faults=Faults(faults),
    )


def _row(acknowledged_at: int) -> Flagged:
    return Flagged(
        run=0,
        partition_id=0,
        value=7,
        offset=7,
        status=0,
        acks=-1,
        acknowledged=7,
        process=1,
        operation=1,
        invoked_ns=1,
        completed_ns=acknowledged_at,
        seen=0,
        seen_any=0,
        final_offsets=0,
        read_epoch=None,
        read_first=None,
        read_last=None,
        step=None,
        flags=frozenset({"lost"}),
        held=frozenset({1}),
        held_at_end=frozenset(),
        copies=frozenset({Copy(1, 0, 0)}),
        others=frozenset(),
        below_acks_all=False,
    )


def _ruling() -> Ruling:
    election = Election(
        time_ns=60,
        uncertainty_ns=0,
        epoch=1,
        leader=2,
        leader_before=1,
        unclean=True,
        isr=(2,),
        isr_before=(1,),
        elr_before=(),
        start=5,
        start_from=NOWHERE,
        permission=Permission(allowed=True, source="operator"),
    )
    return Ruling(
        classification="permitted", cause="unclean-election", election=election, epoch=0, by_time=False, rules=()
    )


@pytest.mark.parametrize(
    ("acknowledged_at", "isr"),
    [
        ([50], (1,)),
        ([30, 50], (1, 2, 3)),  # the largest: only what held for every record is said
        ([50, 70], ()),  # one by a deposed leader, whose own ISR nobody recorded
    ],
)
def test_the_isr_at_acknowledgement_is_reported_only_of_the_epoch_that_acknowledged(
    acknowledged_at: list[int], isr: tuple[int, ...]
) -> None:
    assert in_sync_at_acknowledgement(_story(), _ruling(), [_row(t) for t in acknowledged_at]) == isr


@pytest.mark.parametrize(
    ("acks", "in_sync", "setting"),
    [
        (-1, (1,), "2"),
        (-1, (1, 2), "3"),
        (-1, REPLICAS, ""),  # no replica was left out
        (-1, (), ""),  # not known
        (1, (1,), ""),  # acks=1 does not ask for it
    ],
)
def test_more_in_sync_replicas_would_have_refused_what_fewer_confirmed(
    acks: int, in_sync: tuple[int, ...], setting: str
) -> None:
    fate = LostRecord(offset=7, epoch=0, acks=acks, t_acknowledged=50, committed=False, in_a_log=True)
    ways = prevention(_ruling(), fate, in_sync=in_sync, replicas=len(REPLICAS))
    assert [(way.key, way.value) for way in ways] == [
        ("unclean.leader.election.enable", "false"),
        *([("min.insync.replicas", setting)] if setting else []),
    ]


def test_waiting_for_a_replica_whose_disk_was_lost_would_have_kept_nothing() -> None:
    ruling = replace(_ruling(), destroyed=True)
    fate = LostRecord(offset=7, epoch=0, acks=-1, t_acknowledged=50, committed=False, in_a_log=True)

    ways = prevention(ruling, fate, in_sync=(1,), replicas=len(REPLICAS))

    assert [(way.code, way.value) for way in ways] == [("another-disk", None), ("more-in-sync", "2")]


@pytest.mark.parametrize(
    ("kind", "nodes", "links", "expected"),
    [
        ("cut", [1, 2, 3], "n2>n1 n3>n1", ("cut", 3.0)),
        ("cut", [1, 2, 3], "n2>n1", None),  # broker 3 could fetch
        ("cut", [1, 2, 3], "n1>n2 n1>n3", None),  # fetches go the other way
        ("pause", [2, 3], "", ("paused", 3.0)),
        ("kill", [2], "", None),  # broker 3 lived
    ],
)
def test_a_shrunk_isr_names_the_fault_that_kept_every_one_who_left(
    kind: str, nodes: list[int], links: str, expected: tuple[Hold, float] | None
) -> None:
    second = 10**9
    fault = row_of(FaultRow, fault=0, kind=kind, nodes=nodes, links=struck(links), begin_ns=second, end_ns=9 * second)
    row = _state(4 * second, 1, 0, [1])
    assert what_held(_story(faults=[fault]), row, {2, 3}) == expected


def test_a_disk_lost_to_a_fault_that_nobody_saw_begin_is_in_the_chain_by_itself() -> None:
    history = _story(faults=[row_of(FaultRow, fault=3, kind="wipe", nodes=[1], asked_ns=44)])
    loss = DiskLoss(event=DiskEvent(node=1, time_ns=45, extent="disk", fault=3), evidence="the folder is empty")
    ruling = replace(_ruling(), disk_losses=(loss,))
    chain = cause_chain(history, ruling, [_row(42)], [])
    assert [(link.event, link.t_ns) for link in chain] == [
        ("isr-shrink", 40),
        ("acknowledged", 42),
        ("disk-loss", 45),
        ("election", 60),
    ]


def test_a_disk_lost_to_a_fault_that_was_seen_to_begin_is_in_the_chain_once() -> None:
    wiped = row_of(FaultRow, fault=3, kind="wipe", label_text="wipe broker 1", nodes=[1], begin_ns=44, proved=True)
    loss = DiskLoss(event=DiskEvent(node=1, time_ns=45, extent="disk", fault=3), evidence="the folder is empty")
    chain = cause_chain(_story(faults=[wiped]), replace(_ruling(), disk_losses=(loss,)), [_row(42)], [])
    assert [(link.event, link.t_ns) for link in chain] == [
        ("isr-shrink", 40),
        ("acknowledged", 42),
        ("fault", 44),
        ("election", 60),
    ]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [(("kill", "kill"), ("dead", 2.0)), (("kill", "pause"), None), (("pause", "pause"), ("paused", 2.0))],
)
def test_each_of_those_who_left_may_have_been_kept_by_a_fault_of_its_own(
    kinds: tuple[str, str], expected: tuple[Hold, float] | None
) -> None:
    second = 10**9
    faults = [
        row_of(FaultRow, fault=number, kind=kind, nodes=[2 + number], links=[], begin_ns=(1 + number) * second)
        for number, kind in enumerate(kinds)
    ]
    assert what_held(_story(faults=faults), _state(4 * second, 1, 0, [1]), {2, 3}) == expected
