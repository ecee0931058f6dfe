"""Ends of nodes that no fault had down, in words."""

from collections.abc import Sequence

from harness.checks.contract.rulings import CauseCode
from harness.checks.model.partition_history import RunHistory
from harness.history.facts.node_end_facts import how_words
from harness.history.schema.cluster_rows import FaultRow, NodeEndRow
from harness.ports.cluster import COORDINATION

_SHOWN_MAX = 3


def node_words(history: RunHistory, node: int) -> str:
    return f"{history.node_noun if node < COORDINATION else 'node'} {node}"


def ended_words(history: RunHistory, end: NodeEndRow) -> str:
    """Who ended when and how, and what it logged last."""
    line = f" ({end['line_text']})" if end["line_text"] else ""
    who = node_words(history, end["node"]).capitalize()
    return f"{who} ended {how_words(end)} {history.seconds(end['time_ns'])}{line}"


def down_words(history: RunHistory, ends: Sequence[NodeEndRow]) -> str:
    """Who was down by itself, as the cause of something else."""
    named = ", ".join(
        f"{node_words(history, end['node'])} had ended {how_words(end)} {history.seconds(end['time_ns'])}"
        for end in ends[:_SHOWN_MAX]
    )
    more = len(ends) - _SHOWN_MAX
    return named + (f" and {more} more" if more > 0 else "")


def all_ended_words(history: RunHistory, explained_by: Sequence[FaultRow]) -> str:
    """Every node that ended while no fault had it down, in a sentence; "" for none.

    explained_by: the faults that explain the ends of some of them.
    """
    ends = history.ends
    if not ends:
        return ""
    named = [
        f"{node_words(history, end['node'])} {how_words(end)} {history.seconds(end['time_ns'])}"
        for end in ends[:_SHOWN_MAX]
    ]
    more = len(ends) - len(named)
    named += [f"{more} more"] if more else []
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    after = f", after {_labels(explained_by)}" if explained_by else ""
    return f"Ended while no fault had {'it' if len(ends) == 1 else 'them'} down: {listed}{after}."


def end_sentence(history: RunHistory, end: NodeEndRow, code: CauseCode, faults: Sequence[FaultRow]) -> str:
    back = "it did not run again" if end["back_ns"] is None else f"it ran again {history.seconds(end['back_ns'])}"
    doubt = (
        f"whether for what faults had done ({_labels(faults)}) is not known"
        if faults
        else "whether by an error of its own, or because of its machine or of somebody who told it to, is not known"
    )
    why = {
        "ended-by-a-signal": "kafka-chaos did not send that signal, and who did is not known",
        "ended-untouched": "nothing had been done to it, its disk, its links or the controllers before",
        "ended-by-a-fault": f"{_labels(faults)} explains it",
        "ended-by-an-error-of-ours": "an error of the reference cluster, which is a bug of kafka-chaos",
    }.get(code, doubt)
    return f"{ended_words(history, end)} while no fault had it down; {why}; {back}."


def _labels(faults: Sequence[FaultRow]) -> str:
    """In the plan's own words: what struck a controller is not said of a broker."""
    labels = list(dict.fromkeys(str(fault["label_text"] or fault["kind"]) for fault in faults))
    return ", ".join(labels[:_SHOWN_MAX]) + (
        f" and {len(labels) - _SHOWN_MAX} more" if len(labels) > _SHOWN_MAX else ""
    )
