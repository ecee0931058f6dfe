"""Nodes that end while no fault has them down: by themselves, for a fault's sake, by somebody's signal.

What is drawn is what a process tells of itself: its status or signal, and what it logged last.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.world import faults
from tests.world.chronicle import Node, NodeEnd
from tests.world.world import CONTROLLER, S, World

_LINES = {
    "none": "",
    "exception": "ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)",
    "disk-full": "ERROR java.io.IOException: No space left on device",
    "log-directory-failed": "ERROR Shutdown broker because all log dirs in /data have failed",
    "out-of-resources": "ERROR java.lang.OutOfMemoryError: Java heap space",
    "registration-failed": "ERROR Unable to register the broker because the registration timed out",
}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """exit_status and signal as the process tells; before: what is done to the node a while before."""

    reason: str
    exit_status: int | None = None
    signal: int | None = None
    before: Callable[[World, Node], object] | None = None


def _fill(world: World, node: Node) -> None:
    proof = f"the disk of broker {node} has 0 bytes left"
    world.fault("full", f"disk of broker {node} full", (node,), proof)


def _cut_off(world: World, node: Node) -> None:
    fault = faults.cut(world, [(node, CONTROLLER)])
    world.after(4 * S, lambda: faults.heal(world, fault))


KINDS: Mapping[str, Kind] = {
    "of its own": Kind(reason="none", exit_status=1),
    "by an error": Kind(reason="exception", exit_status=1),
    "killed": Kind(reason="none", signal=9),
    "told by its status": Kind(reason="none", exit_status=137),
    "disk was filled": Kind(reason="disk-full", exit_status=1, before=_fill),
    "directory failed": Kind(reason="log-directory-failed", exit_status=1, before=_fill),
    "cut off": Kind(reason="registration-failed", exit_status=1, before=_cut_off),
    "out of memory": Kind(reason="out-of-resources", exit_status=3),
    "no room": Kind(reason="disk-full", exit_status=1),
}


WAYS = tuple(KINDS)


def one_ends(world: World) -> None:
    """One node, once: and it is back after a while, or never."""
    kind = KINDS[world.setup.ends]
    node = world.random.choice(list(world.brokers))
    at = world.random.uniform(2.0, 7.5)

    def now() -> None:
        broker = world.brokers[node]
        if not broker.running:
            return
        broker.stop()
        end = NodeEnd(
            node=node,
            time_ns=world.now,
            exit_status=kind.exit_status,
            signal=kind.signal,
            reason=kind.reason,
            line=_LINES[kind.reason],
        )
        world.chronicle.node_ends.append(end)
        if kind.reason in ("none", "exception") and kind.exit_status == 1:
            world.chronicle.flaws_acted.add("ends-of-its-own")
        if world.random.random() < 0.25:
            world.stays_down.add(node)
        else:
            world.after(world.some(400, 3_500), lambda: faults.start(world, node))

    if kind.before is not None:
        before = kind.before
        world.after(int((at - world.random.uniform(0.3, 1.2)) * S), lambda: _only(before(world, node)))
    world.after(int(at * S), now)


def _only(_: object) -> None:
    """What is done before needs no answer."""
