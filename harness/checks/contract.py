"""What a system may lose, per record and by cause. Configuration alone excuses nothing.

A record that is gone is *permitted* to be gone when one of three exceptions is proved on its partition, between the
last sighting of it and the first evidence of its absence (survival.py); else it is a violation, and the ruling lists
each exception that was tried and failed:

1. an unclean election, allowed by the configuration, of a leader whose log did not have it;
2. a fail-over to another leader whose log did not have it, when it was acknowledged with acks=1 (or 0) and never
   committed: a record below a high watermark that somebody was told is held to the strict promise;
3. the destruction of every in-sync copy, or of the leader's own where only that had to have it.

Epochs and offsets decide; time decides only where no replica's log ever held the record. Even then a deposed leader may
have acknowledged it, one that cut its offset later: what took the offset meanwhile tells, or else it is left open.

What is not known is never taken for an excuse. Every event that may have taken the record is ruled on, and "nothing
that was recorded" with them where no log shows which one did: if they do not all come to the same, the ruling is an
observation that says so, and the run is inconclusive. So it is where the cluster's own books cannot be read and the
configuration leaves room for an exception that polling would have missed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from harness.checks.deletion import ASKED, outcome, took
from harness.checks.destruction import Destruction, destruction
from harness.checks.elections import Election
from harness.checks.fates import EpochRead, Fate
from harness.checks.story import Deletion, DiskLoss, PartitionStory
from harness.checks.survival import Survival, Window
from harness.checks.watermarks import Watermarks

Class = Literal["violation", "permitted", "observation"]
Cause = Literal[
    "unclean-election", "fail-over", "destruction", "clean-election", "restart", "log-start", "deletion", "unknown"
]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """holds: None where nobody can tell."""

    rule: str
    holds: bool | None
    evidence: str

    def as_dict(self) -> dict[str, Any]:
        return {"rule": self.rule, "holds": self.holds, "evidence": self.evidence}


@dataclass(frozen=True, kw_only=True)
class Ruling:
    classification: Class
    cause: Cause
    election: Election | None
    epoch: int | None  # the record's
    by_time: bool
    rules: tuple[Rule, ...]
    disk_losses: tuple[DiskLoss, ...] = ()
    undecided: str = ""  # what may have permitted it and cannot be told

    @property
    def cause_epoch(self) -> int | None:
        return self.election.epoch if self.election else None


class Judge:
    """Rules on records of one partition that no setting removed; records alike in what decides share one ruling."""

    def __init__(self, story: PartitionStory, reads: Sequence[EpochRead] = ()) -> None:
        self._story = story
        self._survival = Survival(story, reads)
        self._watermarks = Watermarks(story, reads, self._survival.may_answer_for_another)
        self._rulings: dict[tuple[Any, ...], Ruling] = {}

    def rule(self, fate: Fate) -> Ruling:
        """Cached by what it reads: a ruling compares offsets and times only with those of the story."""
        fate = replace(fate, committed=self._watermarks.is_committed(fate))
        key = (
            replace(fate, offset=None, t_acknowledged=None, t_last_read=None),
            _side(self._survival.offsets, fate.offset), _side(self._survival.times, fate.t_acknowledged),
            _side(self._survival.times, fate.t_last_read), _side(self._story.faults.times, fate.t_last_read),
        )  # fmt: skip
        if key not in self._rulings:
            self._rulings[key] = self._ruled(fate)
        return self._rulings[key]

    def _ruled(self, fate: Fate) -> Ruling:
        ruling = rule(self._story, fate, self._survival)
        deletion = self._story.deletion
        if deletion is not None and took(deletion, self._survival.window(fate)):
            return _gone_with_its_topic(deletion, ruling)
        removed = fate.offset is not None and fate.offset < (self._story.log_start or 0)
        return _beyond_start(self._story, ruling) if removed else ruling


def forfeited(ruling: Ruling, least: int) -> Ruling:
    """Of a record that was acknowledged with fewer copies than min.insync.replicas: no later event excuses its loss."""
    text = "It was acknowledged by as many in-sync replicas as min.insync.replicas demands."
    kept = Rule(rule=text, holds=False, evidence=f"min.insync.replicas={least}, and fewer were in sync.")
    return replace(ruling, classification="violation", undecided="", rules=(*ruling.rules, kept))


def _side(boundaries: Sequence[int], value: int | None) -> tuple[int, int] | None:
    return None if value is None else (bisect_left(boundaries, value), bisect_right(boundaries, value))


def _gone_with_its_topic(deletion: Deletion, ruling: Ruling) -> Ruling:
    became, undecided = outcome(deletion, otherwise=ruling.classification, undecided=ruling.undecided)
    rule = Rule(rule="Its topic was deleted on request.", holds=deletion.asked, evidence=ASKED[deletion.asked])
    return replace(ruling, classification=became, cause="deletion", election=None, disk_losses=(), undecided=undecided,
                   rules=(*ruling.rules, rule))  # fmt: skip


def _beyond_start(story: PartitionStory, ruling: Ruling) -> Ruling:
    """Of a record below its log's start, which DeleteRecords may move for anyone who may ask for it.

    The harness never does, so in a cluster of its own nobody has; brokers refuse it where the topic does not delete.
    """
    if ruling.classification != "violation":
        return ruling
    if story.is_foreign and "delete" in (story.cleanup_policy or "delete"):
        undecided = (
            "it lies below the log's start, which no setting moved; somebody else runs this cluster, and whoever may "
            "have asked for it to be removed (DeleteRecords) is not known"
        )
        return replace(ruling, classification="observation", cause="log-start", undecided=undecided)
    return ruling if ruling.election is not None else replace(ruling, cause="log-start")


def rule(story: PartitionStory, fate: Fate, survival: Survival | None = None) -> Ruling:
    """A record that no log held was acknowledged by the leader in force, or by one deposed before that cut it later."""
    survival = survival or Survival(story)
    deposed = None if fate.epoch is not None or fate.in_a_log else _deposed(story, fate)
    if deposed is None:
        return _of_whichever_leader(story, fate, _rule(story, fate, survival), survival)
    as_deposed = _rule(story, replace(fate, epoch=deposed), survival)
    if fate.taken:
        return as_deposed  # within its epoch a leader gives an offset once
    ruling = _rule(story, fate, survival)
    if ruling.classification == as_deposed.classification:
        return ruling
    undecided = (
        f"it may have been acknowledged by broker {story.leader_of(deposed)}, deposed before, which cut its offset "
        "later; that log was not read in between"
    )
    return replace(ruling, classification="observation", undecided=ruling.undecided or undecided)


def _of_whichever_leader(story: PartitionStory, fate: Fate, ruling: Ruling, survival: Survival) -> Ruling:
    """Where no log tells the record's epoch, a deposed leader that had not heard yet may have acknowledged it."""
    reign = story.reign_at(fate.t_acknowledged) if fate.t_acknowledged is not None else None
    if fate.epoch is not None or reign is None or fate.t_acknowledged is None or ruling.classification != "violation":
        return ruling
    for epoch in survival.epochs_that_may_go_on(reign, fate.t_acknowledged):
        if _rule(story, replace(fate, epoch=epoch), survival).classification != "violation":
            who = f"broker {story.leader_of(epoch)}, deposed before, may have acknowledged it without having heard"
            return replace(ruling, classification="observation", undecided=who)
    return ruling


def _rule(story: PartitionStory, fate: Fate, survival: Survival) -> Ruling:
    """By each event that may have taken the record; what a deposed leader may have shown counts both ways."""
    by_time = fate.epoch is None and not fate.in_a_log
    epoch = fate.epoch if fate.epoch is not None else story.epoch_at(fate.t_acknowledged)
    window = survival.window(fate)
    windows = [window]
    if (window.doubt_epoch, window.doubt_t) != (window.after_epoch, window.after_t):
        windows.append(replace(window, after_epoch=window.doubt_epoch, after_t=window.doubt_t))
    rulings = []
    for each in windows:
        for election, since in _suspects(story, fate, epoch, by_time, survival, each):
            rulings.append(_ruled_by(story, election, fate, epoch, by_time, replace(each, after_t=since)))
    ruling = next((each for each in rulings if each.classification != "permitted"), rulings[0])
    if any(each.classification != rulings[0].classification for each in rulings):
        undecided = next((each.undecided for each in rulings if each.undecided), "") or _several(rulings)
        return replace(ruling, classification="observation", undecided=undecided)
    ruling = rulings[0]
    unseen = _may_be_unseen(story, fate, epoch, by_time) if ruling.classification == "violation" else ""
    if ruling.classification == "permitted" and not story.exact and _was_cut_before(story, fate, ruling.election):
        unseen = "a log gave it up before the leadership changed, and who was in sync then was only polled for"
    return replace(ruling, classification="observation", undecided=unseen) if unseen else ruling


def _was_cut_before(story: PartitionStory, fate: Fate, election: Election | None) -> bool:
    """Whether some log cut the record before the event that would excuse its loss."""
    if election is None or fate.offset is None:
        return False
    return any(
        cut.to_offset <= fate.offset < cut.from_offset
        and (fate.t_acknowledged or 0) < cut.t < election.latest_t
        and (cut.epoch is None or cut.epoch < election.epoch)
        for cut in story.truncations
    )


def _several(rulings: Sequence[Ruling]) -> str:
    epochs = sorted({each.election.epoch for each in rulings if each.election is not None})
    named = ", ".join(str(epoch) for epoch in epochs)
    if not epochs:
        return "nothing tells whether the disks that were lost held it, or whether it was seen after that"
    return (
        f"no log that was read tells whether the leader of epoch {named} had it, or lost it later: the one would be "
        "permitted, the other not"
    )


def _suspects(
    story: PartitionStory, fate: Fate, epoch: int | None, by_time: bool, survival: Survival, window: Window
) -> list[tuple[Election | None, int]]:
    """The elections that may have cost the record, in order, up to the first that surely did; None: none of them.

    Beside each the time at which the record was still there, if it was that one: that of the leader before that may
    have had it. An unclean election may bring back what another leader's log did not have; where that cannot be told,
    the search goes on behind it.
    """
    suspects: list[tuple[Election | None, int]] = []
    gone, since = False, window.after_t
    for election in story.elections:
        if not _is_later(election, fate, epoch, by_time) or not (by_time or window.admits(election)):
            continue
        had = survival.had(election, fate)
        gone = gone and not (had is None and election.unclean)
        if not gone and had is not True:
            suspects.append((election, since))
        gone = gone or had is False
        since = since if had is False else max(since, election.earliest_t)
    return suspects if gone else [*suspects, (None, since)]


def _ruled_by(
    story: PartitionStory, election: Election | None, fate: Fate, epoch: int | None, by_time: bool, window: Window
) -> Ruling:
    unclean = _unclean_rule(election, fate, epoch)
    fail_over, moved = _fail_over_rule(story, election, fate, epoch)
    destroyed = destruction(story, fate, epoch, window, until=election)
    by_disk = Rule(rule="Every in-sync copy was destroyed.", holds=destroyed.holds, evidence=destroyed.evidence)
    rules = (unclean, fail_over, by_disk)
    permitted = any(each.holds for each in rules)
    unknown = not permitted and any(each.holds is None for each in rules)
    return Ruling(
        classification="permitted" if permitted else "observation" if unknown else "violation",
        cause=_cause(election, destroyed, fail_over, moved), election=election, epoch=epoch, by_time=by_time,
        rules=rules, disk_losses=destroyed.losses,
        undecided=next((each.evidence for each in rules if each.holds is None), "").rstrip(".") if unknown else "",
    )  # fmt: skip


def _cause(election: Election | None, destroyed: Destruction, fail_over: Rule, moved: bool) -> Cause:
    if election is not None and election.unclean:
        return "unclean-election"
    if destroyed.holds:
        return "destruction"
    if election is None:
        return "unknown"
    return ("fail-over" if fail_over.holds else "clean-election") if moved else "restart"


def _deposed(story: PartitionStory, fate: Fate) -> int | None:
    """The last epoch of a leader that had a successor when the record was acknowledged, and cut its offset after that.

    It cut on learning of the successor; what stood in its tail nobody can have read in between.
    """
    if fate.offset is None or fate.t_acknowledged is None:
        return None
    for cut in story.truncations:
        if cut.epoch is None or cut.t < fate.t_acknowledged or not cut.to_offset <= fate.offset < cut.from_offset:
            continue
        led = [each.epoch for each in story.elections if each.leader == cut.node and each.epoch < cut.epoch]
        successor = next((each for each in story.elections if led and each.epoch > led[-1]), None)
        if successor is not None and successor.latest_t < fate.t_acknowledged:
            return led[-1]
    return None


def _may_be_unseen(story: PartitionStory, fate: Fate, epoch: int | None, by_time: bool) -> str:
    """What the configuration would have permitted and polling would have missed; empty when nothing is."""
    if story.exact:
        return ""
    since = fate.t_acknowledged or 0
    if any(loss.t > since and loss.event.took(story.topic, story.part, fate.offset) for loss in story.disk_losses):
        return "a disk was lost, and who was in sync then is known only by what brokers were heard to say, if at all"
    if not any(row["leader_epoch"] >= 0 for row in story.states):
        if fate.is_lenient or story.unclean_allowed is not False:
            return "these brokers tell no leader epochs, so nobody saw who was elected when"
        return ""
    later = [election for election in story.elections if _is_later(election, fate, epoch, by_time)]
    if any(election.allowed is not False for election in later):
        return (
            "an unclean election was allowed, and of leaders and ISRs only what brokers were heard to say is known: "
            "it may have been unclean"
        )
    if fate.is_lenient and later:
        return "it was acknowledged with acks=1, and leadership may have gone to another broker and back unseen"
    return ""


def _is_later(election: Election, fate: Fate, epoch: int | None, by_time: bool) -> bool:
    """Whether the election may have come between the record's acknowledgement and its loss."""
    if by_time:
        return fate.t_acknowledged is None or election.latest_t >= fate.t_acknowledged
    return epoch is None or election.epoch > epoch


def _unclean_rule(election: Election | None, fate: Fate, epoch: int | None) -> Rule:
    text = "An unclean election that the configuration allows came between acknowledgement and loss."
    if election is None:
        return Rule(rule=text, holds=False, evidence=_no_election(fate, epoch))
    start = "an unknown offset" if election.start is None else f"offset {election.start}"
    elr = f" and the eligible leader replicas were {list(election.elr_before)}" if election.elr_before else ""
    what = (
        f"Epoch {election.epoch} began at {start} under broker {election.leader}; the ISR before was "
        f"{list(election.isr_before)}{elr}, so the election was {'unclean' if election.unclean else 'clean'}"
    )
    if not election.unclean:
        return Rule(rule=text, holds=False, evidence=what + ".")
    return Rule(rule=text, holds=election.allowed, evidence=f"{what}; {election.allowed_by}.")


def _no_election(fate: Fate, epoch: int | None) -> str:
    place = "its offset" if fate.offset is None else f"offset {fate.offset}"
    return f"No leader after epoch {'unknown' if epoch is None else epoch} began its log at or below {place}."


def _fail_over_rule(
    story: PartitionStory, election: Election | None, fate: Fate, epoch: int | None
) -> tuple[Rule, bool]:
    """The rule, and whether leadership went to another broker."""
    text = "It was acknowledged with acks=1 and leadership went to a broker whose log did not have it."
    moved = _moved(story, election, epoch)
    if fate.acks not in (0, 1):
        return Rule(rule=text, holds=False, evidence="It was acknowledged with acks=all."), moved
    if fate.committed:
        evidence = "It was below a high watermark that a reader or a log that held it was told: committed."
        return Rule(rule=text, holds=False, evidence=evidence), moved
    if election is None:
        return Rule(rule=text, holds=False, evidence=_no_election(fate, epoch)), False
    went = f"Broker {election.leader} took over in epoch {election.epoch}"
    evidence = (
        f"{went} with log end {'unknown' if election.start is None else election.start}."
        if moved
        else f"Broker {election.leader} led before and after: nothing failed over."
    )
    return Rule(rule=text, holds=moved, evidence=evidence), moved


def _moved(story: PartitionStory, election: Election | None, epoch: int | None) -> bool:
    if election is None:
        return False
    leader = story.leader_of(epoch)
    return election.leader != (leader if leader is not None else election.leader_before)


def lawful_rewind(
    story: PartitionStory, *, offset: int, epoch: int | None, t: int | None, strict: bool, since: int | None = None
) -> Election | None:
    """The election that explains why the log's end could move back to `offset` or below by epoch or time, if any did.

    strict: committed records are concerned, so a clean fail-over explains nothing. since: what lay at the offset was
    still there at that time, as its reader saw it; a leader that was deposed before may have shown it.
    """
    survival = Survival(story)
    before: Election | None = None
    found: Election | None = None
    for election in story.elections:
        first, before = before, election
        if first is None or (epoch is not None and election.epoch > epoch):
            continue  # before the first one there was nothing to rewind
        if t is not None and election.earliest_t > t:
            continue
        if since is not None and election.latest_t < since and not survival.may_answer_for_another(election, since):
            continue
        unread = election.start is None and not story.exact and not story.snapshots
        if not unread and (election.start is None or election.start > offset):
            continue
        fate = Fate(offset=offset, epoch=first.epoch, acks=-1 if strict else 1, t_acknowledged=None,
                    committed=strict, in_a_log=not unread)  # fmt: skip
        ruling = _ruled_by(story, election, fate, first.epoch, False, _since(first))
        # Undecided will do: then the loss itself is what makes the run inconclusive.
        if ruling.classification != "violation" or _may_be_unseen(story, fate, first.epoch, False):
            found = election
    return found


def _since(election: Election) -> Window:
    """Of what was there when a leader took over, and may be gone for any reason after that."""
    return Window(
        after_epoch=election.epoch, after_t=election.earliest_t, doubt_epoch=election.epoch,
        doubt_t=election.earliest_t, until_epoch=None, until_t=None,
    )  # fmt: skip


def rules_as_json(ruling: Ruling) -> list[Mapping[str, Any]]:
    return [each.as_dict() for each in ruling.rules]
