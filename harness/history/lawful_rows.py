"""Which rows no writer of ours leaves in a table, whose schema is as it should be all the same.

A check asks its question of the rows that it can compare. One with a null or a number without meaning takes no part in
that, so a table that has such rows would pass in silence. They are refused, with table, column and number. What a
Parquet footer says of its columns (nulls, least and greatest) is believed, as Spark believes it; what it does not say,
and what depends on several columns, is read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError
from harness.history.evidence_schemas import EVIDENCE, EVIDENCE_REQUIRED
from harness.history.schemas import FINDINGS, KIND_SEND, STATUS_OK, TABLES

if TYPE_CHECKING:  # with pandas: a third of what a command takes to begin
    from pyarrow.dataset import FileSystemDataset

REMEDY = "no run of ours wrote this: seal the run again from its journals"
_field = pc.field
_FROM_0 = (0, None)

# Columns that no writer of ours ever left null, in any version. What reads tables of others refuses a null in them, for
# most checks would pass over it in silence.
REQUIRED: dict[str, tuple[str, ...]] = {
    "ops": ("op", "process", "f", "status", "t0", "t1"),
    "records": ("kind", "status", "op", "process", "topic", "part", "tp", "i", "value", "t0", "t1"),
    "processes": ("process",),
    "client_events": ("process", "t", "event"),
    "transactions": ("txn", "process", "t0", "t1", "outcome"),
    "group_events": ("process", "group", "event", "topic", "part", "status", "t0", "t1"),
    "faults": ("fault", "kind", "nodes"),
    "disk_events": ("node", "t", "extent"),
    "steps": ("step", "kind", "text", "outcome"),
    "partition_states": ("topic", "part", "t", "exact", "observer", "leader", "leader_epoch", "isr"),
    "topics": ("topic", "name", "undecided"),
    "controllers": ("t", "node"),
    "broker_events": ("node", "t", "event"),
    "configuration": ("t", "scope", "key"),
    "replica_snapshots": ("snapshot", "node", "t", "reason", "topic", "part", "log_end"),
    "replica_log": ("snapshot", "node", "topic", "part", "tp", "off", "value"),
    "partitions": ("tp", "topic", "part", "read_to_end"),
    "value_names": ("value", "text"),
    "jumps": ("tp", "value", "off", "jump"),
    "activity": ("sends", "reads", "final_reads", "transactional", "halting", "log_append"),
    "bins": ("t", "width_ns", "ok", "info", "fail", "polled"),
    "findings": ("finding", "check", "classification", "count", "sentence", "fingerprint"),
}


# What the columns of these names may be in every table that has them as integers: least and greatest. A column that is
# named here with its table is this in it alone.
_WITHIN: dict[str, tuple[int, int | None]] = {
    "status": (0, 2), "acks": (-1, 1), "records.kind": (0, 2), "transactions.outcome": (0, 2),
    "part": _FROM_0, "tp": _FROM_0, "op": _FROM_0, "process": _FROM_0, "i": _FROM_0, "txn": _FROM_0, "count": _FROM_0,
    "replica": _FROM_0, "snapshot": _FROM_0, "fault": _FROM_0, "steps.step": _FROM_0, "uncertainty_ns": _FROM_0,
    "records.off": _FROM_0, "replica_log.off": _FROM_0, "jumps.off": _FROM_0, "value": _FROM_0,
    "log_start": _FROM_0, "log_end": _FROM_0, "high_watermark": _FROM_0, "end_offset": _FROM_0,
    "last_stable_offset": _FROM_0, "sends": _FROM_0, "reads": _FROM_0, "final_reads": _FROM_0,
    "leader": (-1, None), "leader_epoch": (-1, None), "node": (-1, None), "epoch": (-1, None),
}  # fmt: skip
# What words these may be: a check that looks for one of them would not see another.
_WORDS: dict[str, tuple[str, ...]] = {
    "steps.kind": ("act", "wait", "expect"),
    "steps.outcome": ("ok", "failed", "timeout", "skipped"),
    "processes.role": ("producer", "consumer", "both"),
    "processes.isolation": ("read_committed", "read_uncommitted"),
    "processes.offset_reset": ("earliest", "latest", "none"),
    "group_events.event": ("assigned", "revoked", "lost", "committed", "fetched", "seek"),
    "client_events.event": ("attempt_failed", "timeout", "disconnect", "connect", "leader"),
    "replica_snapshots.reason": ("kill", "heal", "wipe", "restart", "truncation", "end"),
    "findings.classification": ("violation", "permitted", "observation"),
}
_TIMES = dict.fromkeys(("ops", "records", "transactions", "group_events", "steps"), ("t0", "t1"))


_SCHEMAS = {**TABLES, "findings": FINDINGS, **{f"evidence_{name}": schema for name, schema in EVIDENCE.items()}}
_REQUIRED = {**REQUIRED, **{f"evidence_{name}": columns for name, columns in EVIDENCE_REQUIRED.items()}}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """broken: of the rows that break it. says: what is wrong with `column` in them, before and after their number."""

    column: str
    broken: pc.Expression
    says: str
    of: str = ""


@cache
def rules_of(name: str) -> tuple[Rule, ...]:
    """Those of a table, the nulls first: a null that is told hides nothing else."""
    return (*_required(name), *_within(name), *_worded(name), *_depending(name))


def check_table(name: str, table: pa.Table, place_of: Callable[[Any], object], remedy: str = REMEDY) -> None:
    """Raises HarnessError for the first rule that rows of it break. `place_of`: the file that a `run` is from."""
    rules = rules_of(name)
    if not table.num_rows or not table.filter(reduce(or_, (rule.broken for rule in rules))).num_rows:
        return
    for rule in rules:
        if (found := table.filter(rule.broken)).num_rows:
            raise _unlawful(rule, found.column("run").to_pylist(), place_of, remedy)


def check_file(name: str, file: "FileSystemDataset", place_of: Callable[[Any], object]) -> None:
    """The same of a large one, of which only what the footer leaves open is read."""
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
        beyond, told = _field(field.name) < least, f"is below {least}"
        if greatest is not None:
            beyond, told = beyond | (_field(field.name) > greatest), f"is none of {least} to {greatest}"
        yield Rule(column=field.name, broken=beyond, says=told)


def _worded(name: str) -> Iterator[Rule]:
    for place, words in _WORDS.items():
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
    yield Rule(column="acks", broken=sent & _field("acks").is_null(), says="is null", of=" of sends")
    # acks=0 is answered by nobody; an old version called that a success.
    answered = sent & (_field("status") == STATUS_OK) & (_field("acks") != 0)
    yield Rule(column="off", broken=answered & _field("off").is_null(), says="is null", of=" of acknowledged sends")
    for column in ("off", "last", "assignment"):
        yield Rule(column=column, broken=~sent & _field(column).is_null(), says="is null", of=" of polls")
