"""Decides per record whether its loss is permitted, and by which cause. Configuration alone permits nothing.

The loss of a record is *permitted* if one of three exceptions is proved on its partition, between the last time it was
seen and the first evidence of its absence (survival.py). Otherwise it is a violation, and the ruling lists each
exception that was tried and failed:

1. an unclean election, allowed by the configuration, of a leader whose log did not have it;
2. a fail-over to another leader whose log did not have it, when it was acknowledged with acks=1 (or 0) and never
   committed: the strict promise holds for a record below a high watermark that a client or broker knew;
3. the destruction of every in-sync copy, or of the leader's copy if only the leader had to have it.

Epochs and offsets decide; time decides only if no replica's log ever held the record. Even then a deposed leader that
cut the offset later may have acknowledged it: the record that took the offset meanwhile decides, or it stays open.

Missing knowledge never permits a loss. Every event that may have removed the record is ruled on; if no log shows which
one did, "nothing recorded" counts as one of them. If the rulings differ, the result is an observation that says so, and
the run is inconclusive. The same holds if the cluster's own books cannot be read and the configuration allows an
exception that polling would have missed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.checks.contract.deletion import outcome, took
from harness.checks.contract.destruction import Destruction, destruction
from harness.checks.contract.rulings import (
    Doubt,
    HeldToMore,
    LossCause,
    NoLaterLeader,
    Rule,
    RuleEvidence,
    Ruling,
    TooFewInSync,
    TookOver,
)
from harness.checks.contract.survival import END_OF_TIME, Survival, Window
from harness.checks.contract.unseen import is_later, may_be_unseen
from harness.checks.model.elections import Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import Deletion, PartitionHistory
from harness.checks.model.watermarks import Watermarks
from harness.checks.spark.detection import EpochRead


class Judge:
    """Rules on one partition's records that no setting removed; records with the same deciding facts share a ruling."""

    def __init__(self, history: PartitionHistory, reads: Sequence[EpochRead] = ()) -> None:
        self._history = history
        self._survival = Survival(history, reads)
        self._watermarks = Watermarks(history, reads, self._survival.may_answer_for_another)
        self._rulings: dict[tuple[Any, ...], Ruling] = {}
        self._in_force: dict[tuple[Any, ...], bool] = {}

    def rule(self, lost: LostRecord) -> Ruling:
        """Cached by what it reads: a ruling compares offsets and times only with those of the history."""
        committed = self._watermarks.is_committed(lost)
        if committed is None and lost.acks in (0, 1):
            return _either_way(*(self._cached(replace(lost, committed=each)) for each in (False, True)))
        return self._cached(replace(lost, committed=bool(committed)))

    def is_the_leader_in_force(self, time_ns: int) -> bool:
        """Whether what clients were answered at this time came from the leader in force, and from no other."""
        key = _side(self._survival.times, time_ns), _side(self._history.faults.times, time_ns)
        if key not in self._in_force:
            self._in_force[key] = self._survival.answers_alone(time_ns)
        return self._in_force[key]

    def _cached(self, lost: LostRecord) -> Ruling:
        key = (
            replace(lost, offset=None, t_acknowledged=None, t_last_read=None, t_sent=None, absent_t=None),
            _side(self._survival.offsets, lost.offset),
            _side(self._survival.times, lost.t_acknowledged),
            _side(self._survival.times, lost.t_last_read),
            _side(self._history.faults.times, lost.t_last_read),
            _side(self._survival.times, lost.t_sent),
            _side(self._history.faults.times, lost.t_acknowledged),
            _side(self._survival.times, lost.absent_t),
            _side(self._history.faults.times, lost.absent_t),
        )
        if key not in self._rulings:
            self._rulings[key] = self._ruled(lost)
        return self._rulings[key]

    def _ruled(self, lost: LostRecord) -> Ruling:
        ruling = rule(self._history, lost, self._survival)
        deletion = self._history.deletion
        if deletion is not None and took(deletion, self._survival.window(lost)):
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


def _side(boundaries: Sequence[int], value: int | None) -> tuple[int, int] | None:
    return None if value is None else (bisect_left(boundaries, value), bisect_right(boundaries, value))


def _gone_with_its_topic(deletion: Deletion, ruling: Ruling) -> Ruling:
    became, undecided = outcome(deletion, otherwise=ruling.classification, undecided=ruling.undecided)
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

    The harness never sends it, so nobody did in its own cluster; brokers refuse it for a topic that does not delete.
    """
    if ruling.classification != "violation":
        return ruling
    if history.is_foreign and "delete" in (history.cleanup_policy or "delete"):
        undecided = Doubt(code="moved-by-somebody")
        return replace(ruling, classification="observation", cause="log-start", undecided=undecided)
    return ruling if ruling.election is not None else replace(ruling, cause="log-start")


def rule(history: PartitionHistory, lost: LostRecord, survival: Survival | None = None) -> Ruling:
    """Rules on one record. If no log held it, the leader in force or an earlier, deposed one acknowledged it."""
    survival = survival or Survival(history)
    if survival.outlived(lost):
        epoch = lost.epoch if lost.epoch is not None else history.epoch_at(lost.t_acknowledged)
        return _ruled_by(history, None, lost, epoch, lost.epoch is None, _to_the_end(epoch))
    deposed = None if lost.epoch is not None or lost.in_a_log else _deposed(history, lost)
    if deposed is None:
        return _of_whichever_leader(history, lost, _rule(history, lost, survival), survival)
    as_deposed = _rule(history, replace(lost, epoch=deposed), survival)
    if lost.taken or _was_answered_by(history, lost, deposed):
        return as_deposed  # within its epoch a leader assigns an offset once
    ruling = _rule(history, lost, survival)
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


def _of_whichever_leader(history: PartitionHistory, lost: LostRecord, ruling: Ruling, survival: Survival) -> Ruling:
    """Where no log shows the record's epoch, a deposed leader that had not heard yet may have acknowledged it."""
    if lost.epoch is not None or lost.t_acknowledged is None:
        return ruling
    for election in history.elections_near(lost.t_acknowledged):
        as_its = _rule(history, replace(lost, epoch=election.epoch), survival)
        if not election.begins_above(lost.offset) and as_its.classification != ruling.classification:
            undecided = ruling.undecided or Doubt(code="acknowledged-before-or-after")
            return replace(ruling, classification="observation", undecided=undecided)
    term = history.term_at(lost.t_acknowledged)
    if term is None or ruling.classification != "violation":
        return ruling
    for epoch in survival.epochs_that_may_go_on(term, lost.t_acknowledged):
        if _rule(history, replace(lost, epoch=epoch), survival).classification != "violation":
            doubt = Doubt(code="not-heard-of-its-successor", node=history.leader_of(epoch))
            return replace(ruling, classification="observation", undecided=doubt)
    return ruling


def _rule(history: PartitionHistory, lost: LostRecord, survival: Survival) -> Ruling:
    """Rules by each event that may have removed the record; what a deposed leader may have shown counts both ways."""
    by_time = lost.epoch is None and not lost.in_a_log
    epoch = lost.epoch if lost.epoch is not None else history.epoch_at(lost.t_acknowledged)
    window = survival.window(lost)
    windows = [window]
    if (window.doubt_epoch, window.doubt_t) != (window.after_epoch, window.after_t):
        windows.append(replace(window, after_epoch=window.doubt_epoch, after_t=window.doubt_t))
    if window.perhaps_gone != (window.until_epoch, window.until_t):
        until_epoch, until_t = window.perhaps_gone
        windows += [replace(each, until_epoch=until_epoch, until_t=until_t) for each in windows]
    rulings = []
    for each in windows:
        for election, since in _suspects(history, lost, epoch, by_time, survival, each):
            rulings.append(_ruled_by(history, election, lost, epoch, by_time, _seen_again(each, since)))
    ruling = next((each for each in rulings if each.classification != "permitted"), rulings[0])
    if any(each.classification != rulings[0].classification for each in rulings):
        undecided = next((each.undecided for each in rulings if each.undecided), None) or _several(rulings)
        return replace(ruling, classification="observation", undecided=undecided)
    ruling = rulings[0]
    unseen = may_be_unseen(history, lost, epoch, by_time) if ruling.classification == "violation" else None
    if ruling.classification == "permitted" and not history.exact and _was_cut_before(history, lost, ruling.election):
        unseen = Doubt(code="cut-while-polled")
    led_without = ruling.election if ruling.classification == "permitted" else None
    if led_without is not None and led_without.unclean and survival.lost_before_it_led(led_without, lost):
        unseen = Doubt(code="lost-before-it-led", node=led_without.leader)
    return replace(ruling, classification="observation", undecided=unseen) if unseen else ruling


def _seen_again(window: Window, since: int) -> Window:
    """The window of a record that was, or may have been, there at `since`: earlier evidence of absence is ignored."""
    if window.until_t is not None and window.until_t <= since:
        return replace(window, after_t=since, until_epoch=None, until_t=None)
    return replace(window, after_t=since)


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


def _suspects(
    history: PartitionHistory, lost: LostRecord, epoch: int | None, by_time: bool, survival: Survival, window: Window
) -> list[tuple[Election | None, int]]:
    """The elections that may have removed the record, in order, up to the first that certainly did; None: none of them.

    With each comes the time at which the record still existed, if this election removed it: that of the previous leader
    that may have had it. An unclean election may bring back a record that another leader's log lacked, and so may any
    election without a log that shows the opposite, or after leaders that nobody knows to have begun to lead, who made
    nobody cut it; if that is unknown, the search continues after it.
    """
    suspects: list[tuple[Election | None, int]] = []
    gone, begun, since = False, False, window.after_t
    gone_t = window.until_t
    if gone_t is not None and any(
        each.earliest_t > gone_t and survival.had(each, lost) is not False for each in history.elections
    ):
        gone_t = None  # a later leader may have brought it back
    for election in history.elections:
        in_time = gone_t is None or election.earliest_t <= gone_t
        if not is_later(election, lost, epoch, by_time):
            continue
        had = survival.had(election, lost)
        if not (in_time if by_time else window.admits(election)):
            since = max(since, election.earliest_t) if had is True and not gone else since
            continue
        gone = gone and not (had is None and (election.unclean or by_time or not begun))
        if not gone and had is not True:
            suspects.append((election, since))
        gone = gone or had is False
        begun = begun or (had is False and election.start is not None)
        since = since if had is False else max(since, election.earliest_t)
    return suspects if gone else [*suspects, (None, since)]


def _ruled_by(
    history: PartitionHistory,
    election: Election | None,
    lost: LostRecord,
    epoch: int | None,
    by_time: bool,
    window: Window,
) -> Ruling:
    unclean = _unclean_rule(election, lost, epoch)
    fail_over, moved = _fail_over_rule(history, election, lost, epoch)
    destroyed = destruction(history, lost, epoch, window, until=election)
    by_disk = Rule(rule="destruction", holds=destroyed.holds, evidence=destroyed)
    rules = (unclean, fail_over, by_disk)
    permitted = any(each.holds for each in rules)
    open_ends = [each for each in rules if each.holds is None]
    unknown = not permitted and bool(open_ends)
    return Ruling(
        classification="permitted" if permitted else "observation" if unknown else "violation",
        cause=_cause(election, destroyed, fail_over, moved),
        election=election,
        epoch=epoch,
        by_time=by_time,
        rules=rules,
        disk_losses=destroyed.losses,
        destroyed=destroyed.holds,
        undecided=Doubt(code="rule-not-decided", rule=open_ends[0]) if unknown else None,
    )


def _cause(election: Election | None, destroyed: Destruction, fail_over: Rule, moved: bool) -> LossCause:
    if election is not None and election.unclean:
        return "unclean-election"
    if destroyed.holds:
        return "destruction"
    if election is None:
        return "unknown"
    return ("fail-over" if fail_over.holds else "clean-election") if moved else "restart"


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


def _unclean_rule(election: Election | None, lost: LostRecord, epoch: int | None) -> Rule:
    if election is None:
        return Rule(rule="unclean-election", holds=False, evidence=NoLaterLeader(epoch=epoch, offset=lost.offset))
    return Rule(rule="unclean-election", holds=election.allowed if election.unclean else False, evidence=election)


def _fail_over_rule(
    history: PartitionHistory, election: Election | None, lost: LostRecord, epoch: int | None
) -> tuple[Rule, bool]:
    """The rule, and whether leadership went to another broker."""
    moved = _moved(history, election, epoch)
    evidence: RuleEvidence
    if lost.acks not in (0, 1):
        evidence, holds = HeldToMore(why="acks-all"), False
    elif lost.committed:
        evidence, holds = HeldToMore(why="committed"), False
    elif election is None:
        evidence, holds = NoLaterLeader(epoch=epoch, offset=lost.offset), False
    else:
        evidence = TookOver(leader=election.leader, epoch=election.epoch, start=election.start, moved=moved)
        holds = moved
    return Rule(rule="fail-over", holds=holds, evidence=evidence), moved


def _moved(history: PartitionHistory, election: Election | None, epoch: int | None) -> bool:
    """Whether leadership moved from the previous leader. That one may itself have fetched the record from another."""
    if election is None:
        return False
    before = history.leader_of(epoch) if election.leader_before < 0 else election.leader_before
    return election.leader != before


def lawful_rewind(
    history: PartitionHistory,
    *,
    offset: int,
    epoch: int | None,
    time_ns: int | None,
    strict: bool,
    since: int | None = None,
) -> Election | None:
    """The election, by epoch or time, that explains why the log's end moved back to `offset` or below, if there is one.

    strict: the records are committed, so a clean fail-over explains nothing. since: a reader saw the record at the
    offset at that time; a leader deposed earlier may have returned it.
    """
    survival = Survival(history)
    before: Election | None = None
    found: Election | None = None
    for election in history.elections:
        first, before = before, election
        if first is None or (epoch is not None and election.epoch > epoch):
            continue  # before the first election the log was empty
        if time_ns is not None and election.earliest_t > time_ns:
            continue
        if since is not None and election.latest_t < since and not survival.may_answer_for_another(election, since):
            continue
        unread = election.start is None and not history.exact and not history.snapshots
        if not unread and not election.ends_at_or_below(offset):
            continue
        lost = LostRecord(
            offset=offset,
            epoch=first.epoch,
            acks=-1 if strict else 1,
            t_acknowledged=None,
            committed=strict,
            in_a_log=not unread,
        )
        ruling = _ruled_by(history, election, lost, first.epoch, False, _since(first))
        # An undecided ruling is enough: the loss itself then makes the run inconclusive.
        if ruling.classification != "violation" or may_be_unseen(history, lost, first.epoch, False):
            found = election
    return found


def _to_the_end(epoch: int | None) -> Window:
    """The window of a record that nothing can have taken: what stands above it is there at the end."""
    epoch = -1 if epoch is None else epoch
    return Window(
        after_epoch=epoch, after_t=END_OF_TIME, doubt_epoch=epoch, doubt_t=END_OF_TIME, until_epoch=None, until_t=None
    )


def _since(election: Election) -> Window:
    """The window of a record that was there when a leader took over, and may be gone for any later reason."""
    return Window(
        after_epoch=election.epoch,
        after_t=election.earliest_t,
        doubt_epoch=election.epoch,
        doubt_t=election.earliest_t,
        until_epoch=None,
        until_t=None,
    )
