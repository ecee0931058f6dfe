"""Leader epochs: a log whose epochs fall, or a leader that stamped a batch with an epoch before its own.

A leader stamps each batch with the epoch it leads in, and followers keep the stamp (KIP-101). A follower first cuts
what its new leader never had (KIP-279), so the epochs along a log never fall. What a leader appended from the start of
its epoch on has that epoch or a later one: an older one can only be there if a later leader had it, whose own epoch
begins above it.

Every log that was read from disk is looked at, those of the coordinators' topics too; of a partition without any, what
the final read was given. Batches without an epoch (message formats before 0.11) say nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import Cause, Class
from harness.checks.families.evidence.disks_against_reads import CHECK as EVIDENCE
from harness.checks.families.evidence.disks_against_reads import NEAR_NS
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.passing_by import grouped
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import nodes_words
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.history.facts.releases import FOLLOWERS_CUT_BY_EPOCHS
from harness.history.schema.cluster_rows import SnapshotRow
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, INTERNAL_SNAPSHOTS, TRANSACTION_STATE
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "leader-epochs"
_SPAN = ("run", "partition_id", "snapshot", "leader_epoch")
_Kind = Literal["fall", "stamp", "early", "unknown"]


class EpochSpanRow(TypedDict):
    """The first and the last offset of one epoch in one log. snapshot: None for what the final read was given, between
    begin_ns and end_ns."""

    run: int
    partition_id: int
    snapshot: int | None
    leader_epoch: int
    first: int
    last: int
    begin_ns: int | None
    end_ns: int | None


ANSWER = RowsOf(CHECK, EpochSpanRow)


def query(runs: JudgedRuns) -> list[EpochSpanRow]:
    found = _of_logs(runs)
    unread = [
        {"run": history.run, "partition_id": partition.partition_id}
        for history in runs.histories
        for partition in history.partitions.values()
        if not partition.end_snapshots
    ]
    if not unread:
        return found
    wanted = runs.frame(("run", "partition_id"), unread)
    reads = (
        runs.tables.records.where("kind = 2 and replica is null and status = 0 and leader_epoch >= 0")
        .join(sf.broadcast(wanted), ["run", "partition_id"])
        .groupBy("run", "partition_id", sf.expr("cast(null as int) as snapshot"), "leader_epoch")
        .agg(
            sf.min("offset").alias("first"),
            sf.max("offset").alias("last"),
            sf.min("invoked_ns").alias("begin_ns"),
            sf.max("completed_ns").alias("end_ns"),
        )
    )
    return found + typed(EpochSpanRow, reads.toArrow())


def _of_logs(runs: JudgedRuns) -> list[EpochSpanRow]:
    batches = runs.tables.batches("replica_log", [*_SPAN, "offset"], pc.field("leader_epoch") >= 0)
    spans = grouped(batches, _SPAN, {"first": ("offset", "min"), "last": ("offset", "max")})
    if spans is None:
        return []
    unknown = pa.nulls(len(spans), pa.int64())
    return typed(EpochSpanRow, spans.append_column("begin_ns", unknown).append_column("end_ns", unknown))


@dataclass(frozen=True, kw_only=True)
class _Span:
    epoch: int
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class _Log:
    """A log as it was read. node: None: by the final read. spans: in order of their epochs. is_cut: only what a
    truncation cut. in_doubt: it may have changed while it was read."""

    node: int | None
    time_ns: int
    spans: tuple[_Span, ...]
    is_cut: bool = False
    in_doubt: bool = False

    def fall(self) -> "_Stamp | None":
        """The first record of an epoch that stands behind one of a later epoch."""
        for newer, span in enumerate(self.spans):
            behind = [older for older in self.spans[:newer] if older.last > span.first]
            if behind:
                older = max(behind, key=lambda each: each.last)
                return _Stamp(self, older.epoch, older.last, span.epoch, span.first)
        return None


@dataclass(frozen=True)
class _Stamp:
    """A record of this log, at `offset`, that cannot have its epoch: by the epoch `other`, which begins at `since`."""

    log: _Log
    epoch: int
    offset: int
    other: int
    since: int


def find(context: RunContext) -> list[Finding]:
    by_partition: dict[int, dict[int | None, list[EpochSpanRow]]] = {}
    for row in context.rows[ANSWER]:
        by_partition.setdefault(row["partition_id"], {}).setdefault(row["snapshot"], []).append(row)
    findings = []
    for partition_id, rows in sorted(by_partition.items()):
        history = context.partition(partition_id)
        logs = [log for log in _logs(history, rows) if not log.in_doubt]
        # Who finds one kind need not hear of the next ones: they are of the same stamps.
        of_kinds: tuple[tuple[_Kind, list[_Stamp]], ...] = (
            ("fall", [fall for log in logs if (fall := log.fall()) is not None]),
            ("stamp", [stamp for log in logs for stamp in _stamped_before(history, log)]),
            ("early", [stamp for log in logs for stamp in _stamped_early(history, log)]),
            ("unknown", [stamp for log in logs for stamp in _of_no_leader(history, log)]),
        )
        findings += [_finding(context, history, kind, stamps) for kind, stamps in of_kinds if stamps][:1]
    for (topic, partition), logs in sorted(_internal_logs(context).items()):
        falls = [fall for log in logs if (fall := log.fall()) is not None]
        if falls:
            place = context.history.internal.get((topic, partition)) or _unrecorded(context, topic, partition)
            findings.append(_finding(context, place, "fall", falls))
    return findings


# ---- the logs -------------------------------------------------------------------------------------------------------


def _logs(history: PartitionHistory, rows: Mapping[int | None, Sequence[EpochSpanRow]]) -> Iterator[_Log]:
    snapshots = {row["snapshot"]: row for row in history.snapshots}
    for number, own in rows.items():
        spans = tuple(
            _Span(epoch=row["leader_epoch"], first=row["first"], last=row["last"])
            for row in sorted(own, key=lambda row: row["leader_epoch"])
        )
        if number is None:
            begin, end = min(row["begin_ns"] or 0 for row in own), max(row["end_ns"] or 0 for row in own)
            yield _Log(node=None, time_ns=begin, spans=spans, in_doubt=_is_unquiet(history, begin, end))
        elif number in snapshots:
            snapshot = snapshots[number]
            yield _Log(
                node=snapshot["node"],
                time_ns=snapshot["time_ns"],
                spans=spans,
                is_cut=snapshot["reason"] == "truncation",
                in_doubt=_was_just_cut(history, snapshot),
            )


def _is_unquiet(history: PartitionHistory, begin_ns: int, end_ns: int) -> bool:
    """Whether the final read may have been given the logs of two leaders."""
    return any(
        begin_ns - NEAR_NS <= each.latest_t and each.earliest_t <= end_ns + NEAR_NS for each in history.elections[1:]
    )


def _was_just_cut(history: PartitionHistory, snapshot: SnapshotRow) -> bool:
    """Whether its files may be from before and after a truncation; those of a broker that was killed rest."""
    if snapshot["reason"] in ("truncation", "kill"):
        return False
    return any(
        cut.node == snapshot["node"] and abs(cut.time_ns - snapshot["time_ns"]) <= NEAR_NS
        for cut in history.truncations
    )


# ---- the logs against the elections ---------------------------------------------------------------------------------


def _stamped_before(history: PartitionHistory, log: _Log) -> Iterator[_Stamp]:
    """What a leader's log has of an epoch before its own, from its own start on."""
    if log.node is None or log.is_cut:
        return
    for election in history.elections:
        start = _own_start(election)
        if election.leader != log.node or start is None or election.latest_t > log.time_ns:
            continue
        if any(election.earliest_t <= loss.time_ns <= log.time_ns for loss in history.losses_by_node.get(log.node, ())):
            continue
        later = [each for each in history.elections if each.epoch > election.epoch and each.earliest_t <= log.time_ns]
        for span in log.spans:
            # A later leader may have had it, if its epoch begins above it.
            from_another = any(each.start is None or each.start > span.last for each in later)
            if span.epoch < election.epoch and span.last >= start and not from_another:
                yield _Stamp(log, span.epoch, span.last, election.epoch, start)
                return


def _own_start(election: Election) -> int | None:
    """Where the leader's log ended when it began to lead, by its own word."""
    origin = election.start_from
    return election.start if origin.source in ("journal", "checkpoint") and origin.node == election.leader else None


def _stamped_early(history: PartitionHistory, log: _Log) -> Iterator[_Stamp]:
    """What stands below the start of its own epoch. A leader that lost a part of its log may have gone on below.

    A checkpoint does not say it: the start of its first epoch goes up with the log's (LeaderEpochFileCache).
    """
    for span in log.spans:
        election = history.election_of(span.epoch)
        start = None if election is None or election.start_from.source != "journal" else _own_start(election)
        if election is None or start is None or span.first >= start:
            continue
        begins = (
            event["from_offset"]
            for event in history.events
            if event["event"] in ("leadership_start", "leadership_resumed") and event["leader_epoch"] == span.epoch
        )
        cut = any(each.node == election.leader and each.time_ns >= election.earliest_t for each in history.truncations)
        if not cut and not history.losses_by_node.get(election.leader) and all((each or 0) >= start for each in begins):
            yield _Stamp(log, span.epoch, span.first, span.epoch, start)
            return


def _of_no_leader(history: PartitionHistory, log: _Log) -> Iterator[_Stamp]:
    """What is stamped with an epoch that the books do not have. The logs are read before the books are.

    Of one in which a broker says that it led books_against_brokers.py speaks.
    """
    known = {row["leader_epoch"] for row in history.states if row["exact"]}
    recorded = {event["leader_epoch"] for event in history.events if event["event"] == "leadership_start"}
    if not known or history.is_foreign or history.is_recreated or history.is_set_apart or history.deletion is not None:
        return
    for span in log.spans:
        if span.epoch not in known | recorded and span.epoch > min(known):
            yield _Stamp(log, span.epoch, span.first, max(known), span.first)
            return


def _internal_logs(context: RunContext) -> dict[tuple[str, int], list[_Log]]:
    """The coordinators' logs, as far as they were kept."""
    spans: dict[tuple[str, int, int], dict[int, tuple[int, int]]] = {}  # topic, partition, snapshot -> epoch -> offsets
    for topic, rows in (
        (GROUP_OFFSETS_TOPIC, context.tables[CONSUMER_OFFSETS]),
        (TRANSACTIONS_TOPIC, context.tables[TRANSACTION_STATE]),
    ):
        for row in rows:
            epoch, offset = row["leader_epoch"], row["offset"]
            if epoch is None or epoch < 0:
                continue
            for number in row["snapshots"]:
                own = spans.setdefault((topic, row["partition"], number), {})
                first, last = own.get(epoch, (offset, offset))
                own[epoch] = min(first, offset), max(last, offset)
    found: dict[tuple[str, int], list[_Log]] = {}
    for snapshot in context.tables[INTERNAL_SNAPSHOTS]:
        own = spans.get((snapshot["topic"], snapshot["partition"], snapshot["snapshot"]), {})
        of_log = tuple(_Span(epoch=epoch, first=first, last=last) for epoch, (first, last) in sorted(own.items()))
        log = _Log(node=snapshot["node"], time_ns=snapshot["time_ns"], spans=of_log)
        found.setdefault((snapshot["topic"], snapshot["partition"]), []).append(log)
    return found


def _unrecorded(context: RunContext, topic: str, partition: int) -> PartitionHistory:
    """A partition of an internal topic whose states were not recorded."""
    return PartitionHistory(
        run=context.run,
        partition_id=-1,
        topic=topic,
        partition=partition,
        replicas=(),
        read_to_end=False,
        end_offset=None,
        exact=False,
    )


# ---- what they come to ----------------------------------------------------------------------------------------------


def _ruled(
    context: RunContext, history: PartitionHistory, kind: _Kind, stamps: Sequence[_Stamp]
) -> tuple[Class, Cause]:
    if all(_was_damaged(history, stamp) for stamp in stamps):
        nodes = sorted({stamp.log.node for stamp in stamps if stamp.log.node is not None})
        return "observation", Cause(code="epochs-of-a-damaged-log", nodes=tuple(nodes))
    if kind == "unknown":
        return "observation", Cause(code="books-contradict")
    if kind == "fall" and context.history.settings.release < FOLLOWERS_CUT_BY_EPOCHS:
        return "observation", Cause(code="epochs-before-kip-279")
    return "violation", Cause(code="epochs-only-rise")


def _was_damaged(history: PartitionHistory, stamp: _Stamp) -> bool:
    """Whether a fault may have changed the stamp: no checksum covers it. Followers copy it from their leader."""
    return any(
        loss.event.extent in ("batch", "unknown") and loss.time_ns <= stamp.log.time_ns for loss in history.disk_losses
    )


_WORDS: Mapping[_Kind, str] = {
    "fall": "the epochs of {name} fall along the log: a record of epoch {epoch}, at {offset}, stands behind one of "
    "epoch {other}, at {since}, {where}",
    "stamp": "broker {node} led {name} in epoch {other} from {since} on, and its log has a record of epoch {epoch} "
    "behind that, at {offset}",
    "early": "a record of {name} at {offset}, {where}, is stamped with epoch {epoch}, whose leader began it at {since}",
    "unknown": "a record of {name} at {offset}, {where}, is stamped with epoch {epoch}, and by the cluster's own books "
    "nobody has led in it",
}


def _finding(context: RunContext, history: PartitionHistory, kind: _Kind, stamps: Sequence[_Stamp]) -> Finding:
    classification, cause = _ruled(context, history, kind, stamps)
    first = min(stamps, key=lambda each: each.log.time_ns)
    nodes = sorted({each.log.node for each in stamps if each.log.node is not None})
    words = _WORDS[kind].format(
        name=history.name,
        node=first.log.node,
        epoch=first.epoch,
        offset=first.offset,
        other=first.other,
        since=first.since,
        where=f"on {nodes_words(nodes)}" if nodes else "as the final read was given it",
    )
    is_internal = history.partition_id < 0
    return Finding(
        run=context.run,
        check=EVIDENCE if kind == "unknown" else CHECK,
        classification=classification,
        kind="unknown-stamp" if kind == "unknown" else kind,
        topic=None if is_internal else history.topic,
        partition=None if is_internal else history.partition,
        count=1,
        sentence=f"{words[0].upper()}{words[1:]}: {cause_words(cause)}.",
        cause=cause,
        epoch=first.epoch,
        offsets=sorted({first.since, first.offset}),
        first_ns=first.log.time_ns,
        last_ns=max(each.log.time_ns for each in stamps),
        open_question=cause.code == "books-contradict",
        evidence={
            "partition": history.name,
            "logs": [
                {
                    "node": each.log.node,
                    "t_ns": each.log.time_ns,
                    "leader_epoch": each.epoch,
                    "offset": each.offset,
                    "other_epoch": each.other,
                    "from_offset": each.since,
                }
                for each in stamps[:20]
            ],
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
