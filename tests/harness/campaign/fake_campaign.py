"""A campaign whose runs are small processes, or none, and whose verdicts are given: all else is the campaign's own.

A run process makes its run folder and has a node, a process that dies with it as real ones do. The run of seed 1 ends
at once; any other goes on until there is a file named "go" in the campaign's directory, or until it is interrupted.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from harness.campaign import conduct
from harness.campaign.journal import Ended
from harness.campaign.plan import Keep
from harness.campaign.rows import FindingSeen, RunJudged
from harness.cli import main as cli
from tests.harness.campaign.test_campaign_outcome import judged

ROOT = Path(__file__).parents[3]
RUN = """#!{python}
import pathlib, signal, subprocess, sys, time
from harness.host.parent import die_with_parent

signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
given = dict(zip(sys.argv, sys.argv[1:]))
runs = pathlib.Path(given["--runs"])
folder = runs / f"run-{{len(list(runs.glob('run-*'))) + 1}}"
folder.mkdir()
subprocess.Popen(["sleep", "600"], preexec_fn=die_with_parent())
(folder / "run.json").write_text("{{}}")
while given["--seed"] != "1" and not pathlib.Path("go").exists():
    time.sleep(0.02)
"""


def given_verdicts(findings: Mapping[int, Sequence[FindingSeen]]) -> Any:
    """Stands in for the judge: a run with findings is a violation, one that could not be done an error."""

    def judge_runs(session: object, campaign: Path, ended: Sequence[Ended], *, keep: Keep) -> list[RunJudged]:
        assert campaign.is_dir()
        assert keep == "findings"
        return [
            judged(
                each.number,
                "error" if each.error else "violation" if findings.get(each.number) else "pass",
                findings=findings.get(each.number, ()),
            )
            for each in ended
        ]

    return judge_runs


def without_spark(stack: ExitStack, findings: Mapping[int, Sequence[FindingSeen]]) -> None:
    """Until the stack is closed."""
    stack.enter_context(patch.object(conduct, "judge_runs", given_verdicts(findings)))
    stack.enter_context(patch.object(conduct, "JudgingSession", lambda master: SimpleNamespace(close=lambda: None)))


def main() -> None:
    """The command `kafka-chaos`, in a process of its own, whose runs are the processes described above."""
    run = Path("run").resolve()
    run.write_text(RUN.format(python=sys.executable))
    run.chmod(0o700)
    with ExitStack() as stack:
        without_spark(stack, {})
        stack.enter_context(patch.object(sys, "executable", str(run)))
        cli.main()
