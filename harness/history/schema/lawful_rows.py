"""Rules for the rows of tables: invalid rows that a table's schema does not exclude.

A check compares rows by their values. A row with a null or a meaningless number takes part in no comparison, so a table
with such rows would pass unnoticed. They are refused, with table, column and number. The statistics in a Parquet footer
(nulls, minimum, maximum) are trusted, as Spark does; everything else, and rules about several columns, is checked by
reading. What one column may hold its row's type says; the rules about several are here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError
from harness.history.schema.schemas import KIND_SEND, ROWS, STATUS_OK
from harness.history.schema.typed_rows import columns_of

if TYPE_CHECKING:  # with pandas: a third of what a command takes to begin
    from pyarrow.dataset import FileSystemDataset

REMEDY = "no run of ours wrote this: seal the run again from its journals"
_field = pc.field

_TIMES = dict.fromkeys(
    ("operations", "records", "transactions", "group_events", "final_reads"), ("invoked_ns", "completed_ns")
) | {"steps": ("begin_ns", "end_ns"), "node_ends": ("time_ns", "back_ns"), "progress": ("asked_ns", "until_ns")}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """broken: selects the rows that break it. says: the text about `column`, before and after the number
    of such rows."""

    column: str
    broken: pc.Expression
    breach: str
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
    return HarnessError(f"{place_of(runs[0])}: column {rule.column} {rule.breach} in {rows}{rule.of}: {remedy}")


# -- the rules --------------------------------------------


def never_null(name: str) -> tuple[str, ...]:
    """The columns of a table that our writers never left null, in any version. Most checks would skip such rows of
    foreign tables silently."""
    columns = columns_of(ROWS[name])
    return tuple(each for each, column in columns.items() if not column.nullable and each != "run")


def _required(name: str) -> Iterator[Rule]:
    for column in never_null(name):
        yield Rule(column=column, broken=_field(column).is_null(), breach="is null")


def _within(name: str) -> Iterator[Rule]:
    for column, declared in columns_of(ROWS[name]).items():
        if declared.within is None:
            continue
        least, greatest = declared.within.least, declared.within.greatest
        beyond, problem = _field(column) < least, f"is below {least}"
        if greatest is not None:
            beyond, problem = beyond | (_field(column) > greatest), f"is none of {least} to {greatest}"
        yield Rule(column=column, broken=beyond, breach=problem)


def _worded(name: str) -> Iterator[Rule]:
    for column, declared in columns_of(ROWS[name]).items():
        if words := [str(word) for word in declared.words]:
            known = _field(column).isin(words)
            yield Rule(
                column=column, broken=_field(column).is_valid() & ~known, breach=f"is none of {', '.join(words)}"
            )


def _depending(name: str) -> Iterator[Rule]:
    if name in _TIMES:
        began, ended = _TIMES[name]
        yield Rule(column=ended, broken=_field(ended) < _field(began), breach=f"is before {began}")
    if name != "records":
        return
    sent = _field("kind") == KIND_SEND
    yield Rule(column="returned_ns", broken=_field("returned_ns") < _field("invoked_ns"), breach="is before invoked_ns")
    yield Rule(column="acks", broken=sent & _field("acks").is_null(), breach="is null", of=" of sends")
    # acks=0 gets no answer; an old version stored that as success
    answered = sent & (_field("status") == STATUS_OK) & (_field("acks") != 0)
    yield Rule(
        column="offset", broken=answered & _field("offset").is_null(), breach="is null", of=" of acknowledged sends"
    )
    for column in ("offset", "last_of_poll", "assignment"):
        yield Rule(column=column, broken=~sent & _field(column).is_null(), breach="is null", of=" of polls")
