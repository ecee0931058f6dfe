"""Lost writes: acknowledged, and in no final log. One finding per partition, cause, record epoch group and class.

Three cases look the same to a reader but differ: *lost* (gone), *unreadable* (every in-sync replica has it above a
frozen high watermark), and *unseen* (the partition was not read that far and no log shows it).
"""

from collections.abc import Callable, Sequence

from harness.checks.contract.rule import forfeited, perhaps_forfeited
from harness.checks.contract.rulings import Cause, Ruling
from harness.checks.explaining.causes import faults_of, loss_evidence
from harness.checks.families.evidence.disks_against_reads import is_unreached, last_read
from harness.checks.families.records.min_isr import broken_promises, least_in_sync, perhaps_too_few
from harness.checks.families.records.removal import WITH_ITS_TOPIC, Removal, removed
from harness.checks.families.transactions.hidden_records import hidden_ruled, was_passed_over
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.model.lost_records import kept_there
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.checks.wording.causes import cause_words
from harness.checks.wording.rulings import doubt_words
from harness.checks.wording.words import acks_words, epochs_words, nodes_words, offsets_words, plural
from harness.history.facts.finding_facts import Setting
from harness.history.facts.incarnations import client_name


def find(context: RunContext) -> list[Finding]:
    findings: list[Finding] = []
    removal, last = Removal(context), last_read(context)
    for history, every in context.by_partition("lost", "unseen"):
        reasons = [(row, removal.of(row)) for row in every]
        taken = [(row, why) for row, why in reasons if why is not None]
        rows = [row for row, why in reasons if why is None]
        if history.deletion is not None and history.deletion.asked:
            gone = [row for row in rows if context.ruling(history, row).cause == "deletion"]
            taken += [(row, WITH_ITS_TOPIC) for row in gone]
            rows = [row for row in rows if context.ruling(history, row).cause != "deletion"]
        stands = _stands_still(context, history)
        lost, unreadable, unseen = _parted(
            context, history, last.get(history.partition_id, -1), rows, mark_stands_still=stands
        )
        findings += _lost(context, history, lost, compacts=history.may_compact)
        findings += removed(context, history, taken)
        marked = _below_the_marks(history)
        for among in ([row for row in unreadable if marked(row)], [row for row in unreadable if not marked(row)]):
            if among:
                findings.append(_unreadable(context, history, among))
        if unseen:
            findings.append(_unseen(context, history, unseen, mark_stands_still=stands))
        hidden = sum(context.hidden(history, f, sum(f in row.flags for row in every)) for f in ("lost", "unseen"))
        if hidden:
            findings.append(_unclassed(context, history, hidden))
    return findings


def is_unreadable(history: PartitionHistory, row: Flagged, last: int) -> bool:
    """Whether every in-sync replica has it at the end, where no reader comes. `last`: where the final read ended."""
    in_sync, end = frozenset(history.final_isr), history.end_offset
    if history.read_to_end:
        above = end is None or row.offset is None or row.offset >= end
    else:
        above = row.offset is None or row.offset > last
    return above and bool(in_sync) and in_sync <= history.end_snapshots.keys() and in_sync <= kept_there(history, row)


def may_be_there(history: PartitionHistory, row: Flagged) -> bool:
    """Whether every log in sync that was read, and at least one, has it at or above the end that was told."""
    read = frozenset(history.final_isr) & history.end_snapshots.keys()
    above = row.offset is not None and history.end_offset is not None and row.offset >= history.end_offset
    return above and bool(read) and read <= kept_there(history, row)


def _stands_still(context: RunContext, history: PartitionHistory) -> bool:
    """Whether the final ISR is too small for the high watermark to rise (KIP-966): there may be more above it."""
    if not history.states or not history.final_isr:
        return False
    last_ns = history.states[-1]["time_ns"]
    least = least_in_sync(context.history.settings, history.topic, last_ns, last_ns, history.states[-1]["leader"])
    return len(history.final_isr) < min(least, len(history.replicas))


def _parted(
    context: RunContext, history: PartitionHistory, last: int, rows: Sequence[Flagged], *, mark_stands_still: bool
) -> tuple[list[Flagged], list[Flagged], list[Flagged]]:
    """`last`: the offset at which the final read ended."""
    lost, unreadable, unseen = [], [], []
    in_sync = frozenset(history.final_isr)
    logs_known = bool(in_sync) and in_sync <= history.end_snapshots.keys()
    for row in rows:
        below = row.offset is None or row.offset < (history.end_offset or 0)
        if is_unreadable(history, row, last):
            unreadable.append(row)
        elif was_passed_over(context, history, row):
            lost.append(row)
        elif is_unreached(context, history, row, last):
            unseen.append(row)  # the evidence contradicts itself here
        elif not logs_known and (may_be_there(history, row) or (mark_stands_still and not below)):
            unseen.append(row)
        elif "lost" in row.flags or _passed_by(row, last) or (logs_known and not in_sync & row.held_at_end):
            lost.append(row)
        else:
            unseen.append(row)
    return lost, unreadable, unseen


def _passed_by(row: Flagged, last: int) -> bool:
    """Whether the final read got a later record, wherever it stopped then."""
    return row.offset is not None and row.offset < last


def _lost(context: RunContext, history: PartitionHistory, rows: Sequence[Flagged], *, compacts: bool) -> list[Finding]:
    groups: dict[tuple[str, str, Cause | None, int | None, bool], list[tuple[Flagged, Ruling]]] = {}
    broken, forgetting = broken_promises(context), TransactionForgetting.of(context)
    for row in rows:
        ruling = hidden_ruled(context, history, row, context.ruling(history, row), forgetting)
        if (history.partition_id, row.value) in broken and ruling.classification != "violation":
            ruling = forfeited(ruling, broken[history.partition_id, row.value].least)
        elif ruling.classification == "permitted" and ruling.cause != "deletion":
            least = perhaps_too_few(history, context.history.settings, row, ruling.epoch)
            ruling = ruling if least is None else perhaps_forfeited(ruling, least)
        # Nothing else explains it, and something removes records here: it removed the last one of a key.
        away = compacts and ruling.classification == "violation" and ruling.election is None
        key = (ruling.classification, ruling.cause, ruling.forgotten, ruling.cause_epoch, away)
        groups.setdefault(key, []).append((row, ruling))
    findings = []
    for (*_, away), group in groups.items():
        members, ruling = [row for row, _ in group], group[0][1]
        if away:
            findings.append(_compacted_away(context, history, members))
            continue
        evidence = loss_evidence(history, ruling, members)
        findings.append(
            finding_of_rows(
                context,
                history,
                members,
                check="lost-write",
                classification=ruling.classification,
                kind="undecided" if ruling.undecided else "lost",
                sentence=_sentence(history, members, ruling),
                cause=loss_cause(history, ruling, members),
                epoch=ruling.cause_epoch,
                evidence=evidence,
                ruling=ruling,
                faults=[fault["fault"] for fault in faults_of(history, ruling, members)],
            )
        )
    return findings


def _compacted_away(context: RunContext, history: PartitionHistory, rows: Sequence[Flagged]) -> Finding:
    sentence = (
        f"{plural(len(rows), 'acknowledged record')} {offsets_words(rows)} of {history.name} {plural(len(rows), 'is')} "
        "not in the final log, and no later record of the same key is known from before that: compaction keeps the "
        "last one of each key."
    )
    return finding_of_rows(
        context,
        history,
        rows,
        check="compacted-away",
        classification="violation",
        kind="last-of-its-key",
        sentence=sentence,
        cause=Cause(code="last-of-its-key-removed"),
        evidence={"log_start_offset": history.log_start},
    )


def _sentence(history: PartitionHistory, rows: Sequence[Flagged], ruling: Ruling) -> str:
    epochs = {row.epoch for row in rows} if ruling.epoch is None else {ruling.epoch}
    held = sorted(frozenset().union(*(row.held_at_end for row in rows)))
    whose = "in no replica's final log" if not held and history.end_snapshots else "not in the final log"
    head = (
        f"{plural(len(rows), 'record')} acknowledged with {acks_words(rows)} {epochs_words(epochs)} "
        f"{offsets_words(rows)} of {history.name} {plural(len(rows), 'is')} {whose}"
    )
    if held:
        head += f" ({nodes_words(held)} still {'holds' if len(held) == 1 else 'hold'} some of them)"
    doubt = ruling.undecided
    why = f"; it is unknown whether that was permitted: {doubt_words(doubt)}" if doubt else ""
    return f"{head}: {cause_words(loss_cause(history, ruling, rows))}{why}."


def loss_cause(history: PartitionHistory, ruling: Ruling, rows: Sequence[Flagged]) -> Cause:
    """The ruling's cause with its deciding facts: the election or the disks, and the settings."""
    if ruling.forgotten is not None:
        return ruling.forgotten
    deciding = [rule for rule in ruling.rules if rule.holds or (rule.rule == "min-insync-replicas")]
    settings = [rule.setting for rule in deciding if rule.setting is not None]
    if ruling.cause == "unclean-election" and ruling.election is not None and ruling.election.permission.setting:
        settings.append(ruling.election.permission.setting)
    if any(rule.rule == "fail-over" for rule in deciding):
        settings += [Setting(key="acks", value=str(acks), scope="client") for acks in sorted(_acks(rows))]
    return Cause(
        code=ruling.cause,
        election=ruling.election,
        doubt=ruling.undecided,
        settings=tuple(dict.fromkeys(settings)),
        nodes=tuple(sorted({loss.node for loss in ruling.disk_losses})),
        offset=history.log_start if ruling.cause == "log-start" else None,
    )


def _acks(rows: Sequence[Flagged]) -> set[int]:
    return {row.acks for row in rows if row.acks in (0, 1)}


def _below_the_marks(history: PartitionHistory) -> Callable[[Flagged], bool]:
    """Whether a high watermark that lay on the disk of an in-sync replica at the end is above a record."""
    marks = [history.end_snapshots[node]["high_watermark"] or 0 for node in _in_sync_logs(history)]
    return _is_below(max(marks, default=0))


def _is_below(mark: int | None) -> Callable[[Flagged], bool]:
    return lambda row: row.offset is not None and row.offset < (mark or 0)


def _in_sync_logs(history: PartitionHistory) -> list[int]:
    return sorted(node for node in history.final_isr if node in history.end_snapshots)


def _why_unreadable(history: PartitionHistory, rows: Sequence[Flagged]) -> tuple[Cause, str]:
    down = {end["node"] for end in history.ends if end["back_ns"] is None}
    if history.final_isr and down.issuperset(history.final_isr):
        why = "none of these brokers ran any more when they were read: they had ended by themselves"
        return Cause(code="nobody-serves-them", nodes=history.final_isr), why
    if history.states and history.states[-1]["leader"] < 0:
        return Cause(code="no-leader"), "the partition has no leader"
    if any(map(_below_the_marks(history), rows)):
        nodes = _in_sync_logs(history)
        why = f"no reader got there, although a high watermark on the disks of {nodes_words(nodes)} is above that"
        return Cause(code="end-below-the-marks"), why
    return Cause(code="frozen-high-watermark"), "above the high watermark, which no reader passes"


def _unreadable(context: RunContext, history: PartitionHistory, rows: Sequence[Flagged]) -> Finding:
    cause, why = _why_unreadable(history, rows)
    sentence = (
        f"{plural(len(rows), 'record')} acknowledged with {acks_words(rows)} {offsets_words(rows)} of {history.name} "
        f"{plural(len(rows), 'is')} in the log of every in-sync replica ({nodes_words(history.final_isr)}) but {why}: "
        "unreadable, not lost."
    )
    marks = {node: row["high_watermark"] for node, row in history.end_snapshots.items()}
    return finding_of_rows(
        context,
        history,
        rows,
        check="unreadable",
        classification="observation",
        kind="unreadable",
        sentence=sentence,
        cause=cause,
        evidence={
            "end_offset": history.end_offset,
            "isr": list(history.final_isr),
            "high_watermarks": [{"replica": node, "high_watermark": mark} for node, mark in sorted(marks.items())],
        },
    )


def _unseen(
    context: RunContext, history: PartitionHistory, rows: Sequence[Flagged], *, mark_stands_still: bool
) -> Finding:
    why = "the partition was not read that far"
    stands = mark_stands_still and history.read_to_end
    held = sorted({node for row in rows if may_be_there(history, row) for node in kept_there(history, row)})
    marks = [node for node, end in history.end_snapshots.items() if any(map(_is_below(end["high_watermark"]), rows))]
    if stands and marks:
        why = f"it was told no further, although a high watermark on the disks of {nodes_words(sorted(marks))} is above"
    elif stands:
        why = f"with {nodes_words(history.final_isr)} alone in sync the high watermark does not rise"
    elif held:
        having = f"{nodes_words(held)} {plural(len(held), 'has')} them"
        why = f"it was told that the log ends at {history.end_offset}, and {having}"
    sentence = (
        f"{plural(len(rows), 'record')} acknowledged {offsets_words(rows)} of {history.name} "
        f"{plural(len(rows), 'was')} never read: {why}, so nobody knows whether it is lost."
    )
    if history.is_set_apart:
        sentence = (
            f"{plural(len(rows), 'record')} of {client_name(history.topic)}-{history.partition} "
            f"{plural(len(rows), 'was')} acknowledged while its topic was deleted and created anew, and never read."
        )
    return finding_of_rows(
        context,
        history,
        rows,
        check="unseen-tail",
        classification="observation",
        kind="unseen",
        sentence=sentence,
        cause=Cause(code="frozen-high-watermark" if stands else "not-read-to-its-end"),
        open_question=stands or bool(held),
        evidence={"end_offset": history.end_offset, "read_to_end": history.read_to_end},
    )


def _unclassed(context: RunContext, history: PartitionHistory, count: int) -> Finding:
    records = plural(count, "more record")
    sentence = f"{records} of {history.name} acknowledged and not read back: too many to class one by one."
    return Finding(
        run=context.run,
        check="lost-write",
        classification="violation",
        kind="unclassed",
        topic=history.topic,
        partition=history.partition,
        count=count,
        sentence=sentence,
        cause=Cause(code="not-classed"),
    )


FAMILY = Family(name="lost-write", find=find)
