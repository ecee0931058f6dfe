"""The three exceptions of the promise, each with what has to be shown of a case; nothing else permits a loss.

| exception | of an election that lost the record, or of none | what has to be shown |
|---|---|---|
| unclean election | its leader was outside the ISR and the eligible leader replicas | the configuration allowed it |
| fail-over | leadership went to another broker | acks=0 or 1, and the record had not been committed |
| destruction | whether or not there was one | the disks of all copies that had to be there were lost (destruction.py) |

The strict promise, to which fail-over is no exception, holds for acks=all, and for any record below a high watermark
that a client or broker knew. A case is one way in which the record may have been lost. An exception holds, does not, or
nobody knows (None). Beside them stand what the configuration would have permitted and nobody saw, which permits nothing
but accuses nobody either: brokers that are only polled report less than the books; and records whose topic was deleted,
on request or not: they are judged by the topic that had them, never by a later one of its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from harness.checks.contract.destruction import Destruction, destruction
from harness.checks.contract.rulings import Class, Doubt, HeldToMore, LossCause, NoLaterLeader, Rule, Ruling, TookOver
from harness.checks.contract.timeline import Gone, Window
from harness.checks.model.elections import Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import Deletion, PartitionHistory


@dataclass(frozen=True, kw_only=True)
class Case:
    """Of a record of this epoch, which some election lost, or none, within this window.

    by_time: nothing but time says which epoch it was of.
    """

    history: PartitionHistory
    election: Election | None
    lost: LostRecord
    epoch: int | None
    by_time: bool
    window: Window

    @cached_property
    def destroyed(self) -> Destruction:
        return destruction(self.history, self.lost, self.epoch, self.window, until=self.election)

    @cached_property
    def moved(self) -> bool:
        """Whether leadership went to another broker; the one before may itself have fetched the record from another."""
        if self.election is None:
            return False
        known = self.election.leader_before >= 0
        return self.election.leader != (self.election.leader_before if known else self.history.leader_of(self.epoch))


def unclean_election(case: Case) -> Rule:
    election = case.election
    if election is None:
        nobody = NoLaterLeader(epoch=case.epoch, offset=case.lost.offset)
        return Rule(rule="unclean-election", holds=False, evidence=nobody)
    return Rule(rule="unclean-election", holds=election.allowed if election.unclean else False, evidence=election)


def fail_over(case: Case) -> Rule:
    election, lost = case.election, case.lost
    if lost.acks not in (0, 1):
        return Rule(rule="fail-over", holds=False, evidence=HeldToMore(why="acks-all"))
    if lost.committed:
        return Rule(rule="fail-over", holds=False, evidence=HeldToMore(why="committed"))
    if election is None:
        nobody = NoLaterLeader(epoch=case.epoch, offset=lost.offset)
        return Rule(rule="fail-over", holds=False, evidence=nobody)
    took_over = TookOver(leader=election.leader, epoch=election.epoch, start=election.start, moved=case.moved)
    return Rule(rule="fail-over", holds=case.moved, evidence=took_over)


def destroyed_copies(case: Case) -> Rule:
    return Rule(rule="destruction", holds=case.destroyed.holds, evidence=case.destroyed)


EXCEPTIONS: tuple[Callable[[Case], Rule], ...] = (unclean_election, fail_over, destroyed_copies)


def ruled(case: Case) -> Ruling:
    """Permitted by one exception that holds; a violation if none does; otherwise nobody knows."""
    rules = tuple(exception(case) for exception in EXCEPTIONS)
    permitted = any(rule.holds for rule in rules)
    unknown = None if permitted else next((rule for rule in rules if rule.holds is None), None)
    return Ruling(
        classification="permitted" if permitted else "observation" if unknown else "violation",
        cause=_cause(case, rules),
        election=case.election,
        epoch=case.epoch,
        by_time=case.by_time,
        rules=rules,
        disk_losses=case.destroyed.losses,
        destroyed=case.destroyed.holds,
        undecided=Doubt(code="rule-not-decided", rule=unknown) if unknown else None,
    )


def _cause(case: Case, rules: tuple[Rule, ...]) -> LossCause:
    if case.election is not None and case.election.unclean:
        return "unclean-election"
    if case.destroyed.holds:
        return "destruction"
    if case.election is None:
        return "unknown"
    failed_over = any(rule.rule == "fail-over" and rule.holds for rule in rules)
    return ("fail-over" if failed_over else "clean-election") if case.moved else "restart"


# ---- what nobody saw -------------------------------------------------------------------------------------------------


def may_be_unseen(
    history: PartitionHistory, lost: LostRecord, epoch: int | None, by_time: bool, since_ns: int
) -> Doubt | None:
    """What the configuration would have permitted and polling would have missed; None if there is nothing. `since_ns`:
    when its leader surely had it."""
    if history.exact:
        return None
    if any(
        loss.time_ns > since_ns and loss.event.destroyed(history.topic, history.partition, lost.offset) is not False
        for loss in history.disk_losses
    ):
        return Doubt(code="disk-lost-while-polled")
    if not any(row["leader_epoch"] >= 0 for row in history.states):
        if lost.is_lenient or history.unclean_ever is not False:
            return Doubt(code="no-epochs-told")
        return None
    later = [election for election in history.elections if is_later(election, lost, epoch, by_time)]
    if any(election.allowed is not False for election in later):
        return Doubt(code="unclean-while-polled")
    return Doubt(code="fail-over-while-polled") if lost.is_lenient and later else None


def is_later(election: Election, lost: LostRecord, epoch: int | None, by_time: bool) -> bool:
    """Whether the election may have come between the record's acknowledgement and its loss."""
    if by_time:
        return lost.t_acknowledged is None or election.latest_t >= lost.t_acknowledged
    return epoch is None or election.epoch > epoch


# ---- what went with its topic ----------------------------------------------------------------------------------------


def went_with_its_topic(deletion: Deletion, gone: Gone) -> bool:
    """Whether the deletion removed the record: unless something shows that it was gone before."""
    return gone.epoch is None and (gone.time_ns is None or gone.time_ns >= deletion.earliest_t)


def by_deletion(deletion: Deletion, *, otherwise: Class, undecided: Doubt | None) -> tuple[Class, Doubt | None]:
    """The class of a record it removed, and the doubt; `otherwise`, `undecided`: the values without the deletion."""
    if deletion.asked:
        return "permitted", None
    if deletion.asked is None:
        return "observation", Doubt(code="topic-deleted-by-somebody")
    if otherwise == "violation":
        return "violation", None
    return "observation", undecided or Doubt(code="lost-before-its-topic")
