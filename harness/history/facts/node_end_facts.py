"""Nodes that ended though no fault had ended them, from the rows of `node_ends`: from when to when each was down by
itself, and how it ended. Runs sealed before that table have none, which says nothing."""

import signal
from collections.abc import Iterable

from harness.history.schema.cluster_rows import NodeEndRow
from harness.history.schema.column_types import END_OF_TIME_NS

_BY_SIGNAL = 128  # a shell, a container and a JVM that was told to stop report 128 + the signal


def earliest_of(end: NodeEndRow) -> int:
    """When it may have ended already."""
    return end["time_ns"] - (end["uncertainty_ns"] or 0)


def back_of(end: NodeEndRow) -> int:
    """END_OF_TIME_NS for a node that did not run again."""
    return END_OF_TIME_NS if end["back_ns"] is None else end["back_ns"]


def down_between(ends: Iterable[NodeEndRow], begin: int, end: int) -> list[NodeEndRow]:
    """Those whose node was, or may have been, down by itself at some moment of [begin, end]."""
    return [row for row in ends if earliest_of(row) <= end and back_of(row) >= begin]


def signal_of_status(status: int) -> int | None:
    """The signal that an exit status tells: 137 as a shell and Docker say it, 143 of a JVM after SIGTERM."""
    number = status - _BY_SIGNAL
    return number if number in set(signal.Signals) else None


def signal_of(end: NodeEndRow) -> int | None:
    """The signal that it ended for, said as such or told by its exit status."""
    if end["signal"] is not None or end["exit_status"] is None:
        return end["signal"]
    return signal_of_status(end["exit_status"])


def signal_name(number: int) -> str:
    known = {each.value: each.name for each in signal.Signals}
    return known.get(number, f"signal {number}")


def how_words(end: NodeEndRow) -> str:
    """By what it ended, for people: "by SIGKILL", "with exit status 1"."""
    number = signal_of(end)
    if number is not None:
        return f"by {signal_name(number)}"
    if end["exit_status"] is not None:
        return f"with exit status {end['exit_status']}"
    return "in a way that nobody saw"
