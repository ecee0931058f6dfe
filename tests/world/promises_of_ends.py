"""What the promise makes of a node's end that no fault brought about: read from the chronicle.

A signal that the harness did not send, what a machine did not give, and an own end of a node that something had touched
are open; an own end that a fault explains is permitted; one that nothing had touched is a failure of its own.
"""

from collections.abc import Iterator

from tests.world.broken import Broken
from tests.world.chronicle import Fault, Node, NodeEnd
from tests.world.histories import History
from tests.world.truth import Verdict
from tests.world.world import CONTROLLER

ASKED_BEFORE_NS = 5_000_000  # a fault, before it is seen


def broken_by_ends(history: History) -> Iterator[Broken]:
    for end in history.chronicle.node_ends:
        verdict, why = _verdict(history, end)
        yield Broken(
            kind="node end",
            checks=frozenset({"node-ended"}),
            verdict=verdict,
            story=f"broker {end.node}, {history.setup.ends}: {why}",
        )


def _verdict(history: History, end: NodeEnd) -> tuple[Verdict, str]:
    if end.signal is not None or (end.exit_status or 0) >= 128:
        return Verdict.OPEN, "nobody knows who sent the signal"
    before = [each for each in history.chronicle.faults if each.begin_ns - ASKED_BEFORE_NS <= end.time_ns]
    deciding = {CONTROLLER, history.setup.brokers[-1]}
    touching = [each for each in before if _touches(each, {end.node, *deciding})]
    explained = {
        "disk-full": [each for each in before if each.kind == "full" and end.node in each.nodes],
        "log-directory-failed": [each for each in before if each.kind in ("full", "damage") and end.node in each.nodes],
        "registration-failed": touching,
    }
    if explained.get(end.reason):
        return Verdict.PERMITTED, explained[end.reason][0].label
    if end.reason in ("disk-full", "out-of-resources", "registration-failed", "log-directory-failed"):
        return Verdict.OPEN, "what the machine did not give"
    return (Verdict.OPEN, touching[0].label) if touching else (Verdict.VIOLATION, "nothing had touched it")


def _touches(fault: Fault, nodes: set[Node]) -> bool:
    ends = {node for link in fault.links for key, node in link.items() if key != "client"}
    return bool(nodes & {*fault.nodes, *ends})
