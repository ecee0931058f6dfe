"""Rules for the rows of tables: invalid rows that a table's schema does not exclude.

A check compares rows by their values. A row with a null or a meaningless number takes part in no comparison, so a table
with such rows would pass unnoticed. They are refused, with table, column and number. The statistics in a Parquet footer
(nulls, minimum, maximum) are trusted, as Spark does; everything else, and rules about several columns, is checked by
reading.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError
from harness.history.schema.cluster_rows import (
    Age,
    AskedFor,
    AskOutcome,
    EndReason,
    FinalReadEvent,
    WhyNotAsked,
)
from harness.history.schema.evidence_schemas import EVIDENCE, EVIDENCE_REQUIRED, FINDINGS
from harness.history.schema.schemas import KIND_SEND, STATUS_OK, TABLES

if TYPE_CHECKING:  # with pandas: a third of what a command takes to begin
    from pyarrow.dataset import FileSystemDataset

REMEDY = "no run of ours wrote this: seal the run again from its journals"
_field = pc.field
_FROM_0 = (0, None)

# Columns that our writers never left null, in any version. A reader of foreign tables must refuse nulls in them,
# because most checks would skip such rows silently.
REQUIRED: dict[str, tuple[str, ...]] = {
    "operations": ("operation", "process", "function", "status", "invoked_ns", "completed_ns"),
    "records": (
        "kind",
        "status",
        "operation",
        "process",
        "topic",
        "partition",
        "partition_id",
        "position",
        "value",
        "invoked_ns",
        "completed_ns",
    ),
    "processes": ("process",),
    "client_events": ("process", "time_ns", "event"),
    "transactions": ("transaction", "process", "invoked_ns", "completed_ns", "outcome"),
    "group_events": ("process", "group", "event", "topic", "partition", "status", "invoked_ns", "completed_ns"),
    "faults": ("fault", "kind", "nodes"),
    "disk_events": ("node", "time_ns", "extent"),
    "steps": ("step", "kind", "step_text", "outcome"),
    "partition_states": ("topic", "partition", "time_ns", "exact", "observer", "leader", "leader_epoch", "isr"),
    "topics": ("topic", "name", "undecided"),
    "controllers": ("time_ns", "node"),
    "broker_events": ("node", "time_ns", "event"),
    "node_ends": ("node", "time_ns"),
    "configuration": ("time_ns", "scope", "key"),
    "replica_snapshots": ("snapshot", "node", "time_ns", "reason", "topic", "partition", "log_end_offset"),
    "replica_log": ("snapshot", "node", "topic", "partition", "partition_id", "offset", "value"),
    "partitions": ("partition_id", "topic", "partition", "read_to_end"),
    "final_reads": ("topic", "partition", "event", "invoked_ns", "completed_ns", "from_offset", "to_offset"),
    "progress": ("age", "what", "topic", "partition", "outcome", "asked_ns", "until_ns"),
    "value_names": ("value", "name"),
    "jumps": ("partition_id", "value", "offset", "jump"),
    "activity": ("sends", "reads", "final_reads", "transactional", "halting", "log_append"),
    "bins": ("time_ns", "width_ns", "ok", "info", "fail", "polled"),
    "internal_partition_states": (
        "topic",
        "partition",
        "time_ns",
        "exact",
        "observer",
        "leader",
        "leader_epoch",
        "isr",
    ),
    "internal_replica_snapshots": (
        "snapshot",
        "node",
        "time_ns",
        "reason",
        "topic",
        "partition",
        "log_start_offset",
        "log_end_offset",
        "leader_epochs",
        "kept_from",
    ),
    "consumer_offsets": ("snapshots", "partition", "offset", "transactional", "kind", "removed"),
    "transaction_state": ("snapshots", "partition", "offset", "removed"),
    "findings": ("finding", "check", "classification", "count", "sentence_text", "fingerprint"),
}


# Minimum and maximum of the columns of these names, in every table that has them as integers. An entry with a table's
# name applies to that table only.
_WITHIN: dict[str, tuple[int, int | None]] = {
    "status": (0, 2), "acks": (-1, 1), "records.kind": (0, 2), "transactions.outcome": (0, 3),
    "partition": _FROM_0, "partition_id": _FROM_0, "operation": _FROM_0, "process": _FROM_0, "position": _FROM_0,
    "transaction": _FROM_0, "count": _FROM_0, "replica": _FROM_0, "snapshot": _FROM_0, "fault": _FROM_0,
    "scheduled": _FROM_0,
    "steps.step": _FROM_0, "uncertainty_ns": _FROM_0, "records.offset": _FROM_0, "replica_log.offset": _FROM_0,
    "jumps.offset": _FROM_0, "consumer_offsets.offset": _FROM_0, "transaction_state.offset": _FROM_0,
    "kept_from": _FROM_0, "version": _FROM_0, "value": _FROM_0, "log_start_offset": _FROM_0, "log_end_offset": _FROM_0,
    "high_watermark": _FROM_0, "end_offset": _FROM_0, "last_stable_offset": _FROM_0, "sends": _FROM_0, "reads": _FROM_0,
    "final_reads": _FROM_0, "final_reads.from_offset": _FROM_0, "final_reads.to_offset": _FROM_0, "known": _FROM_0,
    "progress.offset": _FROM_0,
    "found": _FROM_0, "exit_status": _FROM_0, "signal": (1, None),
    "leader": (-1, None), "leader_epoch": (-1, None), "node": (-1, None),
}  # fmt: skip
# The allowed words of these columns: a check would not recognise any other.
WORDS: dict[str, tuple[str, ...]] = {
    "steps.kind": ("act", "wait", "expect"),
    "steps.outcome": ("ok", "failed", "timeout", "skipped"),
    "processes.role": ("producer", "consumer", "both"),
    "processes.isolation": ("read_committed", "read_uncommitted"),
    "processes.offset_reset": ("earliest", "latest", "none"),
    "processes.group_protocol": ("classic", "consumer"),
    "group_events.event": ("assigned", "revoked", "lost", "committed", "fetched", "seek"),
    "client_events.event": ("attempt_failed", "timeout", "disconnect", "connect", "leader", "request"),
    "node_ends.reason": get_args(EndReason),
    "replica_snapshots.reason": ("kill", "heal", "wipe", "restart", "truncation", "end"),
    "final_reads.event": get_args(FinalReadEvent),
    "progress.age": get_args(Age),
    "progress.what": get_args(AskedFor),
    "progress.outcome": get_args(AskOutcome),
    "progress.reason": get_args(WhyNotAsked),
    "internal_replica_snapshots.reason": ("wipe", "end"),
    "consumer_offsets.kind": (
        "offset",
        "group",
        "group_epoch",
        "assignment_epoch",
        "member_epoch",
        "marker",
        "other",
    ),
    "transaction_state.state": (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ),
    "findings.classification": ("violation", "permitted", "observation"),
}
_TIMES = dict.fromkeys(
    ("operations", "records", "transactions", "group_events", "final_reads"), ("invoked_ns", "completed_ns")
) | {"steps": ("begin_ns", "end_ns"), "node_ends": ("time_ns", "back_ns"), "progress": ("asked_ns", "until_ns")}


_SCHEMAS = {**TABLES, "findings": FINDINGS, **{f"evidence_{name}": schema for name, schema in EVIDENCE.items()}}
_REQUIRED = {**REQUIRED, **{f"evidence_{name}": columns for name, columns in EVIDENCE_REQUIRED.items()}}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """broken: selects the rows that break it. says: the text about `column`, before and after the number
    of such rows."""

    column: str
    broken: pc.Expression
    says: str
    of: str = ""


@cache
def rules_of(name: str) -> tuple[Rule, ...]:
    """The rules of a table, nulls first: a reported null hides nothing else."""
    return (*_required(name), *_within(name), *_worded(name), *_depending(name))


def check_table(name: str, table: pa.Table, place_of: Callable[[Any], object], remedy: str = REMEDY) -> None:
    """Raises HarnessError for the first broken rule. `place_of`: the file that a `run` is from."""
    rules = rules_of(name)
    if not table.num_rows or not table.filter(reduce(or_, (rule.broken for rule in rules))).num_rows:
        return
    for rule in rules:
        if (found := table.filter(rule.broken)).num_rows:
            raise _unlawful(rule, found.column("run").to_pylist(), place_of, remedy)


def check_file(name: str, file: "FileSystemDataset", place_of: Callable[[Any], object]) -> None:
    """The same for a large table, reading only what the footer does not decide."""
    for rule in rules_of(name):
        if file.count_rows(filter=rule.broken):
            runs = file.to_table(columns=["run"], filter=rule.broken).column("run").to_pylist()
            raise _unlawful(rule, runs, place_of, REMEDY)


def _unlawful(rule: Rule, runs: Sequence[Any], place_of: Callable[[Any], object], remedy: str) -> HarnessError:
    count = runs.count(runs[0])
    rows = f"{count} rows" if count > 1 else "1 row"
    return HarnessError(f"{place_of(runs[0])}: column {rule.column} {rule.says} in {rows}{rule.of}: {remedy}")


# -- the rules --------------------------------------------


def _required(name: str) -> Iterator[Rule]:
    for column in _REQUIRED[name]:
        yield Rule(column=column, broken=_field(column).is_null(), says="is null")


def _within(name: str) -> Iterator[Rule]:
    for field in _SCHEMAS[name]:
        least, greatest = _WITHIN.get(f"{name}.{field.name}", _WITHIN.get(field.name, (None, None)))
        if least is None or not pa.types.is_integer(field.type):
            continue
        beyond, problem = _field(field.name) < least, f"is below {least}"
        if greatest is not None:
            beyond, problem = beyond | (_field(field.name) > greatest), f"is none of {least} to {greatest}"
        yield Rule(column=field.name, broken=beyond, says=problem)


def _worded(name: str) -> Iterator[Rule]:
    for place, words in WORDS.items():
        table, _, column = place.partition(".")
        if table == name:
            known = _field(column).isin(list(words))
            yield Rule(column=column, broken=_field(column).is_valid() & ~known, says=f"is none of {', '.join(words)}")


def _depending(name: str) -> Iterator[Rule]:
    if name in _TIMES:
        began, ended = _TIMES[name]
        yield Rule(column=ended, broken=_field(ended) < _field(began), says=f"is before {began}")
    if name != "records":
        return
    sent = _field("kind") == KIND_SEND
    yield Rule(column="returned_ns", broken=_field("returned_ns") < _field("invoked_ns"), says="is before invoked_ns")
    yield Rule(column="acks", broken=sent & _field("acks").is_null(), says="is null", of=" of sends")
    # acks=0 gets no answer; an old version stored that as success
    answered = sent & (_field("status") == STATUS_OK) & (_field("acks") != 0)
    yield Rule(
        column="offset", broken=answered & _field("offset").is_null(), says="is null", of=" of acknowledged sends"
    )
    for column in ("offset", "last_of_poll", "assignment"):
        yield Rule(column=column, broken=~sent & _field(column).is_null(), says="is null", of=" of polls")
