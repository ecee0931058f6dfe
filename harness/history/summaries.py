"""What run folders say of themselves, a summary each: for lists. A folder that cannot be read costs only its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder

UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """time: UTC as ISO 8601, or ""; violations, permitted: "" if not judged; set_aside: how many of the violations are
    known and accepted; error: why the folder cannot be read."""

    id: str
    time: str
    scenario: str
    system: str
    world: str
    seed: int | str
    status: str
    verdict: str
    violations: int | str
    set_aside: int
    permitted: int | str
    error: str

    @property
    def placed(self) -> str:
        """The system, and its world where that says more: it is not named for our default, nor twice."""
        return self.system if self.world in ("", "local", self.system) else f"{self.system}/{self.world}"

    @property
    def violations_words(self) -> str:
        return f"{self.violations} ({self.set_aside} known)" if self.set_aside else str(self.violations)


def summaries(runs: Path) -> Iterator[RunSummary]:
    """Of the run folders in `runs`, newest first. Raises UsageError where `runs` is no folder."""
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"--runs {runs}: this is no folder; name the one that run folders are in")
    for path in sorted(runs.glob("*/run.json"), reverse=True):
        if not path.parent.is_symlink():
            yield summary(path.parent)


def summary(folder: Path) -> RunSummary:
    """What a run says of itself; where it cannot be read, what is wrong with it."""
    run: dict[str, Any] = {}
    verdict: dict[str, Any] = {}
    error = ""
    try:
        run_folder = RunFolder(folder)
        run = run_folder.run
        if (folder / "verdict.json").is_file():
            verdict = run_folder.verdict()
    except (HarnessError, OSError) as unfit:
        error = str(unfit)
    counts = verdict.get("counts", {})
    return RunSummary(
        id=run.get("id", folder.name),
        time=time_of(run),
        scenario=run.get("scenario", ""),
        system=_system(run),
        world=run.get("world", ""),
        seed=run.get("seed", ""),
        status=run.get("status", ""),
        verdict=verdict.get("verdict", "not judged"),
        violations=counts.get("violation", ""),
        set_aside=len(verdict.get("set_aside", ())),
        permitted=counts.get("permitted", ""),
        error=error,
    )


def time_of(run: Mapping[str, Any]) -> str:
    """When it began, as ISO 8601 has it; empty where nobody knows, or where the number is none of a run of ours."""
    for anchor in run.get("anchors", ())[:1]:
        try:
            return datetime.fromtimestamp(anchor["wall_ns"] / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        except (ValueError, OverflowError, OSError):
            return ""
    return ""


def _system(run: Mapping[str, Any]) -> str:
    """As the scenario names it; older runs have its title alone."""
    title = (run.get("environment") or {}).get("system", "")
    return str(run.get("system") or title)
