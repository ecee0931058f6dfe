"""Every fault that is put into a sound history is found by the check that is for it, and by no other.

And the same histories without the fault are silent, whatever their interleavings: no violation, nothing to permit.
"""

import random
from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from tests.harness.checks.histories.build import History, judge_all
from tests.harness.checks.histories.generator import Simulation
from tests.harness.checks.histories.generator_catalogue import PLANTERS
from tests.harness.checks.histories.generator_of_processors import Processing

# What Kafka lawfully does and a cycle search cannot but see, in any of these histories.
INTERLEAVED = {"cycle/G0", "cycle/G1c-ww", "cycle/G1c-ww-realtime"}
SOUND = 120
PLANTED_EACH = 5


def spoiled(name: str, count: int) -> list[History]:
    """Histories with that one fault, from the first seeds that have room for it."""
    found: list[History] = []
    for seed in range(100 * count):
        history = PLANTERS[name].of(random.Random(f"{name}/{seed}")).history(len(found))
        if PLANTERS[name].plant(history, random.Random(seed)):
            found.append(history)
        if len(found) == count:
            return found
    raise AssertionError(f"{name}: only {len(found)} of {100 * count} histories have room for it")


def renumbered(histories: list[History]) -> list[History]:
    for run, history in enumerate(histories):
        history.as_run(run)
    return histories


def findings_of(judgement: Judgement) -> dict[str, set[str]]:
    """check/kind -> the classes it was found in, without observations and what interleaved transactions may do."""
    found: dict[str, set[str]] = {}
    for _, finding in judgement.findings:
        name = f"{finding.check}/{finding.kind}"
        if finding.classification == "permitted" and name in INTERLEAVED:
            continue
        if finding.classification != "observation":
            found.setdefault(name, set()).add(finding.classification)
    return found


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[Judgement]]:
    """All of them as one job."""
    kinds = (Simulation, Simulation, Processing)
    sound = [kinds[seed % len(kinds)](random.Random(f"sound/{seed}")).history(seed) for seed in range(SOUND)]
    histories = {"sound": sound}
    histories |= {name: spoiled(name, PLANTED_EACH) for name in PLANTERS}
    every = renumbered([history for group in histories.values() for history in group])
    answers = iter(judge_all(spark, tmp_path_factory.mktemp("mutation"), every))
    return {name: [next(answers) for _ in group] for name, group in histories.items()}


def test_sound_histories_are_silent(judged: Mapping[str, list[Judgement]]) -> None:
    loud = {run: findings_of(judgement) for run, judgement in enumerate(judged["sound"]) if findings_of(judgement)}
    assert loud == {}
    assert {judgement.verdict.value for judgement in judged["sound"]} == {"pass"}


@pytest.mark.parametrize("name", PLANTERS)
def test_a_planted_fault_is_found_by_its_check_and_only_by_it(judged: Mapping[str, list[Judgement]], name: str) -> None:
    planter = PLANTERS[name]
    for place, judgement in enumerate(judged[name]):
        found = findings_of(judgement)
        sentences = [finding.sentence for _, finding in judgement.findings]
        assert planter.must <= found.keys(), (place, found, sentences)
        assert found.keys() <= planter.must | planter.may.keys(), (place, found, sentences)
        assert all(planter.classification in found[each] for each in planter.must), (place, found, sentences)
