"""Whether a record survived an event: the only module that decides what an election or a destruction can have removed.
What a leader had when it took over, take_overs.py says.

A record that is seen *downstream* of an election or of a destruction was not lost by it. Downstream of an election
are: a copy in the log of its leader or of a later one; a copy on a follower whose log has the election's epoch begin
where the leader's does; a later record of the same epoch in such a log (a log with the later one has the earlier one
too: Raft's log matching, which KIP-101 brought to Kafka); and a read that only such a leader can have answered.
Downstream of a destruction are a copy on a replica that is in sync afterwards, and a read. A deposed or dead replica's
own copy proves nothing.

Conversely, a leader whose log lacks the record while it leads shows that it was gone by then: no later event removed
it. So a cause is searched only between the last time it was seen and the first evidence of its absence. Where a later
record of its epoch is still there at the end, there is nothing to search (outlived.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from harness.checks.contract.absence import Absence
from harness.checks.contract.outlived import Successors
from harness.checks.contract.take_overs import DOWN, TakeOvers, logs_with
from harness.checks.model.elections import Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory, holds_up
from harness.checks.model.watermarks import marks_of
from harness.checks.spark.detection import EpochRead

SECOND_NS = 10**9
# How long a client may hold a fetched record before it returns it: pollers poll in a tight loop.
READ_AHEAD_NS = SECOND_NS
# How soon a leader that no fault delays knows its successor.
LEARN_NS = SECOND_NS
END_OF_TIME = 2**62
# After one of these events a node has restarted, or is down: it does not continue to lead in an old epoch.
_ENDING = DOWN | {"rolling-restart"}


@dataclass(frozen=True, kw_only=True)
class Window:
    """Where to search for the cause of a loss.

    after_epoch, after_t: it was there in the line of that epoch's leader, and at that time. doubt_epoch, doubt_t: the
    same of sightings that may have been a deposed leader's. until_epoch, until_t: by then it was gone. perhaps_gone:
    the same two, by what may show it as well.
    """

    after_epoch: int
    after_t: int
    doubt_epoch: int
    doubt_t: int
    until_epoch: int | None
    until_t: int | None
    perhaps_gone: tuple[int | None, int | None] = (None, None)
    own_t: tuple[tuple[int, int], ...] = ()  # of each node that is known to have had it: when it was last seen there
    lacking_t: tuple[tuple[int, int], ...] = ()  # (node, time): its log was read then, later, and lacked it

    def seen_on(self, node: int) -> int:
        return dict(self.own_t).get(node, self.after_t)

    def had_lost_it(self, node: int, *, since: int, time_ns: int) -> bool:
        """Whether a node in sync since `since` was without it already at that time."""
        return any(each == node and since <= t <= time_ns for each, t in self.lacking_t)

    def admits(self, election: Election) -> bool:
        return election.epoch > self.after_epoch and (self.until_epoch is None or election.epoch <= self.until_epoch)


class Survival:
    """Where and when the records of one partition were seen. `reads`: what readers saw, by epoch."""

    def __init__(self, history: PartitionHistory, reads: Sequence[EpochRead] = ()) -> None:
        self._history = history
        self._reads = reads
        self._logs = {log.number: log for log in history.logs if log.row.get("snapshot") is not None}
        self._absence = Absence(history, self._logs)
        self._take_overs = TakeOvers(history, self._logs, self._absence, reads)
        self._successors = Successors(history, self._logs.values(), reads)

    def outlived(self, lost: LostRecord) -> bool:
        """Whether a later record of its epoch is still there at the end."""
        return self._successors.outlive(lost, lost.epoch if lost.epoch is not None else self._only_epoch(lost))

    def _only_epoch(self, lost: LostRecord) -> int | None:
        """The epoch of the only leader that can have acknowledged a record whose own epoch no log and no read shows."""
        if lost.t_sent is None or lost.t_acknowledged is None or lost.taken or not self._history.exact:
            return None
        term = self._history.term_at(lost.t_sent)
        if term is None or term is not self._history.term_at(lost.t_acknowledged):
            return None
        return term.epoch if self.answers_alone(lost.t_sent) else None

    # -- elections ----------------------------------------

    def had(self, election: Election, lost: LostRecord) -> bool | None:
        """Whether the leader's log had the record when it took over; None if no recorded fact shows it."""
        return self._take_overs.had(election, lost)

    def was_in_sync_beside(self, election: Election, lost: LostRecord) -> bool:
        """Whether somebody who could have been elected cleanly had it still, after this election of another one."""
        return any(
            log.node in election.eligible and log.node != election.leader and log.time_ns >= election.latest_t
            for log in logs_with(lost, self._logs)
        )

    # -- the window ---------------------------------------

    def window(self, lost: LostRecord) -> Window:
        epoch = -1 if lost.epoch is None else lost.epoch
        after, doubt = epoch, epoch
        for election in self._history.elections:
            # One that may have had it shows nothing here: it stays among those that may have lost it.
            if election.epoch > epoch and self.had(election, lost) is True:
                after = max(after, election.epoch)
        sure, maybe = self._read_under(lost)
        after, doubt = max(after, sure), max(doubt, maybe)
        after_t, doubt_t = self._seen_until(lost)
        (until_epoch, until_t), perhaps_gone = self._gone_by(lost, epoch, after, after_t)
        return Window(
            after_epoch=after,
            after_t=after_t,
            doubt_epoch=max(after, doubt),
            doubt_t=max(after_t, doubt_t),
            until_epoch=until_epoch,
            until_t=until_t,
            perhaps_gone=perhaps_gone,
            own_t=(own_t := self._seen_on(lost)),
            lacking_t=self._lacking(lost, dict(own_t)),
        )

    def _lacking(self, lost: LostRecord, seen: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
        """(node, time) of each whole log with another record of its own epoch at its place, later than it was seen."""
        logs = [
            self._logs.get(copy.snapshot) for copy in lost.others if copy.epoch is not None and copy.epoch == lost.epoch
        ]
        whole = [log for log in logs if log is not None and log.is_whole]
        return tuple(sorted((log.node, log.time_ns) for log in whole if log.time_ns > seen.get(log.node, 0)))

    def lost_before_it_led(self, election: Election, lost: LostRecord) -> bool:
        """Whether the leader's own log had it before its election, and nothing is known that took it.

        Every leader in between had it, or may have had it: following such a one was no reason to cut it.
        """
        if lost.epoch is None:
            return False
        if self._lost_what_it_wrote(election, lost):
            return True
        between = (each for each in self._history.elections if (lost.epoch or 0) < each.epoch < election.epoch)
        if any(self.had(each, lost) is False for each in between):
            return False
        seen = [
            log.time_ns
            for log in logs_with(lost, self._logs)
            if log.node == election.leader and log.is_whole and log.time_ns < election.earliest_t
        ]
        return any(
            not self._absence.left(election.leader, lost, time_ns, election.latest_t)
            for time_ns in (*seen, *self._known_by_itself(election, lost))
        )

    def _known_by_itself(self, election: Election, lost: LostRecord) -> Iterator[int]:
        """When the leader must have had it, before its election: no mark is above its own broker's log."""
        node, offset = election.leader, lost.offset
        if offset is None or not lost.matched or lost.t_acknowledged is None:
            return
        for mark in marks_of(self._history):
            if mark.node == node and mark.offset > offset and lost.t_acknowledged < mark.time_ns < election.earliest_t:
                term = self._history.term_at(mark.time_ns)
                if term is not None and term.epoch == lost.epoch and self._history.is_in_sync(node, mark.time_ns):
                    yield mark.time_ns

    def _lost_what_it_wrote(self, election: Election, lost: LostRecord) -> bool:
        """Whether the leader of its epoch, which wrote it, led again with a log that ended below it, though above the
        logs of all leaders in between: it had followed none of them, and no cut and no lost disk is known."""
        wrote = self._history.election_of(lost.epoch)
        again = next(
            (
                each
                for each in self._history.elections
                if wrote is not None and each.leader == wrote.leader and each.epoch >= election.epoch > wrote.epoch
            ),
            None,
        )
        if wrote is None or again is None or again.start is None or not again.ends_at_or_below(lost.offset):
            return False
        between = [each for each in self._history.elections if wrote.epoch < each.epoch < again.epoch]
        apart = all(each.start is not None and each.start < again.start for each in between)
        since = lost.t_acknowledged or 0
        return bool(between) and apart and not self._absence.left(wrote.leader, lost, since, again.latest_t)

    def _seen_on(self, lost: LostRecord) -> tuple[tuple[int, int], ...]:
        """By node: when its own log was last seen with it; of those in sync no earlier than it was acknowledged."""
        seen: dict[int, int] = {}
        for log in logs_with(lost, self._logs):
            if log.is_whole:
                seen[log.node] = max(seen.get(log.node, 0), log.time_ns - 1)
        read = lost.t_last_read
        term = None if read is None else self._history.term_at(read)
        if read is not None and term is not None and not self.may_answer_for_another(term, read):
            seen[term.leader] = max(seen.get(term.leader, 0), read - READ_AHEAD_NS)
        answered = self.answered_at(lost)
        return tuple((node, max(answered, seen.get(node, 0))) for node in sorted({*seen, *self._history.replicas}))

    def _read_under(self, lost: LostRecord) -> tuple[int, int]:
        """Two epochs: under which leader it was certainly read, and under which it may have been."""
        t = lost.t_last_read
        if t is None:
            return -1, -1
        begun = list(takewhile(lambda election: election.earliest_t <= t, self._history.elections))
        maybe = -1
        for election in reversed(begun):  # back to the first certain one
            another = self.may_answer_for_another(election, t)
            # A leader does not regain a record that it lacked.
            if maybe < 0 and (not another or self.had(election, lost) is not False):
                maybe = election.epoch
            if election.latest_t + READ_AHEAD_NS <= t and not another:
                return election.epoch, maybe
        return -1, maybe

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
        if ended or any(row["kind"] in _ENDING for row in touching):
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
            if later or row["event"] in ("leadership_end", "broker_start", "broker_registered"):
                return True
        return False

    def answered_at(self, lost: LostRecord) -> int:
        """When its leader surely had it still: it answered before it died, whenever its answer came to be read."""
        t, sent = lost.t_acknowledged or 0, lost.t_sent
        term = self._history.term_at(t)
        leader = self._history.leader_of(lost.epoch) if lost.epoch is not None else term.leader if term else None
        if sent is None or leader is None:
            return t
        on_its_way = [
            loss.time_ns - 1
            for loss in self._history.losses_by_node.get(leader, ())
            if sent <= loss.time_ns <= t and self._history.is_in_force(loss.fault, t)
        ]
        return min([t, *on_its_way])

    def _seen_until(self, lost: LostRecord) -> tuple[int, int]:
        """When a copy was last seen where it counts, on a replica in sync or by a reader; and when it may have been."""
        sure = maybe = self.answered_at(lost)
        for log in logs_with(lost, self._logs):
            if log.is_whole and self._history.is_in_sync(log.node, log.time_ns):
                sure = max(sure, log.time_ns - 1)  # a disk is read before it is destroyed, even at the same time stamp
        if lost.t_last_read is not None:
            maybe = max(maybe, lost.t_last_read)
            term = self._history.term_at(lost.t_last_read)
            if term is not None and not self.may_answer_for_another(term, lost.t_last_read):
                sure = max(sure, lost.t_last_read - READ_AHEAD_NS)
        return sure, max(sure, maybe)

    # -- absence ------------------------------------------

    def _gone_by(
        self, lost: LostRecord, epoch: int, after: int, after_t: int
    ) -> tuple[tuple[int | None, int | None], tuple[int | None, int | None]]:
        """Of absence.py, for what shows that it was gone after its last sighting."""
        # An unclean election may have brought it back, where nothing shows that it did not.
        back = [each.epoch for each in self._history.elections if each.unclean and self.had(each, lost) is None]
        return self._absence.of(lost, since=max([epoch, after, *back]), after_t=after_t)

    # -- what decides -------------------------------------

    @cached_property
    def offsets(self) -> Sequence[int]:
        """Every offset that a ruling compares a record's with, in order."""
        history, found = self._history, set[int]()
        for election in history.elections:
            found |= {election.start or 0, election.start_at_most or 0, *(start for _, start in election.chain or ())}
        for log in history.logs:
            marks = (log.row.get("log_start_offset"), log.row.get("log_end_offset"), log.row.get("high_watermark"))
            found |= {mark for mark in marks if mark is not None} | {start for _, start in log.chain}
        for cut in history.truncations:
            found |= {cut.from_offset, cut.to_offset}
        for read in self._reads:
            found |= {read.first_offset, read.last_offset}
        found |= {mark.offset for mark in marks_of(history)}
        for loss in history.disk_losses:
            found |= {place for place in (loss.event.from_offset, loss.event.to_offset) if place is not None}
        return sorted(found | self._successors.offsets | {history.log_start or 0})

    @cached_property
    def times(self) -> Sequence[int]:
        """Every time that a ruling compares a record's times with, in order."""
        history = self._history
        found = {row["time_ns"] for row in (*history.states, *history.events)} | {log.time_ns for log in history.logs}
        found |= {cut.time_ns for cut in history.truncations} | {loss.time_ns for loss in history.disk_losses}
        for election in history.elections:
            edges = (election.earliest_t, election.latest_t)
            found |= {edge + apart for edge in edges for apart in (0, READ_AHEAD_NS, LEARN_NS)}
        for loss in history.disk_losses:
            found.add(loss.time_ns + READ_AHEAD_NS)
        for log in history.logs:
            found.add(log.time_ns + READ_AHEAD_NS)
        return sorted(found)
