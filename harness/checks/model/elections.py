"""Elections of one partition, and where each leader's log ended when its epoch began.

An epoch's start comes from the leader itself: its journal, otherwise its own leader-epoch checkpoint. Checkpoints of
other replicas are used only if the leader left none, and only if they all agree; otherwise the start is unknown.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from harness.checks.model.unclean_rules import Permission, UncleanRules
from harness.history.facts.epoch_checkpoints import epochs_of
from harness.history.schema.cluster_rows import BrokerEventRow, PartitionStateRow, SnapshotRow


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Where a log end was read: of which broker, and in a snapshot taken for which reason."""

    source: Literal["journal", "checkpoint", "snapshot", "truncation", "nowhere", "replicas-differ"]
    node: int | None = None
    reason: str = ""


NOWHERE = Reading(source="nowhere")


@dataclass(frozen=True, kw_only=True)
class Election:
    """A leader that took over. start: its log end when its epoch began (None: unknown), start_at_most: what bounds it.

    A clean election is from the ISR or, if that was empty, from the eligible leader replicas (KIP-966); without these,
    too, Kafka waits for the last known leader, which was the last member of the ISR.
    """

    time_ns: int
    uncertainty_ns: int
    epoch: int
    leader: int
    leader_before: int
    unclean: bool
    isr: tuple[int, ...]
    isr_before: tuple[int, ...]
    elr_before: tuple[int, ...]
    start: int | None
    start_from: Reading
    permission: Permission  # whether an unclean election was allowed at that moment
    chain: tuple[tuple[int, int], ...] | None = None  # the leader's own earlier epochs: (epoch, start offset)
    start_at_most: int | None = None

    @property
    def allowed(self) -> bool | None:
        """Whether an unclean election was allowed; None: unknown."""
        return self.permission.allowed

    @property
    def earliest_t(self) -> int:
        return self.time_ns - self.uncertainty_ns

    @property
    def latest_t(self) -> int:
        return self.time_ns + self.uncertainty_ns

    @property
    def eligible(self) -> tuple[int, ...]:
        """The nodes that could have been elected cleanly."""
        return with_elr(self.isr_before, self.elr_before)

    def ends_at_or_below(self, offset: int | None) -> bool:
        """Whether the leader's log is known to have ended before a record at that offset when it took over."""
        end = self.start_at_most if self.start is None else self.start
        return end is not None and offset is not None and end <= offset

    def begins_above(self, offset: int | None) -> bool:
        """Whether a record at that offset is known not to be of its epoch."""
        return self.start is not None and offset is not None and self.start > offset

    def had(self, offset: int | None, epoch: int | None) -> bool | None:
        """Whether the leader's log had the record when it took over, by its epochs alone; None: they do not show it.

        It lacks the offsets from its log end on, and records of epochs that its own log never had (the test that
        KIP-101 defines for followers, applied to the leader).
        """
        if self.ends_at_or_below(offset):
            return False
        if self.start is None or offset is None or self.chain is None or epoch is None:
            return None
        own = epoch_at_offset(self.chain, offset)
        return None if own is None else own == epoch


def epoch_at_offset(chain: Iterable[tuple[int, int]], offset: int) -> int | None:
    """The epoch of an offset in a log with these (epoch, start offset)."""
    return max((entry[0] for entry in chain if entry[1] <= offset), default=None)


def with_elr(isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, ...]:
    return (*isr, *(node for node in elr if node not in isr))


def committed_copies(row: PartitionStateRow) -> tuple[int, ...]:
    """The nodes that must have every committed record in this state: the ISR and the eligible leader replicas."""
    return with_elr(tuple(row["isr"] or ()), tuple(row["elr"] or ()))


def exact_states(rows: Sequence[PartitionStateRow]) -> tuple[PartitionStateRow, ...]:
    """The coordination log's states if there are any, otherwise the polled ones in order of epoch, then time."""
    exact = [row for row in rows if row["exact"]]
    if exact:
        return tuple(sorted(exact, key=lambda row: (row["time_ns"], row["partition_epoch"] or 0)))
    polled: list[PartitionStateRow] = []
    for row in sorted(rows, key=lambda row: row["time_ns"]):
        # A broker that was cut off returns an old state; epochs only increase.
        if polled and (row["leader_epoch"] or 0) < (polled[-1]["leader_epoch"] or 0):
            continue
        if not polled or _facts_of(polled[-1]) != _facts_of(row):
            polled.append(row)
    return tuple(polled)


def states_near(states: Sequence[PartitionStateRow], time_ns: int) -> list[PartitionStateRow]:
    """Those of the states, in order of time, that may have been in force then, as exactly as their times are known."""
    last = bisect_right(states, time_ns, key=lambda row: row["time_ns"])
    first = max(last - 1, 0)
    while last < len(states) and states[last]["time_ns"] - (states[last]["uncertainty_ns"] or 0) <= time_ns:
        last += 1
    while first > 0 and states[first]["time_ns"] + (states[first]["uncertainty_ns"] or 0) > time_ns:
        first -= 1
    return list(states[first:last])


def led_until(states: Sequence[PartitionStateRow], begin_ns: int, end_ns: int) -> Mapping[int, int]:
    """Who led at a moment of [begin_ns, end_ns], as far as the states, in order of time, say, and until when."""
    found: dict[int, int] = {}
    for state, after in zip(states, [*states[1:], None], strict=True):
        from_ns = state["time_ns"] - (state["uncertainty_ns"] or 0) if state is not states[0] else begin_ns
        until_ns = end_ns if after is None else after["time_ns"] + (after["uncertainty_ns"] or 0)
        if state["leader"] >= 0 and from_ns <= end_ns and until_ns >= begin_ns:
            found[state["leader"]] = min(until_ns, end_ns)
    return found


def _facts_of(row: PartitionStateRow) -> tuple[object, ...]:
    return row["leader"], row["leader_epoch"], row["isr"], row["elr"]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One replica's log as read from disk; `chain`: its leader-epoch checkpoint."""

    row: SnapshotRow

    @property
    def number(self) -> int:
        return int(self.row["snapshot"])

    @property
    def node(self) -> int:
        return int(self.row["node"])

    @property
    def time_ns(self) -> int:
        return int(self.row["time_ns"])

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole log, not only the part that a truncation cut."""
        return bool(self.row["reason"] != "truncation")

    @cached_property
    def chain(self) -> tuple[tuple[int, int], ...]:
        return tuple(epochs_of(self.row.get("leader_epochs")))

    def start_of(self, epoch: int) -> int | None:
        return self._starts.get(epoch)

    @cached_property
    def _starts(self) -> Mapping[int, int]:
        """Epoch -> start offset; the first entry if an epoch is listed twice."""
        return dict(reversed(self.chain))

    def spans(self, offset: int) -> bool:
        """Whether a record at that offset would be seen here: the log is known to begin at or below it."""
        start = self.row.get("log_start_offset")
        return self.is_whole and start is not None and start <= offset


def elections_of(
    states: Sequence[PartitionStateRow],
    events: Sequence[BrokerEventRow],
    snapshots: Sequence[Snapshot],
    rules: UncleanRules,
    topic: str,
    partition: int,
) -> Iterable[Election]:
    leader, epoch = -1, -1
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    previous: PartitionStateRow | None = None
    for row in states:
        if row["leader"] >= 0 and row["leader_epoch"] > epoch:
            isr_before = tuple(row["isr_before"] if row["isr_before"] is not None else isr)
            before = row["leader_before"] if row["leader_before"] is not None else -1
            start, source = _start_of(row["leader"], row["leader_epoch"], events, snapshots)
            apart = row["uncertainty_ns"] or 0
            outside = _is_outside(row, isr_before, before=previous) or (
                not row["exact"] and _was_recorded_unclean(row["leader"], row["time_ns"], apart, events)
            )
            permission = rules.at(topic, partition, begin=row["time_ns"] - apart, end=row["time_ns"] + apart)
            yield Election(
                time_ns=row["time_ns"],
                uncertainty_ns=apart,
                epoch=row["leader_epoch"],
                leader=row["leader"],
                leader_before=before if before >= 0 else leader,
                unclean=bool(outside) and epoch >= 0,
                isr=tuple(row["isr"] or ()),
                isr_before=isr_before,
                elr_before=elr,
                start=start,
                start_from=source,
                permission=permission,
                chain=_chain(row["leader"], row["leader_epoch"], snapshots),
            )
        if row["leader"] >= 0:
            leader = row["leader"]
        epoch = max(epoch, row["leader_epoch"])
        isr, elr = tuple(row["isr"] or ()), tuple(row["elr"] or ())
        previous = row


def _is_outside(row: PartitionStateRow, isr_before: tuple[int, ...], *, before: PartitionStateRow | None) -> bool:
    """Whether a new leader was neither in the ISR nor eligible.

    The states decide first; the row's own mark decides what they do not contain: which nodes were eligible (before
    that was recorded), and which was the last known leader when the ISR was empty.
    """
    if row["leader"] in isr_before:
        return False
    elr = before["elr"] if before is not None else None
    is_known = elr is not None and bool(isr_before)
    if row["unclean"] is not None and not is_known:
        return bool(row["unclean"])
    return row["leader"] not in (elr or ())


def _was_recorded_unclean(leader: int, time_ns: int, apart: int, events: Sequence[BrokerEventRow]) -> bool:
    """Whether a broker's own log says of it that nobody in sync was alive: polling may miss the ISR before it."""
    return any(
        row["event"] == "unclean_election" and row["node"] == leader and abs(row["time_ns"] - time_ns) <= apart
        for row in events
    )


def _start_of(
    leader: int, epoch: int, events: Sequence[BrokerEventRow], snapshots: Sequence[Snapshot]
) -> tuple[int | None, Reading]:
    """(the leader's log end when the epoch began, the place where that was read)."""
    for row in events:
        reported = (
            row["event"] == "leadership_start" and row["leader_epoch"] == epoch and row["from_offset"] is not None
        )
        if reported and row["node"] == leader:
            return row["from_offset"], Reading(source="journal", node=leader)
    others: dict[int, Snapshot] = {}
    for snapshot in snapshots:
        start = snapshot.start_of(epoch)
        if start is not None and snapshot.node == leader:
            return start, _checkpoint(snapshot)
        if start is not None:
            others.setdefault(start, snapshot)
    if len(others) == 1:
        ((start, snapshot),) = others.items()
        return start, _checkpoint(snapshot)
    return None, Reading(source="replicas-differ") if others else NOWHERE


def _checkpoint(snapshot: Snapshot) -> Reading:
    return Reading(source="checkpoint", node=snapshot.node, reason=snapshot.row["reason"])


def _chain(leader: int, epoch: int, snapshots: Sequence[Snapshot]) -> tuple[tuple[int, int], ...] | None:
    """The epochs before `epoch` in the leader's own checkpoint, from its first snapshot that knows `epoch`."""
    for snapshot in snapshots:
        if snapshot.node == leader and snapshot.is_whole and snapshot.start_of(epoch) is not None:
            return tuple(entry for entry in snapshot.chain if entry[0] < epoch)
    return None
