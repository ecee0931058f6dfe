"""Whether every required copy of a record was destroyed, between the last time it was seen and its loss.

Required copies: every member of the ISR in force and every eligible leader replica, each since it last joined; for a
record that was acknowledged with acks=1 and never committed, only the leader's.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from harness.checks.contract.timeline import Window
from harness.checks.model.elections import Election, committed_copies, states_near
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import DiskLoss, PartitionHistory
from harness.history.schema.cluster_rows import PartitionStateRow
from harness.history.schema.column_types import END_OF_TIME_NS


@dataclass(frozen=True, kw_only=True)
class Destruction:
    """holds: None if unknown. losses: the deciding ones, or all possible ones.

    all-destroyed: isr and elr had the required copies, or only `alone`; otherwise no disk was lost, or a copy was left.
    """

    holds: bool | None
    found: Literal["no-disk-lost", "copy-left", "all-destroyed"]
    losses: tuple[DiskLoss, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    alone: int | None = None


def destruction(
    history: PartitionHistory, lost: LostRecord, epoch: int | None, window: Window, *, until: Election | None
) -> Destruction:
    """Considers losses after the record was last seen in sync, and before `until` took over."""
    end = min(t for t in (END_OF_TIME_NS, window.gone.time_ns, until.latest_t if until else None) if t is not None)
    own = {node: window.seen_on(node) for node in history.losses_by_node}
    within = [loss for loss in history.disk_losses if own[loss.node] < loss.time_ns <= end]
    after = [
        (loss, destroyed)
        for loss in within
        if (destroyed := _destroyed(history, lost, loss, window, until)) is not False
    ]
    last = [loss for loss, _ in after if loss.time_ns > window.seen.time_ns]  # one of them took the last copy
    if not last:
        return Destruction(holds=False, found="no-disk-lost")
    taken = _Taken(after)
    maybe: Destruction | None = None
    for loss in last:
        found = _at(history, lost, epoch, taken, loss.time_ns)
        if found is not None and found.holds:
            return found
        maybe = maybe or found
    if maybe is not None:
        return maybe
    return Destruction(holds=False, found="copy-left", losses=tuple(loss for loss, _ in after))


class _Taken:
    """The disk losses that removed a node's copy, certainly or possibly, found by node and time."""

    def __init__(self, losses: Iterable[tuple[DiskLoss, bool | None]]) -> None:
        self._surely: dict[int, list[DiskLoss]] = {}
        self._perhaps: dict[int, list[DiskLoss]] = {}
        for loss, destroyed in losses:
            (self._surely if destroyed else self._perhaps).setdefault(loss.node, []).append(loss)

    def last(self, node: int, *, since: int, moment: int) -> tuple[DiskLoss | None, bool]:
        """The last certain loss after `since`, up to `moment`; otherwise the last possible one."""
        for found, surely in ((self._surely, True), (self._perhaps, False)):
            own = found.get(node, ())
            place = bisect_right(own, moment, key=_time) - 1
            if place >= 0 and own[place].time_ns > since:
                return own[place], surely
        return None, False


def _time(loss: DiskLoss) -> int:
    return loss.time_ns


def _destroyed(
    history: PartitionHistory, lost: LostRecord, loss: DiskLoss, window: Window, until: Election | None
) -> bool | None:
    """Whether the disk's loss removed the node's copy; after a damaged batch: if the node cut its log there."""
    if window.had_lost_it(loss.node, since=history.joined(loss.node, loss.time_ns), time_ns=loss.time_ns):
        return False  # its log lacked the record before, and only one that joins again may fetch it again
    destroyed, end = loss.event.destroyed(history.topic, history.partition, lost.offset), loss.event.to_offset
    if destroyed is not None or end is None or lost.offset is None:
        return destroyed
    if until is not None and until.leader == loss.node and until.start is not None:
        return until.ends_at_or_below(end)
    return (
        True
        if any(
            cut.node == loss.node
            and cut.time_ns >= loss.time_ns
            and (until is None or cut.time_ns <= until.earliest_t)  # what is cut later may have been there till then
            and (until is not None or not _led_by_another(history, loss, cut.time_ns))
            and cut.to_offset <= min(end, lost.offset)
            for cut in history.truncations
        )
        else None
    )


def _led_by_another(history: PartitionHistory, loss: DiskLoss, until_ns: int) -> bool:
    """Whether somebody else was heard to lead after the damage, and before the node found it: he may have cost it."""
    return any(
        loss.time_ns < state["time_ns"] <= until_ns and state["leader"] >= 0 and state["leader"] != loss.node
        for state in history.states
    )


def _at(
    history: PartitionHistory, lost: LostRecord, epoch: int | None, taken: "_Taken", moment: int
) -> Destruction | None:
    """By the states that may have been in force at the moment of a loss; None when a copy was left."""
    found = [_by_state(history, lost, epoch, taken, moment, state) for state in states_near(history.states, moment)]
    destroyed = [each for each in found if each is not None]
    if destroyed and len(destroyed) < len(found):
        return replace(destroyed[0], holds=None)
    return next((each for each in destroyed if not each.holds), destroyed[0] if destroyed else None)


def _by_state(
    history: PartitionHistory,
    lost: LostRecord,
    epoch: int | None,
    taken: "_Taken",
    moment: int,
    state: PartitionStateRow,
) -> Destruction | None:
    leader = history.leader_of(epoch)
    copies: tuple[int, ...] = committed_copies(state)
    if lost.is_lenient and leader is not None and state["leader_epoch"] == epoch:
        copies = (leader,)
    losses: list[DiskLoss] = []
    sure = True
    for node in copies:
        last, surely = taken.last(node, since=history.joined(node, moment), moment=moment)
        if last is None:
            return None
        losses.append(last)
        sure = sure and surely and not _may_have_it_again(history, losses[-1], moment)
    if not copies:
        return None
    alone = copies[0] if copies != committed_copies(state) else None
    return Destruction(
        holds=True if sure else None,
        found="all-destroyed",
        losses=tuple(losses),
        isr=tuple(state["isr"] or ()),
        elr=tuple(state["elr"] or ()),
        alone=alone,
    )


def _may_have_it_again(history: PartitionHistory, loss: DiskLoss, moment: int) -> bool:
    """Whether the node ran again before the last disk was lost: in the ISR, it may have fetched the record again, from
    a leader other than itself."""
    if loss.time_ns == moment or history.was_led_by_nobody_but(loss.node, loss.time_ns, moment):
        return False
    own = [row for row in history.faults_between(loss.time_ns, loss.time_ns) if row["fault"] == loss.fault]
    return loss.fault is None or any(row["end_ns"] is not None and row["end_ns"] < moment for row in own)
