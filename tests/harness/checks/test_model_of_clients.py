"""The families that ask questions of their own answer what the slow model of clients says, run by run."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from harness.checks import group_offsets, head_skip, isolation, stable_offset, timestamps, torn_transaction
from harness.checks.detection import detect
from harness.checks.runs import Query, Runs
from harness.checks.story import read_story
from tests.harness.checks import generator_client_planters
from tests.harness.checks import model_of_clients as model
from tests.harness.checks.build import History, tables
from tests.harness.checks.generator import Simulation
from tests.harness.checks.generator_catalogue import PLANTERS

NIGHTLY = settings.get_current_profile_name() == "nightly"
BATCHES, HISTORIES = (20, 500) if NIGHTLY else (1, 300)
OF_CLIENTS = [
    planter for planter in PLANTERS.values() if planter.plant.__module__ == generator_client_planters.__name__
]


def drawn(run: int, seed: str) -> History:
    """A third of them sound, the others with one fault of those that there is room for."""
    chance = random.Random(seed)
    history = Simulation(chance).history(run)
    if chance.random() < 0.7:
        planters = chance.sample(OF_CLIENTS, len(OF_CLIENTS))
        next((planter for planter in planters if planter.plant(history, chance)), None)
    for rows in history.rows.values():
        for row in rows:
            row["run"] = run
    return history


@pytest.mark.timeout(7200 if NIGHTLY else 300)
@given(seed=st.integers(1, 2**32))
@settings(max_examples=BATCHES, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate),
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
def test_what_clients_were_told_is_judged_as_the_model_says(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    histories = [drawn(run, f"{seed}/{run}") for run in range(HISTORIES)]
    folder = tmp_path / str(seed)
    folder.mkdir(exist_ok=True)
    built = tables(spark, folder, histories)
    stories = [read_story(built, history.run, history.scenario, 0) for history in histories]
    detected = detect(spark, built)
    runs = Runs(spark=spark, tables=built, stories=stories, detecting=lambda: detected)

    def asked(query: Query, *names: str) -> dict[int, set[tuple[object, ...]]]:
        found: dict[int, set[tuple[object, ...]]] = {}
        for row in query(runs):
            found.setdefault(row["run"], set()).add(tuple(row[name] for name in names))
        return found

    answers = {
        "head skips": (asked(head_skip.query, "process", "assignment", "tp", "skipped"), model.head_skips),
        "torn": (asked(torn_transaction.query, "txn", "sent", "visible"), model.torn),
        "stable": (asked(stable_offset.query, "tp", "off", "op"), model.past_the_stable_offset),
        "isolation": (asked(isolation.query, "tp", "value", "strict"), model.uncommitted_reads),
        "offsets": (asked(group_offsets.query, "process", "tp", "t0", "kind"), model.wrong_offsets),
        "timestamps": (
            asked(lambda runs: [row for row in timestamps.query(runs) if row["kind"] == "changed"], "tp", "value"),
            model.changed_timestamps,
        ),
    }
    for name, (found, said) in answers.items():
        for history in histories:
            assert found.get(history.run, set()) == said(history), (name, seed, history.run)
        assert any(found.values()), f"{name}: none of {HISTORIES} histories has one"
