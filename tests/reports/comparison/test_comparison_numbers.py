"""What is measured of one run is what its tables hold, and each change of leader is laid to the fault that made it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.history.run_folder import RunFolder
from harness.history.schema.client_rows import RECORDS
from harness.history.schema.schemas import TABLES
from reports.comparison.faults import fault_numbers, silence_after
from reports.comparison.numbers import numbers_of, sends_of
from reports.run_data import RunData
from tests.links import struck
from tests.reports.stories.crash_story import HEALED_S, KILL_S, crash_run, kill_row, state
from tests.reports.stories.judged_folder import at, filled, quiet_run
from tests.reports.stories.unclean_story import loss_run


def rewrite(run: Path, table: str, rows: Sequence[Mapping[str, Any]]) -> RunData:
    RunFolder(run).write_table(table, filled(TABLES[table], rows))
    return RunData(run)


def test_a_crash_is_measured_from_its_effect_to_the_new_leader_and_to_the_next_write(tmp_path: Path) -> None:
    numbers = numbers_of(RunData(crash_run(tmp_path, leader_s=2.0, silent_s=2.5)))

    [fault] = numbers.faults
    assert fault.leader_s == pytest.approx(2.0)
    assert fault.silent_s == pytest.approx(2.504, abs=0.001)
    assert not fault.silent_open
    assert numbers.silence_before_s == pytest.approx(0.05)
    assert fault.place == "step 2"
    assert numbers.elections == 2
    assert numbers.isr_shrinks == 1


def test_latency_and_throughput_are_told_for_before_during_and_after(tmp_path: Path) -> None:
    phases = numbers_of(RunData(crash_run(tmp_path, latency_ms=4.0, silent_s=2.5))).phases

    assert list(phases) == ["before", "during", "after"]
    assert (phases["during"].begin, phases["during"].end) == (KILL_S, HEALED_S)
    assert phases["before"].latencies == pytest.approx({"p50": 4.0, "p99": 4.0, "p999": 4.0})
    assert phases["before"].rate == pytest.approx(60, abs=1)
    assert phases["during"].rate == pytest.approx(60 - 20 * 2.5 / 6, abs=1)


def test_a_record_that_is_under_way_when_the_fault_begins_is_slowed_by_the_fault(tmp_path: Path) -> None:
    run = crash_run(tmp_path, latency_ms=4.0)
    rows = RunData(run).rows(RECORDS)
    slowest = max((row for row in rows if row["invoked_ns"] < at(KILL_S)), key=lambda row: row["invoked_ns"])
    slowest["completed_ns"] = at(KILL_S + 3)
    phases = numbers_of(rewrite(run, "records", rows)).phases

    assert phases["before"].latencies["p999"] == pytest.approx(4.0)
    assert phases["during"].latencies["p999"] > 3000


def test_a_partition_that_nobody_leads_any_more_is_open_ended(tmp_path: Path) -> None:
    [fault] = numbers_of(RunData(crash_run(tmp_path, leader_s=None))).faults

    assert fault.leader_open
    assert fault.silent_open
    assert fault.leader_s == pytest.approx(17 - KILL_S, abs=0.1)
    assert fault.silent_s == pytest.approx(17 - KILL_S, abs=0.1)


def test_a_run_without_faults_is_one_phase(tmp_path: Path) -> None:
    numbers = numbers_of(RunData(crash_run(tmp_path, faults=False)))

    assert list(numbers.phases) == ["whole"]
    assert numbers.faults == []
    assert numbers.silence_before_s == pytest.approx(0.05)


def test_a_run_that_sent_nothing_has_no_numbers_and_no_error(tmp_path: Path) -> None:
    numbers = numbers_of(RunData(quiet_run(tmp_path, verdict="error")))

    assert (numbers.sums, numbers.phases, numbers.silence_before_s) == ({}, {}, None)


def test_losses_are_counted_by_class_and_cause(tmp_path: Path) -> None:
    numbers = numbers_of(RunData(loss_run(tmp_path)))

    assert numbers.causes == {("permitted", "unclean-election"): 37}
    assert numbers.sums["lost_permitted"] == numbers.sums["lost"] == 37
    assert numbers.sums["acknowledged"] == numbers.sums["read"] + 37
    assert numbers.unclean_elections == 1
    assert numbers.anomalies["unclean-election", "permitted"] == (1, 37)
    assert ("availability", "observation") not in numbers.anomalies


@pytest.mark.parametrize(
    ("verdict", "counted"),
    [("pass", True), ("violation", True), ("vacuous", True), ("inconclusive", False), ("error", False)],
)
def test_only_runs_that_were_done_to_their_end_count(tmp_path: Path, verdict: str, counted: bool) -> None:
    assert numbers_of(RunData(crash_run(tmp_path, verdict=verdict))).counted is counted


def faults_of(run: Path, rows: list[dict[str, Any]], states: list[dict[str, Any]]) -> dict[str, float | None]:
    rewrite(run, "faults", rows)
    data = rewrite(run, "partition_states", states)
    return {fault.label: fault.leader_s for fault in fault_numbers(data, sends_of(data))}


def test_a_leader_that_is_killed_while_its_links_are_cut_was_lost_to_the_kill(tmp_path: Path) -> None:
    cut = kill_row(
        fault=1, kind="cut", label_text="cut 2>1", nodes=[1, 2], links=struck("2>1"), asked_ns=at(4), begin_ns=at(4)
    )
    led = [state(-2, 0, 1, 0, [1, 2, 3]), state(8, 0, 2, 1, [2, 3])]

    assert faults_of(crash_run(tmp_path), [cut, kill_row()], led) == {"cut 2→1": None, "kill broker 1": 2.0}


def test_a_leader_that_is_cut_off_and_replaced_was_lost_to_the_cut(tmp_path: Path) -> None:
    cut = kill_row(fault=1, kind="cut", label_text="isolate 1", nodes=[1], asked_ns=at(4), begin_ns=at(4), end_ns=at(9))
    led = [state(-2, 0, 1, 0, [1, 2, 3]), state(7, 0, 2, 1, [2, 3]), state(11, 0, 1, 2, [2, 3, 1])]

    assert faults_of(crash_run(tmp_path), [cut], led) == {"isolate 1": 3.0}


def test_a_preferred_leader_that_returns_is_laid_to_no_fault(tmp_path: Path) -> None:
    first = kill_row(fault=0, label_text="stop 2", kind="stop", nodes=[2], asked_ns=at(3), begin_ns=at(3), end_ns=at(4))
    then = kill_row(fault=1, label_text="stop 1", kind="stop", nodes=[1], asked_ns=at(6), begin_ns=at(6), end_ns=at(7))
    led = [state(-2, 0, 1, 0, [1, 2, 3]), state(6.4, 0, 2, 1, [2, 3]), state(9, 0, 1, 2, [2, 3, 1])]

    assert faults_of(crash_run(tmp_path), [first, then], led) == {"stop 2": None, "stop 1": pytest.approx(0.4)}


def test_an_orderly_stop_hands_over_before_it_takes_effect(tmp_path: Path) -> None:
    stop = kill_row(kind="stop", label_text="stop 1", asked_ns=at(5.0), begin_ns=at(6.0))
    led = [state(-2, 0, 1, 0, [1, 2, 3]), state(5.5, 0, 2, 1, [2, 3])]

    assert faults_of(crash_run(tmp_path), [stop], led) == {"stop 1": 0.0}


def test_an_election_after_a_quick_restart_is_laid_to_the_kill(tmp_path: Path) -> None:
    quick = kill_row(end_ns=at(KILL_S + 0.5))
    led = [state(-2, 0, 1, 0, [1, 2, 3]), state(KILL_S + 1.5, 0, 2, 1, [2, 3])]

    assert faults_of(crash_run(tmp_path), [quick], led) == {"kill broker 1": 1.5}


def test_the_slowest_of_the_partitions_counts(tmp_path: Path) -> None:
    led = [
        state(-2, 0, 1, 0, [1, 2, 3]),
        state(-2, 1, 1, 0, [1, 2, 3]),
        state(KILL_S + 1, 0, 2, 1, [2, 3]),
        state(KILL_S + 3, 1, 2, 1, [2, 3]),
    ]

    assert faults_of(crash_run(tmp_path), [kill_row()], led) == {"kill broker 1": 3.0}


def acknowledged(*moments: float, partition_id: int = 0) -> pd.DataFrame:
    return pd.DataFrame({"partition_id": partition_id, "invoked_ns": moments, "completed_ns": moments, "ok": True})


def test_silence_counts_until_the_next_fault_and_is_its_own_from_then_on() -> None:
    sends = acknowledged(1.0, 2.0, 9.0, 10.0)

    assert silence_after(sends, 3.0, 5.0) == (2.0, False)
    assert silence_after(sends, 5.0, float("inf")) == (4.0, False)


def test_silence_at_the_end_of_the_load_is_none() -> None:
    assert silence_after(acknowledged(1.0, 2.0, 3.0), 2.5, float("inf")) == (0.5, False)
    assert silence_after(acknowledged(1.0, 2.0), 2.5, float("inf")) == (None, False)
