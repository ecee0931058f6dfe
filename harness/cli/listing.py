"""The list of runs: one line per run, readable at 80 columns and in a pipe, or one JSON object per run.

A folder that cannot be read affects only its own line.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.cli.terminal import Terminal
from harness.history.summaries import UNREADABLE, summaries

_HEADS = ("run", "time (UTC)", "system", "verdict", "violations", "permitted")
_LEFT_OUT_FIRST = ("permitted", "violations", "time (UTC)")  # if lines are too long; a run's name has its time
_GAP = "  "


def print_runs(terminal: Terminal, aside: Terminal, runs: Path, *, as_json: bool) -> None:
    told = [asdict(each) for each in summaries(runs)]
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


def _cells(told: Mapping[str, Any]) -> dict[str, str]:
    began = datetime.strptime(told["time"], "%Y-%m-%dT%H:%M:%SZ") if told["time"] else None
    return {
        "run": str(told["id"]),
        "time (UTC)": f"{began:%d %b %H:%M}" if began else "",
        "system": f"{told['system']}/{told['world']}" if told["world"] not in ("", "local") else told["system"],
        "verdict": UNREADABLE if told["error"] else str(told["verdict"]),
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
