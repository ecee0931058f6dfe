"""Lost writes: acknowledged, and in no final log. One finding per partition, cause, record epoch group and class.

Three things look alike to a reader and are not: *lost* (gone), *unreadable* (every in-sync replica holds it above a
frozen high watermark), and *unseen* (the partition was not read that far and no log tells).
"""

from collections.abc import Sequence

from harness.checks.causes import faults_of, loss_evidence
from harness.checks.contract import forfeited
from harness.checks.detection import Flagged
from harness.checks.disks_against_reads import is_unreached, last_read
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.min_isr import broken_promises
from harness.checks.removal import WITH_ITS_TOPIC, Removal, removed
from harness.checks.rulings import Cause, Ruling
from harness.checks.story import PartitionStory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.rulings import doubt_words
from harness.checks.wording.words import acks_words, epochs_words, nodes_words, offsets_words, plural
from harness.history.finding_facts import Setting
from harness.history.incarnations import client_name


def find(context: RunContext) -> list[Finding]:
    findings: list[Finding] = []
    removal, last = Removal(context), last_read(context)
    for story, every in context.by_partition("lost", "unseen"):
        reasons = {row.value: removal.of(row) for row in every}
        taken = [(row, why) for row in every if (why := reasons[row.value]) is not None]
        rows = [row for row in every if reasons[row.value] is None]
        if story.deletion is not None and story.deletion.asked:
            gone = [row for row in rows if context.ruling(story, row).cause == "deletion"]
            taken += [(row, WITH_ITS_TOPIC) for row in gone]
            rows = [row for row in rows if context.ruling(story, row).cause != "deletion"]
        lost, unreadable, unseen = _parted(story, last.get(story.tp, -1), rows)
        findings += _lost(context, story, lost, compacts=removal.compacts(story))
        findings += removed(context, story, taken)
        if unreadable:
            findings.append(_unreadable(context, story, unreadable))
        if unseen:
            findings.append(_unseen(context, story, unseen))
        hidden = sum(context.hidden(story, f, sum(f in row.flags for row in every)) for f in ("lost", "unseen"))
        if hidden:
            findings.append(_unclassed(context, story, hidden))
    return findings


def _parted(
    story: PartitionStory, last: int, rows: Sequence[Flagged]
) -> tuple[list[Flagged], list[Flagged], list[Flagged]]:
    """`last`: the offset at which the final read ended."""
    lost, unreadable, unseen = [], [], []
    in_sync = frozenset(story.final_isr)
    logs_known = bool(in_sync) and in_sync <= story.end_snapshots.keys()
    for row in rows:
        above = not story.read_to_end or story.end_offset is None or row.off is None or row.off >= story.end_offset
        if logs_known and above and in_sync <= row.held_at_end:
            unreadable.append(row)
        elif is_unreached(story, row, last):
            unseen.append(row)  # and the evidence contradicts itself
        elif "lost" in row.flags or (logs_known and not in_sync & row.held_at_end):
            lost.append(row)
        else:
            unseen.append(row)
    return lost, unreadable, unseen


def _lost(context: RunContext, story: PartitionStory, rows: Sequence[Flagged], *, compacts: bool) -> list[Finding]:
    groups: dict[tuple[str, str, int | None, bool], list[tuple[Flagged, Ruling]]] = {}
    broken = broken_promises(context)
    for row in rows:
        ruling = context.ruling(story, row)
        if (story.tp, row.value) in broken and ruling.classification != "violation":
            ruling = forfeited(ruling, broken[story.tp, row.value].least)
        # Nothing else explains it, and something removes records here: it removed the last one of a key.
        away = compacts and ruling.classification == "violation" and ruling.election is None
        key = (ruling.classification, ruling.cause, ruling.cause_epoch, away)
        groups.setdefault(key, []).append((row, ruling))
    findings = []
    for (*_, away), group in groups.items():
        members, ruling = [row for row, _ in group], group[0][1]
        if away:
            findings.append(_compacted_away(context, story, members))
            continue
        evidence = loss_evidence(story, ruling, members)
        findings.append(
            finding_of_rows(
                context, story, members, check="lost-write", classification=ruling.classification,
                kind="undecided" if ruling.undecided else "lost",
                sentence=_sentence(story, members, ruling),
                cause=loss_cause(story, ruling, members), epoch=ruling.cause_epoch, evidence=evidence, ruling=ruling,
                faults=[fault["fault"] for fault in faults_of(story, ruling, members)],
            )
        )  # fmt: skip
    return findings


def _compacted_away(context: RunContext, story: PartitionStory, rows: Sequence[Flagged]) -> Finding:
    sentence = (
        f"{plural(len(rows), 'acknowledged record')} {offsets_words(rows)} of {story.name} {plural(len(rows), 'is')} "
        "not in the final log, and no later record of the same key is known: compaction keeps the last one of each key."
    )
    return finding_of_rows(
        context, story, rows, check="compacted-away", classification="violation", kind="last-of-its-key",
        sentence=sentence, cause=Cause(code="last-of-its-key-removed"), evidence={"log_start": story.log_start},
    )  # fmt: skip


def _sentence(story: PartitionStory, rows: Sequence[Flagged], ruling: Ruling) -> str:
    epochs = {row.epoch for row in rows} if ruling.epoch is None else {ruling.epoch}
    held = sorted(frozenset().union(*(row.held_at_end for row in rows)))
    whose = "in no replica's final log" if not held and story.end_snapshots else "not in the final log"
    head = (
        f"{plural(len(rows), 'record')} acknowledged with {acks_words(rows)} {epochs_words(epochs)} "
        f"{offsets_words(rows)} of {story.name} {plural(len(rows), 'is')} {whose}"
    )
    if held:
        head += f" ({nodes_words(held)} still {'holds' if len(held) == 1 else 'hold'} some of them)"
    doubt = ruling.undecided
    why = f"; nobody can tell whether that was permitted: {doubt_words(doubt)}" if doubt else ""
    return f"{head}: {cause_words(loss_cause(story, ruling, rows))}{why}."


def loss_cause(story: PartitionStory, ruling: Ruling, rows: Sequence[Flagged]) -> Cause:
    """The ruling's cause with what decided it: the election or the disks, and the settings."""
    deciding = [rule for rule in ruling.rules if rule.holds or (rule.rule == "min-insync-replicas")]
    settings = [rule.setting for rule in deciding if rule.setting is not None]
    if ruling.cause == "unclean-election" and ruling.election is not None and ruling.election.permission.setting:
        settings.append(ruling.election.permission.setting)
    if any(rule.rule == "fail-over" for rule in deciding):
        settings += [Setting(key="acks", value=str(acks), scope="client") for acks in sorted(_acks(rows))]
    return Cause(
        code=ruling.cause, election=ruling.election, doubt=ruling.undecided, settings=tuple(dict.fromkeys(settings)),
        nodes=tuple(sorted({loss.node for loss in ruling.disk_losses})),
        offset=story.log_start if ruling.cause == "log-start" else None,
    )  # fmt: skip


def _acks(rows: Sequence[Flagged]) -> set[int]:
    return {row.acks for row in rows if row.acks in (0, 1)}


def _unreadable(context: RunContext, story: PartitionStory, rows: Sequence[Flagged]) -> Finding:
    leaderless = bool(story.states) and story.states[-1]["leader"] < 0
    why = "the partition has no leader" if leaderless else "above the high watermark, which no reader passes"
    sentence = (
        f"{plural(len(rows), 'record')} acknowledged with {acks_words(rows)} {offsets_words(rows)} of {story.name} "
        f"{plural(len(rows), 'is')} in the log of every in-sync replica ({nodes_words(story.final_isr)}) but {why}: "
        "unreadable, not lost."
    )
    marks = {node: row["high_watermark"] for node, row in story.end_snapshots.items()}
    return finding_of_rows(
        context, story, rows, check="unreadable", classification="observation", kind="unreadable", sentence=sentence,
        cause=Cause(code="no-leader" if leaderless else "frozen-high-watermark"),
        evidence={
            "end_offset": story.end_offset, "isr": list(story.final_isr),
            "high_watermarks": [{"replica": node, "high_watermark": mark} for node, mark in sorted(marks.items())],
        },
    )  # fmt: skip


def _unseen(context: RunContext, story: PartitionStory, rows: Sequence[Flagged]) -> Finding:
    sentence = (
        f"{plural(len(rows), 'record')} acknowledged {offsets_words(rows)} of {story.name} {plural(len(rows), 'was')} "
        "never read: the partition was not read that far, so nobody knows whether it is lost."
    )
    if story.is_set_apart:
        sentence = (
            f"{plural(len(rows), 'record')} of {client_name(story.topic)}-{story.part} {plural(len(rows), 'was')} "
            "acknowledged while its topic was deleted and created anew, and never read."
        )
    return finding_of_rows(
        context, story, rows, check="unseen-tail", classification="observation", kind="unseen", sentence=sentence,
        cause=Cause(code="not-read-to-its-end"),
        evidence={"end_offset": story.end_offset, "read_to_end": story.read_to_end},
    )  # fmt: skip


def _unclassed(context: RunContext, story: PartitionStory, count: int) -> Finding:
    sentence = (
        f"{plural(count, 'more record')} of {story.name} acknowledged and not read back: too many to class one by one."
    )
    return Finding(
        run=context.run, check="lost-write", classification="violation", kind="unclassed", topic=story.topic,
        part=story.part, count=count, sentence=sentence, cause=Cause(code="not-classed"),
    )  # fmt: skip
