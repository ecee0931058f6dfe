"""Knows of every node whether it is meant to run, and keeps each end that the harness did not bring about.

Worlds say when a node was seen to run, when they are about to end it, and when its process has ended, from whatever
thread sees it. An end counts as somebody else's only if the node was meant to run at that moment.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.cluster.last_words import LastWords
from harness.history.facts.node_end_facts import signal_of_status
from harness.ports.cluster import NodeEnd, NodeId


class NodeLives:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._meant_to_run: set[NodeId] = set()
        self._to_end: dict[NodeId, int | None] = {}
        self._ends: list[NodeEnd] = []

    def runs(self, node: NodeId, t_ns: int) -> None:
        """It was seen to run, and is meant to from now on."""
        with self._lock:
            self._meant_to_run.add(node)
            self._to_end.pop(node, None)
            for place, end in enumerate(self._ends):
                if end.node == node and end.back_ns is None:
                    self._ends[place] = replace(end, back_ns=max(t_ns, end.t_ns))

    def to_end(self, node: NodeId, *, by: int | None = None) -> None:
        """The harness is about to end it. by: the signal that it is sure to end for; if it ends for another reason, it
        had ended before."""
        with self._lock:
            if node in self._meant_to_run:
                self._meant_to_run.discard(node)
                self._to_end[node] = by

    def has_ended(self, node: NodeId, code: int | None, t_ns: int, words: Callable[[], LastWords]) -> None:
        """Its process has ended with that code (None: not known). words: asked only where the end is its own. Told
        again of the same end, does nothing."""
        status, number = (None, None) if code is None else status_and_signal(code)
        with self._lock:
            meant, by = node in self._meant_to_run, self._to_end.pop(node, None)
            self._meant_to_run.discard(node)
        if meant or (by is not None and by != number):
            last = words()
            end = NodeEnd(node=node, t_ns=t_ns, exit_status=status, signal=number, reason=last.reason, line=last.line)
            with self._lock:
                self._ends.append(replace(end, fresh=True))

    def is_down_by_itself(self, node: NodeId) -> bool:
        """Whether its last end was not the harness's, and it has not run again."""
        return any(end.node == node and end.back_ns is None for end in self.ends())

    def ends(self) -> Sequence[NodeEnd]:
        with self._lock:
            return tuple(self._ends)


def status_and_signal(code: int) -> tuple[int | None, int | None]:
    """Of what a process ended with: -9 as Python says it, 137 as a shell and Docker do, 143 of a JVM after SIGTERM."""
    if code < 0:
        return None, -code
    return code, signal_of_status(code)
