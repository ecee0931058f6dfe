"""What a system may lose, per record and by cause (DESIGN 6). Configuration alone excuses nothing.

A record that is gone is *permitted* to be gone when one of three exceptions is proved on its partition, between its
acknowledgement and its loss; else it is a violation, and the ruling lists each exception that was tried and failed:

1. an unclean election, allowed by the configuration, in an epoch above the record's, whose log began at or below the
   record's offset;
2. a fail-over to another leader whose log did not have it, when it was acknowledged with acks=1 (or 0) and never
   committed: a record that a consumer read was below the high watermark, so it is held to the strict promise;
3. the destruction of every in-sync copy.

Epochs and offsets decide; time decides only where no replica's log ever held the record. Even then a deposed leader may
have acknowledged it, one that cut its offset later: what took the offset meanwhile tells, or else it is left open.

Where the cluster's own books cannot be read, an exception may have held unseen between two polls. If the configuration
leaves room for it, the ruling is an observation that says so, and the run is inconclusive; if not, it is a violation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from harness.checks.story import DiskLoss, Election, PartitionStory, committed_copies
from harness.checks.tables import Row

Class = Literal["violation", "permitted", "observation"]
Cause = Literal["unclean-election", "fail-over", "destruction", "clean-election", "restart", "log-start", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Rule:
    rule: str
    holds: bool
    evidence: str

    def as_dict(self) -> dict[str, Any]:
        return {"rule": self.rule, "holds": self.holds, "evidence": self.evidence}


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What is known of a record that is gone."""

    offset: int | None
    epoch: int | None
    acks: int | None
    t_acknowledged: int | None
    committed: bool  # a consumer read it
    in_a_log: bool  # some replica's log held it
    taken: bool = False  # the leader in force when it was acknowledged gave its offset to another record


@dataclass(frozen=True, kw_only=True)
class Ruling:
    classification: Class
    cause: Cause
    election: Election | None
    epoch: int | None  # the record's
    by_time: bool
    rules: tuple[Rule, ...]
    disk_losses: tuple[DiskLoss, ...] = ()
    undecided: str = ""  # what may have permitted it and would not have been seen

    @property
    def cause_epoch(self) -> int | None:
        return self.election.epoch if self.election else None


class Judge:
    """Rules on records of one partition that no setting removed; records alike in what decides share one ruling."""

    def __init__(self, story: PartitionStory) -> None:
        self._story = story
        self._rulings: dict[tuple[Any, ...], Ruling] = {}

    def rule(self, fate: Fate) -> Ruling:
        """Cached by what decides: the epoch and the side of each boundary that the record lies on."""
        story = self._story
        sides = tuple(election.lacks(fate.offset, fate.epoch) for election in story.elections)
        cuts = tuple(
            _at_or_below(cut.to_offset, fate)
            and not _at_or_below(cut.from_offset, fate)
            and (fate.t_acknowledged or 0) <= cut.t
            for cut in story.truncations
        )
        acknowledged = tuple((fate.t_acknowledged or 0) <= row["t"] for row in story.states)
        succeeded = tuple(
            election.t + election.uncertainty_ns < (fate.t_acknowledged or 0) for election in story.elections
        )
        removed = fate.offset is not None and fate.offset < (story.log_start or 0)
        wiped = tuple((fate.t_acknowledged or 0) < loss.t for loss in story.disk_losses)
        key = (
            fate.epoch,
            fate.acks,
            fate.committed,
            fate.in_a_log,
            fate.offset is None,
            fate.taken,
            sides,
            cuts,
            acknowledged,
            succeeded,
            removed,
            wiped,
        )
        if key not in self._rulings:
            self._rulings[key] = _beyond_start(story, rule(story, fate)) if removed else rule(story, fate)
        return self._rulings[key]


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


def rule(story: PartitionStory, fate: Fate) -> Ruling:
    """A record that no log held was acknowledged by the leader in force, or by one deposed before that cut it later."""
    deposed = None if fate.epoch is not None or fate.in_a_log else _deposed(story, fate)
    if deposed is None:
        return _rule(story, fate)
    as_deposed = _rule(story, replace(fate, epoch=deposed))
    if fate.taken:
        return as_deposed  # within its epoch a leader gives an offset once
    ruling = _rule(story, fate)
    if ruling.classification == as_deposed.classification:
        return ruling
    undecided = (
        f"it may have been acknowledged by broker {story.leader_of(deposed)}, deposed before, which cut its offset "
        "later; that log was not read in between"
    )
    return replace(ruling, classification="observation", undecided=ruling.undecided or undecided)


def _rule(story: PartitionStory, fate: Fate) -> Ruling:
    by_time = fate.epoch is None and not fate.in_a_log
    epoch = fate.epoch if fate.epoch is not None else story.epoch_at(fate.t_acknowledged)
    election = _deciding_election(story, fate, epoch, by_time)
    unclean = _unclean_rule(election, fate, epoch)
    fail_over, moved = _fail_over_rule(story, election, fate, epoch)
    destroyed, losses = _destruction_rule(story, election, fate)
    rules = (unclean, fail_over, destroyed)
    cause: Cause = "unknown"
    if election is not None and election.unclean:
        cause = "unclean-election"
    elif destroyed.holds:
        cause = "destruction"
    elif election is not None:
        cause = ("fail-over" if fail_over.holds else "clean-election") if moved else "restart"
    permitted = any(each.holds for each in rules)
    undecided = "" if permitted else _may_be_unseen(story, fate, epoch, by_time)
    return Ruling(
        classification="permitted" if permitted else "observation" if undecided else "violation", cause=cause,
        election=election, epoch=epoch, by_time=by_time, rules=rules, disk_losses=tuple(losses), undecided=undecided,
    )  # fmt: skip


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
        if successor is not None and successor.t + successor.uncertainty_ns < fate.t_acknowledged:
            return led[-1]
    return None


def _may_be_unseen(story: PartitionStory, fate: Fate, epoch: int | None, by_time: bool) -> str:
    """What the configuration would have permitted and polling would have missed; empty when nothing is."""
    if story.exact:
        return ""
    lenient = fate.acks in (0, 1) and not fate.committed
    if not any(row["leader_epoch"] >= 0 for row in story.states):
        if lenient or story.unclean_allowed:
            return "these brokers tell no leader epochs, so nobody saw who was elected when"
        return ""
    later = [election for election in story.elections if _is_later(election, fate, epoch, by_time)]
    if any(election.allowed for election in later):
        return (
            "an unclean election was allowed, and of leaders and ISRs only what brokers were heard to say is known: "
            "it may have been unclean"
        )
    if lenient and later:
        return "it was acknowledged with acks=1, and leadership may have gone to another broker and back unseen"
    return ""


def _is_later(election: Election, fate: Fate, epoch: int | None, by_time: bool) -> bool:
    """Whether the election may have come between the record's acknowledgement and its loss."""
    if by_time:
        return fate.t_acknowledged is None or election.t + election.uncertainty_ns >= fate.t_acknowledged
    return epoch is None or election.epoch > epoch


def _at_or_below(start: int, fate: Fate) -> bool:
    return fate.offset is None or start <= fate.offset


def _deciding_election(story: PartitionStory, fate: Fate, epoch: int | None, by_time: bool) -> Election | None:
    """The first leader after the record's epoch whose log did not have the record when it took over."""
    for election in story.elections:
        if by_time:
            # No log ever held it: it can only have been lost by a change after its acknowledgement.
            if fate.t_acknowledged is not None and election.t + election.uncertainty_ns < fate.t_acknowledged:
                continue
        elif epoch is None or election.epoch <= epoch:
            continue
        lacks = election.lacks(fate.offset, epoch)
        if lacks is None:
            # Before Kafka 0.11 records carry no epochs, so nobody knows where an unclean leader's log ended; what its
            # followers cut does not tell either, since they cut to their own high watermarks. It may well have cost it.
            cuts = (
                [] if election.unclean else [cut.to_offset for cut in story.truncations if cut.epoch == election.epoch]
            )
            if not (cuts or by_time or election.unclean) and (fate.in_a_log or story.snapshots):
                continue  # logs were read, and they do not tell; where none ever was, the epoch has to do
            lacks = _at_or_below(min(cuts, default=0), fate)
        if lacks:
            return election
    return None


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
    text = "It was acknowledged with acks=1 and leadership went to a broker whose log did not have it."
    if fate.acks not in (0, 1):
        return Rule(rule=text, holds=False, evidence="It was acknowledged with acks=all."), _moved(
            story, election, epoch
        )
    if fate.committed:
        moved = _moved(story, election, epoch)
        return Rule(rule=text, holds=False, evidence="A consumer had read it, so it was committed."), moved
    if election is None:
        return Rule(rule=text, holds=False, evidence=_no_election(fate, epoch)), False
    moved = _moved(story, election, epoch)
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


def _destruction_rule(story: PartitionStory, election: Election | None, fate: Fate) -> tuple[Rule, list[DiskLoss]]:
    """Every member of the ISR in force at one moment had lost its disk since it last joined that ISR.

    An eligible leader replica counts like a member: it too has every committed record.
    """
    text = "Every in-sync copy was destroyed."
    since = fate.t_acknowledged or 0
    after = [loss for loss in story.disk_losses if loss.t > since]
    if not after:
        return Rule(rule=text, holds=False, evidence="No disk was lost after the acknowledgement."), []
    for moment in sorted(loss.t for loss in after):
        if election is not None and moment > election.t + election.uncertainty_ns:
            break
        state = story.state_at(moment)
        copies = committed_copies(state) if state else ()
        fatal = {loss.node: loss for loss in after if max(since, _joined(story, loss.node, moment)) < loss.t <= moment}
        if state and copies and all(node in fatal for node in copies):
            losses = [fatal[node] for node in copies]
            return Rule(rule=text, holds=True, evidence=f"{_in_force(state)}; {_disks(losses)}."), losses
    nodes = sorted({loss.node for loss in after})
    return (
        Rule(rule=text, holds=False, evidence=f"Lost disks: broker {_words(nodes)}; another in-sync copy was left."),
        after,
    )


def _joined(story: PartitionStory, node: int, moment: int) -> int:
    """When `node` last came to have every committed record, as of `moment`: it entered the ISR then.

    From the ISR it may go to the eligible leader replicas and back and keeps what it has.
    """
    joined, member = 0, False
    for row in story.states:
        if row["t"] > moment:
            break
        now = node in committed_copies(row)
        if now and not member:
            joined = row["t"]
        member = now
    return joined


def _in_force(state: Row) -> str:
    elr = f" with the eligible leader replicas {list(state['elr'])}" if state["elr"] else ""
    return f"The ISR was {list(state['isr'] or ())}{elr}"


def _disks(losses: list[DiskLoss]) -> str:
    return "; ".join(f"broker {loss.node} lost what its disk held ({loss.evidence})" for loss in losses)


def _words(numbers: list[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def lawful_rewind(
    story: PartitionStory, *, offset: int, epoch: int | None, t: int | None, strict: bool
) -> Election | None:
    """The election that explains why the log's end could move back to `offset` or below by epoch or time, if any did.

    strict: committed records are concerned, so a clean fail-over explains nothing.
    """
    for election in reversed(story.elections[1:]):  # before the first one there was nothing to rewind
        if epoch is not None and election.epoch > epoch:
            continue
        if t is not None and election.t - election.uncertainty_ns > t:
            continue
        unread = election.start is None and not story.exact and not story.snapshots
        if not unread and (election.start is None or election.start > offset):
            continue
        fate = Fate(offset=offset, epoch=_before(story, election), acks=-1 if strict else 1, t_acknowledged=None,
                    committed=strict, in_a_log=not unread)  # fmt: skip
        ruling = rule(story, fate)
        # Undecided will do where no log was read: then the loss itself is what makes the run inconclusive.
        if ruling.election == election and ruling.classification != "violation":
            return election
    return None


def _before(story: PartitionStory, election: Election) -> int:
    return max((each.epoch for each in story.elections if each.epoch < election.epoch), default=election.epoch - 1)


def rules_as_json(ruling: Ruling) -> list[Mapping[str, Any]]:
    return [each.as_dict() for each in ruling.rules]
