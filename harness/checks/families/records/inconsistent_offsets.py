"""Inconsistent offsets: two values for one offset, among acknowledgements, reads and the replicas' final logs.

An offset has one value; only after a permitted loss may a second value get it. Where the answer is the odd one, the
record being elsewhere in the log, the finding says so. Replicas are compared with each other below their own high
watermarks, where they must be equal.
"""

from collections.abc import Mapping, Sequence

from harness.checks.contract.rulings import Cause, Class, Doubt
from harness.checks.explaining.damage import Damages
from harness.checks.families.records import divergence
from harness.checks.families.records.divergence import DivergentRow
from harness.checks.families.records.duplicate import answered_oddly
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import SEEN_FINAL, SEEN_REPLICA, Flagged
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import nodes_words, plural, ranges


def find(context: RunContext) -> list[Finding]:
    findings = []
    for history, rows in context.by_partition("conflict"):
        offsets: dict[int, list[Flagged]] = {}
        for row in rows:
            assert row.offset is not None  # the flag compares offsets
            offsets.setdefault(row.offset, []).append(row)
        groups: dict[tuple[Class, Cause], list[Flagged]] = {}
        for values in offsets.values():
            groups.setdefault(_ruled(context, history, values), []).extend(values)
        for (classification, cause), members in groups.items():
            count = len({row.offset for row in members})
            sentence = (
                f"{plural(count, 'offset')} of {history.name} ({ranges(row.offset for row in members)}) "
                f"{plural(count, 'has')} had more than one value: "
                f"{cause_words(cause)}."
            )
            findings.append(
                finding_of_rows(
                    context,
                    history,
                    members,
                    check="inconsistent-offsets",
                    classification=classification,
                    kind="two-values",
                    sentence=sentence,
                    count=count,
                    cause=cause,
                )
            )
    return findings


def _ruled(context: RunContext, history: PartitionHistory, values: Sequence[Flagged]) -> tuple[Class, Cause]:
    finals = [row for row in values if row.seen & SEEN_FINAL]
    if len(finals) > 1:
        return "violation", Cause(code="final-reads-disagree")
    last = finals or _perhaps_last(context, history, values)
    answers = [_ruled_beside(context, history, stayed, values) for stayed in last]
    if len({classification for classification, _ in answers}) == 1:
        return answers[0]
    doubts = (cause.doubt for _, cause in answers if cause.doubt is not None)
    doubt = next(doubts, Doubt(code="no-epochs-told"))
    return "observation", Cause(code="first-value-lost-in-doubt", doubt=doubt)


def _perhaps_last(context: RunContext, history: PartitionHistory, values: Sequence[Flagged]) -> Sequence[Flagged]:
    """Which may have stayed where the final read lacks the offset: that of the highest epoch; without epochs, any."""
    epochs = [_epoch(context, history, row) for row in values]
    if max(epochs) < 0:
        return values
    return [max(zip(epochs, values, strict=True), key=lambda each: (each[0], each[1].value))[1]]


def _ruled_beside(
    context: RunContext, history: PartitionHistory, stayed: Flagged, values: Sequence[Flagged]
) -> tuple[Class, Cause]:
    """If that one stayed, how the others were lost."""
    losers = [row for row in values if row is not stayed]
    rulings = [context.ruling(history, row) for row in losers]
    if all(ruling.classification == "permitted" for ruling in rulings):
        return "permitted", Cause(code="first-value-lost", by=rulings[0].cause)
    if all(ruling.classification != "violation" for ruling in rulings):
        undecided = next(ruling.undecided for ruling in rulings if ruling.undecided)
        return "observation", Cause(code="first-value-lost-in-doubt", doubt=undecided)
    if any(row.seen & SEEN_REPLICA for row in losers):
        return "violation", Cause(code="replicas-disagree")
    odd = all(row.final_offsets and answered_oddly(history, row, epochs=(stayed.epoch,)) for row in losers)
    return "violation", Cause(code="answered-elsewhere" if odd else "no-loss-between")


def _epoch(context: RunContext, history: PartitionHistory, row: Flagged) -> int:
    """The epoch from logs or readers; for a value known only from its acknowledgement, the ruling's epoch."""
    epoch = row.epoch if row.epoch is not None else context.ruling(history, row).epoch
    return -1 if epoch is None else epoch


def find_divergence(context: RunContext) -> list[Finding]:
    findings = []
    damages = Damages(context)
    by_partition: dict[int, list[DivergentRow]] = {}
    for row in context.rows[divergence.ANSWER]:
        by_partition.setdefault(row["partition_id"], []).append(row)
    for partition_id, rows in by_partition.items():
        history = context.partition(partition_id)
        groups: dict[tuple[str, Class, Cause], list[DivergentRow]] = {}
        for row in rows:
            kind = "different" if row["variants"] > 1 else "missing"
            classification, cause = _divergence_ruled(context, history, damages, row, kind)
            groups.setdefault((kind, classification, cause), []).append(row)
        hidden = rows[0]["total"] - len(rows)  # counted but not fetched, because there were too many
        for (kind, classification, cause), members in groups.items():
            count, hidden = len(members) + hidden, 0
            findings.append(_divergence_finding(context, history, members, count, kind, classification, cause))
    return findings


def _divergence_ruled(
    context: RunContext, history: PartitionHistory, damages: Damages, row: DivergentRow, kind: str
) -> tuple[Class, Cause]:
    """The older record at a divergent offset is the lost one: it is ruled on like a loss."""
    in_sync = set(history.final_isr)
    if kind == "missing":
        # Whatever else befell a log that lacks it: to compact it was every replica's own affair.
        if history.may_compact and row["kept"] is False:
            return "observation", Cause(code="compacts-in-its-own-time")
        if history.may_compact and row["kept"] is None:
            return "observation", Cause(code="compacts-in-its-own-time-as-far-as-known")
        lacking = {node for node in in_sync if node in history.end_snapshots} - set(row["nodes"])
        if lacking and lacking <= damages.nodes:
            nodes, unread = tuple(sorted(lacking)), damages.unread(history)
            if lacking <= unread:
                return "permitted", Cause(code="damaged-and-not-read", nodes=nodes)
            return "violation", Cause(code="damaged-and-not-cut", nodes=nodes)
        if history.may_compact:
            return "violation", Cause(code="replica-lacks-the-last-of-a-key")
        return "violation", Cause(code="replica-lacks-a-record")
    if row["sync_variants"] > 1:  # also if other replicas have a record there
        return "violation", Cause(code="in-sync-replicas-differ")
    ruling = context.judge(history).rule(_lost_record_of_the_older(row))
    if ruling.classification == "permitted":
        return "permitted", Cause(code="logs-parted-by-a-loss", by=ruling.cause, epoch=ruling.cause_epoch)
    if ruling.undecided:
        return "observation", Cause(code="logs-parted-in-doubt", doubt=ruling.undecided)
    return "violation", Cause(code="logs-parted-without-a-loss")


def _lost_record_of_the_older(row: DivergentRow) -> LostRecord:
    """The older record; within one epoch the one that ISR members lack. A leader's log that has it proves no loss."""
    apart = row["epoch_low"] != row["epoch_high"]
    older = [
        copy for value, copy in row["copies"] if (copy.epoch == row["epoch_low"] if apart else value != row["sync_low"])
    ]
    return LostRecord(
        offset=row["offset"],
        epoch=row["epoch_low"],
        acks=-1,
        t_acknowledged=None,
        committed=True,
        in_a_log=True,
        copies=frozenset(older),
        others=frozenset(copy for _, copy in row["copies"]) - frozenset(older),
    )


def _divergence_finding(
    context: RunContext,
    history: PartitionHistory,
    rows: Sequence[DivergentRow],
    count: int,
    kind: str,
    classification: Class,
    cause: Cause,
) -> Finding:
    undecided = kind == "different" and classification == "observation"
    nodes = sorted({node for row in rows for node in row["nodes"]})
    offsets = [row["offset"] for row in rows]
    if kind == "different":
        description = (
            f"The final logs of {nodes_words(nodes)} of {history.name} differ at {plural(count, 'offset')} below their"
        )
    else:
        lacking = sorted({node for row in rows for node in set(history.final_isr) - set(row["nodes"])})
        description = (
            f"{plural(count, 'offset')} of {history.name} {plural(count, 'has')} a record in the final log of one "
            f"member of the ISR and none in another's ({nodes_words(lacking)}), below their"
        )
    sentence = f"{description} high watermarks ({ranges(offsets)}): {cause_words(cause)}."
    return Finding(
        run=context.run,
        check="replica-divergence",
        classification=classification,
        kind=kind,
        topic=history.topic,
        partition=history.partition,
        count=count,
        sentence=sentence,
        cause=cause,
        offsets=offsets,
        epoch=rows[0]["epoch_high"],
        open_question=undecided,
        evidence={"nodes": nodes, "offsets": [_without_its_run(row) for row in rows[:20]]},
    )


def _without_its_run(row: DivergentRow) -> Mapping[str, object]:
    """The row without the job's own numbers of run and partition, so that a run's result does not depend on the job."""
    return {name: value for name, value in row.items() if name not in {"run", "partition_id", "copies"}}


FAMILY = Family(
    name="inconsistent-offsets",
    find=find,
    flags=(Flag(name="conflict", condition="offset is not null and at_offset > 1"),),
)


DIVERGENCE = Family(name="replica-divergence", find=find_divergence, query=divergence.query)
