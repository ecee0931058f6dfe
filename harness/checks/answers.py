"""Collects and verifies the answers of the check families. If an installed package's check fails, nothing is judged.

A package's check may return only its own findings, and each kind must have a page; an error in it is one line that
names the package and the place. Its findings are stored with their pages, so that a run's page needs no package.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from harness import extensions
from harness.checks.catalogue import FAMILIES, families
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, Query
from harness.errors import HarnessError, in_short
from harness.history.schema.evidence_texts import check_evidence
from harness.history.schema.typed_rows import OfRun

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")


def find_all(context: RunContext) -> list[Finding]:
    for family in families():
        found = _answered(family, family.find, context)
        _check_findings(family, found)
        context.found[family.name] = [_with_fault_kinds(context, finding) for finding in found]
    return [finding for family in families() for finding in context.found[family.name]]


def rows_of(family: Family, query: Query, runs: JudgedRuns) -> Sequence[OfRun]:
    """The rows of a family's query; each row has its run."""
    rows = _answered(family, query, runs)
    if _is_ours(family):
        return rows
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) and "run" in row for row in rows):
        raise HarnessError(f"{_place(family)}: its query must return a list of rows, each a dict with its 'run'")
    return rows


def added_anomalies() -> list[dict[str, Any]]:
    """The pages of the anomalies that packages' checks find."""
    return [
        asdict(replace(anomaly, package=extensions.package_of(extensions.CHECKS, family.name)))
        for family in families()
        for anomaly in family.anomalies
    ]


def _with_fault_kinds(context: RunContext, finding: Finding) -> Finding:
    kinds = {fault["kind"] for fault in context.history.faults.numbered(finding.faults)}
    return replace(finding, fault_kinds=sorted(kind for kind in kinds if kind)) if kinds else finding


def _is_ours(family: Family) -> bool:
    return any(family is each for each in FAMILIES)


def _answered(family: Family, question: Callable[[Subject], Answer], subject: Subject) -> Answer:
    if _is_ours(family):
        return question(subject)
    try:
        return question(subject)
    except HarnessError:
        raise
    except Exception as error:  # a package's code may raise anything
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise HarnessError(
            f"{_place(family)}: {in_short(error)} ({Path(frame.filename).name} line {frame.lineno}): mend "
            "it, or uninstall the package; what the run recorded is kept, and `kafka-chaos check` judges it again"
        ) from error


def _check_findings(family: Family, found: Sequence[Finding]) -> None:
    if _is_ours(family):
        return
    for finding in found:
        if not isinstance(finding, Finding):
            raise HarnessError(f"{_place(family)}: it must return Findings, not {type(finding).__name__}")
        if finding.check != family.name:
            raise HarnessError(
                f"{_place(family)}: one of its findings has check {finding.check!r}; write check={family.name!r}"
            )
        try:
            row = finding.as_row("a finding")
        except (TypeError, ValueError) as error:
            raise HarnessError(f"{_place(family)}: the evidence of a finding is no JSON: {error}") from error
        check_evidence([row], _place(family), "give it under keys of your own")


def _place(family: Family) -> str:
    return f"package {extensions.package_of(extensions.CHECKS, family.name)}, check {family.name!r}"
