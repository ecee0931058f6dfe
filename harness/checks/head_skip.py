"""Head skips: a consumer's first record lies above where it had to start, and records of the final log lie between.

It had to start where it sought to; as a member of a group, at the group's committed offset; else, assigned from the
beginning or with auto.offset.reset=earliest, at the start of the log. A record that the final log has was committed and
readable before any record above it. Not judged: auto.offset.reset=latest without a commit or a seek, and clients that
are not described in the table `processes`. Commits whose outcome nobody knows count in the consumer's favour.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import functions as sf

from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Cause
from harness.checks.runs import Runs
from harness.checks.tables import Row
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, span_words
from harness.history.schemas import STATUS_FAIL, STATUS_OK

CHECK = "head-skip"
_FIRST = ("run", "process", "assignment", "tp", "off", "value", "op", "t0", "t1", "epoch")
_SPAN = {"run": pa.int32(), "process": pa.int32(), "assignment": pa.int32(), "tp": pa.int32(), "start": pa.int64(),
         "first": pa.int64()}  # fmt: skip


def query(runs: Runs) -> list[Row]:
    """First records of an assignment, with the number of existing records between them and where it had to start."""
    clients = runs.processes()
    if not any(row["offset_reset"] for row in clients.values()):
        return []
    seeks, commits = _by_client(runs), _by_group(runs)
    anew = {(story.run, tp) for story in runs.stories for tp, each in story.partitions.items() if each.is_recreated}
    spans = []
    for row in _first_records(runs):
        client = clients.get((row["run"], row["process"]))
        if client is None or not client["offset_reset"]:
            continue
        place = (row["run"], row["process"], row["tp"])
        committed = commits.get((row["run"], client["group"], row["tp"]), ()) if client["group"] else ()
        if place not in seeks and (row["run"], row["tp"]) in anew:
            continue  # it was assigned the topic of that name before, and goes on where it was in that one
        start = _start(row, client, seeks.get(place, ()), committed)
        if start is not None and start[0] < row["off"]:
            spans.append({**row, "start": start[0], "cause": start[1], "first": row["off"]})
    between = _between(runs, spans) if spans else {}
    return [{**span, **between[key]} for span in spans if (key := tuple(span[name] for name in _SPAN)) in between]


def _by_client(runs: Runs) -> dict[tuple[int, int, int], list[Row]]:
    """(run, process, partition) -> where it sought to and what it was assigned, in order of time."""
    grouped: dict[tuple[int, int, int], list[Row]] = {}
    for event in runs.group_events():
        if event["event"] in ("seek", "assigned"):
            grouped.setdefault((event["run"], event["process"], event["tp"]), []).append(event)
    return grouped


def _by_group(runs: Runs) -> dict[tuple[int, str, int], list[Row]]:
    grouped: dict[tuple[int, str, int], list[Row]] = {}
    for event in runs.group_events():
        if event["event"] == "committed" and event["status"] != STATUS_FAIL and event["off"] is not None:
            grouped.setdefault((event["run"], event["group"], event["tp"]), []).append(event)
    return grouped


def _start(row: Row, client: Row, own: Sequence[Row], committed: Sequence[Row]) -> tuple[int, Cause] | None:
    """(the offset it had to start at or below, why); None where it was free to start anywhere."""
    before = [event for event in own if event["t0"] <= row["t1"]]
    last = before[-1] if before else None
    if last is not None and last["event"] == "seek":
        return max(last["off"] or 0, 0), Cause(code="sought", offset=last["off"])
    free = client["offset_reset"] == "latest" or (client["group"] is not None and client["offset_reset"] != "earliest")
    commits = [event["off"] for event in committed if event["t0"] <= row["t1"]]
    if commits and (not free or _certain_before(committed, row["t0"] if last is None else last["t0"])):
        return max(commits), Cause(code="group-committed", offset=max(commits))
    if last is not None and last["off"] is not None and client["group"] is None:
        return last["off"], Cause(code="assigned-at", offset=last["off"])
    # Without a group and with auto.offset.reset=none, a client reads only what it was assigned from the beginning.
    return None if free else (0, Cause(code="earliest-record"))


def _certain_before(committed: Sequence[Row], t: int) -> bool:
    """What was sent to a transaction is stored at a time that nobody knows."""
    return any(row["status"] == STATUS_OK and row["txn"] is None and row["t1"] < t for row in committed)


def _first_records(runs: Runs) -> list[Row]:
    """One row per assignment of a consumer that did not begin with the first record of the final log."""
    rows = runs.tables.records.where("kind = 1")
    first = rows.groupBy("run", "process", "assignment", "tp").agg(
        sf.min_by(sf.struct("off", "value", "op", "t0", "t1", "epoch"), sf.struct("op", "i")).alias("first")
    )
    lowest = (
        runs.tables.records.where("kind = 2 and replica is null")
        .groupBy("run", "tp")
        .agg(sf.min("off").alias("lowest"))
    )
    late = first.join(lowest, ["run", "tp"]).where("first.off > lowest")
    return list(late.select("run", "process", "assignment", "tp", "first.*").select(*_FIRST).toArrow().to_pylist())


def _between(runs: Runs, spans: Sequence[Row]) -> dict[tuple[int, ...], dict[str, int]]:
    """Spans that hold records of the final log -> how many, and the first and last of them."""
    frame = runs.frame(_SPAN, spans)
    inside = sf.expr("off >= start and off < first")
    final = runs.tables.records.where("kind = 2 and replica is null").select("run", "tp", "off").distinct()
    found = (
        final.join(sf.broadcast(frame), ["run", "tp"])
        .where(inside)
        .groupBy(*_SPAN)
        .agg(sf.count("*").alias("skipped"), sf.min("off").alias("skip_from"), sf.max("off").alias("skip_to"))
    )
    names = ("skipped", "skip_from", "skip_to")
    return {
        tuple(row[name] for name in _SPAN): {name: row[name] for name in names} for row in found.toArrow().to_pylist()
    }


def find(context: RunContext) -> list[Finding]:
    found = []
    for row in sorted(context.rows.get(CHECK, ()), key=lambda row: (row["tp"], row["t0"], row["process"])):
        story, cause = context.partition(row["tp"]), row["cause"]
        sentence = (
            f"Process {row['process']} began to read {story.name} at offset {row['off']}, although "
            f"{cause_words(cause)}: "
            f"{plural(row['skipped'], 'record')} of the final log {plural(row['skipped'], 'lies')} between "
            f"({span_words(row['skip_from'], row['skip_to'])})."
        )
        found.append(
            Finding(
                run=context.run, check=CHECK, classification="violation", kind="first-poll", topic=story.topic,
                part=story.part, count=row["skipped"], sentence=sentence, cause=cause, epoch=row["epoch"],
                offsets=[row["skip_from"], row["skip_to"]], values=[row["value"]], operations=[row["op"]],
                t_first=row["t0"], t_last=row["t1"],
                evidence={"process": row["process"], "assignment": row["assignment"], "start": row["start"],
                          "first_offset": row["off"], "why": cause_words(cause)},
            )
        )  # fmt: skip
    return found
