"""What a campaign keeps of each fault is what the run's tables, records and findings hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import FINDINGS
from reports.campaign.measures import measures_of
from tests.reports.stories.crash_story import KILL_S, crash_run
from tests.reports.stories.judged_folder import at, filled, quiet_run


def recovery(seconds: float, *, never: bool) -> dict[str, Any]:
    return {
        "finding": "F1",
        "check": "recovery",
        "classification": "observation",
        "kind": "kill",
        "count": 1,
        "first_ns": at(KILL_S),
        "last_ns": at(KILL_S + seconds),
        "faults": [0],
        "sentence_text": "It took so long.",
        "fingerprint": "f",
        "evidence": json.dumps({"seconds": seconds, "open": never, "bound_s": None}),
    }


def test_a_crash_has_its_gap_and_what_was_acknowledged_while_it_lasted(tmp_path: Path) -> None:
    [fault] = measures_of(crash_run(tmp_path, silent_s=2.5))

    assert fault.kind == "kill"
    assert fault.gap_s == pytest.approx(2.504, abs=0.001)
    assert not fault.gap_open
    assert fault.throughput == pytest.approx(60 - 20 * 2.5 / 6, abs=1)
    assert fault.recovery_s is None


@pytest.mark.parametrize("never", [False, True])
def test_recovery_is_what_the_check_found_of_that_fault(tmp_path: Path, never: bool) -> None:
    run = crash_run(tmp_path, silent_s=2.5)
    RunFolder(run).write_table("findings", filled(FINDINGS, [recovery(2.5, never=never)]))
    [fault] = measures_of(run)

    assert (fault.recovery_s, fault.recovery_open) == (2.5, never)


def test_a_partition_that_never_took_a_write_again_is_at_least_so_long(tmp_path: Path) -> None:
    [fault] = measures_of(crash_run(tmp_path, leader_s=None))

    assert fault.gap_open
    assert fault.gap_s == pytest.approx(17 - KILL_S, abs=0.1)


def test_a_run_without_faults_has_none(tmp_path: Path) -> None:
    assert measures_of(crash_run(tmp_path, faults=False)) == []
    assert measures_of(quiet_run(tmp_path, verdict="error")) == []
