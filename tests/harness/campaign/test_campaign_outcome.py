"""What a campaign comes to: its exit code, groups, flaky findings, and findings that are accepted until a day."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from harness.campaign.accepted import read_accepted
from harness.campaign.outcome import Outcome, Stop, outcome_of
from harness.campaign.plan import Plan, PlannedRun
from harness.campaign.rows import Classification, FindingSeen, RunJudged
from harness.errors import Problems, UsageError
from harness.history.accepted import Accepted

TODAY = datetime.date(2026, 11, 23)


def planned(number: int, *, scenario: str = "crash", drawn: int | None = None) -> PlannedRun:
    return PlannedRun(
        number=number,
        scenario=scenario,
        text="",
        system="reference",
        world="local",
        client="kafka-python",
        seed=number,
        drawn=drawn,
    )


def seen(fingerprint: str, classification: Classification = "violation") -> FindingSeen:
    return FindingSeen(
        fingerprint=fingerprint, check="lost-write", classification=classification, cause="", faults=["kill"], count=1
    )


def judged(number: int, verdict: str, *, stated: str = "pass", findings: Sequence[FindingSeen] = ()) -> RunJudged:
    return RunJudged(
        number=number,
        client="kafka-python",
        folder=f"runs/{number}",
        verdict=verdict,
        stated=stated,
        as_stated=verdict == stated,
        sentence_text="",
        began="",
        took_s=1.0,
        operations=1,
        records_acknowledged=1,
        schedule_faults=number,
        findings=list(findings),
    )


def outcome(
    runs: Sequence[RunJudged],
    *,
    accepted: Mapping[str, Accepted] | None = None,
    share: float = 0.1,
    more: int = 0,
    stated_is_pass: bool = False,
) -> Outcome:
    plan = Plan(
        name="test",
        seed=1,
        runs=tuple(planned(number) for number in range(1, len(runs) + more + 1)),
        inconclusive_share=share,
        stated_is_pass=stated_is_pass,
    )
    return outcome_of(plan, {run.number: run for run in runs}, accepted or {}, today=TODAY)


@pytest.mark.parametrize(
    ("verdicts", "share", "code"),
    [
        (["pass", "pass"], 0.1, 0),
        (["pass", "error", "violation"], 0.1, 1),
        (["pass", "error", "inconclusive"], 0.1, 4),
        (["pass", "inconclusive"], 0.1, 3),
        (["pass", "inconclusive"], 0.5, 0),
        (["pass", "vacuous"], 0.1, 3),
        (["inconclusive"], 1.0, 0),
        ([], 1.0, 3),
    ],
)
def test_a_violation_is_1_else_an_error_4_else_too_much_open_3_else_0(
    verdicts: list[str], share: float, code: int
) -> None:
    found = [seen("a")]
    runs = [judged(n, each, findings=found if each == "violation" else ()) for n, each in enumerate(verdicts, 1)]
    assert outcome(runs, share=share).exit_code == code


@pytest.mark.parametrize(("stated_is_pass", "code"), [(False, 1), (True, 0)])
def test_a_violation_that_its_scenario_states_is_a_pass_only_where_the_campaign_says_so(
    stated_is_pass: bool, code: int
) -> None:
    runs = [judged(1, "violation", stated="violation", findings=[seen("a")])]
    assert outcome(runs, stated_is_pass=stated_is_pass).exit_code == code


@pytest.mark.parametrize(
    ("verdict", "stop", "more", "code"),
    [
        ("pass", "interrupted", 1, 3),
        ("pass", "interrupted", 0, 0),
        ("pass", "time", 1, 0),
        ("violation", "interrupted", 1, 1),
        ("error", "interrupted", 1, 4),
    ],
)
def test_what_was_interrupted_has_not_passed(verdict: str, stop: Stop, more: int, code: int) -> None:
    runs = [judged(1, verdict)]
    plan = Plan(name="test", seed=1, runs=tuple(planned(number) for number in range(1, more + 2)))
    found = outcome_of(plan, {run.number: run for run in runs}, {}, today=TODAY, stop=stop)
    assert found.exit_code == code
    assert (f"{more} not run" in found.sentence) == bool(more)


@pytest.mark.parametrize(
    ("verdict", "code"), [("pass", 5), ("inconclusive", 5), ("vacuous", 5), ("violation", 1), ("error", 4)]
)
def test_a_broken_invariant_is_told_apart_from_verdicts(verdict: str, code: int) -> None:
    broken = msgspec.structs.replace(judged(1, verdict), broken_invariant="Invariant broken: ...")

    found = outcome([broken, judged(2, "pass")])

    assert (found.exit_code, found.counts[verdict]) == (code, 2 if verdict == "pass" else 1)
    assert "; an invariant was broken in 1 run" in found.sentence
    assert "invariant" not in outcome([judged(1, "pass")]).sentence


def test_what_was_not_run_is_counted_and_said() -> None:
    found = outcome([judged(1, "pass")], more=2)
    assert found.counts["not_run"] == 2
    assert "2 not run" in found.sentence


def test_each_run_that_was_not_made_has_its_reason() -> None:
    runs = (
        planned(1),
        planned(2),
        replace(planned(3), not_here="no engine"),
        replace(planned(4), not_here="no engine"),
    )
    found = outcome_of(Plan(name="c", seed=1, runs=runs), {1: judged(1, "pass")}, {}, today=TODAY, stop="time")
    assert found.why_not_run == {2: "its time is over", 3: "no engine", 4: "no engine"}
    assert found.sentence.endswith("3 not run (2 no engine, 1 its time is over).")


def test_who_interrupts_when_all_was_done_that_can_be_done_here_interrupts_nothing() -> None:
    runs = (planned(1), replace(planned(2), not_here="no engine"))
    found = outcome_of(Plan(name="c", seed=1, runs=runs), {1: judged(1, "pass")}, {}, today=TODAY, stop="interrupted")
    assert (found.exit_code, found.stop, found.why_not_run) == (0, "", {2: "no engine"})


@pytest.mark.parametrize(("until", "code"), [(TODAY, 0), (TODAY - datetime.timedelta(days=1), 1)])
def test_an_accepted_finding_costs_nothing_until_its_day_is_over(until: datetime.date, code: int) -> None:
    accepted = {"a": Accepted(fingerprint="a", reason="known", until=until)}
    assert outcome([judged(1, "violation", findings=[seen("a")])], accepted=accepted).exit_code == code


def test_what_was_accepted_until_a_day_that_is_over_and_what_no_run_showed_are_named() -> None:
    over, unseen = (
        Accepted(fingerprint=name, reason="known", until=day)
        for name, day in (("aa", TODAY - datetime.timedelta(days=1)), ("bb", TODAY))
    )
    found = outcome([judged(1, "violation", findings=[seen("aa")])], accepted={"aa": over, "bb": unseen})
    assert (found.expired, found.unseen) == ((over,), (unseen,))


def test_a_violation_beside_an_accepted_one_counts() -> None:
    accepted = {"a": Accepted(fingerprint="a", reason="known", until=TODAY)}
    runs = [judged(1, "violation", findings=[seen("a"), seen("b")])]
    assert outcome(runs, accepted=accepted).exit_code == 1


def test_findings_are_grouped_with_the_run_to_look_at_and_flaky_ones_marked() -> None:
    runs = [
        judged(1, "pass"),
        judged(2, "violation", findings=[seen("a")]),
        judged(3, "violation", findings=[seen("a")]),
    ]
    (group,) = outcome(runs).groups
    assert (group.runs, group.count, group.look_at, group.smallest_faults, group.flaky) == ((2, 3), 2, 2, 2, True)
    (always,) = outcome([*runs[1:2], judged(1, "violation", findings=[seen("a")])]).groups
    assert not always.flaky


def test_other_drawn_schedules_without_a_finding_do_not_make_it_flaky() -> None:
    drawn = (planned(1, drawn=0), planned(2, drawn=1))
    runs = {1: judged(1, "pass"), 2: judged(2, "violation", findings=[seen("a")])}
    (group,) = outcome_of(Plan(name="c", seed=1, runs=drawn), runs, {}, today=TODAY).groups
    assert not group.flaky


def test_accepted_findings_are_read_with_reason_and_day(tmp_path: Path) -> None:
    file = tmp_path / "accepted.toml"
    file.write_text('[[accepted]]\nfingerprint = "a"\nreason = "known"\nuntil = 2026-12-01\n')
    assert read_accepted(file)["a"].until == datetime.date(2026, 12, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[accepted]]\nfingerprint = "a"\nreason = "x"\n', "accepted.toml:1: an accepted finding needs the last day"),
        ('[[accepted]]\nfingerprint = "a"\nuntil = 2026-12-01\n', "needs a reason"),
        ('[[accepted]]\nfingerprint = "a"\nreasn = "x"\nuntil = 2026-12-01\n', "accepted.toml:3: unknown key 'reasn'"),
        ("[[acepted]]\n", "did you mean 'accepted'?"),
    ],
)
def test_an_accepted_finding_that_is_not_whole_is_refused_with_its_place(
    tmp_path: Path, text: str, expected: str
) -> None:
    file = tmp_path / "accepted.toml"
    file.write_text(text)
    with pytest.raises(Problems, match=expected.replace("?", r"\?")):
        read_accepted(file)


def test_a_file_of_accepted_findings_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_accepted(tmp_path / "none.toml")
