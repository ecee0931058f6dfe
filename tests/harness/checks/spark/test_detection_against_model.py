"""Spark's columns and the slow model must agree on many little histories, hundreds of them judged as one job.

Some are drawn so that everything that can collide does; some are simulated runs, sound or with one fault put into them.
300 of them in `make test`; 10,000 with `pytest --hypothesis-profile nightly`.
"""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from harness.checks.catalogue import FLAGS
from harness.checks.families.cluster import availability
from harness.checks.families.records.divergence import diverging
from harness.checks.model.partition_history import read_run_history
from harness.checks.spark.detection import detect
from tests.harness.checks.histories import model
from tests.harness.checks.histories.build import SECOND, History, tables
from tests.harness.checks.histories.generator import Simulation
from tests.harness.checks.histories.generator_catalogue import PLANTERS

NIGHTLY = settings.get_current_profile_name() == "nightly"
BATCHES, HISTORIES = (20, 500) if NIGHTLY else (2, 150)
TIMEOUT_S = 7200 if NIGHTLY else 300
# A history is drawn from one seed: a batch of them is one Spark job, and a failure names the seed and the rows.
batches = settings(
    max_examples=BATCHES,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def drawn(run: int, seed: str) -> History:
    """A history of that seed: colliding, sound, or sound but for one fault."""
    chance = random.Random(seed)
    kind = chance.random()
    if kind < 0.5:
        return colliding_history(run, chance)
    history = Simulation(chance).history(run)
    if kind < 0.8:
        PLANTERS[chance.choice(list(PLANTERS))].plant(history, chance)
    history.as_run(run)
    return history


def colliding_history(run: int, chance: random.Random) -> History:
    """Few values and few offsets, so that everything that can collide does."""
    history = History(run=run, read_to_end=chance.random() < 0.5)
    if chance.random() < 0.3:
        history._add("partitions", partition_id=1, topic="t", partition=1, replicas=[1, 2, 3], read_to_end=True)
    fresh, taken = 0, set[tuple[int, int | None]]()
    for _ in range(chance.randrange(1, 12)):
        at = chance.choice((0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0)) + chance.random()
        partition_id = chance.choice((0, 0, 0, 1))
        if chance.random() < 0.5:
            records: list[tuple[int, int | None, int]] = []
            for _ in range(chance.randrange(1, 4)):
                # Values are sent once, as the workload does, or again, as an application may; offsets of what is not
                # acknowledged are unknown.
                status = chance.choice((0, 0, 0, 1, 2))
                offset = chance.randrange(8) if status == 0 and chance.random() < 0.9 else None
                again = fresh and chance.random() < 0.1
                value = chance.randrange(fresh) if again else fresh
                if (value, offset) not in taken:  # no two appends of a value have one offset
                    records.append((value, offset, status))
                    taken |= {(value, offset)} if offset is not None else set()
                fresh += not again
            elapsed_s, returned = chance.choice((0.1, 0.7)), chance.choice((None, 0.001, 0.3))
            history.sends(
                records,
                at=at,
                elapsed_s=elapsed_s,
                acks=chance.choice((-1, 1, -1, 0)),
                process=chance.randrange(2),
                partition_id=partition_id,
                returned_ns=None if returned is None else int((at + min(elapsed_s, returned)) * SECOND),
            )
        else:
            polled = [(chance.randrange(8), chance.randrange(9)) for _ in range(chance.randrange(1, 5))]
            if chance.random() < 0.6:
                polled.sort()
            history.poll(
                polled,
                at=at,
                partition_id=partition_id,
                final=chance.random() < 0.4,
                process=chance.choice((8, 9)),
                assignment=chance.choice((0, 0, 1)),
                status=chance.choice((0, 0, 0, 1, 2)),
                replica=chance.choice((None, None, None, 2)),
            )
    history.state(1, 0, chance.choice(((1, 2, 3), (1, 2), (1,))), at=0)
    for node in (1, 2, 3):
        for reason in ("kill", "end"):
            if chance.random() < 0.7:
                log = [
                    (offset, chance.choice((0, 0, 0, 1)), chance.choice((offset, offset, offset, 7)))
                    for offset in range(chance.randrange(6))
                ]
                log = [entry for entry in log if chance.random() < 0.9]
                mark = chance.choice((None, 2, 4, 6))
                history.snapshot(node, log, reason=reason, high_watermark=mark)
    return history


@pytest.mark.timeout(TIMEOUT_S)
@given(seed=st.integers(0, 2**32))
@example(seed=15051)  # a value that was sent again, and surely overtook at one of its two offsets alone
@batches
def test_every_flag_holder_and_sum_is_what_the_model_says(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    histories = [drawn(run, f"{seed}/{run}") for run in range(HISTORIES)]
    folder = tmp_path / str(seed)
    folder.mkdir(exist_ok=True)
    built = tables(spark, folder, histories)
    detection = detect(spark, built, FLAGS)
    for history in histories:
        records = history.rows["records"]
        ends = {row["partition_id"]: bool(row["read_to_end"]) for row in history.rows["partitions"]}
        expected = model.flags(records, ends)
        found: dict[str, set[model.Place]] = {}
        for row in detection.flagged[history.run]:
            for flag in row.flags:
                found.setdefault(flag, set()).add((row.partition_id, row.value, row.offset))
            if "send_order" in row.flags:
                place = (row.partition_id, row.value, row.offset)
                assert row.in_order == (place in model.surely_out_of_order(records)), (seed, history.run, row)
            log, snapshots = history.rows["replica_log"], history.rows["replica_snapshots"]
            held = model.holders(log, snapshots, row.partition_id, row.value)
            assert (set(row.held), set(row.held_at_end)) == held, (seed, history.run, row)
            assert row.copies == model.copies(log, row.partition_id, row.value, row.offset), (seed, history.run, row)
            assert row.others == model.copies_beside(log, row.partition_id, row.value, row.offset), (
                seed,
                history.run,
                row,
            )
        assert found == expected, (seed, history.run, records)
        counts = {
            (partition_id, flag): n for (run, partition_id, flag), n in detection.counts.items() if run == history.run
        }
        for (partition_id, flag), count in counts.items():
            assert count == sum(place[0] == partition_id for place in expected[flag]), (seed, history.run, flag)
        summed: dict[tuple[int, int | None, bool], int] = {}
        for line in detection.accounting:
            if line["run"] == history.run:
                key = (line["partition_id"], line["status"], line["in_final"])
                summed[key] = summed.get(key, 0) + line["count"]
        assert summed == model.accounting(records), (seed, history.run, records)


@pytest.mark.timeout(TIMEOUT_S)
@given(seed=st.integers(0, 2**32))
@batches
def test_divergence_and_gaps_are_what_the_model_says(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    histories = [drawn(run, f"{seed}/{run}") for run in range(HISTORIES)]
    folder = tmp_path / f"d{seed}"
    folder.mkdir(exist_ok=True)
    built = tables(spark, folder, histories)
    stories = [read_run_history(built, history.run, history.scenario, 0) for history in histories]
    parted = diverging(spark, built, stories)
    gaps = availability.gaps(built.records)
    for history in histories:
        for part in {row["partition"] for row in history.rows["partitions"]}:
            isr = _last_isr(history, part)
            logs, ends = (
                [row for row in history.rows[table] if row["partition"] == part]
                for table in ("replica_log", "replica_snapshots")
            )
            expected = model.diverging(logs, ends, isr)
            found = {
                (row["offset"], "different" if row["variants"] > 1 else "missing")
                for row in parted
                if (row["run"], row["partition_id"]) == (history.run, part)
            }
            assert found == expected, (seed, history.run, part, logs)
        silent = {
            (row["partition_id"], row["begin_ns"], row["end_ns"], row["open"])
            for row in gaps
            if row["run"] == history.run
        }
        assert not silent or built.activity[history.run]["halting"], "else nobody would ask for gaps"
        records = history.rows["records"]
        assert silent == model.gaps(records, least_ns=SECOND, slow_ns=SECOND // 2), (seed, history.run, records)


def _last_isr(history: History, partition: int) -> set[int]:
    states = [row for row in history.rows["partition_states"] if row["partition"] == partition]
    return set(states[-1]["isr"]) if states else set()


def test_gaps_come_in_order_of_partition_and_time(spark: SparkSession, tmp_path: Path) -> None:
    """Of several that ended last, the page names the first: it must not depend on how Spark came by them."""
    history = History()
    for partition_id in (3, 1, 2):
        for at in (0.0, 5.0, 9.0):
            history.send(10 * partition_id + int(at), int(at), at=at, elapsed_s=0.9, partition_id=partition_id)
    gaps = availability.gaps(tables(spark, tmp_path, [history]).records)

    assert [(row["partition_id"], row["begin_ns"]) for row in gaps] == [
        (partition_id, int(at * SECOND)) for partition_id in (1, 2, 3) for at in (0.9, 5.9)
    ]
