"""What can be taken from a scenario, and the search for the smallest that still shows what is sought."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from harness.campaign.shrinking.reductions import name_of, reductions
from harness.campaign.shrinking.search import smallest
from harness.campaign.shrinking.tries import Sought
from harness.checks.findings import Finding
from harness.host.scratch import scratch_folder
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.scenario.written import written_out

BIG_TEXT = """
[cluster.settings]
"replica.lag.time.max.ms" = "1500"
"replica.fetch.wait.max.ms" = "500"
[[topics]]
name = "orders"
partitions = 6
[[topics]]
name = "more"
[workload]
duration = "20 s"
producers = 3
consumers = 2
rate_per_second = 200
request_timeout_ms = 700
[[faults]]
kind = "pause"
target = "leader(orders/0)"
at = "4 s"
for = "1 s"
[[faults]]
kind = "kill"
target = "leader(orders/0)"
at = "6 s"
for = "4 s"
[[faults]]
kind = "isolate"
target = "random(1)"
at = "8 s"
for = "1 s"
[[faults]]
kind = "kill"
target = "leader(orders/0)"
when = "elapsed >= 9 s then isr(orders/0) >= 3"
for = "1 s"
[[faults]]
kind = "kill"
target = "2"
at = "12 s"
for = "1 s"
"""
STEPS_TEXT = """
[[topics]]
name = "orders"
[workload]
[[steps]]
act = { kill = "1" }
[[steps]]
wait = { elapsed = "8 s" }
[[steps]]
act = { start = "1" }
"""

FOUND = Finding(run=0, check="lost-write", classification="violation", kind="lost", count=1, sentence="")


def _loaded(text: str) -> Scenario:
    with scratch_folder("kafka-chaos-test-") as folder:
        file = folder / "scenario.toml"
        file.write_text(text, encoding="utf-8")
        return load(str(file))


BIG = _loaded(BIG_TEXT)


async def _searched(start: Scenario, is_shown: Callable[[Scenario], bool]) -> tuple[Scenario, list[str]]:
    """(the smallest one, what was tried)."""
    tried: list[str] = []

    async def of(candidates: Sequence[tuple[str, Scenario]]) -> list[int | None]:
        tried.extend(what for what, _ in candidates)
        return [1 if is_shown(scenario) else None for _, scenario in candidates]

    return await smallest(start, of, goes_on=lambda: True), tried


def _kinds(scenario: Scenario) -> list[str]:
    return [fault.kind for fault in scenario.faults]


async def test_one_fault_of_five_is_left() -> None:
    found, _ = await _searched(BIG, lambda scenario: "isolate" in _kinds(scenario))

    assert _kinds(found) == ["isolate"]
    assert [topic.name for topic in found.topics] == ["orders"]
    assert (found.topics[0].partition_count, found.workload.workers) == (1, 1)
    assert not found.cluster.settings
    assert (found.faults[0].at_s, found.faults[0].for_s) == (1.0, 0.25)
    assert found.workload.duration_s == 2.0


async def test_two_faults_that_are_needed_together_are_left() -> None:
    found, _ = await _searched(BIG, lambda of: {"pause", "isolate"} <= set(_kinds(of)))

    assert _kinds(found) == ["pause", "isolate"]


async def test_reductions_that_do_not_go_together_are_taken_one_by_one() -> None:
    found, _ = await _searched(BIG, lambda of: len(of.faults) >= 2)

    assert len(found.faults) == 2


async def test_what_cannot_be_smaller_is_left_as_it_is() -> None:
    start = BIG
    found, tried = await _searched(start, lambda of: False)

    assert found == start
    assert len(tried) == len(set(tried))  # nothing is run twice


async def test_the_seed_that_shows_it_is_kept() -> None:
    async def of(candidates: Sequence[tuple[str, Scenario]]) -> list[int | None]:
        return [9 if not scenario.faults else None for _, scenario in candidates]

    assert (await smallest(BIG, of, goes_on=lambda: True)).seed == 9


async def test_a_search_that_is_stopped_has_what_it_found() -> None:
    rounds = 0

    async def of(candidates: Sequence[tuple[str, Scenario]]) -> list[int | None]:
        nonlocal rounds
        rounds += 1
        return [1 if number == 0 else None for number in range(len(candidates))]

    found = await smallest(BIG, of, goes_on=lambda: rounds < 1)

    assert rounds == 1
    assert not found.faults


async def test_a_trigger_gets_simpler_and_a_moment_becomes_a_time() -> None:
    found, _ = await _searched(BIG, lambda of: any(each.kind == "kill" and each.target != "2" for each in of.faults))
    triggered = replace(BIG, faults=BIG.faults[3:4])
    timed, _ = await _searched(triggered, lambda of: bool(of.faults))

    assert [each.when for each in found.faults] == [None]
    assert [(each.when, each.at_s) for each in timed.faults] == [(None, 1.0)]


async def test_steps_are_left_out_and_wait_for_a_shorter_time() -> None:
    found, tried = await _searched(_loaded(STEPS_TEXT), lambda of: any("elapsed" in step.body for step in of.steps))

    assert [dict(step.body) for step in found.steps] == [{"elapsed": 0.25}]
    assert "without step 'kill 1'" in tried


@pytest.mark.parametrize("text", [BIG_TEXT, STEPS_TEXT])
def test_each_reduction_changes_the_scenario_and_can_be_written(text: str) -> None:
    scenario = _loaded(text)
    found = reductions(scenario)

    assert len({each.what for each in found}) == len(found)
    for each in found:
        smaller = each.apply(scenario)
        assert smaller != scenario, each.what
        assert _loaded(written_out(smaller)).faults == smaller.faults, each.what


def test_faults_that_say_the_same_go_one_by_one() -> None:
    scenario = BIG
    twice = replace(scenario, faults=(scenario.faults[0], replace(scenario.faults[0])))
    one = next(each for each in reductions(twice) if each.what == f"without {name_of(twice.faults[0])}")

    assert len(one.apply(twice).faults) == 1


def test_a_finding_is_the_one_sought_by_its_fingerprint_or_alike() -> None:
    other = replace(FOUND, fault_kinds=("kill",))
    sought = Sought(check="lost-write", classification="violation", fingerprint=FOUND.fingerprint)

    assert sought.is_shown([FOUND], "")
    assert not sought.is_shown([other], "")
    assert replace(sought, alike=True).is_shown([other], "")
    assert not replace(sought, alike=True).is_shown([replace(FOUND, classification="permitted")], "")


def test_an_invariant_is_sought_by_its_name() -> None:
    sought = Sought(invariant="log-matching")

    assert sought.is_shown([], "log-matching")
    assert not sought.is_shown([FOUND], "one-leader-an-epoch")
