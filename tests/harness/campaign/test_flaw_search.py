"""What a search for planted flaws counts as found, by what, and what it keeps."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from typer.testing import CliRunner

from harness.campaign.drawing.profiles import profile
from harness.campaign.flaw_search import KEPT, FlawFound, keep, kept_in, planted, search
from harness.campaign.shrinking.tries import Shown, Sought, Tries
from harness.checks.findings import Finding
from harness.cli.commands.flaws import table
from harness.cli.main import app
from harness.cluster.simulated.planted import PlantedFlaw, planted_flaws
from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.scenario.model import Scenario

FLAWS = {flaw.name: flaw for flaw in planted_flaws()}
ACKNOWLEDGE = FLAWS["acknowledge-before-replication"]
LOST = Finding(run=0, check="lost-write", classification="violation", kind="lost", count=1, sentence="")


@dataclass(kw_only=True)
class Answers(Tries):
    """Runs nothing: what a run comes to is said by its scenario."""

    answer: Callable[[Scenario], Shown]

    async def made(self, scenarios: Sequence[Scenario]) -> list[Shown]:
        self.runs += len(scenarios)
        return [self.answer(scenario) for scenario in scenarios]


def _answers(answer: Callable[[Scenario], Shown]) -> Answers:
    unused = cast(Any, None)
    return Answers(
        files=unused, session=unused, forked=unused, interrupt=asyncio.Event(), tell=lambda _: None, answer=answer
    )


async def _search(flaw: PlantedFlaw, answers: Answers, *, seeds: int, known: FlawFound | None = None) -> FlawFound:
    found = {} if known is None else {flaw.name: known}
    await search([flaw], found, answers, seeds=seeds)
    return found[flaw.name]


async def test_a_flaw_is_found_by_the_first_seed_whose_violation_is_the_flaws() -> None:
    def answer(scenario: Scenario) -> Shown:
        # Of seed 2 the sound cluster shows it, too.
        is_shown = scenario.seed == 2 or (scenario.seed == 5 and bool(scenario.cluster.flaws))
        return Shown(findings=(LOST,) if is_shown and scenario.faults else ())

    found = await _search(ACKNOWLEDGE, _answers(answer), seeds=20)

    assert (found.check, found.seed, found.faults_shrunk) == ("lost-write", 5, 1)
    assert found.faults_drawn == len(planted(profile("replication"), 5, ACKNOWLEDGE.name).faults) > 1
    assert "acknowledge-before-replication" in found.scenario


async def test_what_breaks_an_invariant_alone_is_searched_to_the_end() -> None:
    answers = _answers(lambda of: Shown(invariant="log-matching" if of.seed in (4, 6) else ""))

    found = await _search(ACKNOWLEDGE, answers, seeds=20)

    assert (found.check, found.invariant, found.invariant_seed, found.seeds) == ("", "log-matching", 4, 20)
    assert found.found_by == "invariant log-matching alone"


async def test_a_search_goes_on_behind_the_seeds_that_were_searched() -> None:
    answers = _answers(lambda of: Shown())
    first = await _search(ACKNOWLEDGE, answers, seeds=10)
    found = await _search(ACKNOWLEDGE, answers, seeds=12, known=first)

    assert (found.seeds, answers.runs, found.found_by) == (12, 12, "not found")


async def test_seeds_of_a_search_that_is_interrupted_do_not_count() -> None:
    def answer(scenario: Scenario) -> Shown:
        if scenario.seed == 11:
            answers.interrupt.set()
        return Shown()

    answers = _answers(answer)

    assert (await _search(ACKNOWLEDGE, answers, seeds=40)).seeds == 8


@pytest.mark.parametrize("flawed", [True, False])
async def test_what_an_interruption_left_open_is_said_or_searched_again(flawed: bool) -> None:
    """Interrupted while the schedule is shrunk, or while the sound cluster is run under it."""

    def answer(scenario: Scenario) -> Shown:
        is_shrinking = scenario.seed == 5 and len(scenario.faults) < drawn
        if is_shrinking if flawed else not scenario.cluster.flaws:
            answers.interrupt.set()
            return Shown(error="interrupted")
        return Shown(findings=(LOST,) if scenario.seed == 5 and scenario.cluster.flaws else ())

    answers, drawn = _answers(answer), len(planted(profile("replication"), 5, ACKNOWLEDGE.name).faults)
    found = await _search(ACKNOWLEDGE, answers, seeds=20)

    (line,) = table([ACKNOWLEDGE], {ACKNOWLEDGE.name: found})[1:]
    if flawed:
        assert (found.check, found.ended_early) == ("lost-write", True)
        assert f"{drawn} -> at most {drawn}" in line
    else:
        assert (found.check, found.seeds) == ("", 0)


async def test_flaws_are_searched_side_by_side_and_held_against_one_run_of_the_sound_cluster() -> None:
    sound: list[int | None] = []

    def answer(scenario: Scenario) -> Shown:
        if not scenario.cluster.flaws:
            sound.append(scenario.seed)
        return Shown(findings=(LOST,) if scenario.seed == 2 and scenario.cluster.flaws else ())

    found: dict[str, FlawFound] = {}
    flaws = [ACKNOWLEDGE, FLAWS["truncate-to-high-watermark-at-start"]]
    await search(flaws, found, _answers(answer), seeds=4)

    assert [(each.check, each.seed, each.faults_shrunk) for each in found.values()] == [("lost-write", 2, 0)] * 2
    assert sound == [2]


async def test_a_schedule_that_was_not_shrunk_to_the_end_is_shrunk_by_the_next_search() -> None:
    half = FlawFound(
        name=ACKNOWLEDGE.name,
        origin="",
        profile="replication",
        check="lost-write",
        seed=5,
        seeds=5,
        ended_early=True,
    )

    found = await _search(ACKNOWLEDGE, _answers(lambda of: Shown(findings=(LOST,))), seeds=20, known=half)

    assert (found.seeds, found.faults_shrunk, found.ended_early) == (5, 0, False)


@pytest.mark.parametrize(("world", "seen"), [("local", 1), ("local", 2), ("simulated", 1), ("simulated", 0)])
async def test_where_no_seed_comes_again_half_of_the_runs_must_show_it(
    world: Literal["local", "simulated"], seen: int
) -> None:
    scenario = planted(profile("replication"), 7, ACKNOWLEDGE.name)
    scenario = replace(scenario, cluster=replace(scenario.cluster, world=world))
    answers = _answers(lambda of: Shown(findings=(LOST,) if (of.seed or 0) >= 10 - seen else ()))
    answers.repeats = 3  # seeds 7 to 9
    sought = Sought(check="lost-write", classification="violation", alike=True)

    (shown_by,) = await answers.of(sought, [("nothing", scenario)])

    needed = 2 if world == "local" else 1
    assert shown_by == (10 - seen if seen >= needed else None)


async def test_a_violation_is_nobodys_where_the_sound_run_could_not_be_made() -> None:
    answers = _answers(lambda of: Shown(findings=(LOST,)) if of.cluster.flaws else Shown(error="it was killed"))

    assert (await _search(ACKNOWLEDGE, answers, seeds=3)).check == ""


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("no-list-of-aborted", "transactions"),
        ("commit-of-anybody", "consumer_groups"),
        ("compaction-renumbers", "produce_and_poll"),
        ("no-duplicate-detection", "produce_and_poll"),
    ],
)
async def test_a_flaw_is_searched_for_under_the_load_that_reaches_its_part(name: str, load: str) -> None:
    loads: list[str] = []

    def answer(scenario: Scenario) -> Shown:
        loads.append(scenario.workload.name)
        return Shown()

    await _search(FLAWS[name], _answers(answer), seeds=9)

    assert loads == [load] * 9


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("truncate-to-high-watermark-at-start", "replication"),
        ("commit-of-anybody", "groups"),
        ("offsets-before-their-marker", "transactions"),
        ("read-committed-to-high-watermark", "transactions"),
        ("old-epochs-go-on", "transactions"),
        ("gaps-in-sequence", "producers"),
        ("compaction-renumbers", "compaction"),
    ],
)
def test_a_flaw_is_of_the_part_whose_rules_it_replaces(name: str, part: str) -> None:
    assert FLAWS[name].part == part


def test_what_was_found_is_kept_and_printed_without_a_search(tmp_path: Path) -> None:
    found = FlawFound(
        name=ACKNOWLEDGE.name,
        origin=ACKNOWLEDGE.origin,
        seeds=3,
        seed=3,
        check="lost-write",
        faults_drawn=13,
        faults_shrunk=1,
    )
    files = FilesBelow(tmp_path)
    keep(files, {found.name: found})

    ended = CliRunner().invoke(app, ["flaws", "--kept", "--runs", str(tmp_path)])

    assert kept_in(files) == {found.name: found}
    assert ended.exit_code == 0, ended.output
    assert ended.output.splitlines()[:2] == table([ACKNOWLEDGE], {found.name: found})
    assert "check lost-write  3      13 -> 1" in ended.output


def test_what_hides_a_flaw_is_said_where_it_was_not_found() -> None:
    hidden = FLAWS["high-watermark-before-truncation"]
    not_found = FlawFound(name=hidden.name, origin="M11", seeds=9)
    seen = FlawFound(name=hidden.name, origin="M11", check="lost-write")

    assert "not found: R21 hides it" in table([hidden], {hidden.name: not_found})[1]
    assert "check lost-write  " in table([hidden], {hidden.name: seen})[1]


def test_a_table_that_is_none_of_ours_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / KEPT).write_text("{}", encoding="utf-8")

    with pytest.raises(HarnessError, match=r"flaws\.json: no table of flaws .* remove it"):
        kept_in(FilesBelow(tmp_path))


def test_an_unknown_flaw_is_refused_with_the_nearest() -> None:
    ended = CliRunner().invoke(app, ["flaws", "--only", "acknowledge-before"])

    assert isinstance(ended.exception, UsageError)
    assert "acknowledge-before-replication" in str(ended.exception)


@pytest.mark.cluster
@pytest.mark.jvm
@pytest.mark.slow
def test_flaws_are_found_in_few_seeds(tmp_path: Path) -> None:
    command = ["flaws", "--only", ACKNOWLEDGE.name, "--seeds", "4", "--runs", str(tmp_path)]
    ended = CliRunner().invoke(app, command)

    assert ended.exit_code == 0, ended.output
    found = kept_in(FilesBelow(tmp_path))
    assert found[ACKNOWLEDGE.name].check, ended.output
    assert 1 <= found[ACKNOWLEDGE.name].faults_shrunk < found[ACKNOWLEDGE.name].faults_drawn
