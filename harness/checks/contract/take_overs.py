"""Whether the log of a leader had a record when the leader took over: what its journal, its checkpoint and its log show
of that, or nothing.

A record that is seen *downstream* of an election was not lost by it. Downstream are: a copy in the log of its leader or
of a later one; a copy on a follower whose log has the election's epoch begin where the leader's does; a later record of
the same epoch in such a log (a log with the later one has the earlier one too: Raft's log matching, which KIP-101
brought to Kafka); and a read that only such a leader can have answered (timelines.py). A deposed or dead replica's own
copy proves nothing. Where no log is left that could show it, the leaders' own words of where their logs ended do.
"""

from collections.abc import Iterator, Mapping, Sequence

from harness.checks.contract.absence import Absence
from harness.checks.contract.deposed import was_down
from harness.checks.model.elections import Election, Snapshot
from harness.checks.model.lost_records import LostRecord, same_epoch
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.model.watermarks import marks_of
from harness.checks.spark.detection import EpochRead
from harness.history.schema.column_types import END_OF_TIME_NS


def logs_with(lost: LostRecord, logs: Mapping[int, Snapshot]) -> Iterator[Snapshot]:
    """The logs that had it, and what was cut from them with it. logs: by the number of their snapshot."""
    for copy in lost.copies:
        log = logs.get(copy.snapshot)
        if log is not None and same_epoch(copy.epoch, lost.epoch):
            yield log


class TakeOvers:
    """Of the leaders of one partition. reads: what readers saw, by epoch."""

    def __init__(
        self, history: PartitionHistory, logs: Mapping[int, Snapshot], absence: Absence, reads: Sequence[EpochRead]
    ) -> None:
        self._history = history
        self._logs = logs
        self._absence = absence
        self._reads = reads

    def had(self, election: Election, lost: LostRecord) -> bool | None:
        """Whether the leader's log had the record when it took over; None if no recorded fact shows it."""
        if self._sent_after(election, lost):
            return False
        by_epochs = election.had(lost.offset, lost.epoch)
        if election.ends_at_or_below(lost.offset) or (by_epochs and lost.matched):
            return by_epochs
        if election.start is None and lost.offset is not None and self._wrote_at_or_below(election, lost.offset, lost):
            return False
        if any(self._had_another(log, election, lost) for log in self._history.logs):
            return False  # whatever followers have: before leader epochs their logs may differ from their leader's
        by_logs = {self._by_log(log, election, lost) for log in self._history.logs}
        if True in by_logs:  # a record in the log is stronger evidence than a checkpoint
            return True
        if by_epochs is False or False in by_logs:
            return False
        if self._held_after_it(election, lost) or self._was_down_with(election, lost):
            return True
        if lost.epoch is not None and lost.offset is not None and self._cut_by_its_word(election, lost.offset):
            return False
        if lost.offset is not None and self._ended_below_already(election, lost, lost.offset):
            return False
        return True if lost.offset is not None and self._began_above_it(election, lost, lost.offset) else None

    def _was_down_with(self, election: Election, lost: LostRecord) -> bool:
        """Whether its own log was read with it while a fault had it down, which lasted beyond its election, and nothing
        took it before that."""
        history, node = self._history, election.leader
        return election.start is None and any(
            log.node == node
            and log.is_whole
            and log.time_ns < election.earliest_t
            and was_down(history, node, log.time_ns, election.latest_t)
            and not self._absence.left(node, lost, log.time_ns, election.latest_t)
            for log in logs_with(lost, self._logs)
        )

    def was_down_without(self, election: Election, lost: LostRecord) -> bool:
        """Whether its disk had lost it before it was elected, and a fault had it down from then until after that: it
        had nobody to fetch it from again. Nobody follows it before it is up: somebody else may be elected with it."""
        history, node = self._history, election.leader
        return election.start is None and any(
            loss.time_ns < election.earliest_t
            and loss.event.destroyed(history.topic, history.partition, lost.offset)
            and was_down(history, node, loss.time_ns, election.latest_t)
            for loss in history.losses_by_node.get(node, ())
        )

    def _began_above_it(self, election: Election, lost: LostRecord, offset: int) -> bool:
        """Whether every leader since it was acknowledged, up to this one, cleanly began with a log that ended above it,
        and nothing shows another record, or a cut, at its place: a log has no holes that an election can make."""
        history, begin, end = self._history, lost.t_sent, election.latest_t
        if begin is None or lost.t_acknowledged is None or not (history.exact and lost.matched):
            return False
        if lost.taken or (lost.absent_t is not None and lost.absent_t <= end):
            return False
        if any(copy.epoch is None or copy.epoch <= election.epoch for copy in lost.others):
            return False
        epoch = history.epoch_at(begin)
        if epoch is None or epoch != history.epoch_at(lost.t_acknowledged) or lost.epoch not in (None, epoch):
            return False
        since = [each for each in history.elections if epoch < each.epoch <= election.epoch]
        # What was cut before the next leader came was cut by the word of this one, or of one before.
        following = next((each for each in history.elections if each.epoch > election.epoch), None)
        until = following.earliest_t if following is not None else END_OF_TIME_NS
        cuts = [cut.time_ns for cut in history.truncations if cut.to_offset <= offset < cut.from_offset]
        cuts += [log.time_ns for log in logs_with(lost, self._logs) if not log.is_whole]
        if any(begin <= time_ns < until for time_ns in cuts):
            return False
        return all(each.begins_above(offset) and not each.unclean for each in since)

    def _sent_after(self, election: Election, lost: LostRecord) -> bool:
        """Whether it was sent when this leader of a later epoch had begun its own log already, and had fetched for the
        last time: who acknowledged it was deposed, whatever that one's log had at its place."""
        if lost.epoch is None or lost.t_sent is None or lost.epoch >= election.epoch:
            return False
        began_ns = self._began_ns(election)
        return began_ns is not None and began_ns < lost.t_sent

    def _began_ns(self, election: Election) -> int | None:
        """When its leader, by its own word, began to lead in that epoch."""
        return next(
            (
                row["time_ns"]
                for row in self._history.events
                if row["event"] == "leadership_start"
                and (row["node"], row["leader_epoch"]) == (election.leader, election.epoch)
            ),
            None,
        )

    def _held_after_it(self, election: Election, lost: LostRecord) -> bool:
        """Whether the leader's own log was read with it after its election, which then did not cost it.

        It may yet cut it as a follower of somebody before it, until it begins to lead, and would report that.
        """
        node, history, began_ns = election.leader, self._history, self._began_ns(election)
        cuts = [cut for cut in history.truncations if cut.node == node and cut.time_ns >= election.earliest_t]
        if began_ns is not None:
            cuts = [cut for cut in cuts if cut.time_ns < began_ns]
        by_another = any(
            (cut.epoch is None or cut.epoch <= election.epoch)
            and (lost.offset is None or cut.to_offset <= lost.offset < cut.from_offset)
            for cut in cuts
        )
        if by_another or not any(row["node"] == node for row in history.events):
            return False
        return any(log.node == node and log.time_ns >= election.latest_t for log in logs_with(lost, self._logs))

    def _ended_below_already(self, election: Election, lost: LostRecord, offset: int) -> bool:
        """Whether a later log end of the same leader shows that its log lacked the record already here.

        A log's end moves back only by cuts and lost disks. This counts only if the leader itself reported its later end
        (then it would also have reported a cut), and only if its earlier end is unknown.
        """
        history, leader = self._history, election.leader
        if election.start is not None:
            return False
        later = (each for each in history.elections if each.leader == leader and each.epoch > election.epoch)
        again = next(later, None)
        if again is None or again.start_from.source != "journal" or not again.ends_at_or_below(offset):
            return False
        begin, end = election.earliest_t, again.latest_t
        others_cut = {
            (log.node, log.time_ns)
            for copy in lost.others
            if (log := self._logs.get(copy.snapshot)) is not None and not log.is_whole
        }
        cut = any(
            each.node == leader
            and each.to_offset <= offset < each.from_offset
            and begin <= each.time_ns <= end
            and (leader, each.time_ns) not in others_cut  # what it cut there was another record
            for each in history.truncations
        )
        return not cut and not any(begin <= loss.time_ns <= end for loss in history.losses_by_node.get(leader, ()))

    def _wrote_at_or_below(self, election: Election, offset: int, lost: LostRecord) -> bool:
        """Whether a record of the leader's own epoch at or below the offset shows that its log ended there."""
        if any(copy.epoch == election.epoch for copy in lost.others):
            return True
        return any(read.epoch == election.epoch and read.first_offset <= offset for read in self._reads)

    def _had_another(self, log: Snapshot, election: Election, lost: LostRecord) -> bool:
        """Whether the leader's own log, read while it led, has another record at that place.

        Within its term a leader writes nothing over: it had that one when it took over, or ended below.
        """
        if log.node != election.leader or not log.is_whole or lost.offset is None or not lost.matched:
            return False
        if self._history.term_at(log.time_ns) is not election or log.chain:
            return False
        begin, end = election.earliest_t, log.time_ns
        lost_disk = any(begin <= loss.time_ns <= end for loss in self._history.losses_by_node.get(log.node, ()))
        cut = any(each.node == log.node and begin <= each.time_ns <= end for each in self._history.truncations)
        return not lost_disk and not cut and any(copy.snapshot == log.number for copy in lost.others)

    def _by_log(self, log: Snapshot, election: Election, lost: LostRecord) -> bool | None:
        if not log.is_whole or lost.offset is None:
            return None
        holds = any(copy.snapshot == log.number and same_epoch(copy.epoch, lost.epoch) for copy in lost.copies)
        begins = log.start_of(election.epoch)
        if begins is not None and lost.offset < begins:
            # Below its own epoch's start a leader's log is unchanged since it took over.
            if log.node == election.leader:
                return True if holds else False if log.spans(lost.offset) else None
            return True if holds and election.start in (None, begins) else None
        in_term = self._history.term_at(log.time_ns) is election
        if log.node == election.leader and in_term:
            if election.start is None and log.chain and election.epoch > log.chain[-1][0]:
                return None if holds else self._by_log_before_it_led(log, election, lost)
            return True if holds else None  # it may have lost the record while it led
        joined = self._history.joined(log.node, log.time_ns)
        caught_up = in_term and joined > election.latest_t and self._history.is_in_sync(log.node, log.time_ns)
        return True if holds and caught_up and election.start is None else None

    def _by_log_before_it_led(self, log: Snapshot, election: Election, lost: LostRecord) -> bool | None:
        """Of the log of a leader that has not begun to lead, and has not got the record: it ends below it, or has
        another one there. It lacked the record at its election unless it lost it since; what it cut, it would
        report."""
        end = log.row.get("log_end_offset")
        lacks = (end is not None and lost.offset is not None and end <= lost.offset) or any(
            copy.snapshot == log.number for copy in lost.others
        )
        reports = any(row["node"] == log.node for row in self._history.events)
        if not lacks or not reports or self._absence.left(log.node, lost, election.earliest_t, log.time_ns):
            return None
        return False

    def _cut_by_its_word(self, election: Election, offset: int) -> bool:
        """Whether a follower's cut shows that a clean leader's log lacked the offset.

        After an unclean election old followers cut to their high watermarks, which shows nothing.
        """
        return not election.unclean and any(
            cut.epoch == election.epoch and cut.to_offset <= offset < cut.from_offset
            for cut in self._history.truncations
        )

    def was_in_sync_beside(self, election: Election, lost: LostRecord) -> bool:
        """Whether somebody who could have been elected cleanly had it still, after this election of another one."""
        return any(
            log.node in election.eligible and log.node != election.leader and log.time_ns >= election.latest_t
            for log in logs_with(lost, self._logs)
        )

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
