"""What lawfully takes a record from the log of a coordinator: a partition of __consumer_offsets or __transaction_state.

Lawful is the destruction of every in-sync copy of that partition, between the moment at which the record was certainly
stored and the one at which it was found gone, or an unclean election of that partition which its settings allowed.
What a disk or an election took of other partitions is no excuse. A copy that was destroyed while it may not have been
stored yet leaves it open; so do, where the partition's states were not recorded, or only polled for, a lost disk and an
unclean election that was allowed under a fault.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.checks.contract.deposed import was_down
from harness.checks.contract.destruction import Destruction, destruction
from harness.checks.contract.rulings import Cause, CauseCode, Class, Doubt, Rule, Ruling
from harness.checks.contract.timeline import Gone, Seen, Window
from harness.checks.contract.timelines import Timelines
from harness.checks.model.elections import Election, Snapshot
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import DiskLoss, PartitionHistory, RunHistory
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from harness.history.schema.column_types import END_OF_TIME_NS

Ruled = tuple[Class, Cause]
_COUNTS: Mapping[str, str] = {
    GROUP_OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}


@dataclass(frozen=True, kw_only=True)
class Stored:
    """sent_ns: what made the coordinator store it began. stored_ns: it had. gone_ns: it was found gone. offset: its
    place in the log, if that was read."""

    sent_ns: int
    stored_ns: int
    gone_ns: int
    offset: int | None = None


@dataclass(frozen=True, kw_only=True)
class Codes:
    """What a finding calls the causes; the last two where nobody recorded whose copies were taken."""

    topic: str
    destroyed: CauseCode
    elected: CauseCode
    in_doubt: CauseCode
    on_a_lost_disk: Cause
    elected_uncleanly: Cause


def number_of(
    history: RunHistory, topic: str, name: str, written: Iterable[int], *, is_the_runs: bool = True
) -> int | None:
    """The partition that keeps a group or a transactional id: `written` by the records that name it; the only one that
    was recorded, which are those of the run's own names; else by Kafka's hash of the name."""
    seen = set(written)
    recorded = [number for of, number in history.internal if of == topic]
    if len(seen) != 1 and is_the_runs and len(recorded) == 1:
        return recorded[0]
    if len(seen) == 1:
        return seen.pop()
    counts = set(history.settings.numbers(_COUNTS[topic], None, 0, history.origin))
    return partition_of(name, counts.pop()) if len(counts) == 1 else None


def taken_from(
    place: PartitionHistory,
    timelines: Timelines,
    stored: Stored,
    codes: Codes,
    spared_by: Callable[[Election], bool] = lambda _: False,
) -> Ruled | None:
    """By the states of its own partition; None: nothing took it. spared_by: whether an election took nothing of it."""
    destroyed = _destroyed(place, timelines, stored)
    if destroyed.holds:
        return "permitted", by_destruction(place, destroyed.losses, codes)
    elected = [each for each in _elected_uncleanly(place, timelines, stored) if not spared_by(each)]
    allowed = next((election for election in elected if election.allowed), None)
    if allowed is not None:
        return "permitted", by_election(place, allowed, codes)
    rules = [
        Rule(rule="unclean-election", holds=None, evidence=election)
        for election in elected
        if election.allowed is None or place.is_foreign
    ]
    if destroyed.holds is None:
        rules.insert(0, Rule(rule="destruction", holds=None, evidence=destroyed))
    if not rules:
        return None
    doubt = Doubt(code="rule-not-decided", rule=rules[0])
    return "observation", Cause(code=codes.in_doubt, doubt=doubt, partitions=(place.name,))


def emptied(place: PartitionHistory, timelines: Timelines, since_ns: int, until_ns: int) -> int | None:
    """When within that time, for the last time, its whole log was lost: with the disks of all in sync."""
    last = None
    while place.exact:
        destroyed = _destroyed(place, timelines, Stored(sent_ns=since_ns, stored_ns=since_ns, gone_ns=until_ns))
        if not destroyed.holds or any(loss.event.extent != "disk" for loss in destroyed.losses):
            break
        last = max(loss.time_ns for loss in destroyed.losses)
        since_ns = last + 1
    return last


def keeps_all_since(place: PartitionHistory, timelines: Timelines, since_ns: int) -> bool:
    """Whether nothing that was stored there from then on can have been taken, lawfully or not: the last moment before a
    disk was lost is when the fewest others had what it had."""
    moments = [since_ns, *(loss.time_ns - 1 for loss in place.disk_losses if loss.time_ns > since_ns)]
    stored = [Stored(sent_ns=each, stored_ns=each, gone_ns=END_OF_TIME_NS) for each in moments]
    if any(True for _ in _elected_uncleanly(place, timelines, stored[0])):
        return False
    return all(_destroyed(place, timelines, each).holds is False for each in stored)


def known_by(place: PartitionHistory, time_ns: int) -> PartitionHistory:
    """Without what happened after something was found gone: that is no cause of it."""
    return replace(
        place,
        states=tuple(row for row in place.states if row["time_ns"] - (row["uncertainty_ns"] or 0) <= time_ns),
        elections=tuple(each for each in place.elections if each.earliest_t <= time_ns),
        disk_losses=tuple(loss for loss in place.disk_losses if loss.time_ns <= time_ns),
        snapshots=tuple(row for row in place.snapshots if row["time_ns"] <= time_ns),
    )


def by_ruling(place: PartitionHistory, ruling: Ruling, codes: Codes) -> Cause:
    """Of the loss of its record, which was permitted."""
    if ruling.destroyed or ruling.election is None:
        return by_destruction(place, ruling.disk_losses, codes)
    return by_election(place, ruling.election, codes)


def by_destruction(place: PartitionHistory, losses: Sequence[DiskLoss], codes: Codes) -> Cause:
    nodes = tuple(sorted({loss.node for loss in losses}))
    return Cause(code=codes.destroyed, nodes=nodes, partitions=(place.name,))


def by_election(place: PartitionHistory, election: Election, codes: Codes) -> Cause:
    setting = election.permission.setting
    return Cause(
        code=codes.elected,
        nodes=(election.leader,),
        epoch=election.epoch,
        partitions=(place.name,),
        settings=() if setting is None else (setting,),
    )


def perhaps_taken(history: RunHistory, place: PartitionHistory | None, stored: Stored, codes: Codes) -> Ruled | None:
    """Where it is not recorded who led and who was in sync. place: its own, of which brokers were heard."""
    losses = history.disk_losses if place is None else place.disk_losses
    nodes = None if place is None else {node for row in place.states for node in row["replicas"] or ()}
    since_ns, until_ns = stored.sent_ns, stored.gone_ns
    if any(since_ns <= loss.time_ns <= until_ns and _may_have_held(loss, codes.topic, nodes) for loss in losses):
        return "observation", codes.on_a_lost_disk
    groups, transactions = history.unclean_group_offsets, history.unclean_transactions
    allowed = transactions if codes.topic == TRANSACTIONS_TOPIC else groups
    if allowed is not False and history.faults.between(since_ns, until_ns):
        return "observation", codes.elected_uncleanly
    return None


def _may_have_held(loss: DiskLoss, topic: str, nodes: set[int] | None) -> bool:
    """Whether the lost part may have contained it; damage of another topic's log does not."""
    return loss.event.topic in (None, topic) and (not nodes or loss.node in nodes)


def _destroyed(place: PartitionHistory, timelines: Timelines, stored: Stored) -> Destruction:
    """Coordinators write with acks=all, and answer before they die, whenever the answer came to be read."""
    lost = LostRecord(
        offset=stored.offset,
        epoch=None,
        acks=-1,
        t_acknowledged=stored.stored_ns,
        t_sent=stored.sent_ns,
        committed=True,
        in_a_log=False,
    )
    surely = _between(place, lost, timelines.answered_at(lost).sure, stored.gone_ns)
    if surely.holds is not False:
        return surely
    perhaps = _between(place, lost, stored.sent_ns - 1, stored.gone_ns)
    return surely if perhaps.holds is False else replace(perhaps, holds=None)


def _between(place: PartitionHistory, lost: LostRecord, since_ns: int, until_ns: int) -> Destruction:
    window = Window(seen=Seen(epoch=-1, time_ns=since_ns), gone=Gone(time_ns=until_ns))
    return destruction(place, lost, None, window, until=None)


def _elected_uncleanly(place: PartitionHistory, timelines: Timelines, stored: Stored) -> Iterator[Election]:
    """A coordinator that was deposed may have answered after the election."""
    for election in place.elections:
        after = election.latest_t >= stored.sent_ns or timelines.deposed.may_answer_for_another(
            election, stored.stored_ns
        )
        if election.unclean and election.earliest_t <= stored.gone_ns and after and not _took_nothing(place, election):
            yield election


def _took_nothing(place: PartitionHistory, election: Election) -> bool:
    """Whether the new leader's log is known to have all that is in the logs of those who were in sync."""
    taken = taken_by(place, election)
    return taken is not None and all((log.row.get("log_end_offset") or 0) <= taken.start for log in taken.logs)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What those in sync had of a log from `start` on, where the log of an elected one ended: it is in these logs."""

    start: int
    logs: tuple[Snapshot, ...]


def taken_by(place: PartitionHistory, election: Election) -> Taken | None:
    """None: it is not known of all of them, or not where the elected one's log ended."""
    logs = [_read_while_down(place, election, node) for node in election.eligible]
    read = tuple(log for log in logs if log is not None)
    return Taken(start=election.start, logs=read) if election.start is not None and 0 < len(read) == len(logs) else None


def _read_while_down(place: PartitionHistory, election: Election, node: int) -> Snapshot | None:
    """Its log as it was read while a fault had it down, which lasted beyond the election; up to where the leader's
    began, or its own end below that, it is after the same epochs as that (Raft's log matching, which KIP-101 brought to
    Kafka)."""
    if election.start is None or election.chain is None:
        return None
    for log in place.logs:
        end = log.row.get("log_end_offset")
        if log.node != node or not log.is_whole or end is None or log.time_ns >= election.earliest_t:
            continue
        common = min(end, election.start)
        same = [each for each in election.chain if each[1] < common] == [each for each in log.chain if each[1] < common]
        if same and was_down(place, node, log.time_ns, election.latest_t):
            return log
    return None
