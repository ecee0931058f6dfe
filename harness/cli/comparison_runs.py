"""Does the runs of a comparison or takes stored ones, judges those not yet judged, and writes the page; or finds the
folders of campaigns that were run before.

Repeats alternate between the columns (A, B, A, B, ...), so that a machine that slows down affects all of them; judging
comes after the last run, since a JVM beside a run would disturb its times.
"""

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import compose
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.preflight.looking import all_ready
from harness.scenario.model import Scenario
from harness.scenario.places import Override
from reports.campaign.beside import write_campaigns_beside
from reports.comparison.columns import GivenColumn, GivenRun
from reports.comparison.grouping import StoredRun, columns_of
from reports.comparison.page import Comparison
from reports.render import write_comparison

_NEXT_OVERRIDE = re.compile(r",(?=[A-Za-z_][\w.\-]*\s*=)")
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One column: the scenario with these overrides."""

    label: str
    overrides: tuple[str, ...]


def variants_of(systems: Sequence[str], variants: Sequence[str]) -> list[Variant]:
    """`--system NAME` and `--variant NAME:KEY=VALUE,KEY=VALUE` as columns. Raises UsageError."""
    made = [
        Variant(label=system, overrides=(Override(f"cluster.system={system}", f"--system {system}"),))
        for system in systems
    ]
    for text in variants:
        label, colon, rest = text.partition(":")
        said = [each.strip() for each in _NEXT_OVERRIDE.split(rest) if each.strip()]
        overrides = tuple(Override(each, f"--variant {label.strip()}:{each}") for each in said)
        if not colon or not label.strip() or any("=" not in each for each in overrides):
            raise UsageError(
                f"--variant {text}: write NAME:KEY=VALUE[,KEY=VALUE], for example acks1:workload.acks=1, "
                "or NAME: for the scenario as it is"
            )
        made.append(Variant(label=label.strip(), overrides=overrides))
    labels = [variant.label for variant in made]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"two columns are called {label!r}; give one of them another name with --variant")
    if len(made) < 2:
        raise UsageError("a comparison needs two columns at least: give --system or --variant twice")
    return made


def compare_scenario(
    reference: str,
    variants: Sequence[Variant],
    *,
    repeat: int,
    runs: Path,
    out: Path | None,
    seed: int | None,
    overrides: Sequence[str],
    master: str,
    tell: Tell,
) -> tuple[Path, Comparison]:
    """(the page, its content). A run that fails is reported in its column, and the others continue."""
    scenarios = all_ready([(reference, [*overrides, *variant.overrides]) for variant in variants])
    made: dict[str, list[GivenRun]] = {variant.label: [] for variant in variants}
    interrupted = False
    for number in range(1, repeat + 1):
        for variant, scenario in zip(variants, scenarios, strict=True):
            given, interrupted = (
                (GivenRun(path=None, failure="interrupted before this run"), True)
                if interrupted
                else _run(scenario, variant.label, number, runs=runs, seed=seed, tell=tell)
            )
            made[variant.label].append(given)
    folders = [run.path for given in made.values() for run in given if run.path is not None]
    failures = _judge(folders, master=master, tell=tell)
    columns = [
        GivenColumn(
            label=variant.label,
            change=[*overrides, *variant.overrides],
            runs=[_judged(given, failures) for given in made[variant.label]],
        )
        for variant in variants
    ]
    return write_comparison(columns, out=out or _folder(runs, columns))


def _run(
    scenario: Scenario, label: str, number: int, *, runs: Path, seed: int | None, tell: Tell
) -> tuple[GivenRun, bool]:
    """(the run or why there is none, whether the user stopped it)"""
    began = time.monotonic()
    try:
        folder, outcome = compose.run_scenario(
            scenario, runs=runs, seed=seed, command=["kafka-chaos", *sys.argv[1:]], progress=lambda _: None
        )
    except HarnessError as error:
        tell(f"{label}, repeat {number}: no run: {error}")
        return GivenRun(path=None, failure=str(error)), False
    seconds = time.monotonic() - began
    ended = f"error: {outcome.error}" if outcome.error else outcome.status
    tell(f"{label}, repeat {number}: {ended} after {seconds:.1f} s, {folder.path.name}")
    return GivenRun(path=folder.path), outcome.status == "interrupted"


def compare_stored(
    stored: Sequence[StoredRun], *, runs: Path, out: Path | None, master: str, tell: Tell
) -> tuple[Path, Comparison]:
    """Compares stored runs; judges only those that have no verdict yet."""
    open_ = [run.path for run in stored if not _is_judged(run.path)]
    failures = _judge(open_, master=master, tell=tell)
    labelled = [StoredRun(path=run.path, label=run.label, failure=failures.get(run.path, "")) for run in stored]
    columns = columns_of(labelled)
    return write_comparison(columns, out=out or _folder(runs, columns))


def stored_run(reference: str, find: Callable[[str], Path]) -> StoredRun:
    """RUN, or NAME=RUN to name its column. `find` raises UsageError for anything that is not a run."""
    label, equals, rest = reference.partition("=")
    if not equals or Path(reference).is_dir():
        return StoredRun(path=find(reference))
    if not label.strip():
        raise UsageError(f"{reference}: write NAME=RUN, or RUN alone")
    return StoredRun(path=find(rest), label=label.strip())


def _is_judged(path: Path) -> bool:
    folder = RunFolder(path)
    return folder.sealed and (path / "verdict.json").is_file() and folder.run.get("status") != "started"


def _judge(folders: Sequence[Path], *, master: str, tell: Tell) -> dict[Path, str]:
    """Folder -> why it could not be judged."""
    failures: dict[Path, str] = {}
    if not folders:
        return failures
    session = compose.JudgingSession(master=master, folders=folders[:1])
    try:
        for number, path in enumerate(folders, start=1):
            try:
                judged = session.judge(path)
            except HarnessError as error:
                failures[path] = str(error)
                tell(f"judged {number} of {len(folders)}: not possible: {error}")
            else:
                tell(f"judged {number} of {len(folders)}: {judged.judgement.verdict.value}, {path.name}")
    finally:
        session.close()
    return failures


def _judged(given: GivenRun, failures: dict[Path, str]) -> GivenRun:
    if given.path is None or given.path not in failures:
        return given
    return GivenRun(path=given.path, failure=failures[given.path])


def _folder(runs: Path, columns: Sequence[GivenColumn]) -> Path:
    """The page's folder: the same runs in the same columns always have the same folder, other comparisons another."""
    names = [(column.label, run.path.name) for column in columns for run in column.runs if run.path is not None]
    if not names:
        return runs / "comparison"  # never written: there is nothing to compare
    mark = hashlib.sha256(repr(names).encode()).hexdigest()[:6]
    folder = runs / f"comparison-{names[0][1]}-{mark}"
    if folder.is_symlink():
        raise UsageError(f"{folder} is a symbolic link: remove it, or say by --out where the page goes")
    return folder


# ---- campaigns ------------------------------------------------------------------------------------------------------


_PLAN = "campaign.json"


def campaigns_of(references: Sequence[str], runs: Path) -> list[Path]:
    """The campaigns' folders, paths or names below RUNS/campaigns; none where runs are named.

    Raises UsageError for a mixture of both.
    """
    found = [_campaign(reference, runs) for reference in references]
    if not any(found):
        return []
    for reference, folder in zip(references, found, strict=True):
        if folder is None:
            raise UsageError(f"{reference}: no campaign; compare campaigns with campaigns, and runs with runs")
    return [folder for folder in found if folder is not None]


def _campaign(reference: str, runs: Path) -> Path | None:
    places = (Path(reference), runs / "campaigns" / reference)
    return next((place for place in places if os.path.isfile(place / _PLAN)), None)


def compare_campaigns(
    folders: Sequence[Path], *, runs: Path, out: Path | None, unfit: list[HarnessError]
) -> tuple[Path, str]:
    """(the page, what it opens with). unfit: gets what is wrong with those that are left out. The same campaigns in the
    same order have the same folder below `runs`."""
    if out is None:
        mark = hashlib.sha256(repr([str(folder.resolve()) for folder in folders]).encode()).hexdigest()[:6]
        out = runs / f"comparison-{folders[0].resolve().name}-{mark}"
        if out.is_symlink():
            raise UsageError(f"{out} is a symbolic link: remove it, or say by --out where the page goes")
    return write_campaigns_beside(folders, out=out, unfit=unfit)
