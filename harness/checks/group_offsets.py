"""Group offsets: what a member was told of its group's committed offset, against what had been committed.

A fetch of the committed offset must answer with a commit that had not been written over (group_register.py). Lost: it
answered that there is none. Regressed: it answered an offset below all that it may. Foreign: it answered one that
nobody may have committed last. Not judged: fetches that failed, and answers after offsets.retention.minutes. Brokers
keep committed offsets in a partition of their own whose elections nobody recorded: where an unclean election was
allowed under a fault, or a disk was lost, between the commit and the answer, nobody can tell: an open question.
"""

from collections.abc import Sequence

from harness.checks.findings import Finding, RunContext
from harness.checks.group_register import Register, registers
from harness.checks.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt
from harness.checks.runs import Runs
from harness.checks.settings import Settings
from harness.checks.story import GROUP_OFFSETS_TOPIC, DiskLoss, PartitionStory, RunStory
from harness.checks.tables import Row
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.schemas import STATUS_OK

CHECK = "lost-group-offset"
_RETENTION = "offsets.retention.minutes"
_RETENTION_DEFAULT = "10080"
_WORDS = {
    "lost": "that none was",
    "regressed": "a lower one",
    "foreign": "one that nobody had committed last",
}


def query(runs: Runs) -> list[Row]:
    """Fetches whose answer no commit explains. Commits and fetches are few: no job."""
    known = registers(runs)
    rows: list[Row] = []
    for event in runs.group_events():
        if event["event"] != "fetched" or event["status"] != STATUS_OK:
            continue
        register = known.get((event["run"], event["group"], event["tp"]))
        told = None if event["off"] is None or event["off"] < 0 else event["off"]
        kind = _kind(register, told, event)
        if kind is not None:
            last = register.last_before(event["t0"]) if register is not None else None
            rows.append({**event, "kind": kind, "told": told, "committed": last.off if last else None,
                         "committed_t": last.t1 if last else None})  # fmt: skip
    return rows


def _kind(register: Register | None, told: int | None, event: Row) -> str | None:
    if register is None:
        return None if told is None else "foreign"
    if told is None:
        return "lost" if register.last_before(event["t0"]) is not None else None
    offsets = [commit.off for commit in register.admissible(event["t0"], event["t1"])]
    if told in offsets:
        return None
    return "regressed" if offsets and told < min(offsets) else "foreign"


def find(context: RunContext) -> list[Finding]:
    settings = Settings(context)
    groups: dict[tuple[int, str, str, Class, Cause], list[Row]] = {}
    for row in context.rows.get(CHECK, ()):
        if row["kind"] == "lost" and _expired(settings, row):
            continue
        if row["kind"] == "foreign" and row["committed"] is None and not _all_told(context, row):
            continue
        story = context.partition(row["tp"])
        ruled = offsets_ruled(context.story, story, since=row["committed_t"] or 0, until=row["t1"])
        groups.setdefault((row["tp"], row["group"], row["kind"], *ruled), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[0][:4])
    return [_finding(context, context.partition(key[0]), key[2], key[3:], rows) for key, rows in ordered]


def _expired(settings: Settings, row: Row) -> bool:
    minutes = min(settings.numbers(_RETENTION, topic=None, default=_RETENTION_DEFAULT))
    return bool(row["t1"] - row["committed_t"] >= minutes * 60 * 10**9)


def _all_told(context: RunContext, row: Row) -> bool:
    """Whether a group without any commit cannot have been given its offset by someone outside the run."""
    return not any(event["event"] == "committed" for event in context.tables.get("group_events", ()))


def _finding(
    context: RunContext, story: PartitionStory, kind: str, ruled: tuple[Class, Cause], rows: Sequence[Row]
) -> Finding:
    first = rows[0]
    classification, cause = ruled
    had = "" if first["committed"] is None else f" although {first['committed']} had been committed"
    told = "" if first["told"] is None else f" ({first['told']})"
    sentence = (
        f"Group {first['group']} asked {plural(len(rows), 'time')} for its committed offset of {story.name} and was "
        f"told {_WORDS[kind]}{told}{had}, first {context.story.seconds(first['t1'])}: {cause_words(cause)}."
    )
    return Finding(
        run=context.run, check=CHECK, classification=classification, kind=kind, topic=story.topic, part=story.part,
        count=len(rows), sentence=sentence, cause=cause, open_question=cause.doubt is not None,
        t_first=first["t0"], t_last=rows[-1]["t1"],
        offsets=[row["told"] for row in rows if row["told"] is not None],
        faults=[fault["fault"] for fault in story.faults_between(first["committed_t"] or first["t0"], first["t1"])],
        evidence={
            "group": first["group"],
            "answers": [{"process": row["process"], "t_ns": row["t1"], "told": row["told"],
                         "committed": row["committed"], "committed_t_ns": row["committed_t"]} for row in rows[:20]],
        },
    )  # fmt: skip


def offsets_ruled(run: RunStory, story: PartitionStory, *, since: int, until: int) -> tuple[Class, Cause]:
    """What may have been done meanwhile to the partition that keeps a group's offsets, and would not have been seen."""
    if any(since <= loss.t <= until and _may_have_held_offsets(loss) for loss in story.disk_losses):
        doubt = Doubt(code="group-offsets-on-a-lost-disk")
        return "observation", Cause(code="group-offsets-on-a-lost-disk", doubt=doubt)
    if run.unclean_group_offsets is not False and story.faults_between(since, until):
        doubt = Doubt(code="group-offsets-elected-uncleanly")
        return "observation", Cause(code="group-offsets-elected-uncleanly", doubt=doubt)
    return "violation", NOTHING_PERMITS_IT


def _may_have_held_offsets(loss: DiskLoss) -> bool:
    """What was harmed in the log of another topic's partition leaves the group's offsets as they were."""
    return loss.event.topic in (None, GROUP_OFFSETS_TOPIC)
