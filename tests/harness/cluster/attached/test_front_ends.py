"""Front ends are addresses that answer with one node id: told apart by number, and from brokers by what they answer."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster.attached.administration import ADDRESS, Answered, Answers, NobodyAnswers, Unanswered
from harness.cluster.attached.by_commands import cluster_by_commands
from harness.cluster.attached.by_docker import cluster_by_docker
from harness.cluster.attached.front_ends import FrontEndsObservation, OtherTopology, numbered, refuse_unsaid, shared_id
from harness.errors import UsageError
from harness.host.clock import SystemClock
from harness.ports.cluster import BEHIND_FRONT_ENDS, NodeId
from harness.scenario.model import AttachedSpec, ClusterSpec


def told(*ids: Sequence[int] | None) -> Answers:
    """Of each address by its number the ids that it names; None: it does not answer."""
    return [
        Unanswered(address=("h", number), why=f"h:{number} refuses")
        if named is None
        else Answered(address=("h", number), brokers={NodeId(node): ("b", node) for node in named})
        for number, named in enumerate(ids, 9001)
    ]


@pytest.mark.parametrize(
    ("answers", "shared"),
    [
        (told([111], [111], [111]), 111),
        (told([111], None, [111]), 111),
        (told([7]), None),
        (told([7], None), None),
        (told([1], [2]), None),
        (told([1, 2], [1, 2]), None),
        (told([1], [1, 2]), None),
        (told(None, None), None),
    ],
)
def test_one_id_from_two_addresses_that_name_nobody_else_is_front_ends(answers: Answers, shared: int | None) -> None:
    assert shared_id(answers) == shared


def test_front_ends_that_nobody_said_are_refused_with_both_remedies() -> None:
    with pytest.raises(OtherTopology) as refused:
        refuse_unsaid(told([111], None, [111]))
    assert str(refused.value) == (
        "h:9001, h:9003 answer with one node id, 111: give front_ends = true in [attached] for front ends of one "
        "system, or one address of a single broker"
    )
    refuse_unsaid(told([1, 2], [1, 2]))


def test_they_are_numbered_in_the_order_in_which_they_were_given_and_silent_ones_too() -> None:
    addresses: dict[int, ADDRESS] = {1: ("h", 9001), 2: ("h", 9002), 3: ("h", 9003)}
    assert numbered(told([111], None, [111])) == (addresses, 111)


def test_brokers_that_are_said_to_be_front_ends_are_refused() -> None:
    with pytest.raises(
        OtherTopology, match=r"front_ends = true .*h:9001, h:9002 answer with node ids 1, 2: leave it out"
    ):
        numbered(told([1], [2]))
    with pytest.raises(OtherTopology):
        numbered(told([1, 2]))
    with pytest.raises(NobodyAnswers):
        numbered(told(None))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"cut": "c", "heal": "h"}, r"^\[attached\] cut: front ends keep no replicas"),
        ({"read_log": "r"}, r"^\[attached\] read_log: front ends keep no replicas"),
        ({"kill": "k", "start": "s", "wipe": "w"}, r"^\[attached\] wipe: front ends keep no replicas"),
        ({"nodes": {"2": "a:1"}}, r"^\[attached\] nodes: front end 2 is where --bootstrap says; leave it out$"),
    ],
)
def test_what_only_brokers_have_is_refused(more: dict[str, Any], message: str) -> None:
    spec = ClusterSpec(system="attached", bootstrap="a:1,b:1", attached=AttachedSpec(front_ends=True, **more))
    with pytest.raises(UsageError, match=message):
        cluster_by_commands(spec)


def test_a_compose_file_has_none() -> None:
    spec = ClusterSpec(system="compose:c.yaml", attached=AttachedSpec(front_ends=True))
    with pytest.raises(UsageError, match="front_ends: a compose file's services are told apart by name; leave it out"):
        cluster_by_docker(spec)


async def test_who_leads_is_nobody_of_them_and_any_of_them_administers() -> None:
    """The shared id may be one of the numbers, and front end 1 is not the leader for that."""
    partition = SimpleNamespace(
        partition_index=0, error_code=0, leader_id=1, leader_epoch=4, isr_nodes=[1], replica_nodes=[1]
    )
    answer = SimpleNamespace(controller_id=1, topics=[SimpleNamespace(name="t", partitions=[partition])])

    class Connection:
        async def ask(self, *_: Any, **__: Any) -> Any:
            return answer

    down = NodeId(2)
    addresses = {NodeId(number): ("h", number) for number in (1, 2, 3)}
    seen = FrontEndsObservation(
        addresses,
        is_running=lambda node: node != down,
        clock=SystemClock(),
        connect=lambda *_: Connection(),  # type: ignore[arg-type]
    )
    states = await seen.look(["t"])
    assert [(each.observer, each.leader, each.isr, each.replicas, each.leader_epoch) for each in states] == [
        (1, BEHIND_FRONT_ENDS, (0,), (0,), 4),
        (3, BEHIND_FRONT_ENDS, (0,), (0,), 4),
    ]
    assert seen.controller() == -1
    assert list(seen._administrators()) == [1, 3]
