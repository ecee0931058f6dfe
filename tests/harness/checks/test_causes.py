"""How few copies an acknowledgement rested on, what that says of prevention, and why a follower left the ISR."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.checks.causes import in_sync_at_acknowledgement, what_held
from harness.checks.detection import Flagged
from harness.checks.elections import NOWHERE, Election
from harness.checks.fates import Copy, Fate
from harness.checks.prevention import prevention
from harness.checks.rulings import Ruling
from harness.checks.story import Faults, PartitionStory
from harness.checks.unclean_rules import Permission
from harness.history.finding_facts import Hold

REPLICAS = (1, 2, 3)


def _state(t: int, leader: int, epoch: int, isr: Sequence[int]) -> dict[str, Any]:
    return {"t": t, "leader": leader, "leader_epoch": epoch, "isr": list(isr), "elr": None}


def _story(*, faults: Sequence[dict[str, Any]] = ()) -> PartitionStory:
    """Broker 1 leads, its followers leave the ISR at 40, and broker 2 takes over at 60."""
    states = (_state(0, 1, 0, REPLICAS), _state(40, 1, 0, [1]), _state(60, 2, 1, [2]))
    return PartitionStory(
        run=0, tp=0, topic="t", part=0, replicas=REPLICAS, read_to_end=True, end_offset=9, states=states,
        faults=Faults(faults),
    )  # fmt: skip


def _row(acknowledged_at: int) -> Flagged:
    return Flagged(
        run=0, tp=0, value=7, off=7, status=0, acks=-1, acknowledged=7, process=1, op=1, t0=1, t1=acknowledged_at,
        seen=0, seen_any=0, final_offsets=0, read_epoch=None, read_first=None, read_last=None,
        step=None, flags=frozenset({"lost"}),
        held=frozenset({1}), held_at_end=frozenset(), copies=frozenset({Copy(1, 0, 0)}), others=frozenset(),
        below_acks_all=False,
    )  # fmt: skip


def _ruling() -> Ruling:
    election = Election(
        t=60, uncertainty_ns=0, epoch=1, leader=2, leader_before=1, unclean=True, isr=(2,), isr_before=(1,),
        elr_before=(), start=5, start_from=NOWHERE, permission=Permission(allowed=True, source="operator"),
    )  # fmt: skip
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
def test_the_isr_at_acknowledgement_is_told_only_of_the_epoch_that_acknowledged(
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
    fate = Fate(offset=7, epoch=0, acks=acks, t_acknowledged=50, committed=False, in_a_log=True)
    ways = prevention(_ruling(), fate, in_sync=in_sync, replicas=len(REPLICAS))
    assert [(way.key, way.value) for way in ways] == [
        ("unclean.leader.election.enable", "false"),
        *([("min.insync.replicas", setting)] if setting else []),
    ]


def test_waiting_for_a_replica_whose_disk_was_lost_would_have_kept_nothing() -> None:
    ruling = replace(_ruling(), destroyed=True)
    fate = Fate(offset=7, epoch=0, acks=-1, t_acknowledged=50, committed=False, in_a_log=True)

    ways = prevention(ruling, fate, in_sync=(1,), replicas=len(REPLICAS))

    assert [(way.code, way.value) for way in ways] == [("another-disk", None), ("more-in-sync", "2")]


@pytest.mark.parametrize(
    ("kind", "nodes", "links", "told"),
    [
        ("cut", [1, 2, 3], "n2>n1 n3>n1", ("cut", 3.0)),
        ("cut", [1, 2, 3], "n2>n1", None),  # broker 3 could fetch
        ("cut", [1, 2, 3], "n1>n2 n1>n3", None),  # fetches go the other way
        ("pause", [2, 3], "", ("paused", 3.0)),
        ("kill", [2], "", None),  # broker 3 lived
    ],
)
def test_a_shrunk_isr_names_the_fault_that_kept_every_one_who_left(
    kind: str, nodes: list[int], links: str, told: tuple[Hold, float] | None
) -> None:
    second = 10**9
    fault = {"fault": 0, "kind": kind, "nodes": nodes, "links": links, "t_begin": second, "t_end": 9 * second}
    row = _state(4 * second, 1, 0, [1])
    assert what_held(_story(faults=[fault]), row, {2, 3}) == told
