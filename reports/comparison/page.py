"""Pours the runs of two or more systems into the comparison page and into the JSON beside it.

Works from run folders alone. A section that fails shows its error in place; the others stay.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from reports.comparison import sections as sections
from reports.comparison.columns import Column, GivenColumn, Run, read_columns
from reports.comparison.differences import differences, headline, verdict_of
from reports.comparison.environment import environment, settings_of, warnings
from reports.comparison.lanes import history
from reports.comparison.measures import compare
from reports.comparison.model import ComparisonPage, Difference, RunLink
from reports.comparison.numbers import RunNumbers
from reports.comparison.questions import Question, questions
from reports.run.page import Problems
from reports.terms import COMPARISON_TERMS

JSON_VERSION = 1


class Comparison:
    """Read once, shown twice. `out`: the folder the page will lie in, for its links to the runs' own pages."""

    def __init__(self, given: Sequence[GivenColumn], *, out: Path) -> None:
        self.columns = read_columns(given)
        self._out = out
        self.differences = differences(self.columns)
        self.warnings = warnings(self.columns)
        self.headline = headline(self.columns, self.differences)

    def page(self) -> ComparisonPage:
        columns, problems = self.columns, Problems()
        first = self._first()
        scenario = first.scenario.name
        hrefs = {(column.letter, run.repeat): self._href(run) for column in columns for run in column.runs}
        seeds = ", ".join(dict.fromkeys(str(data.run.get("seed")) for data in self._every()))
        return ComparisonPage(
            title=f"{' / '.join(column.label for column in columns)}: {scenario} (kafka-chaos comparison)",
            scenario=scenario,
            seed=seeds,
            headline=self.headline,
            lead=_lead(columns, self.differences),
            story=first.scenario.story,
            warnings=self.warnings,
            facts=self._facts(seeds),
            heads=problems.safely("Columns", lambda: sections.heads(columns), []),
            differences=self.differences,
            verdicts=problems.safely("Verdicts", lambda: sections.verdict_rows(columns, hrefs), []),
            repeats=max(len(column.runs) for column in columns),
            accounting=problems.safely("Records", lambda: sections.accounting_rows(columns), []),
            anomalies=problems.safely("Anomalies", lambda: sections.anomaly_rows(columns), []),
            strips=problems.safely("Faults", lambda: sections.strips(columns), None),
            phases=problems.safely("Speed", lambda: sections.phase_rows(columns), []),
            latencies=problems.safely("Speed", lambda: sections.latencies(columns), None),
            history=problems.safely("History", lambda: history(columns), None),
            environment=problems.safely("Environment", lambda: environment(columns), None),
            runs=[_link(column, run, hrefs[column.letter, run.repeat]) for column in columns for run in column.runs],
            commands=self._commands(),
            terms=COMPARISON_TERMS,
            problems=problems.found,
            footer=f"kafka-chaos {first.run.get('versions', {}).get('kafka-chaos', '')}, comparison of {scenario}, "
            f"history schema {first.run.get('schema_version')}",
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "version": JSON_VERSION,
            "scenario": self._first().scenario.name,
            "headline": self.headline,
            "warnings": list(self.warnings),
            "differences": [asdict(each) for each in self.differences],
            "columns": [self._column_json(column) for column in self.columns],
            "measures": [self._measure_json(question) for question in questions(self.columns)],
        }

    # -- parts --------------------------------------------

    def _every(self) -> list[Any]:
        return [run.data for column in self.columns for run in column.readable]

    def _first(self) -> Any:
        return self._every()[0]

    def _facts(self, seeds: str) -> list[tuple[str, str]]:
        counts = dict.fromkeys(len(column.runs) for column in self.columns)
        worlds = dict.fromkeys(data.scenario.cluster.where for data in self._every())
        loads = dict.fromkeys(f"{d.scenario.workload.name}, {d.scenario.workload.client}" for d in self._every())
        nodes = dict.fromkeys(data.nodes_counted for data in self._every())
        return [
            ("Scenario", self._first().scenario.name),
            ("Seed", seeds),
            ("Runs of each", " or ".join(str(count) for count in counts)),
            ("World", f"{', '.join(worlds)}, {' or '.join(nodes)}"),
            ("Load", "; ".join(loads)),
        ]

    def _href(self, run: Run) -> str:
        if run.path is None or not (run.path / "report.html").is_file():
            return ""
        relative = os.path.relpath(run.path.resolve() / "report.html", self._out.resolve())
        return quote(Path(relative).as_posix())

    def _commands(self) -> list[tuple[str, str]]:
        made = [(column, run.path) for column in self.columns for run in column.runs if run.path is not None]
        words = ["kafka-chaos", "compare", "--runs", str(made[0][1].parent)]
        words += [f"{column.label}={path.name}" for column, path in made]
        return [("This page again, from the stored runs", shlex.join(words))]

    def _column_json(self, column: Column) -> dict[str, Any]:
        first = next((run.data for run in column.readable), None)
        return {
            "letter": column.letter,
            "label": column.label,
            "change": list(column.change),
            "settings": settings_of(first.scenario) if first is not None else {},
            "runs": [
                {
                    "repeat": run.repeat,
                    "run": run.name,
                    "verdict": verdict_of(run),
                    "counted": run.counted,
                    "why": run.why,
                    "numbers": _numbers_json(run.numbers) if run.numbers is not None else None,
                }
                for run in column.runs
            ],
        }

    def _measure_json(self, question: Question) -> dict[str, Any]:
        measure = question.measure
        compared = compare(measure)
        return {
            "key": measure.key,
            "topic": question.topic,
            "unit": measure.unit,
            "kind": compared.kind,
            "spread": compared.spread,
            "columns": [
                {"letter": column.letter, "median": compared.medians[i], "values": list(measure.values[i])}
                for i, column in enumerate(self.columns)
            ],
        }


def _lead(columns: Sequence[Column], found: Sequence[Difference]) -> str:
    empty = [column for column in columns if not column.counted]
    if empty:
        return f"{empty[0].label} has no run that was done to its end, so there are no numbers to compare it by."
    counts = {kind: sum(each.kind == kind for each in found) for kind in ("differs", "within", "same", "unknown")}
    parts = [
        (counts["differs"], "differ by more than the repeats spread"),
        (counts["within"], "are within the spread"),
        (counts["same"], "are the same"),
        (counts["unknown"], "are not known"),
    ]
    asked = f"Of {len(found)} things compared, "
    return asked + ", ".join(f"{count} {words}" for count, words in parts if count) + "."


def _link(column: Column, run: Run, href: str) -> RunLink:
    return RunLink(
        letter=column.letter,
        repeat=run.repeat,
        name=run.name or "no run",
        href=href,
        verdict=verdict_of(run),
        counted=run.counted,
    )


def _numbers_json(numbers: RunNumbers) -> dict[str, Any]:
    """Keys of two words become one, as JSON wants it."""
    fields = asdict(numbers)
    fields["causes"] = {"/".join(key): count for key, count in numbers.causes.items()}
    fields["anomalies"] = {
        "/".join(key): {"findings": findings, "records": records}
        for key, (findings, records) in numbers.anomalies.items()
    }
    return fields
