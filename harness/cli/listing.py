"""The list of runs: one line per run, readable at 80 columns and in a pipe, or one JSON object per run.

A folder that cannot be read affects only its own line.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.cli.terminal import Terminal
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder

_HEADS = ("run", "time (UTC)", "system", "verdict", "violations", "permitted")
_LEFT_OUT_FIRST = ("permitted", "violations", "time (UTC)")  # if lines are too long; a run's name has its time
_GAP = "  "
_UNREADABLE = "unreadable"


def print_runs(terminal: Terminal, aside: Terminal, runs: Path, *, as_json: bool) -> None:
    told = list(_summaries(runs))
    if as_json:
        for each in told:
            terminal.say(json.dumps(each))
        return
    if not told:
        aside.say(f"{runs}: no runs yet")
        return
    for line in table([_cells(each) for each in told], width=terminal.width):
        terminal.say(line)
    for each in told:
        if each["error"]:
            aside.say(f"{each['id']}: {each['error']}")


def _summaries(runs: Path) -> Iterator[dict[str, Any]]:
    """Summaries of the runs, newest first. Raises UsageError if `runs` is not a folder."""
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"--runs {runs}: this is no folder; name the one that run folders are in")
    for path in sorted(runs.glob("*/run.json"), reverse=True):
        if not path.parent.is_symlink():
            yield _summary(path.parent)


def _summary(folder: Path) -> dict[str, Any]:
    """A run's own data; if it cannot be read, the error."""
    run: dict[str, Any] = {}
    verdict: dict[str, Any] = {}
    error = ""
    try:
        told = RunFolder(folder)
        run = told.run
        if (folder / "verdict.json").is_file():
            verdict = told.verdict()
    except (HarnessError, OSError) as unfit:
        error = str(unfit)
    counts = verdict.get("counts", {})
    return {
        "id": run.get("id", folder.name),
        "time": _time(run),
        "scenario": run.get("scenario", ""),
        "system": _system(run),
        "world": run.get("world", ""),
        "seed": run.get("seed", ""),
        "status": run.get("status", ""),
        "verdict": verdict.get("verdict", "not judged"),
        "violations": counts.get("violation", ""),
        "permitted": counts.get("permitted", ""),
        "error": error,
    }


def _time(run: Mapping[str, Any]) -> str:
    """When the run began, as ISO 8601; empty if it is not known or not a possible time."""
    for anchor in run.get("anchors", ())[:1]:
        try:
            return datetime.fromtimestamp(anchor["wall_ns"] / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        except (ValueError, OverflowError, OSError):
            return ""
    return ""


def _system(run: Mapping[str, Any]) -> str:
    """The system's name in the scenario; older runs have only its title."""
    title = (run.get("environment") or {}).get("system", "")
    return str(run.get("system") or title)


def _cells(told: Mapping[str, Any]) -> dict[str, str]:
    began = datetime.strptime(told["time"], "%Y-%m-%dT%H:%M:%SZ") if told["time"] else None
    return {
        "run": str(told["id"]),
        "time (UTC)": f"{began:%d %b %H:%M}" if began else "",
        "system": f"{told['system']}/{told['world']}" if told["world"] not in ("", "local") else told["system"],
        "verdict": _UNREADABLE if told["error"] else str(told["verdict"]),
        "violations": str(told["violations"]),
        "permitted": str(told["permitted"]),
    }


def table(rows: Sequence[Mapping[str, str]], *, width: int) -> list[str]:
    """Aligned lines with a header. `width`: the longest line, 0: no limit; less important columns are dropped."""
    heads = list(_HEADS)
    widths = {head: max(len(head), *(len(row[head]) for row in rows)) for head in heads}
    for head in _LEFT_OUT_FIRST:
        if width and sum(widths[each] + len(_GAP) for each in heads) - len(_GAP) > width:
            heads.remove(head)
    lines = [{head: head for head in heads}, *rows]
    return [_GAP.join(f"{line[head]:<{widths[head]}}" for head in heads).rstrip() for line in lines]
