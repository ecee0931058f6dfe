"""Histories of the world before the checks: judged as one Spark job, and each lost record's class beside the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.checks.judge import Judgement, RunInput, judge_tables
from harness.checks.tables import tables_of
from tests.world.evidence import run_facts, tables
from tests.world.histories import History
from tests.world.sight import Sight
from tests.world.truth import Lost, Verdict, lost_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSED_OVER = "passed over"
UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """`said`: (topic, partition, value) -> violation | permitted | undecided, of what was reported lost."""

    history: History
    sight: Sight
    lost: Sequence[Lost]
    judgement: Judgement
    said: Mapping[tuple[str, int, int], str]

    def of(self, lost: Lost) -> str:
        return self.said.get((*lost.partition, lost.value), PASSED_OVER)

    @property
    def violations(self) -> list[str]:
        found = [finding for _, finding in self.judgement.findings if finding.classification == "violation"]
        return [f"{finding.check}: {finding.sentence}" for finding in found]


def judged(spark: "SparkSession", folder: Path, cases: Sequence[tuple[History, Sight]]) -> list[Judged]:
    opened = tables_of(spark, folder, tables(cases), len(cases))
    inputs = [RunInput(scenario=None, run=run_facts(history)) for history, _ in cases]
    answers = judge_tables(spark, opened, inputs)
    return [
        Judged(
            history=history, sight=sight, lost=lost_records(history.chronicle), judgement=judgement,
            said=_said(judgement, evidences["lost_records"]),
        )
        for (history, sight), (judgement, evidences) in zip(cases, answers, strict=True)
    ]  # fmt: skip


def _said(judgement: Judgement, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int, int], str]:
    """An observation on a lost record is an open question. The worst that is said of a record counts."""
    checks = {name: finding.check for name, finding in judgement.findings}
    order = {"violation": 0, UNDECIDED: 1, "permitted": 2}
    said: dict[tuple[str, int, int], str] = {}
    for row in rows:
        if checks.get(row["finding"]) != "lost-write":
            continue
        word = UNDECIDED if row["classification"] == "observation" else row["classification"]
        key = (row["topic"], row["part"], row["value"])
        said[key] = min(said.get(key, word), word, key=lambda each: order[each])
    return said


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """`wrong`: what may never be said of such a record; `open`: undecided, which is only counted."""

    judged: Judged
    lost: Lost
    said: str

    @property
    def text(self) -> str:
        setup, lost = self.judged.history.setup, self.lost
        flaws = ", ".join(sorted(self.judged.history.chronicle.flaws_acted)) or "sound"
        return (
            f"seed {setup.seed} ({setup.plot}; {flaws}; sight: {self.judged.sight.name}), {lost.partition[0]}-"
            f"{lost.partition[1]} offset {lost.offset} value {lost.value} acks {lost.acks}: in truth "
            f"{lost.verdict.value} ({lost.took}: {lost.story}), said: {self.said}"
        )


def wrong(judged: Judged) -> list[Disagreement]:
    """Lost records of which the checks said what they may never say."""
    never = {Verdict.VIOLATION: ("permitted", PASSED_OVER), Verdict.PERMITTED: ("violation",), Verdict.UNSAID: ()}
    return [
        Disagreement(judged=judged, lost=lost, said=judged.of(lost))
        for lost in judged.lost
        if judged.of(lost) in never[lost.verdict]
    ]


def undecided(judged: Judged) -> list[Disagreement]:
    return [
        Disagreement(judged=judged, lost=lost, said=UNDECIDED)
        for lost in judged.lost
        if lost.verdict is not Verdict.UNSAID and judged.of(lost) == UNDECIDED
    ]
