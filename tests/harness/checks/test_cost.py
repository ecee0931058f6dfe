"""Twice the partitions with twice the faults cost about twice the work: counted in lines run, not in seconds."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from benchmarks.many_partitions import rows_of
from harness.checks import min_isr, unclean_election
from harness.checks.contract import Judge
from harness.checks.elections import elections_of
from harness.checks.fates import Fate
from harness.checks.findings import Finding, RunContext
from harness.checks.story import DiskLoss, PartitionStory, RunStory, read_story
from harness.checks.tables import Row, Small, Tables
from harness.checks.unclean_rules import UncleanRules
from harness.history.disk_facts import DiskEvent
from harness.history.fault_measures import in_sync_times, leader_times
from harness.history.schemas import TABLES

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

    return Tables(large=nothing_large, record_count=0, told=lambda: small, runs=1)


def story_of(tables: Tables) -> RunStory:
    return read_story(tables, 0, None, 0)


def shortages(tables: Tables, story: RunStory) -> None:
    least = min_isr.LeastInSync(None, tables.rows("configuration", 0))
    observed = min_isr.by_place(tables.rows("partition_states", 0))
    for partition in story.partitions.values():
        min_isr.shortages_of(partition, least, observed[partition.topic, partition.part])


def elections(tables: Tables, story: RunStory) -> None:
    lost = [
        Finding(run=0, check="lost-write", classification="permitted", kind="lost", topic=each.topic, part=each.part,
                count=1, sentence="", epoch=election.epoch)
        for each in story.partitions.values()
        for election in each.elections
    ]  # fmt: skip
    unclean_election.find(RunContext(story=story, flagged=(), counts={}, found={"lost-write": lost}))


def measures(tables: Tables, story: RunStory) -> None:
    states, faults = tables.rows("partition_states", 0), tables.rows("faults", 0)
    leader_times(states, faults, 10**15)
    in_sync_times(states, faults, 10**15)


def reading(tables: Tables, story: RunStory) -> None:
    story_of(tables)


@pytest.mark.parametrize("work", [reading, shortages, elections, measures])
def test_the_work_grows_with_what_happened(work: Callable[[Tables, RunStory], None]) -> None:
    told = []
    for partitions in (FEW, 2 * FEW):
        tables = tables_of(partitions)
        story = story_of(tables)
        with counted() as lines:
            work(tables, story)
        told.append(lines[0])
    assert told[0] > FEW
    assert told[1] < ALLOWED * told[0], told


def state(number: int, before: list[int] | None) -> Row:
    isr = [1, 2, 3] if number % 2 else [1, 2]
    return {"topic": "t", "part": 0, "t": 10 * number, "uncertainty_ns": 1, "exact": True, "observer": -1, "leader": 1,
            "leader_epoch": 0, "partition_epoch": number, "controller_epoch": 1, "isr": isr, "isr_before": before,
            "leader_before": 1, "unclean": False, "replicas": [1, 2, 3], "elr": None}  # fmt: skip


def lines_of_a_ruling(many: int) -> int:
    """One record; each disk was lost as often as the ISR changed, and nobody knows how much of it."""
    states = [state(number, [1, 2] if number % 2 else [1, 2, 3]) for number in range(many)]
    losses = tuple(
        DiskLoss(event=DiskEvent(node=1 + number % 3, t=10 * number + 5, extent="unknown", fault=number), evidence="")
        for number in range(many)
    )
    rules = UncleanRules([], [], None)
    story = PartitionStory(
        run=0, tp=0, topic="t", part=0, replicas=(1, 2, 3), read_to_end=True, end_offset=100, states=tuple(states),
        elections=tuple(elections_of(states, (), [], rules, "t", 0)), disk_losses=losses,
    )  # fmt: skip
    judge = Judge(story)
    fate = Fate(offset=5, epoch=0, acks=-1, t_acknowledged=3, committed=False, in_a_log=False)
    with counted() as lines:
        judge.rule(fate)
    return lines[0]


def test_a_ruling_is_not_cubic_in_the_disks_that_were_lost_and_the_states_of_the_isr() -> None:
    few, twice = lines_of_a_ruling(50), lines_of_a_ruling(100)
    assert twice < ALLOWED * few, (few, twice)
