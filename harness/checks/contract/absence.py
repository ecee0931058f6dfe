"""What shows that a record was gone: a leader in force without it, or another record in its place.

A leader whose log lacks the record while it leads shows that it was gone by then, unless somebody who was in sync had
it still when the next leader was elected: he might have been elected. Where that, or who led, is not sure, it only may
have been gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from harness.checks.contract.deposed import first_end
from harness.checks.contract.timeline import Gone, Known
from harness.checks.model.elections import Election, Snapshot, committed_copies, states_near
from harness.checks.model.lost_records import LostRecord, same_epoch
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Copy


@dataclass(frozen=True, kw_only=True)
class _Without:
    """A leader's log, or what showed it to clients, had not got the record then."""

    epoch: int
    node: int
    time_ns: int
    is_sure: bool = True
    is_cut: bool = False


class Absence:
    """Of the records of one partition. `logs`: by the number of their snapshot."""

    def __init__(self, history: PartitionHistory, logs: Mapping[int, Snapshot]) -> None:
        self._history = history
        self._logs = logs

    def of(self, lost: LostRecord, *, written_in: Known[int | None], since: int, after_t: int) -> Known[Gone]:
        """Under whose leader it was gone, of the leaders from epoch `since` on, and when, after that time.

        Perhaps: by what may show it as well; somebody else may have outlived that, or who led is not sure.
        """
        epochs = [copy.epoch for copy in self._successors(lost) if copy.epoch is not None and copy.epoch >= since]
        sure: list[_Without] = []
        perhaps: list[_Without] = []
        seen = (self._logs_without(lost), self._cuts_of(lost), self._by_clients(lost))
        for without in chain(*seen, self._within_its_epoch(lost, written_in)):
            outlives = self._outlives(lost, without.node, without.time_ns)
            if outlives is False and without.is_cut and self._is_led_above_it_next(lost, without):
                outlives = None
            if without.epoch >= since and without.time_ns > after_t and outlives is not True:
                perhaps.append(without)
                sure += [without] if without.is_sure and outlives is False else []
        return Known(sure=_first(epochs, sure), perhaps=_first(epochs, perhaps))

    def _logs_without(self, lost: LostRecord) -> Iterator[_Without]:
        """Leaders' logs that were read, and had not got it."""
        for log, led_in in self._leaders_logs:
            held = any(copy.snapshot == log.number for copy in lost.copies)
            robbed = self._robbed(log.node, log.time_ns, led_in, lost)
            if lost.offset is not None and log.spans(lost.offset) and not held and not robbed:
                yield _Without(epoch=led_in, node=log.node, time_ns=log.time_ns)

    def _cuts_of(self, lost: LostRecord) -> Iterator[_Without]:
        """What a leader cut, or the only one that had to have it, is gone, whoever is elected afterwards."""
        for cut in self._history.truncations:
            if lost.offset is None or not cut.to_offset <= lost.offset < cut.from_offset:
                continue
            near = states_near(self._history.states, cut.time_ns)
            term = self._history.term_at(cut.time_ns)
            leads = term is not None and term.leader == cut.node
            # One who follows a later leader already cuts by the word of that one.
            such = [
                state
                for state in near
                if (cut.epoch is None or cut.epoch <= state["leader_epoch"])
                and (state["leader"] == cut.node or committed_copies(state) == (cut.node,))
            ]
            if such:
                known = leads and self._history.state_at(cut.time_ns) in such
                yield _Without(
                    epoch=such[-1]["leader_epoch"],
                    node=cut.node,
                    time_ns=cut.time_ns,
                    is_sure=known or such == near,
                    is_cut=True,
                )

    def _is_led_above_it_next(self, lost: LostRecord, cut: _Without) -> bool:
        """Whether somebody else in sync, who is not seen to have cut it too, is elected next with a log that ends above
        it: he may have had it, though no log of his was read while he did."""
        history, offset = self._history, lost.offset
        following = next((each for each in history.elections if each.earliest_t > cut.time_ns), None)
        if following is None or following.start is None or offset is None or following.leader == cut.node:
            return False
        was_in_sync = following.leader in following.isr_before
        was_in_sync &= history.joined(following.leader, following.earliest_t) <= cut.time_ns
        cut_too = any(
            each.node == following.leader
            and each.to_offset <= offset < each.from_offset
            and each.time_ns <= following.latest_t
            for each in history.truncations
        )
        return was_in_sync and following.start > offset and not cut_too

    def _by_clients(self, lost: LostRecord) -> Iterator[_Without]:
        """The leader in force, when clients saw that another record has its place, or none."""
        term = None if lost.absent_t is None else self._history.term_at(lost.absent_t)
        if (
            term is not None
            and lost.absent_t is not None
            and not self._robbed(term.leader, lost.absent_t, term.epoch, lost)
        ):
            yield _Without(epoch=term.epoch, node=term.leader, time_ns=lost.absent_t)

    def _within_its_epoch(self, lost: LostRecord, written_in: Known[int | None]) -> Iterator[_Without]:
        """Another record of its epoch, written after it at its place or below: its leader's log was cut within its
        term; unless the leader had been deposed by then, whose log is not the line's. One that ended by then wrote it
        before that: it does not lead again in that epoch."""
        history, epoch = self._history, written_in.perhaps
        leader = history.leader_of(epoch)
        if epoch is None or leader is None:
            return
        following = next((each for each in history.elections if each.epoch > epoch), None)
        for sent_ns, seen_ns in self._written_after(lost, epoch):
            since = sent_ns if sent_ns is not None else lost.t_acknowledged or 0
            ended = None if following is None else first_end(history, leader, since, following.earliest_t)
            if following is not None and ended is None and sent_ns is not None and sent_ns > following.latest_t:
                continue
            by_ns = seen_ns if ended is None else min(seen_ns, ended - 1)
            in_office = history.exact and (following is None or by_ns < following.earliest_t)
            is_sure = in_office and written_in.sure == epoch
            yield _Without(epoch=epoch, node=leader, time_ns=by_ns, is_sure=is_sure)

    def _written_after(self, lost: LostRecord, epoch: int) -> Iterator[tuple[int | None, int]]:
        """(not sent before, where that is known; seen by then)."""
        yield from ((each.sent_ns, each.seen_ns) for each in lost.rewritten if each.epoch == epoch)
        rewritten_copies = {copy for each in lost.rewritten for copy in each.copies}
        last = self._last_in_a_log(lost)
        for copy in lost.others - rewritten_copies:
            log = self._logs.get(copy.snapshot)
            if copy.epoch == epoch and log is not None and log.time_ns > last:
                yield None, log.time_ns

    def _last_in_a_log(self, lost: LostRecord) -> int:
        """When its own copies were seen last, or where no log has one, when it was acknowledged."""
        seen = (log.time_ns for copy in lost.copies if (log := self._logs.get(copy.snapshot)))
        return max(seen, default=-1 if lost.t_acknowledged is None else lost.t_acknowledged)

    def _robbed(self, node: int, time_ns: int, led_in: int, lost: LostRecord) -> bool:
        """Whether a leader's log lacks it because its disk was lost: that is known as such, and others may have it."""
        term = self._history.election_of(led_in)
        begin = term.earliest_t if term is not None else 0
        return any(
            begin <= loss.time_ns <= time_ns
            and loss.event.destroyed(self._history.topic, self._history.partition, lost.offset) is not False
            for loss in self._history.losses_by_node.get(node, ())
        )

    def _outlives(self, lost: LostRecord, leader: int, time_ns: int) -> bool | None:
        """Whether somebody who could be elected had it when the next leader was, whatever this one had lost by then.

        He was in sync all the while and is seen with his copy after that election, in a log or in what he cut. None
        where he was seen with it only before, and with nothing that took it in between.
        """
        history = self._history
        following = next((each for each in history.elections if each.earliest_t > time_ns), None)
        found: bool | None = False
        for copy in lost.copies if following is not None else ():
            log = self._logs.get(copy.snapshot)
            if log is None or following is None or copy.node == leader or copy.node not in following.isr_before:
                continue
            joined = history.joined(copy.node, following.earliest_t)
            if not same_epoch(copy.epoch, lost.epoch) or joined > min(time_ns, log.time_ns):
                continue
            if log.time_ns >= following.earliest_t:
                return True
            if log.is_whole and not self.left(copy.node, lost, log.time_ns, following.earliest_t):
                found = None
        return None if following is not None and self._cut_only_then(lost, leader, time_ns, following) else found

    def _cut_only_then(self, lost: LostRecord, leader: int, time_ns: int, following: Election) -> bool:
        """Whether somebody else in sync cut at its place by the word of that next leader: what he had there until then,
        no log shows."""
        return lost.offset is not None and any(
            cut.node not in (leader, following.leader)
            and cut.node in following.isr_before
            and self._history.joined(cut.node, following.earliest_t) <= time_ns
            and cut.epoch == following.epoch
            and cut.time_ns >= following.earliest_t
            and cut.to_offset <= lost.offset < cut.from_offset
            for cut in self._history.truncations
        )

    def left(self, node: int, lost: LostRecord, begin: int, end: int) -> bool:
        """Whether a node is known to have lost its copy within that time."""
        history, offset = self._history, lost.offset
        cut = any(
            cut.node == node and begin <= cut.time_ns <= end and offset is not None and cut.to_offset <= offset
            for cut in history.truncations
        )
        return cut or any(
            begin <= loss.time_ns <= end and loss.event.destroyed(history.topic, history.partition, offset) is not False
            for loss in history.losses_by_node.get(node, ())
        )

    def _successors(self, lost: LostRecord) -> Iterator[Copy]:
        """Records of later epochs that had its place after it."""
        if lost.epoch is not None:
            yield from (copy for copy in lost.others if copy.epoch is not None and copy.epoch > lost.epoch)

    @cached_property
    def _leaders_logs(self) -> Sequence[tuple[Snapshot, int]]:
        """Snapshots of leaders while they surely led, each with its epoch, in order of time."""
        return tuple(self._led())

    def _led(self) -> Iterator[tuple[Snapshot, int]]:
        for log in self._history.logs:
            term = self._history.term_at(log.time_ns)
            state = self._history.state_at(log.time_ns)
            leads = term is not None and state is not None and state["leader"] == log.node == term.leader
            if term is not None and leads and log.is_whole:
                yield log, term.epoch


def _first(epochs: Sequence[int], seen: Sequence[_Without]) -> Gone:
    return Gone(
        epoch=min((*epochs, *(each.epoch for each in seen)), default=None),
        time_ns=min((each.time_ns for each in seen), default=None),
    )
