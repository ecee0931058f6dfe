"""Flaws that no shipped scenario finds: each has one of its own (flaws/), in which its check finds it; without it the
scenario passes, so that it is the flaw that is found.

What is made in the simulated world is the same history every time. A run in processes makes what the flaw needs by its
order and its times, which leave a second on either side, so that it is found on a busy machine, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.checks.judge import Judgement, judge
from tests.end_to_end.shell import Shell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.further, pytest.mark.slow]

SCENARIOS = Path(__file__).parent / "flaws"


@dataclass(frozen=True, kw_only=True)
class Found:
    flaw: str
    scenario: str
    check: str
    world: str
    client: str


def _simulated(flaw: str, scenario: str, check: str) -> Found:
    return Found(flaw=flaw, scenario=scenario, check=check, world="simulated", client="aiokafka")


def _local(flaw: str, scenario: str, check: str) -> Found:
    return Found(flaw=flaw, scenario=scenario, check=check, world="local", client="kafka-python")


FOUND_BY = (
    _simulated("load-last-segment-of-offsets", "offsets-in-many-segments", "lost-group-offset"),
    _simulated("clean-beyond-stable", "leader-cleaned-alone", "compacted-away"),
    _simulated("expire-offsets-at-once", "members-cut-from-coordinator", "lost-group-offset"),
    _local("old-epochs-go-on", "answered-after-the-transaction", "read-process-write"),
    _local("late-transactions-keep-their-epoch", "answered-after-the-transaction", "read-process-write"),
)
SCENARIOS_ALONE = sorted({(each.scenario, each.world, each.client) for each in FOUND_BY})


def _judged(shell: Shell, spark: "SparkSession", scenario: str, world: str, client: str, flaws: str) -> Judgement:
    where = ("--system", "reference", "--world", world, "--client", client, "--seed", "1", "--no-check")
    changes = ("--set", f"cluster.flaws=[{flaws}]")
    ended = shell.run("run", str(SCENARIOS / f"{scenario}.toml"), *where, *changes, timeout_s=400)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert shell.processes() == []
    return judge(shell.folder, spark)


def _violations(judgement: Judgement) -> Sequence[str]:
    return [finding.check for _, finding in judgement.findings if finding.classification == "violation"]


@pytest.mark.parametrize("found", FOUND_BY, ids=[each.flaw for each in FOUND_BY])
def test_the_flaw_is_found_by_its_check(fresh_shell: Shell, spark: "SparkSession", found: Found) -> None:
    judgement = _judged(fresh_shell, spark, found.scenario, found.world, found.client, f'"{found.flaw}"')

    assert judgement.verdict.value == "violation", judgement.sentence
    assert found.check in _violations(judgement), judgement.sentence


@pytest.mark.parametrize(("scenario", "world", "client"), SCENARIOS_ALONE, ids=[each[0] for each in SCENARIOS_ALONE])
def test_its_scenario_passes_without_a_flaw(
    fresh_shell: Shell, spark: "SparkSession", scenario: str, world: str, client: str
) -> None:
    judgement = _judged(fresh_shell, spark, scenario, world, client, "")

    assert _violations(judgement) == []
    assert judgement.verdict.value == "pass", judgement.sentence
