"""The columns of a comparison, read once: a label and its runs, and of each run its numbers or why it has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.history.schema.cluster_rows import FAULTS
from reports.comparison.numbers import RunNumbers, numbers_of
from reports.run_data import RunData


@dataclass(frozen=True, kw_only=True)
class GivenRun:
    """A run folder, or `failure`: the one line that says why there is none, or none that could be judged."""

    path: Path | None
    failure: str = ""


@dataclass(frozen=True, kw_only=True)
class GivenColumn:
    """change: what was changed in the scenario for this column, as it was asked for."""

    label: str
    runs: Sequence[GivenRun]
    change: Sequence[str] = ()


class AlignedRun(RunData):
    """A run whose second 0 is the begin of its first fault, so that runs can be drawn one above the other."""

    @cached_property
    def load_began_ns(self) -> int:
        began = self.run.get("load_began_ns")
        return int(began if began is not None else self.folder.anchor().monotonic_ns)

    @cached_property
    def first_fault_ns(self) -> int | None:
        return min((int(row["begin_ns"]) for row in self.rows(FAULTS) if row["begin_ns"] is not None), default=None)

    @cached_property
    def origin_ns(self) -> int:
        return self.load_began_ns if self.first_fault_ns is None else self.first_fault_ns

    @cached_property
    def begin_s(self) -> float:
        return min((self.load_began_ns - self.origin_ns) / 1e9, 0.0)

    def moment(self, t_ns: Any) -> str:
        seconds = self.seconds(t_ns)
        return "not seen" if seconds is None else f"{seconds:+.3f} s"


@dataclass(frozen=True, kw_only=True)
class Run:
    """repeat counts from 1. `why`: why it has no numbers, or why it came to no conclusion; "" for one that did."""

    repeat: int
    path: Path | None
    data: RunData | None
    numbers: RunNumbers | None
    why: str

    @property
    def counted(self) -> bool:
        return self.numbers is not None and self.numbers.counted

    @property
    def name(self) -> str:
        return self.path.name if self.path is not None else ""


@dataclass(frozen=True, kw_only=True)
class Column:
    letter: str
    label: str
    change: Sequence[str]
    runs: Sequence[Run]

    @property
    def counted(self) -> list[RunNumbers]:
        return [run.numbers for run in self.runs if run.numbers is not None and run.numbers.counted]

    @property
    def readable(self) -> list[Run]:
        return [run for run in self.runs if run.data is not None]


def letter(number: int) -> str:
    """A, B, ..., Z, A2, B2, ..."""
    return chr(ord("A") + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def read_columns(given: Sequence[GivenColumn]) -> list[Column]:
    """Raises UsageError where a comparison makes no sense: too few columns, different scenarios, no run at all."""
    if len(given) < 2:
        raise UsageError("a comparison needs two columns at least; give --system or --variant twice, or two runs")
    columns = [
        Column(
            letter=letter(number),
            label=column.label,
            change=tuple(column.change),
            runs=[_read(repeat, run) for repeat, run in enumerate(column.runs, start=1)],
        )
        for number, column in enumerate(given)
    ]
    if not any(column.readable for column in columns):
        why = next((run.why for column in columns for run in column.runs if run.why), "no run was given")
        raise HarnessError(f"there is nothing to compare: {why}")
    _one_scenario(columns)
    return columns


def _read(repeat: int, given: GivenRun) -> Run:
    path = given.path
    if path is None or given.failure:
        return Run(repeat=repeat, path=path, data=None, numbers=None, why=given.failure or "the run was not made")
    try:
        data = RunData(path)
        if not data.folder.sealed:
            raise HarnessError(f"the run folder is not sealed; `kafka-chaos check {path}` seals and judges it")
        numbers = numbers_of(data)
    except HarnessError as error:
        return Run(repeat=repeat, path=path, data=None, numbers=None, why=str(error))
    return Run(
        repeat=repeat, path=path, data=data, numbers=numbers, why=_why(numbers, str(data.verdict.get("sentence")))
    )


def _why(numbers: RunNumbers, sentence: str) -> str:
    """What kept the run from a conclusion: the first thing; of a vacuous run all that it lacked."""
    if numbers.verdict in ("pass", "violation"):
        return ""
    return " ".join(numbers.reasons if numbers.verdict == "vacuous" else numbers.reasons[:1]) or sentence


def _one_scenario(columns: Sequence[Column]) -> None:
    names: dict[str, str] = {}
    for column in columns:
        for run in column.readable:
            assert run.data is not None, "readable runs have data"
            names.setdefault(run.data.scenario.name, run.name)
    if len(names) > 1:
        named = "; ".join(f"{scenario} ({run})" for scenario, run in names.items())
        raise UsageError(f"these runs are of different scenarios and cannot be compared: {named}")
