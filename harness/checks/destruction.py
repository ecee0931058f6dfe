"""Whether every copy that had to have a record was destroyed, between its last sighting and its loss.

Who had to have it: every member of the ISR in force and every eligible leader replica, each since it last joined; of a
record that was acknowledged with acks=1 and never committed, its leader alone.
"""

from dataclasses import dataclass
from typing import Literal

from harness.checks.elections import Election, committed_copies
from harness.checks.fates import Fate
from harness.checks.story import DiskLoss, PartitionStory
from harness.checks.survival import Window


@dataclass(frozen=True, kw_only=True)
class Destruction:
    """holds: None where nobody can tell. losses: those that decide, or all that came into question.

    all-destroyed: isr and elr had to have it, or `alone` did; else no disk was lost, or a copy was left.
    """

    holds: bool | None
    found: Literal["no-disk-lost", "copy-left", "all-destroyed"]
    losses: tuple[DiskLoss, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    alone: int | None = None


def destruction(
    story: PartitionStory, fate: Fate, epoch: int | None, window: Window, *, until: Election | None
) -> Destruction:
    """Before `until` took over, and after the record was last seen in sync."""
    since = max(fate.t_acknowledged or 0, window.after_t)
    end = min(t for t in (_END_OF_TIME, window.until_t, until.latest_t if until else None) if t is not None)
    after = [
        loss for loss in story.disk_losses if since < loss.t <= end and _took(story, fate, loss, until) is not False
    ]
    if not after:
        return Destruction(holds=False, found="no-disk-lost")
    maybe: Destruction | None = None
    for loss in after:
        found = _at(story, fate, epoch, since, loss.t, until)
        if found is not None and found.holds:
            return found
        maybe = maybe or found
    if maybe is not None:
        return maybe
    return Destruction(holds=False, found="copy-left", losses=tuple(after))


def _took(story: PartitionStory, fate: Fate, loss: DiskLoss, until: Election | None) -> bool | None:
    """Whether a node's copy went with what its disk lost; behind a damaged batch: if the node cut its log there."""
    took, end = loss.event.took(story.topic, story.part, fate.offset), loss.event.to_offset
    if took is not None or end is None or fate.offset is None:
        return took
    if until is not None and until.leader == loss.node and until.start is not None:
        return until.ends_at_or_below(end)
    cuts = (cut for cut in story.truncations if cut.node == loss.node and cut.t >= loss.t)
    return True if any(cut.to_offset <= min(end, fate.offset) for cut in cuts) else None


def _at(
    story: PartitionStory, fate: Fate, epoch: int | None, since: int, moment: int, until: Election | None
) -> Destruction | None:
    """By the state in force at the moment of a loss; None when a copy was left."""
    state = story.state_at(moment)
    if state is None:
        return None
    leader = story.leader_of(epoch)
    copies: tuple[int, ...] = committed_copies(state)
    if fate.is_lenient and leader is not None and state["leader_epoch"] == epoch:
        copies = (leader,)
    losses: list[DiskLoss] = []
    sure = True
    for node in copies:
        own = [
            loss for loss in story.losses_by_node.get(node, ())
            if max(since, story.joined(node, moment)) < loss.t <= moment
            and _took(story, fate, loss, until) is not False
        ]  # fmt: skip
        if not own:
            return None
        surely = [loss for loss in own if _took(story, fate, loss, until)]
        losses.append((surely or own)[-1])
        sure = sure and bool(surely) and not _may_have_it_again(story, losses[-1], moment)
    if not copies:
        return None
    alone = copies[0] if copies != committed_copies(state) else None
    return Destruction(
        holds=True if sure else None, found="all-destroyed", losses=tuple(losses), isr=tuple(state["isr"] or ()),
        elr=tuple(state["elr"] or ()), alone=alone,
    )  # fmt: skip


def _may_have_it_again(story: PartitionStory, loss: DiskLoss, moment: int) -> bool:
    """Whether the node ran again before the last disk was lost: in sync by the books, it may have fetched it."""
    if loss.t == moment:
        return False
    own = [row for row in story.faults_between(loss.t, loss.t) if row["fault"] == loss.fault]
    return loss.fault is None or any(row["t_end"] is not None and row["t_end"] < moment for row in own)


_END_OF_TIME = 2**62
