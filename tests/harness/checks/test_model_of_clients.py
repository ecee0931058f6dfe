"""The families that ask questions of their own answer what the slow models of clients and groups say, run by run."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from harness.checks.catalogue import FLAGS
from harness.checks.families.groups import group_delivery, group_offsets, group_owners, zombie_commit
from harness.checks.families.groups.delivery_rows import DeliveryRow
from harness.checks.families.groups.group_owners import TwoOwnersRow
from harness.checks.families.reads import head_skip
from harness.checks.families.records import timestamps
from harness.checks.families.transactions import (
    exactly_once,
    isolation,
    stable_offset,
    torn_transaction,
    zombie_transaction,
)
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import read_run_history
from harness.checks.spark.detection import detect
from harness.history.schema.client_rows import TransactionRow
from harness.history.schema.typed_rows import AnyRow
from tests.harness.checks.histories import generator_client_planters, generator_group_planters, model_of_groups
from tests.harness.checks.histories import model_of_clients as model
from tests.harness.checks.histories.build import History, tables
from tests.harness.checks.histories.generator_catalogue import PLANTERS
from tests.harness.checks.histories.generator_collisions import colliding_groups
from tests.harness.checks.histories.generator_of_processors import Processing

NIGHTLY = settings.get_current_profile_name() == "nightly"
BATCHES, HISTORIES = (20, 500) if NIGHTLY else (1, 300)
OF_CLIENTS = [
    planter
    for planter in PLANTERS.values()
    if planter.plant.__module__ in (generator_client_planters.__name__, generator_group_planters.__name__)
]
CLOCK = [{"wall_ns": 0, "monotonic_ns": 0}]  # the brokers' clock is the run's own
Answers = dict[int, set[tuple[object, ...]]]


def drawn(run: int, seed: str) -> History:
    """Colliding, or simulated: some of those sound, the others with one fault, in the first that has room for it."""
    chance = random.Random(seed)
    if chance.random() < 0.3:
        return colliding_groups(run, chance)
    planter = OF_CLIENTS[run % len(OF_CLIENTS)]
    kind = chance.choice((planter.of, planter.of, Processing))
    history = kind(chance).history(run)
    tries = chance.choice((0, 30, 30))
    while tries and not planter.plant(history, chance):
        history, tries = kind(chance).history(run), tries - 1
    history.as_run(run)
    protocol, system = chance.choice((None, "classic", "consumer")), chance.choice(("reference", "kafka:4.2.0"))
    history.scenario = replace(history.scenario, cluster=replace(history.scenario.cluster, system=system))
    for row in history.rows["processes"]:
        row["group_protocol"] = protocol
    return history


def answers(rows_given: Iterable[AnyRow], *names: str, kind: str | None = None) -> Answers:
    found: Answers = {}
    rows: Iterable[Mapping[str, Any]] = rows_given  # by the names that a test asks for
    for row in rows:
        if kind is None or row["kind"] == kind:
            found.setdefault(row["run"], set()).add(tuple(row[name] for name in names))
    return found


def summed(rows: Iterable[DeliveryRow]) -> Answers:
    """What several members read, whatever the reason."""
    places: dict[tuple[int, int, str], list[DeliveryRow]] = {}
    for row in rows:
        if row["kind"] == "at-least-once":
            places.setdefault((row["run"], row["partition_id"], row["group"]), []).append(row)
    found: Answers = {}
    for (run, partition_id, group), own in places.items():
        count, low, high = sum(row["count"] for row in own), min(row["low"] for row in own), max(r["high"] for r in own)
        found.setdefault(run, set()).add((partition_id, group, count, low, high))
    return found


def owners(rows: Iterable[TwoOwnersRow]) -> Answers:
    pairs = [{**row, "one": min(row["processes"]), "other": max(row["processes"])} for row in rows]
    return answers(pairs, "partition_id", "group", "generation", "one", "other")


def zombies(histories: Iterable[History]) -> Answers:
    found: Answers = {}
    for history in histories:
        for name, row, _ in zombie_transaction.fenced(cast(list[TransactionRow], history.rows["transactions"])):
            found.setdefault(history.run, set()).add((name, row["transaction"]))
    return found


@pytest.mark.timeout(7200 if NIGHTLY else 300)
@given(seed=st.integers(1, 2**32))
@settings(
    max_examples=BATCHES,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_what_clients_were_told_is_judged_as_the_model_says(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    histories = [drawn(run, f"{seed}/{run}") for run in range(HISTORIES)]
    folder = tmp_path / str(seed)
    folder.mkdir(exist_ok=True)
    built = tables(spark, folder, histories)
    stories = [read_run_history(built, history.run, history.scenario, 0, anchors=CLOCK) for history in histories]
    detected = detect(spark, built, FLAGS)
    runs = JudgedRuns(spark=spark, tables=built, histories=stories, detecting=lambda: detected)
    delivered, stamps = group_delivery.query(runs), timestamps.query(runs)
    sure = [row for row in group_offsets.query(runs) if row["kind"] != "pending"]
    pairs: dict[str, tuple[Answers, Callable[[History], object]]] = {
        "head skips": (
            answers(head_skip.query(runs), "process", "assignment", "partition_id", "skipped"),
            model.head_skips,
        ),
        "torn": (answers(torn_transaction.query(runs), "transaction", "sent", "visible"), model.torn),
        "stable": (
            answers(stable_offset.query(runs), "partition_id", "offset", "operation"),
            model.past_the_stable_offset,
        ),
        "isolation": (answers(isolation.query(runs), "partition_id", "value", "strict"), model.uncommitted_reads),
        "offsets": (answers(sure, "process", "partition_id", "invoked_ns", "kind"), model_of_groups.wrong_offsets),
        "changed": (answers(stamps, "partition_id", "value", kind="changed"), model.changed_timestamps),
        "out of time": (answers(stamps, "partition_id", "value", kind="out-of-time"), model.stamped_out_of_time),
        "backwards": (
            answers(stamps, "partition_id", "offset", "before_ms", "now_ms", kind="backwards"),
            model.stamped_backwards,
        ),
        "owners": (owners(group_owners.query(runs)), model_of_groups.two_owners),
        "zombie commits": (
            answers(zombie_commit.query(runs), "partition_id", "group", "process", "generation", "invoked_ns", "kind"),
            model_of_groups.zombie_commits,
        ),
        "several": (summed(delivered), model_of_groups.read_by_several),
        "after commit": (
            answers(
                delivered, "partition_id", "group", "process", "assignment", "high", "low", "last", kind="after-commit"
            ),
            model_of_groups.read_after_commit,
        ),
        "skipped": (
            answers(delivered, "partition_id", "group", "high", "count", "low", "last", kind="skipped"),
            model_of_groups.skipped,
        ),
        "ahead": (
            answers(delivered, "partition_id", "group", "count", "low", "last", kind="ahead"),
            model_of_groups.committed_ahead,
        ),
        "zombies": (zombies(histories), model_of_groups.zombies),
        "processed": (
            answers(exactly_once.query(runs), "partition_id", "group", "kind", "count", "low", "high"),
            model_of_groups.processed_wrongly,
        ),
    }
    for name, (found, said) in pairs.items():
        for history in histories:
            assert found.get(history.run, set()) == said(history), (name, seed, history.run)
        assert any(found.values()), f"{name}: none of {HISTORIES} histories has one"
