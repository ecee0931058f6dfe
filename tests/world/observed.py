"""What the observer hears from brokers: late, by rounds, each broker's own view, and nothing of those that are down."""

from collections.abc import Sequence
from typing import Any

from tests.world.chronicle import Chronicle, Learned, Node, Partition, State
from tests.world.histories import History
from tests.world.world import BEGIN, MS

ROUND_NS = 120 * MS
UNCERTAINTY_NS = 500 * MS
GAP_NS = 1_000 * MS
NO_EPOCH = -1  # what an answer without that field is read as
Row = dict[str, Any]


def polled_states(history: History, *, with_epochs: bool) -> list[Row]:
    chronicle = history.chronicle
    silences = _silences(chronicle)
    heard: dict[tuple[Node, Partition], tuple[int, State]] = {}  # what a broker will say at its next round
    fields: dict[tuple[Node, Partition], State] = {}
    rows: list[Row] = []

    def say(key: tuple[Node, Partition], at: int, state: State) -> None:
        node, partition = key
        before = fields.get(key)
        if before == state or _silent(silences, node, at):
            return
        fields[key] = state
        changed = with_epochs and before is not None and before.epoch != state.epoch and state.leader >= 0
        rows.append(
            {
                "topic": partition[0],
                "partition": partition[1],
                "time_ns": at,
                "uncertainty_ns": UNCERTAINTY_NS,
                "exact": False,
                "observer": node,
                "leader": state.leader,
                "leader_epoch": state.epoch if with_epochs else NO_EPOCH,
                "isr": list(state.isr),
                "isr_before": None if before is None else list(before.isr),
                "leader_before": None if before is None else before.leader,
                "unclean": changed and before is not None and state.leader not in before.isr,
                "replicas": list(history.replicas[partition]),
            }
        )

    for each in chronicle.happenings:
        if not isinstance(each, Learned) or each.partition not in history.replicas:
            continue
        key = (each.node, each.partition)
        at = _round_after(each.time_ns, each.node)
        waiting = heard.pop(key, None)
        if waiting is not None and waiting[0] < each.time_ns:
            say(key, *waiting)
        heard[key] = (at, each.state)
    for key, waiting in heard.items():
        say(key, *waiting)
    return sorted(rows, key=lambda row: row["time_ns"])


def observer_gaps(chronicle: Chronicle) -> list[list[int]]:
    """[from, to, broker]: between two rounds in which it was heard."""
    return [
        [_round_after(begin, node) - ROUND_NS, _round_after(end, node), node]
        for node, begin, end in _silences(chronicle)
        if end - begin > GAP_NS and end < 2**62
    ]


def _round_after(time_ns: int, node: Node) -> int:
    phase = node * 7 * MS
    return time_ns + ROUND_NS - (time_ns - BEGIN - phase) % ROUND_NS


def _silences(chronicle: Chronicle) -> Sequence[tuple[Node, int, int]]:
    of_faults = [
        (node, fault.begin_ns, fault.end_ns if fault.end_ns is not None else 2**62)
        for fault in chronicle.faults
        if fault.kind in ("kill", "pause")
        for node in fault.nodes
    ]
    ends = [(end.node, end.time_ns, 2**62 if end.back_ns is None else end.back_ns) for end in chronicle.node_ends]
    return of_faults + ends


def _silent(silences: Sequence[tuple[Node, int, int]], node: Node, time_ns: int) -> bool:
    return any(victim == node and begin <= time_ns < end for victim, begin, end in silences)
