"""The list of runs: one line per run, readable at 80 columns and in a pipe, or one JSON object per run.

A folder that cannot be read affects only its own line.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from harness.cli.terminal import Terminal
from harness.history.summaries import UNREADABLE, RunSummary, summaries

_HEADS = ("run", "time (UTC)", "system", "verdict", "violations", "permitted")
# If lines are too long; a run's name has its time.
_LEFT_OUT_FIRST = ("permitted", "violations", "time (UTC)", "system")
_GAP = "  "


def print_runs(terminal: Terminal, aside: Terminal, runs: Path, *, as_json: bool) -> None:
    rows = list(summaries(runs))
    if as_json:
        for each in rows:
            terminal.say(json.dumps(asdict(each)))
        return
    if not rows:
        aside.say(f"{runs}: no runs yet")
        return
    for line in table([_cells(each) for each in rows], width=terminal.width):
        terminal.say(line)
    for each in rows:
        if each.error:
            aside.say(f"{each.id}: {each.error}")


def _cells(row: RunSummary) -> dict[str, str]:
    began = datetime.strptime(row.time, "%Y-%m-%dT%H:%M:%SZ") if row.time else None
    return {
        "run": row.id,
        "time (UTC)": f"{began:%d %b %H:%M}" if began else "",
        "system": row.placed,
        "verdict": UNREADABLE if row.error else row.verdict,
        "violations": row.violations_words,
        "permitted": str(row.permitted),
    }


def table(rows: Sequence[Mapping[str, str]], *, width: int) -> list[str]:
    """Aligned lines with a header. `width`: the longest line, 0: no limit; less important columns are dropped, and
    where even a run and its verdict are too long for a line, they have one each."""
    heads = list(_HEADS)
    widths = {head: max(len(head), *(len(row[head]) for row in rows)) for head in heads}

    def too_long() -> bool:
        return bool(width) and sum(widths[each] + len(_GAP) for each in heads) - len(_GAP) > width

    for head in _LEFT_OUT_FIRST:
        if too_long():
            heads.remove(head)
    lines = [{head: head for head in heads}, *rows]
    if too_long():
        return [part for line in lines for part in (line["run"], f"{_GAP}{line['verdict']}")]
    return [_GAP.join(f"{line[head]:<{widths[head]}}" for head in heads).rstrip() for line in lines]
