"""What a system may lose, by the tables of a run, against what is read off the brokers' logs themselves."""

import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from harness.checks.contract.rule import Judge, rule
from harness.checks.families.cluster import unclean_election
from harness.checks.findings import RunContext
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import read_run_history
from harness.checks.spark.detection import Copy
from harness.checks.spark.tables import Tables
from tests.harness.checks.histories import model
from tests.harness.checks.histories.build import SECOND, History
from tests.harness.checks.histories.generator_of_fail_overs import Acknowledged, FailOvers, TookOver

EACH = 500 if settings.get_current_profile_name() == "nightly" else 15
BATCHES = 20


def small_tables(history: History) -> Tables:
    """Those that a story is read from: no Spark is needed for them."""
    small = {name: {0: rows} for name, rows in history.rows.items()}
    nowhere: dict[str, DataFrame] = {}
    return Tables(
        large=nowhere.__getitem__, batches=lambda *_: (), record_count=0, row_count=0, read_small=lambda: small, runs=1
    )


def lost(run: FailOvers) -> list[Acknowledged]:
    final = run.logs[run.leaders[-1].leader]
    return [
        record
        for record in run.sent
        if record.time_ns >= 0 and final[record.offset : record.offset + 1] != [(record.epoch, record.value)]
    ]


def to_blame(run: FailOvers, record: Acknowledged) -> TookOver:
    """The first leader that took over without it after the last one that had it: one may have brought it back."""
    had = [leader.epoch for leader in run.leaders if has(leader, record)]
    return next(leader for leader in run.leaders if leader.epoch > max([record.epoch, *had]))


def has(leader: TookOver, record: Acknowledged) -> bool:
    return leader.log[record.offset : record.offset + 1] == ((record.epoch, record.value),)


def was_burnt(run: FailOvers, record: Acknowledged) -> bool:
    """After the last leader that had it, and before the one to blame."""
    had = [leader.time_ns for leader in run.leaders if leader.epoch >= record.epoch and has(leader, record)]
    since = max(had, default=-1)
    return any(since <= t <= to_blame(run, record).time_ns for t in record.burnt)


def may_be_lost(run: FailOvers, record: Acknowledged) -> bool:
    """A fail-over is from the last leader that had it: that may have it from whoever acknowledged it."""
    leader = to_blame(run, record)
    before = max((each for each in run.leaders if each.epoch < leader.epoch), key=lambda each: each.epoch)
    failed_over = record.acks == 1 and not record.was_read and leader.leader != before.leader
    return failed_over or (leader.unclean and run.allowed) or was_burnt(run, record)


def lost_record_of(run: FailOvers, record: Acknowledged) -> LostRecord:
    log = run.history.rows["replica_log"]
    copies = frozenset(Copy(*copy) for copy in model.copies(log, 0, record.value, record.offset))
    return LostRecord(
        offset=record.offset,
        epoch=record.epoch,
        acks=record.acks,
        t_acknowledged=int(record.time_ns * SECOND),
        committed=record.was_read,
        in_a_log=True,
        copies=copies,
        others=frozenset(Copy(*copy) for copy in model.copies_beside(log, 0, record.value, record.offset)),
    )


@pytest.mark.timeout(3600)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=BATCHES, deadline=None)
def test_a_loss_is_ruled_as_the_brokers_logs_say(seed: int) -> None:
    for number in range(EACH):
        run = FailOvers(random.Random(f"{seed}/{number}"))
        story = read_run_history(small_tables(run.history), 0, None, 0).partitions[0]
        for record in lost(run):
            fate = lost_record_of(run, record)
            ruling = rule(story, fate)
            wanted = "permitted" if may_be_lost(run, record) else "violation"
            assert (ruling.classification, ruling.cause_epoch) == (wanted, to_blame(run, record).epoch), (
                seed,
                number,
                record,
                ruling,
            )


@given(seed=st.integers(0, 2**32))
@example(seed=57028)  # a broker leads twice, and its log is shorter the second time, for no reason that is told
@example(seed=57328)  # a leader that was deposed leads again, with what its successor lacked, and loses it then
@example(seed=101464)  # the same, and its disk is lost
@settings(max_examples=BATCHES, deadline=None)
def test_where_no_log_with_the_record_was_read_it_is_ruled_right_or_left_open(seed: int) -> None:
    run = FailOvers(random.Random(seed))
    partition_history = read_run_history(small_tables(run.history), 0, None, 0).partitions[0]
    for record in lost(run):
        holding = {copy.snapshot for copy in lost_record_of(run, record).copies}
        story = replace(
            partition_history,
            snapshots=tuple(row for row in partition_history.snapshots if row["snapshot"] not in holding),
        )
        fate = LostRecord(
            offset=record.offset,
            epoch=None,
            acks=record.acks,
            t_acknowledged=int(record.time_ns * SECOND),
            committed=record.was_read,
            in_a_log=False,
        )
        wanted = "permitted" if may_be_lost(run, record) else "violation"
        assert rule(story, fate).classification in (wanted, "observation"), (seed, record)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
@settings(max_examples=BATCHES, deadline=None)
def test_a_ruling_that_records_share_is_the_one_that_each_would_get_alone(seed: int) -> None:
    """Also where elections were only polled for, so that their times are known to within a second."""
    for number in range(EACH):
        run = FailOvers(random.Random(f"{seed}/{number}"))
        exact = read_run_history(small_tables(run.history), 0, None, 0).partitions[0]
        polled = tuple(replace(election, uncertainty_ns=SECOND) for election in exact.elections)
        story = replace(exact, elections=polled)
        judge = Judge(story)
        for record in lost(run):
            fate = LostRecord(
                offset=record.offset,
                epoch=None,
                acks=record.acks,
                t_acknowledged=int(record.time_ns * SECOND),
                committed=record.was_read,
                in_a_log=False,
            )
            assert judge.rule(fate).classification == rule(story, fate).classification, (seed, number, record)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=BATCHES, deadline=None)
def test_unclean_elections_are_reported_and_no_others(seed: int) -> None:
    run = FailOvers(random.Random(seed))
    story = read_run_history(small_tables(run.history), 0, None, 0)
    context = RunContext(history=story, flagged=(), counts={})
    fields = {(finding.epoch, finding.classification) for finding in unclean_election.find(context)}
    wanted = "observation" if run.allowed else "violation"  # what it cost is told by the lost records
    assert fields == {(leader.epoch, wanted) for leader in run.leaders if leader.unclean}


def test_the_histories_have_losses_of_every_kind() -> None:
    runs = [FailOvers(random.Random(f"kinds/{number}")) for number in range(300)]
    kinds = {
        (
            may_be_lost(run, record),
            to_blame(run, record).unclean,
            record.acks,
            record.was_read,
            was_burnt(run, record),
        )
        for run in runs
        for record in lost(run)
    }
    assert len(kinds) >= 16, kinds
