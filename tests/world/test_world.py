"""The world itself: it repeats, its sound systems keep the promise, and its flaws and faults really act."""

import pytest

from tests.world.drawing import (
    CLEANING,
    CLEANING_FLAWS,
    DRAWN,
    ENDS,
    FLAWS,
    GROUP_FLAWS,
    GROUPS,
    IN_FLIGHT,
    IN_FLIGHT_FLAWS,
    PROCESSING,
    PROCESSING_FLAWS,
    SETTINGS,
    SETTINGS_FLAWS,
    TRANSACTION_FLAWS,
    TRANSACTIONS,
    drawn,
)
from tests.world.evidence import rows_of
from tests.world.histories import History, history, played
from tests.world.promises import broken_promises
from tests.world.storylines import STORYLINES
from tests.world.truth import Verdict, lost_records
from tests.world.visibility import FULL

SEEDS = range(200)
FLAWS_OF = {
    TRANSACTIONS: TRANSACTION_FLAWS,
    GROUPS: GROUP_FLAWS,
    SETTINGS: SETTINGS_FLAWS,
    IN_FLIGHT: IN_FLIGHT_FLAWS,
    PROCESSING: PROCESSING_FLAWS,
    ENDS: ("ends-of-its-own",),
    CLEANING: CLEANING_FLAWS,
}


@pytest.fixture(scope="module")
def histories() -> list[History]:
    return [history(seed) for seed in SEEDS]


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_gives_one_history_and_one_set_of_tables(name: str) -> None:
    for seed in (3, 45, 97):
        assert rows_of(history(seed, name), FULL) == rows_of(history(seed, name), FULL)


@pytest.fixture(scope="module")
def of_other_worlds() -> dict[str, list[History]]:
    return {name: [history(seed, name) for seed in range(120)] for name in FLAWS_OF}


@pytest.mark.slow
def test_a_sound_system_of_any_world_breaks_no_promise(of_other_worlds: dict[str, list[History]]) -> None:
    sound = [one for histories in of_other_worlds.values() for one in histories if one.sound]
    broken = [
        f"{one.setup}: {lost.story}"
        for one in sound
        for lost in lost_records(one.chronicle)
        if lost.verdict is Verdict.VIOLATION
    ]
    broken += [
        f"{one.setup}: {each.story}"
        for one in sound
        for each in broken_promises(one)
        if each.verdict is Verdict.VIOLATION
    ]
    assert not broken, "\n".join(broken[:8])


@pytest.mark.slow
def test_every_flaw_of_any_world_acts(of_other_worlds: dict[str, list[History]]) -> None:
    for name, flaws in FLAWS_OF.items():
        acted = {flaw for one in of_other_worlds[name] for flaw in one.chronicle.flaws_acted}
        assert acted == set(flaws), (name, set(flaws) - acted)


@pytest.mark.slow
def test_a_sound_system_loses_nothing_that_the_promise_keeps(histories: list[History]) -> None:
    broken = [
        f"seed {one.setup.seed}: {lost.fate}: {lost.story}"
        for one in histories
        if one.sound
        for lost in lost_records(one.chronicle)
        if lost.verdict is Verdict.VIOLATION
    ]
    assert not broken, "\n".join(broken[:8])


def test_replicas_that_run_at_the_end_of_a_sound_history_have_the_same_log() -> None:
    for seed in SEEDS[::4]:
        world, _ = played(drawn(seed))
        if world.chronicle.flaws_acted:
            continue
        for partition in world.partitions():
            brokers = [world.brokers[node] for node in world.replicas(partition)]
            replicas = [broker.replicas[partition] for broker in brokers if broker.alive]
            tails = {tuple(each.slice(max(one.start for one in replicas), each.end)) for each in replicas}
            assert len(tails) <= 1, (seed, partition)


def test_every_plot_is_played_and_every_flaw_acts(histories: list[History]) -> None:
    assert {one.setup.storyline for one in histories} == set(STORYLINES)
    assert {flaw for one in histories for flaw in one.chronicle.flaws_acted} == set(FLAWS)
