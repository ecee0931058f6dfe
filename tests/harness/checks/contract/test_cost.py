"""Twice the partitions with twice the faults cost about twice the work: counted in lines run, not in seconds."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from benchmarks.many_partitions import rows_of
from harness.checks.contract.rule import Judge
from harness.checks.families.cluster import unclean_election
from harness.checks.families.records import min_isr
from harness.checks.findings import Finding, RunContext
from harness.checks.model.elections import elections_of
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import DiskLoss, PartitionHistory, RunHistory, read_run_history
from harness.checks.model.settings import SettingsOverTime
from harness.checks.model.unclean_rules import UncleanRules
from harness.checks.spark.tables import Small, Tables
from harness.history.facts.disk_facts import DiskEvent
from harness.history.facts.fault_measures import in_sync_times, leader_times
from harness.history.schema.cluster_rows import FAULTS, PARTITION_STATES, PartitionStateRow
from harness.history.schema.schemas import TABLES

FEW, ALLOWED = 20, 2.6  # twice as much, and a logarithm


@contextmanager
def counted() -> Iterator[list[int]]:
    """Lines run inside; each round of a comprehension is one."""
    count = [0]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        count[0] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def tables_of(partitions: int) -> Tables:
    rows = rows_of(partitions, faults=5 * partitions, elections=4)
    small: Small = {
        name: {0: [dict.fromkeys(TABLES[name].names) | {"run": 0} | row for row in own]} for name, own in rows.items()
    }

    def nothing_large(name: str) -> Any:
        raise AssertionError(name)

    return Tables(
        large=nothing_large, batches=lambda *_: (), record_count=0, row_count=0, read_small=lambda: small, runs=1
    )


def story_of(tables: Tables) -> RunHistory:
    return read_run_history(tables, 0, None, 0)


def shortages(tables: Tables, story: RunHistory) -> None:
    observed = min_isr.by_place(tables.rows(PARTITION_STATES, 0))
    for partition in story.partitions.values():
        min_isr.shortages_of(partition, story.settings, observed[partition.topic, partition.partition])


def elections(tables: Tables, story: RunHistory) -> None:
    lost = [
        Finding(
            run=0,
            check="lost-write",
            classification="permitted",
            kind="lost",
            topic=each.topic,
            partition=each.partition,
            count=1,
            sentence="",
            epoch=election.epoch,
        )
        for each in story.partitions.values()
        for election in each.elections
    ]
    unclean_election.find(RunContext(history=story, flagged=(), counts={}, found={"lost-write": lost}))


def measures(tables: Tables, story: RunHistory) -> None:
    states, faults = tables.rows(PARTITION_STATES, 0), tables.rows(FAULTS, 0)
    leader_times(states, faults, 10**15)
    in_sync_times(states, faults, 10**15)


def reading(tables: Tables, story: RunHistory) -> None:
    story_of(tables)


@pytest.mark.parametrize("work", [reading, shortages, elections, measures])
def test_the_work_grows_with_what_happened(work: Callable[[Tables, RunHistory], None]) -> None:
    received = []
    for partitions in (FEW, 2 * FEW):
        tables = tables_of(partitions)
        story = story_of(tables)
        with counted() as lines:
            work(tables, story)
        received.append(lines[0])
    assert received[0] > FEW
    assert received[1] < ALLOWED * received[0], received


def state(number: int, before: list[int] | None) -> PartitionStateRow:
    isr = [1, 2, 3] if number % 2 else [1, 2]
    return {
        "run": 0,
        "topic": "t",
        "partition": 0,
        "time_ns": 10 * number,
        "uncertainty_ns": 1,
        "exact": True,
        "observer": -1,
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": number,
        "controller_epoch": 1,
        "isr": isr,
        "isr_before": before,
        "leader_before": 1,
        "unclean": False,
        "replicas": [1, 2, 3],
        "elr": None,
        "topic_id": None,
    }


def lines_of_a_ruling(many: int) -> int:
    """One record; each disk was lost as often as the ISR changed, and nobody knows how much of it."""
    states = [state(number, [1, 2] if number % 2 else [1, 2, 3]) for number in range(many)]
    losses = tuple(
        DiskLoss(
            event=DiskEvent(node=1 + number % 3, time_ns=10 * number + 5, extent="unknown", fault=number), evidence=""
        )
        for number in range(many)
    )
    rules = UncleanRules(SettingsOverTime(), [], None)
    story = PartitionHistory(
        run=0,
        partition_id=0,
        topic="t",
        partition=0,
        replicas=(1, 2, 3),
        read_to_end=True,
        end_offset=100,
        states=tuple(states),
        elections=tuple(elections_of(states, (), [], rules, "t", 0)),
        disk_losses=losses,
    )
    judge = Judge(story)
    fate = LostRecord(offset=5, epoch=0, acks=-1, t_acknowledged=3, committed=False, in_a_log=False)
    with counted() as lines:
        judge.rule(fate)
    return lines[0]


def test_a_ruling_is_not_cubic_in_the_disks_that_were_lost_and_the_states_of_the_isr() -> None:
    few, twice = lines_of_a_ruling(50), lines_of_a_ruling(100)
    assert twice < ALLOWED * few, (few, twice)
