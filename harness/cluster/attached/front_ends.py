"""Front ends: several addresses that answer with one node id, since what is behind them is one system to its clients.

They are numbered from 1 in the order in which they are given, and these numbers stand where a scenario names brokers.
The id that they share is told as node 0, which is no front end's number: it leads every partition, whoever is down.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.cluster.attached.administration import ADDRESS, Answered, Answers, brokers_in
from harness.cluster.books.observing import Observation
from harness.errors import HarnessError
from harness.ports.cluster import BEHIND_FRONT_ENDS, NodeId, PartitionState


class OtherTopology(HarnessError):
    """Whether the addresses are front ends of one node or brokers of their own is not what [attached] says."""


def shared_id(answers: Answers) -> NodeId | None:
    """The one id with which two addresses or more answer, each naming nobody else; None: they are no front ends.

    Brokers of a cluster name each other, so an answer with several ids is a cluster's.
    """
    told = [set(answer.brokers) for answer in answers if isinstance(answer, Answered)]
    return (
        next(iter(told[0])) if len(told) > 1 and len(told[0]) == 1 and all(each == told[0] for each in told) else None
    )


def refuse_unsaid(answers: Answers) -> None:
    """Where nobody said that they are front ends. Raises OtherTopology: all but one would silently be left out."""
    if (shared := shared_id(answers)) is not None:
        raise OtherTopology(
            f"{_listed(answers)} answer with one node id, {shared}: give front_ends = true in [attached] for "
            "front ends of one system, or one address of a single broker"
        )


def numbered(answers: Answers) -> tuple[Mapping[NodeId, ADDRESS], NodeId]:
    """(The front ends by number, the id that they share). One that does not answer has its number too.

    Raises NobodyAnswers; OtherTopology where an address answers with another id, or names several.
    """
    brokers_in(answers)
    ids = {node for answer in answers if isinstance(answer, Answered) for node in answer.brokers}
    if len(ids) > 1:
        raise OtherTopology(
            f"front_ends = true in [attached], and {_listed(answers)} answer with node ids "
            f"{', '.join(map(str, sorted(ids)))}: leave it out"
        )
    return {NodeId(number): answer.address for number, answer in enumerate(answers, 1)}, ids.pop()


def _listed(answers: Answers) -> str:
    answered = [each.address for each in answers if isinstance(each, Answered)]
    return ", ".join(f"{host}:{port}" for host, port in answered)


class FrontEndsObservation(Observation):
    """What each front end tells of the partitions; any of them takes requests that change something."""

    def controller(self) -> int:
        """None of them is one."""
        return -1

    def _administrators(self) -> Sequence[NodeId]:
        return [node for node in self._brokers if self._is_running(node)]

    def _states(self, node: NodeId, answer: Any) -> list[PartitionState]:
        return [
            replace(
                state,
                leader=BEHIND_FRONT_ENDS if state.leader >= 0 else state.leader,
                isr=(BEHIND_FRONT_ENDS,) if state.isr else (),
                replicas=(BEHIND_FRONT_ENDS,),
                elr=None,
            )
            for state in super()._states(node, answer)
        ]
