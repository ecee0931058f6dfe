"""Head skips: a consumer's first record is above its required start, and records of the final log are between.

The required start is the offset it sought to; for a member of a group, the group's committed offset; otherwise, if
assigned from the beginning or with auto.offset.reset=earliest, the start of the log. A record of the final log was
committed and readable before any record above it, unless it was sent only later, to a log that had been cut, or its
transaction was not committed: for a consumer that may be read_committed it counts only where it was. What lawfully
removed the required start itself permits a start elsewhere, unless the reset policy is earliest; what lawfully removed
all that was skipped from the log of a leader that was replaced since permits any. Not judged:
auto.offset.reset=latest without a commit or a seek, and clients that the table `processes` does not describe. Commits
with unknown outcome count in the consumer's favour. A member that may start anywhere without a committed offset is
excused by what lawfully made its group forget it (group_forgetting.py).
"""

from collections.abc import Sequence
from typing import TypedDict

import pyarrow.compute as pc
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import Cause, Class
from harness.checks.families.groups.group_forgetting import EXPIRED, forgetting_ruled
from harness.checks.families.groups.group_offsets import BY_A_DEPOSED, AnsweredOffsets
from harness.checks.families.groups.group_partition import Kept
from harness.checks.families.groups.group_register import Register, registers
from harness.checks.families.groups.transactional_offsets import TransactionalOffsets
from harness.checks.families.groups.unrecorded_clients import set_ahead, set_to
from harness.checks.families.records.removal import Removal
from harness.checks.families.transactions.isolation import perhaps_committed_readers, with_outcome
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.spark.passing_by import first_of, grouped, records_of
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, span_words
from harness.history.schema.client_rows import PROCESSES, ProcessRow
from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_POLL, STATUS_FAIL, STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "head-skip"
_SPAN = ("run", "process", "assignment", "partition_id", "start", "first", "completed_ns")
_CLIENT = ("run", "process")


class FirstRow(TypedDict):
    """The first record of an assignment."""

    run: int
    process: int
    assignment: int
    partition_id: int
    offset: int
    value: int
    operation: int
    invoked_ns: int
    completed_ns: int
    leader_epoch: int | None


class _ForgottenRow(TypedDict):
    """A group's last certain commit, of a member that without it was free to start anywhere: what the group must have
    forgotten by asked_ns. group: None if that is not the reason. shown_ns: it was still told then."""

    group: str | None
    committed: int | None
    committed_sent: int
    committed_t: int
    shown_ns: int | None
    asked_ns: int


class _SpanRow(FirstRow, _ForgottenRow):
    """start: its required start, and why; first: its actual first offset. resets_elsewhere: where its start does not
    exist, it does not begin at the head of the log."""

    start: int
    resets_elsewhere: bool
    cause: Cause
    first: int


class HeadSkipRow(_SpanRow):
    """last_sent_ns: when the last of the skipped records was sent, if anybody told."""

    skipped: int
    skip_from: int
    skip_to: int
    last_sent_ns: int | None


class _BetweenRow(TypedDict):
    run: int
    process: int
    assignment: int
    partition_id: int
    start: int
    first: int
    completed_ns: int
    skipped: int
    skip_from: int
    skip_to: int
    last_sent_ns: int | None


ANSWER = RowsOf(CHECK, HeadSkipRow)


def query(runs: JudgedRuns) -> list[HeadSkipRow]:
    """First records of assignments, with the number of existing records between the required start and them."""
    clients = runs.processes()
    if not any(row["offset_reset"] for row in clients.values()):
        return []
    seeks, commits, known = _by_client(runs), _by_group(runs), runs.once(registers)
    anew = {
        (history.run, partition_id)
        for history in runs.histories
        for partition_id, each in history.partitions.items()
        if each.is_recreated
    }
    spans: list[_SpanRow] = []
    for row in _first_records(runs):
        client = clients.get((row["run"], row["process"]))
        if client is None or not client["offset_reset"]:
            continue
        place = (row["run"], row["process"], row["partition_id"])
        committed = commits.get((row["run"], client["group"], row["partition_id"]), ()) if client["group"] else ()
        if place not in seeks and (row["run"], row["partition_id"]) in anew:
            continue  # it was assigned the earlier topic of that name, and continues at its position there
        start = _start(row, client, seeks.get(place, ()), committed)
        if start is not None and start[0] < row["offset"]:
            register = known.get((row["run"], client["group"] or "", row["partition_id"]))
            of_group = _forgotten(row, client, seeks.get(place, ()), committed, register)
            elsewhere = client["offset_reset"] != "earliest"
            own: _SpanRow = {
                **row,
                **of_group,
                "start": start[0],
                "resets_elsewhere": elsewhere,
                "cause": start[1],
                "first": row["offset"],
            }
            spans.append(own)
    between = _between(runs, spans) if spans else {}
    return [
        {
            **span,
            "skipped": found["skipped"],
            "skip_from": found["skip_from"],
            "skip_to": found["skip_to"],
            "last_sent_ns": found["last_sent_ns"],
        }
        for span in spans
        if (found := between.get(_span(span))) is not None
    ]


def _span(row: _SpanRow | _BetweenRow) -> tuple[int, ...]:
    return row["run"], row["process"], row["assignment"], row["partition_id"], row["start"], row["first"]


def _by_client(runs: JudgedRuns) -> dict[tuple[int, int, int], list[PlacedEvent]]:
    """(run, process, partition) -> its seeks and assignments, in order of time."""
    grouped: dict[tuple[int, int, int], list[PlacedEvent]] = {}
    for event in runs.group_events():
        if event["event"] in ("seek", "assigned"):
            grouped.setdefault((event["run"], event["process"], event["partition_id"]), []).append(event)
    return grouped


def _by_group(runs: JudgedRuns) -> dict[tuple[int, str, int], list[PlacedEvent]]:
    grouped: dict[tuple[int, str, int], list[PlacedEvent]] = {}
    for event in runs.group_events():
        if event["event"] == "committed" and event["offset"] is not None and _may_count(runs, event):
            grouped.setdefault((event["run"], event["group"], event["partition_id"]), []).append(event)
    return grouped


def _may_count(runs: JudgedRuns, event: PlacedEvent) -> bool:
    """Offsets of an aborted transaction do where its coordinator may lawfully have forgotten that."""
    inside = event["transaction"] is not None
    return event["status"] != STATUS_FAIL or (inside and runs.once(TransactionalOffsets).was_forgotten(event))


def _start(
    row: FirstRow, client: ProcessRow, own: Sequence[PlacedEvent], committed: Sequence[PlacedEvent]
) -> tuple[int, Cause] | None:
    """(the offset it had to start at or below, why); None if it could start anywhere."""
    before = [event for event in own if event["invoked_ns"] <= row["completed_ns"]]
    last = before[-1] if before else None
    if last is not None and last["event"] == "seek":
        if last["offset"] is None:  # nobody recorded where to
            return None
        return max(last["offset"], 0), Cause(code="sought", offset=last["offset"])
    free = client["offset_reset"] == "latest" or (client["group"] is not None and client["offset_reset"] != "earliest")
    commits = [
        offset
        for event in committed
        if event["invoked_ns"] <= row["completed_ns"] and (offset := event["offset"]) is not None
    ]
    if commits and (not free or _certain_before(committed, row["invoked_ns"] if last is None else last["invoked_ns"])):
        return max(commits), Cause(code="group-committed", offset=max(commits))
    if last is not None and last["offset"] is not None and client["group"] is None:
        return last["offset"], Cause(code="assigned-at", offset=last["offset"])
    # Without a group and with auto.offset.reset=none, a client reads only partitions assigned from the beginning.
    return None if free else (0, Cause(code="earliest-record"))


def _forgotten(
    row: FirstRow,
    client: ProcessRow,
    own: Sequence[PlacedEvent],
    committed: Sequence[PlacedEvent],
    register: Register | None,
) -> _ForgottenRow:
    before = [event for event in own if event["invoked_ns"] <= row["completed_ns"]]
    asked_ns = before[-1]["invoked_ns"] if before else row["invoked_ns"]
    certain = [each for each in committed if each["status"] == STATUS_OK and each["completed_ns"] <= asked_ns]
    last = max(certain, key=lambda each: each["completed_ns"], default=None)
    shown = None if register is None else register.shown_before(asked_ns)
    is_free = client["offset_reset"] != "earliest" and not (before and before[-1]["event"] == "seek")
    return {
        "group": client["group"] if is_free and last is not None else None,
        "committed": None if last is None else last["offset"],
        "committed_sent": 0 if last is None else last["invoked_ns"],
        "committed_t": 0 if last is None else last["completed_ns"],
        "shown_ns": shown.invoked_ns if shown is not None else None,
        "asked_ns": asked_ns,
    }


def _certain_before(committed: Sequence[PlacedEvent], time_ns: int) -> bool:
    """Whether a commit certainly precedes the time; offsets sent to a transaction are stored at an unknown time."""
    return any(
        row["status"] == STATUS_OK and row["transaction"] is None and row["completed_ns"] < time_ns for row in committed
    )


def _first_records(runs: JudgedRuns) -> list[FirstRow]:
    """One row per assignment whose first record is not the first of the final log."""
    place = ["run", "partition_id"]
    client = ["run", "process", "assignment", "partition_id"]
    read = [*FirstRow.__annotations__, "position"]
    polled = records_of(runs.tables, read, pc.field("kind") == KIND_POLL)
    first = first_of(polled, client, ["operation", "position"])
    final = (pc.field("kind") == KIND_FINAL_POLL) & pc.field("replica").is_null()
    lowest = grouped(records_of(runs.tables, [*place, "offset"], final), place, {"lowest": ("offset", "min")})
    if first is None or lowest is None:
        return []
    beside = first.join(lowest, place, join_type="inner")
    late = beside.filter(pc.field("offset") > pc.field("lowest")).sort_by([(name, "ascending") for name in client])
    return typed(FirstRow, late.select(list(FirstRow.__annotations__)))


def _between(runs: JudgedRuns, spans: Sequence[_SpanRow]) -> dict[tuple[int, ...], _BetweenRow]:
    """Spans with records of the final log -> their number, and the first and last of them."""
    strict = runs.frame(_CLIENT, perhaps_committed_readers(runs)).withColumn("strict", sf.lit(True))
    frame = runs.frame(_SPAN, spans).join(strict, [*_CLIENT], "left")
    final = with_outcome(runs, runs.tables.records.where("kind = 2 and replica is null"))
    called = (
        runs.tables.records.where("kind = 0")
        .groupBy("run", "partition_id", "value")
        .agg(sf.min("invoked_ns").alias("called_ns"))
    )
    found = (
        final.select("run", "partition_id", "offset", "value", "outcome")
        .distinct()
        .join(sf.broadcast(frame), ["run", "partition_id"])
        .where(f"offset >= start and offset < first and (strict is null or outcome = {STATUS_OK})")
        .join(called, ["run", "partition_id", "value"], "left")
        .where("called_ns is null or called_ns <= completed_ns")
        .groupBy(*_SPAN)
        .agg(
            sf.count("*").alias("skipped"),
            sf.min("offset").alias("skip_from"),
            sf.max("offset").alias("skip_to"),
            sf.max("called_ns").alias("last_sent_ns"),
        )
    )
    return {_span(row): row for row in typed(_BetweenRow, found.toArrow())}


def find(context: RunContext) -> list[Finding]:
    ordered = sorted(context.rows[ANSWER], key=lambda row: (row["partition_id"], row["invoked_ns"], row["process"]))
    removal = Removal(context)
    ruled = ((row, _ruled(context, row, removal)) for row in ordered)
    return [_finding(context, row, *ruling) for row, ruling in ruled if ruling[1].code != EXPIRED]


def _ruled(context: RunContext, row: HeadSkipRow, removal: Removal) -> tuple[Class, Cause]:
    """Class and cause: where it had to start, what lawfully removed that, or what made its group lawfully forget it."""
    history = context.partition(row["partition_id"])
    overtaken = removal.of_position(history, row["start"], row["completed_ns"]) if row["resets_elsewhere"] else None
    overtaken = overtaken or removal.of_a_former_start(
        history, row["skip_to"], row["last_sent_ns"], row["completed_ns"]
    )
    if overtaken is not None:
        return "observation" if overtaken.doubt else "permitted", overtaken
    if row["group"] is not None:
        kept = Kept(
            group=row["group"],
            partition=history,
            sent_ns=row["committed_sent"],
            stored_ns=row["committed_t"],
            gone_ns=row["completed_ns"],
            offset=row["committed"],
            shown_ns=row["shown_ns"],
            expires=True,
            asked_ns=row["asked_ns"],
            process=row["process"],
        )
        forgotten = forgetting_ruled(context, kept)
        begins = set_to(forgotten[1])
        if forgotten[0] != "violation" and (begins is None or row["skip_to"] < begins):
            return forgotten
    ahead = set_ahead(context, _group_of(context, row), history, row["skip_to"], by_ns=row["completed_ns"])
    if ahead is not None and row["cause"].code == "group-committed":
        return "permitted", ahead
    answer = AnsweredOffsets(context, row["group"], history).by_a_deposed(row["process"], row["completed_ns"])
    if answer is not None and answer["told"] is None:
        return "observation", BY_A_DEPOSED
    return "violation", row["cause"]


def _group_of(context: RunContext, row: HeadSkipRow) -> str | None:
    return next((each["group"] for each in context.tables[PROCESSES] if each["process"] == row["process"]), None)


def _finding(context: RunContext, row: HeadSkipRow, classification: Class, cause: Cause) -> Finding:
    history, why = context.partition(row["partition_id"]), cause_words(row["cause"])
    forgotten = "" if classification == "violation" else f": {cause_words(cause)}"
    sentence = (
        f"Process {row['process']} began to read {history.name} at offset {row['offset']}, although {why}: "
        f"{plural(row['skipped'], 'record')} of the final log {plural(row['skipped'], 'lies')} between "
        f"({span_words(row['skip_from'], row['skip_to'])}){forgotten}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind="first-poll",
        topic=history.topic,
        partition=history.partition,
        count=row["skipped"],
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        epoch=row["leader_epoch"],
        offsets=[row["skip_from"], row["skip_to"]],
        values=[row["value"]],
        operations=[row["operation"]],
        first_ns=row["invoked_ns"],
        last_ns=row["completed_ns"],
        evidence={
            "process": row["process"],
            "assignment": row["assignment"],
            "start": row["start"],
            "first_offset": row["offset"],
            "why": why,
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
