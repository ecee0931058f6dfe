"""Who may still answer as a leader: one that was replaced goes on until it hears of it.

What a deposed leader answers shows nothing of the line that the cluster went on with. It has surely heard when it is in
sync under the new one, told so itself, or ended; without a fault that holds it up it hears within a second.
"""

from itertools import chain

from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory, holds_up
from harness.history.facts.fault_facts import begin_of, end_of

SECOND_NS = 10**9
# How long a client may hold a fetched record before it returns it: pollers poll in a tight loop.
READ_AHEAD_NS = SECOND_NS
# How soon a leader that no fault delays knows its successor.
LEARN_NS = SECOND_NS
# After one of these events a node has restarted, or is down: it does not continue to lead in an old epoch.
ENDING = frozenset(
    {"kill", "crash", "stop", "shut-down", "wipe", "disk-loss", "power-loss", "damage", "rolling-restart"}
)
# Who was elected uncleanly the controller tells, or the cluster's books.
_TOLD_OF_IT = frozenset({"unclean_election", "unclean_election_marked"})


def was_down(history: PartitionHistory, node: int, begin_ns: int, end_ns: int) -> bool:
    """Whether a fault of that node alone had it down all the while, in which it was not heard; of several each may be
    up again before the fault ends."""
    heard = any(
        row["node"] == node and begin_ns < row["time_ns"] <= end_ns and row["event"] not in _TOLD_OF_IT
        for row in chain(history.events, history.starts)
    )
    return not heard and any(
        row["kind"] in ENDING
        and row["kind"] != "rolling-restart"
        and tuple(row["nodes"] or ()) == (node,)
        and begin_of(row) <= begin_ns
        and end_of(row) > end_ns
        for row in history.faults_between(begin_ns, end_ns)
    )


def first_end(history: PartitionHistory, node: int, begin_ns: int, end_ns: int) -> int | None:
    """When a node was first known to have ended within that time, by a fault of it alone, by itself, or because it
    started then."""
    ended = [
        begin_of(row)
        for row in history.faults_between(begin_ns, end_ns)
        if row["kind"] in ENDING and row["kind"] != "rolling-restart" and tuple(row["nodes"] or ()) == (node,)
    ]
    ended += [end["time_ns"] + (end["uncertainty_ns"] or 0) for end in history.ends if end["node"] == node]
    ended += [row["time_ns"] for row in history.starts if row["node"] == node]
    return min((t for t in ended if begin_ns < t <= end_ns), default=None)


class Deposed:
    """The replaced leaders of one partition."""

    def __init__(self, history: PartitionHistory) -> None:
        self._history = history

    def may_answer_for_another(self, election: Election, time_ns: int) -> bool:
        """Whether a leader deposed before this election may still have answered readers at `time_ns`, unaware of it."""
        return bool(self.epochs_that_may_go_on(election, time_ns))

    def answers_alone(self, time_ns: int) -> bool:
        """Whether what clients were answered at `time_ns` came from the leader in force, and from no other."""
        term = self._history.term_at(time_ns)
        if term is None or term.latest_t + READ_AHEAD_NS > time_ns:
            return False
        return not self.may_answer_for_another(term, time_ns)

    def epochs_that_may_go_on(self, election: Election, time_ns: int) -> list[int]:
        """The epochs in which a deposed leader may still have believed at `time_ns` that it leads."""
        earlier = [each for each in self._history.elections if each.epoch < election.epoch]
        led = {each.leader: each.epoch for each in earlier if each.leader != election.leader}
        return sorted(epoch for node, epoch in led.items() if self._may_still_lead(node, epoch, time_ns))

    def _may_still_lead(self, node: int, led: int, time_ns: int) -> bool:
        deposed = next(each for each in self._history.elections if each.epoch > led)
        if self._has_learned(node, led, deposed, time_ns):
            return False
        touching = [
            row for row in self._history.faults_between(deposed.earliest_t, time_ns) if node in (row["nodes"] or ())
        ]
        ended = any(end["node"] == node for end in self._history.ends_between(deposed.earliest_t, time_ns))
        if ended or any(row["kind"] in ENDING for row in touching):
            return False
        if any(row["kind"] == "pause" and (row["end_ns"] is None or row["end_ns"] > time_ns) for row in touching):
            return False
        return time_ns < deposed.latest_t + LEARN_NS or any(holds_up(row, node) for row in touching)

    def _has_learned(self, node: int, led: int, deposed: Election, time_ns: int) -> bool:
        if self._history.joined(node, time_ns) > deposed.latest_t:
            return True
        for row in self._history.events:
            if row["node"] != node or not deposed.earliest_t <= row["time_ns"] <= time_ns:
                continue
            later = row["leader_epoch"] is not None and row["leader_epoch"] > led
            if later or row["event"] == "leadership_end":
                return True
        return False
