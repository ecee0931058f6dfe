"""Flaws that no shipped scenario finds: each has one of its own (flaws/), in which its check finds it; without it the
scenario passes, so that it is the flaw that is found. They run in the simulated world: the same history every time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from harness.checks.judge import Judgement, judge
from tests.end_to_end.shell import Shell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.further, pytest.mark.slow]

SCENARIOS = Path(__file__).parent / "flaws"


class Found(NamedTuple):
    flaw: str
    scenario: str
    check: str


FOUND_BY = (
    Found("load-last-segment-of-offsets", "offsets-in-many-segments", "lost-group-offset"),
    Found("clean-beyond-stable", "leader-cleaned-alone", "compacted-away"),
    Found("forget-producers-in-compaction", "copied-from-a-cleaned-log", "duplicate"),
    Found("expire-offsets-at-once", "members-cut-from-coordinator", "lost-group-offset"),
    Found("no-verification", "aborted-record-comes-late", "aborted-read"),
    Found("old-epochs-go-on", "offsets-late-for-their-transaction", "transaction-outcome"),
    Found("late-transactions-keep-their-epoch", "offsets-late-for-their-transaction", "transaction-outcome"),
    Found("end-before-replication", "killed-as-it-answers-the-end", "transaction-outcome"),
    Found("forget-prepared-transactions", "killed-before-its-markers", "hanging-transaction"),
    Found("markers-of-old-coordinators", "markers-in-the-next-transaction", "aborted-read"),
    Found("no-offsets-while-loading", "offsets-asked-while-loading", "lost-group-offset"),
    Found("commit-of-anybody", "heartbeats-lost", "zombie-commit"),
)
SCENARIOS_ALONE = sorted({each.scenario for each in FOUND_BY})


def _judged(shell: Shell, spark: "SparkSession", scenario: str, *changes: str) -> Judgement:
    where = ("--system", "reference", "--world", "simulated", "--seed", "1", "--no-check")
    set_to = [each for change in changes for each in ("--set", change)]
    ended = shell.run("run", str(SCENARIOS / f"{scenario}.toml"), *where, *set_to, timeout_s=400)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert shell.processes() == []
    return judge(shell.folder, spark)


def _violations(judgement: Judgement) -> Sequence[str]:
    return [finding.check for _, finding in judgement.findings if finding.classification == "violation"]


@pytest.mark.parametrize("found", FOUND_BY, ids=[each.flaw for each in FOUND_BY])
def test_the_flaw_is_found_by_its_check(fresh_shell: Shell, spark: "SparkSession", found: Found) -> None:
    judgement = _judged(fresh_shell, spark, found.scenario, f'cluster.flaws=["{found.flaw}"]')

    assert judgement.verdict.value == "violation", judgement.sentence
    assert found.check in _violations(judgement), judgement.sentence


@pytest.mark.parametrize("scenario", SCENARIOS_ALONE)
def test_its_scenario_passes_without_a_flaw(fresh_shell: Shell, spark: "SparkSession", scenario: str) -> None:
    judgement = _judged(fresh_shell, spark, scenario)

    assert _violations(judgement) == []
    assert judgement.verdict.value == "pass", judgement.sentence


def test_where_nobody_verifies_a_late_record_is_found_as_with_the_flaw(
    fresh_shell: Shell, spark: "SparkSession"
) -> None:
    """What KIP-890's verification repaired."""
    off = "transaction.partition.verification.enable=false"
    judgement = _judged(fresh_shell, spark, "aborted-record-comes-late", off)

    assert "aborted-read" in _violations(judgement), judgement.sentence


def test_below_transaction_version_2_an_end_that_is_late_ends_the_next_transaction(
    fresh_shell: Shell, spark: "SparkSession"
) -> None:
    """What KIP-890's epochs repaired. The client speaks no version of EndTxn that has them."""
    judgement = _judged(fresh_shell, spark, "end-asked-again")

    assert {"transaction-outcome", "aborted-read"} <= set(_violations(judgement)), judgement.sentence


def test_an_end_that_is_late_and_not_asked_again_ends_its_own_transaction(
    fresh_shell: Shell, spark: "SparkSession"
) -> None:
    judgement = _judged(fresh_shell, spark, "end-asked-again", "workload.request_timeout_ms=9000")

    assert _violations(judgement) == []
    assert judgement.verdict.value == "pass", judgement.sentence
