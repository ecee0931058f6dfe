"""Where and when each record of a partition was last seen; with what shows that it was gone, its timeline."""

from collections.abc import Mapping, Sequence
from itertools import takewhile

from harness.checks.contract.absence import Absence
from harness.checks.contract.deposed import READ_AHEAD_NS, Deposed
from harness.checks.contract.outlived import Successors
from harness.checks.contract.take_overs import TakeOvers, logs_with
from harness.checks.contract.timeline import Gone, Known, Seen, Timeline
from harness.checks.model.elections import Snapshot, states_near
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import EpochRead


class Timelines:
    """Of the records of one partition. `reads`: what readers saw, by epoch."""

    def __init__(self, history: PartitionHistory, reads: Sequence[EpochRead] = ()) -> None:
        self._history = history
        self._logs = {log.number: log for log in history.logs if log.row.get("snapshot") is not None}
        self._absence = Absence(history, self._logs)
        self.deposed = Deposed(history)
        self.take_overs = TakeOvers(history, self._logs, self._absence, reads)
        self.successors = Successors(history, self._logs.values(), reads)

    def outlived(self, lost: LostRecord) -> bool:
        """Whether a later record of its epoch is still there at the end."""
        return self.successors.outlive(lost, lost.epoch if lost.epoch is not None else self._only_epoch(lost))

    def _only_epoch(self, lost: LostRecord) -> int | None:
        """The epoch of the only leader that can have acknowledged a record whose own epoch no log and no read shows."""
        if lost.t_sent is None or lost.t_acknowledged is None or lost.taken or not self._history.exact:
            return None
        term = self._history.term_at(lost.t_sent)
        if term is None or term is not self._history.term_at(lost.t_acknowledged):
            return None
        return term.epoch if self.deposed.answers_alone(lost.t_sent) else None

    def of(self, lost: LostRecord) -> Timeline:
        epoch = -1 if lost.epoch is None else lost.epoch
        # One that may have had it shows nothing here: it stays among those that may have lost it.
        later = (each for each in self._history.elections if each.epoch > epoch)
        led_with = (each.epoch for each in later if self.take_overs.had(each, lost) is True)
        under, until = self._read_under(lost), self._seen_until(lost)
        sure = max([epoch, under.sure, *led_with])
        on_nodes = self._seen_on(lost)
        return Timeline(
            seen=Known(
                sure=Seen(epoch=sure, time_ns=until.sure),
                perhaps=Seen(epoch=max(sure, under.perhaps), time_ns=until.perhaps),
            ),
            gone=self._gone_by(lost, epoch, sure, until.sure),
            on_nodes=on_nodes,
            lacking=self._lacking(lost, dict(on_nodes)),
        )

    def _lacking(self, lost: LostRecord, seen: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
        """(node, time) of each whole log with another record of its own epoch at its place, later than it was seen."""
        logs = [
            self._logs.get(copy.snapshot) for copy in lost.others if copy.epoch is not None and copy.epoch == lost.epoch
        ]
        whole = [log for log in logs if log is not None and log.is_whole]
        return tuple(sorted((log.node, log.time_ns) for log in whole if log.time_ns > seen.get(log.node, 0)))

    def _seen_on(self, lost: LostRecord) -> tuple[tuple[int, int], ...]:
        """By node: when its own log was last seen with it; of those in sync no earlier than it was acknowledged."""
        seen: dict[int, int] = {}
        for log in logs_with(lost, self._logs):
            if log.is_whole:
                seen[log.node] = max(seen.get(log.node, 0), log.time_ns - 1)
        read = lost.t_last_read
        term = None if read is None else self._history.term_at(read)
        if read is not None and term is not None and not self.deposed.may_answer_for_another(term, read):
            seen[term.leader] = max(seen.get(term.leader, 0), read - READ_AHEAD_NS)
        answered = self.answered_at(lost).sure
        return tuple((node, max(answered, seen.get(node, 0))) for node in sorted({*seen, *self._history.replicas}))

    def _read_under(self, lost: LostRecord) -> Known[int]:
        """The epoch of the leader under which it was read."""
        t = lost.t_last_read
        if t is None:
            return Known(sure=-1, perhaps=-1)
        begun = list(takewhile(lambda election: election.earliest_t <= t, self._history.elections))
        maybe = -1
        for election in reversed(begun):  # back to the first certain one
            another = self.deposed.may_answer_for_another(election, t)
            # A leader does not regain a record that it lacked.
            if maybe < 0 and (not another or self.take_overs.had(election, lost) is not False):
                maybe = election.epoch
            if election.latest_t + READ_AHEAD_NS <= t and not another:
                return Known(sure=election.epoch, perhaps=maybe)
        return Known(sure=-1, perhaps=maybe)

    def answered_at(self, lost: LostRecord) -> Known[int]:
        """When its leader had it still: it answered before it died, whenever its answer came to be read. Of a leader
        that nobody knows any disk that was lost meanwhile may have been its own."""
        t, sent = lost.t_acknowledged or 0, self._asked_since(lost)
        term = self._history.term_at(t)
        leader = self._history.leader_of(lost.epoch) if lost.epoch is not None else term.leader if term else None
        if sent is None:
            return Known(sure=t, perhaps=t)
        # Who leads by then, after a start of its own too, is not who answered.
        of_before = lost.taken or (lost.epoch is not None and term is not None and term.epoch > lost.epoch)
        on_its_way = [
            loss.time_ns - 1
            for loss in self._history.disk_losses
            if leader in (None, loss.node)
            and sent <= loss.time_ns <= t
            and (of_before or self._history.is_in_force(loss.fault, t))
        ]
        answered = min([t, *on_its_way])
        return Known(sure=answered, perhaps=t if leader is None else answered)

    def _asked_since(self, lost: LostRecord) -> int | None:
        """When it can have been asked for at the earliest what is known of it: by its send, or by a reader's fetch."""
        if lost.t_sent is not None or lost.t_first_read is None:
            return lost.t_sent
        read = lost.t_first_read if lost.t_last_read is None else min(lost.t_first_read, lost.t_last_read)
        return read - READ_AHEAD_NS

    def _seen_until(self, lost: LostRecord) -> Known[int]:
        """When a copy was last seen where it counts, on a replica in sync or by a reader."""
        answered = self.answered_at(lost)
        sure, maybe = answered.sure, answered.perhaps
        for log in logs_with(lost, self._logs):
            if log.is_whole and self._history.is_in_sync(log.node, log.time_ns):
                read_ns = log.time_ns - 1  # a disk is read before it is destroyed, even at the same time stamp
                maybe = max(maybe, read_ns)
                sure = max(sure, read_ns) if self._was_surely_in_sync(log) else sure
        if lost.t_last_read is not None:
            maybe = max(maybe, lost.t_last_read)
            term = self._history.term_at(lost.t_last_read)
            if term is not None and not self.deposed.may_answer_for_another(term, lost.t_last_read):
                sure = max(sure, lost.t_last_read - READ_AHEAD_NS)
        return Known(sure=sure, perhaps=max(sure, maybe))

    def _was_surely_in_sync(self, log: Snapshot) -> bool:
        """Whether it was by each state that may have been in force then."""
        near = states_near(self._history.states, log.time_ns) if self._history.exact else ()
        return all(log.node in (state["isr"] or ()) for state in near)

    def _gone_by(self, lost: LostRecord, epoch: int, after: int, after_t: int) -> Known[Gone]:
        """By what shows that it was gone after its last sighting."""
        # An unclean election may have brought it back, where nothing shows that it did not.
        elections = self._history.elections
        back = [each.epoch for each in elections if each.unclean and self.take_overs.had(each, lost) is None]
        return self._absence.of(
            lost, written_in=self._written_in(lost), since=max([epoch, after, *back]), after_t=after_t
        )

    def _written_in(self, lost: LostRecord) -> Known[int | None]:
        """Its epoch: surely where a log or a read shows it, or where only one leader can have answered."""
        if lost.epoch is not None or not lost.rewritten:
            return Known(sure=lost.epoch, perhaps=lost.epoch)
        return Known(sure=self._only_epoch(lost), perhaps=self._history.epoch_at(lost.t_acknowledged))
