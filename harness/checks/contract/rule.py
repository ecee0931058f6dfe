"""Decides per record whether its loss is permitted, and by which cause. Configuration alone permits nothing.

The loss of a record is *permitted* if one of three exceptions (exceptions.py) is proved on its partition, between the
last time it was seen and the first evidence of its absence (timeline.py). Otherwise it is a violation, and the ruling
lists each exception that was tried and failed.

Epochs and offsets decide; time decides only if no replica's log ever held the record. Even then a deposed leader that
cut the offset later may have acknowledged it: the record that took the offset meanwhile decides, or it stays open.

Missing knowledge never permits a loss. Every event that may have removed the record is ruled on; if no log shows which
one did, "nothing recorded" counts as one of them. If the rulings differ, the result is an observation that says so, and
the run is inconclusive. The same holds if the cluster's own books cannot be read and the configuration allows an
exception that polling would have missed.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from harness.checks.contract.boundaries import offsets_of, side, times_of
from harness.checks.contract.exceptions import (
    Case,
    by_deletion,
    is_later,
    may_be_unseen,
    ruled,
    went_with_its_topic,
)
from harness.checks.contract.rulings import Doubt, Rule, Ruling, TooFewInSync
from harness.checks.contract.timeline import Gone, Seen, Window
from harness.checks.contract.timelines import Timelines
from harness.checks.model.elections import Election
from harness.checks.model.lost_records import LostRecord, Rewrite
from harness.checks.model.partition_history import Deletion, PartitionHistory
from harness.checks.model.watermarks import Watermarks
from harness.checks.spark.detection import EpochRead
from harness.history.schema.column_types import END_OF_TIME_NS


class Judge:
    """Rules on one partition's records that no setting removed; records with the same deciding facts share a ruling."""

    def __init__(self, history: PartitionHistory, reads: Sequence[EpochRead] = ()) -> None:
        self._history = history
        self._timelines = Timelines(history, reads)
        self._reads = reads
        self._watermarks = Watermarks(history, reads, self._timelines.deposed.may_answer_for_another)
        self._rulings: dict[tuple[Any, ...], Ruling] = {}
        self._in_force: dict[tuple[Any, ...], bool] = {}

    @cached_property
    def _offsets(self) -> list[int]:
        return offsets_of(self._history, self._timelines.successors, self._reads)

    @cached_property
    def _times(self) -> list[int]:
        return times_of(self._history)

    def rule(self, lost: LostRecord) -> Ruling:
        """Cached by what it reads: a ruling compares offsets and times only with those of the history."""
        committed = self._watermarks.is_committed(lost)
        if committed is None and lost.acks in (0, 1):
            return _either_way(*(self._cached(replace(lost, committed=each)) for each in (False, True)))
        return self._cached(replace(lost, committed=bool(committed)))

    def is_the_leader_in_force(self, time_ns: int) -> bool:
        """Whether what clients were answered at this time came from the leader in force, and from no other."""
        key = side(self._times, time_ns), side(self._history.faults.times, time_ns)
        if key not in self._in_force:
            self._in_force[key] = self._timelines.deposed.answers_alone(time_ns)
        return self._in_force[key]

    def _cached(self, lost: LostRecord) -> Ruling:
        key = (
            replace(
                lost,
                offset=None,
                t_acknowledged=None,
                t_first_read=None,
                t_last_read=None,
                t_sent=None,
                absent_t=None,
                rewritten=(),
            ),
            tuple(map(self._between, lost.rewritten)),
            side(self._offsets, lost.offset),
            side(self._times, lost.t_acknowledged),
            side(self._times, lost.t_first_read),
            side(self._times, lost.t_last_read),
            side(self._history.faults.times, lost.t_last_read),
            side(self._times, lost.t_sent),
            side(self._history.faults.times, lost.t_acknowledged),
            side(self._times, lost.absent_t),
            side(self._history.faults.times, lost.absent_t),
        )
        if key not in self._rulings:
            self._rulings[key] = self._ruled(lost)
        return self._rulings[key]

    def _between(self, written: Rewrite) -> tuple[Any, ...]:
        faults = self._history.faults.times
        times = [side(edges, t) for edges in (self._times, faults) for t in (written.sent_ns, written.seen_ns)]
        return (*times, written.epoch, written.copies)

    def _ruled(self, lost: LostRecord) -> Ruling:
        ruling = rule(self._history, lost, self._timelines)
        deletion = self._history.deletion
        if deletion is not None and went_with_its_topic(deletion, self._timelines.of(lost).gone.sure):
            return _gone_with_its_topic(deletion, ruling)
        removed = lost.offset is not None and lost.offset < (self._history.log_start or 0)
        return _beyond_start(self._history, ruling) if removed else ruling


def _either_way(lenient: Ruling, strict: Ruling) -> Ruling:
    """Of a record that may have been committed: what it comes to where that makes no difference."""
    if lenient.classification == strict.classification:
        return strict
    doubt = strict.undecided or Doubt(code="may-have-been-committed")
    return replace(strict, classification="observation", undecided=doubt)


def forfeited(ruling: Ruling, least: int) -> Ruling:
    """For a record acknowledged with fewer copies than min.insync.replicas: no later event permits its loss."""
    kept = Rule(rule="min-insync-replicas", holds=False, evidence=TooFewInSync(least=least))
    return replace(ruling, classification="violation", undecided=None, rules=(*ruling.rules, kept))


def perhaps_forfeited(ruling: Ruling, least: int) -> Ruling:
    """The same where nothing shows that its leader knew how few were in sync."""
    kept = Rule(rule="min-insync-replicas", holds=None, evidence=TooFewInSync(least=least))
    undecided = Doubt(code="leader-may-not-have-known")
    return replace(ruling, classification="observation", undecided=undecided, rules=(*ruling.rules, kept))


def _gone_with_its_topic(deletion: Deletion, ruling: Ruling) -> Ruling:
    became, undecided = by_deletion(deletion, otherwise=ruling.classification, undecided=ruling.undecided)
    rule = Rule(rule="deletion", holds=deletion.asked, evidence=deletion)
    return replace(
        ruling,
        classification=became,
        cause="deletion",
        election=None,
        disk_losses=(),
        destroyed=False,
        undecided=undecided,
        rules=(*ruling.rules, rule),
    )


def _beyond_start(history: PartitionHistory, ruling: Ruling) -> Ruling:
    """The ruling on a record below its log's start, which any authorized client may move with DeleteRecords.

    The harness never sends it, and newer brokers say if an application has; they refuse it for a topic that does not
    delete.
    """
    if ruling.classification != "violation":
        return ruling
    if history.may_be_trimmed and "delete" in (history.cleanup_policy or "delete"):
        undecided = Doubt(code="moved-by-somebody")
        return replace(ruling, classification="observation", cause="log-start", undecided=undecided)
    return ruling if ruling.election is not None else replace(ruling, cause="log-start")


def rule(history: PartitionHistory, lost: LostRecord, timelines: Timelines | None = None) -> Ruling:
    """Rules on one record. If no log held it, the leader in force or an earlier, deposed one acknowledged it."""
    timelines = timelines or Timelines(history)
    search = _Search(history, timelines)
    if timelines.outlived(lost):
        return search.of_one_that_was_outlived(lost)
    deposed = None if lost.epoch is not None or lost.in_a_log else _deposed(history, lost)
    if deposed is None:
        return _of_whichever_leader(history, lost, search, timelines)
    as_deposed = search.ruling(replace(lost, epoch=deposed))
    if lost.taken or _was_answered_by(history, lost, deposed):
        return as_deposed  # within its epoch a leader assigns an offset once
    ruling = search.ruling(lost)
    if ruling.classification == as_deposed.classification:
        return ruling
    undecided = Doubt(code="acknowledged-by-a-deposed-leader", node=history.leader_of(deposed))
    return replace(ruling, classification="observation", undecided=ruling.undecided or undecided)


def _was_answered_by(history: PartitionHistory, lost: LostRecord, epoch: int) -> bool:
    """Whether it was certainly this epoch's leader that answered, and not as the one in force."""
    if lost.answered_by is None or lost.t_acknowledged is None or lost.answered_by != history.leader_of(epoch):
        return False
    term = history.term_at(lost.t_acknowledged)
    return term is not None and term.leader != lost.answered_by


def _of_whichever_leader(
    history: PartitionHistory, lost: LostRecord, search: "_Search", timelines: Timelines
) -> Ruling:
    """Where no log shows the record's epoch, a deposed leader that had not heard yet may have acknowledged it."""
    ruling = search.ruling(lost)
    if lost.epoch is not None or lost.t_acknowledged is None:
        return ruling
    near = history.elections_near(lost.t_acknowledged)
    for election in near:
        as_its = search.ruling(replace(lost, epoch=election.epoch))
        if not election.begins_above(lost.offset) and as_its.classification != ruling.classification:
            undecided = ruling.undecided or Doubt(code="acknowledged-before-or-after")
            return replace(ruling, classification="observation", undecided=undecided)
    term = near[-1] if near else history.term_at(lost.t_acknowledged)
    if term is None or ruling.classification != "violation":
        return ruling
    for epoch in timelines.deposed.epochs_that_may_go_on(term, lost.t_acknowledged):
        if search.ruling(replace(lost, epoch=epoch)).classification != "violation":
            doubt = Doubt(code="not-heard-of-its-successor", node=history.leader_of(epoch))
            return replace(ruling, classification="observation", undecided=doubt)
    return ruling


class _Search:
    """For the event that removed a record, in every reading of its timeline."""

    def __init__(self, history: PartitionHistory, timelines: Timelines) -> None:
        self._history = history
        self._timelines = timelines

    def of_one_that_was_outlived(self, lost: LostRecord) -> Ruling:
        """Nothing can have taken it: what stands above it is there at the end."""
        epoch, by_time = self._epoch_of(lost), lost.epoch is None
        to_the_end = Window(seen=Seen(epoch=-1 if epoch is None else epoch, time_ns=END_OF_TIME_NS))
        return ruled(self._case(None, lost, epoch, by_time, to_the_end))

    def ruling(self, lost: LostRecord) -> Ruling:
        """By each event that may have removed the record; what a deposed leader may have shown counts both ways."""
        history, epoch, by_time = self._history, self._epoch_of(lost), lost.epoch is None and not lost.in_a_log
        rulings = [
            ruled(self._case(election, lost, epoch, by_time, _seen_again(window, since)))
            for window in self._timelines.of(lost).windows
            for election, since in self._suspects(lost, epoch, by_time, window)
        ]
        ruling = next((each for each in rulings if each.classification != "permitted"), rulings[0])
        if any(each.classification != rulings[0].classification for each in rulings):
            undecided = next((each.undecided for each in rulings if each.undecided), None) or _several(rulings)
            return replace(ruling, classification="observation", undecided=undecided)
        ruling = rulings[0]
        since_ns = self._timelines.answered_at(lost).sure
        is_accused = ruling.classification == "violation"
        unseen = may_be_unseen(history, lost, epoch, by_time, since_ns) if is_accused else None
        if (
            ruling.classification == "permitted"
            and not history.exact
            and _was_cut_before(history, lost, ruling.election)
        ):
            unseen = Doubt(code="cut-while-polled")
        led_without = ruling.election if ruling.classification == "permitted" else None
        if led_without is not None and led_without.unclean and self._was_lost_before(led_without, lost):
            unseen = Doubt(code="lost-before-it-led", node=led_without.leader)
        return replace(ruling, classification="observation", undecided=unseen) if unseen else ruling

    def _suspects(
        self, lost: LostRecord, epoch: int | None, by_time: bool, window: Window
    ) -> list[tuple[Election | None, int]]:
        """The elections that may have removed the record, in order, up to the first that certainly did; None: none of
        them.

        With each comes the time at which the record still existed, if this election removed it: that of the previous
        leader that may have had it. An unclean election may bring back a record that another leader's log lacked, and
        so may any election without a log that shows the opposite, or after leaders that nobody knows to have begun to
        lead, who made nobody cut it; if that is unknown, the search continues after it.
        """
        history, take_overs = self._history, self._timelines.take_overs
        suspects: list[tuple[Election | None, int]] = []
        gone, begun, since = False, False, window.seen.time_ns
        gone_t = window.gone.time_ns
        if gone_t is not None and any(
            each.earliest_t > gone_t and take_overs.had(each, lost) is not False for each in history.elections
        ):
            gone_t = None  # a later leader may have brought it back
        for election in history.elections:
            in_time = gone_t is None or election.earliest_t <= gone_t
            if not is_later(election, lost, epoch, by_time):
                continue
            had = take_overs.had(election, lost)
            if not (in_time if by_time else window.admits(election)):
                since = max(since, election.earliest_t) if had is True and not gone else since
                continue
            gone = gone and not (had is None and (election.unclean or by_time or not begun))
            if not gone and had is not True:
                suspects.append((election, since))
            gone = gone or had is False
            begun = begun or (had is False and election.start is not None)
            lacked = had is False or (had is None and take_overs.was_down_without(election, lost))
            since = since if lacked else max(since, election.earliest_t)
        return suspects if gone else [*suspects, (None, since)]

    def _was_lost_before(self, election: Election, lost: LostRecord) -> bool:
        """Whether a leader had it before its election, by its own log, and nothing shows it there afterwards."""
        take_overs = self._timelines.take_overs
        return take_overs.lost_before_it_led(election, lost) and not take_overs.was_in_sync_beside(election, lost)

    def _epoch_of(self, lost: LostRecord) -> int | None:
        return lost.epoch if lost.epoch is not None else self._history.epoch_at(lost.t_acknowledged)

    def _case(
        self, election: Election | None, lost: LostRecord, epoch: int | None, by_time: bool, window: Window
    ) -> Case:
        return Case(history=self._history, election=election, lost=lost, epoch=epoch, by_time=by_time, window=window)


def _seen_again(window: Window, since: int) -> Window:
    """The window of a record that was, or may have been, there at `since`: earlier evidence of absence is ignored."""
    seen = replace(window.seen, time_ns=since)
    gone_t = window.gone.time_ns
    return replace(window, seen=seen, gone=Gone() if gone_t is not None and gone_t <= since else window.gone)


def _was_cut_before(history: PartitionHistory, lost: LostRecord, election: Election | None) -> bool:
    """Whether a log cut the record before the event that would permit its loss."""
    if election is None or lost.offset is None:
        return False
    return any(
        cut.to_offset <= lost.offset < cut.from_offset
        and (lost.t_acknowledged or 0) < cut.time_ns < election.latest_t
        and (cut.epoch is None or cut.epoch < election.epoch)
        for cut in history.truncations
    )


def _several(rulings: Sequence[Ruling]) -> Doubt:
    epochs = sorted({each.election.epoch for each in rulings if each.election is not None})
    return Doubt(code="which-leader-lost-it" if epochs else "what-the-disks-held", epochs=tuple(epochs))


def _deposed(history: PartitionHistory, lost: LostRecord) -> int | None:
    """The last epoch whose leader had a successor when the record was acknowledged, and cut the offset after that.

    It cut when it learned of the successor; nobody can have read its tail in between.
    """
    if lost.offset is None or lost.t_acknowledged is None:
        return None
    for cut in history.truncations:
        if cut.epoch is None or cut.time_ns < lost.t_acknowledged or not cut.to_offset <= lost.offset < cut.from_offset:
            continue
        led = [each.epoch for each in history.elections if each.leader == cut.node and each.epoch < cut.epoch]
        successor = next((each for each in history.elections if led and each.epoch > led[-1]), None)
        if successor is not None and successor.latest_t < lost.t_acknowledged:
            return led[-1]
    return None
