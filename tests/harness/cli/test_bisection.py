"""`bisect` says between which releases a finding appeared or went, and never takes a run without an answer for one."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import compose
from harness.checks.judged import Judged, NotJudged
from harness.cli import bisection
from harness.cli import main as cli
from harness.cli.bisection import Seen, Try, Wanted
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.scenario.written import written_out
from harness.verdict import Verdict
from tests.reports.stories.crash_story import crash_run
from tests.reports.stories.unclean_story import loss_run

WANTED = Wanted(name="F1", check="lost-write", classification="violation", fingerprint="00ff")
RELEASES = ("reference", "reference:b", "reference:c", "reference:d")


def tries(**answers: str) -> list[Try]:
    """The answers of releases: each letter is a run (s same, a alike, n no, ? unknown)."""
    kinds = {"s": Seen.SAME, "a": Seen.ALIKE, "n": Seen.NO, "?": Seen.UNKNOWN}
    return [
        Try(system=release, number=number, verdict=Verdict.PASS, seen=kinds[letter], page=None)
        for release, letters in answers.items()
        for number, letter in enumerate(letters, start=1)
    ]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"a": "n", "b": "s"}, ["It appeared between a and b."]),
        ({"a": "s", "b": "n"}, ["It went between a and b."]),
        ({"a": "n", "b": "?", "c": "a"}, ["It appeared between a and c (b gave no answer)."]),
        ({"a": "n", "b": "s", "c": "n"}, ["It appeared between a and b.", "It went between b and c."]),
        ({"a": "nn", "b": "ns"}, ["It appeared between a and b."]),
        ({"a": "n?", "b": "??", "c": "n"}, []),
    ],
)
def test_the_range_lies_between_the_nearest_releases_that_gave_an_answer(
    answers: Mapping[str, str], expected: Sequence[str]
) -> None:
    assert [change.sentence for change in bisection.changes(tries(**answers))] == expected


def test_a_finding_without_a_range_is_reported_with_the_releases_that_say_nothing() -> None:
    reported = "F1 (violation lost-write, 00ff)"

    assert bisection.conclusion(tries(a="s", b="s"), WANTED) == [f"{reported}: seen in every release."]
    assert bisection.conclusion(tries(a="n", b="n"), WANTED) == [f"{reported}: in no release."]
    assert bisection.conclusion(tries(a="n", b="?"), WANTED) == [f"{reported}: in no release. No answer: b."]
    assert bisection.conclusion(tries(a="?", b="?"), WANTED) == [f"{reported}: no release gave an answer."]


def test_a_finding_is_named_as_the_page_names_it_or_by_its_fingerprint(tmp_path: Path) -> None:
    folder = loss_run(tmp_path)
    row = RunFolder(folder).table("findings").to_pylist()[0]

    assert bisection.wanted_finding(folder, row["finding"]).fingerprint == row["fingerprint"]
    assert bisection.wanted_finding(folder, row["fingerprint"]).name == row["finding"]
    with pytest.raises(UsageError, match="F99: no finding of"):
        bisection.wanted_finding(folder, "F99")


@pytest.mark.parametrize(
    ("versions", "systems", "expected"),
    [("4.3.1", [], "two releases"), ("", [], "two releases"), ("4.3.1,4.3.1", [], "two columns are called")],
)
def test_releases_that_make_no_range_are_refused(versions: str, systems: Sequence[str], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        bisection.releases_of(versions, systems, [])


class _Releases:
    """Stands in for clusters and Spark. `findings`: acks -> what its runs come to; a name of an error: no run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        self.judged: list[int] = []
        self.of: dict[Path, str] = {}
        self.findings: dict[str, list[Any]] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.refused: set[str] = set()
        self.unjudged: set[str] = set()
        monkeypatch.setattr(compose, "run_scenario", self.run)
        monkeypatch.setattr(compose, "JudgingSession", lambda **_: self)
        monkeypatch.setattr(
            bisection, "all_ready", lambda wanted: [SimpleNamespace(system=given[-1]) for _, given in wanted]
        )

    def run(self, scenario: Any, *, runs: Path, **_: Any) -> tuple[RunFolder, Any]:
        system = scenario.system.partition("=")[2]
        self.order.append(system)
        if system in self.refused:
            raise HarnessError("no free port")
        folder = RunFolder(crash_run(runs))
        self.of[folder.path] = system
        return folder, SimpleNamespace(status="complete", error=None)

    def judge_many(self, folders: Sequence[Path]) -> list[Judged | NotJudged]:
        self.judged.append(len(folders))
        answers: list[Judged | NotJudged] = []
        for folder in folders:
            system = self.of[folder]
            if system in self.unjudged:
                answers.append(NotJudged(folder=folder, error=HarnessError("torn table")))
                continue
            findings = tuple((f"F{n}", each) for n, each in enumerate(self.findings.get(system, []), start=1))
            judgement: Any = SimpleNamespace(
                findings=findings, verdict=self.verdicts.get(system, Verdict.PASS), reasons=()
            )
            answers.append(Judged(folder=folder, judgement=judgement, page=folder / "report.html", page_error=""))
        return answers

    def close(self) -> None:
        self.judged.append(0)

    def tried(self, runs: Path, *, repeat: int = 1) -> list[Try]:
        releases = bisection.releases_of("", RELEASES, [])
        return bisection.bisect(
            runs,
            WANTED,
            releases,
            repeat=repeat,
            runs=runs,
            seed=None,
            overrides=[],
            master="local[1]",
            tell=lambda _: None,
        )


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> _Releases:
    return _Releases(monkeypatch)


def found(fingerprint: str, check: str = "lost-write") -> Any:
    return SimpleNamespace(fingerprint=fingerprint, check=check, classification="violation")


def test_releases_take_turns_are_judged_together_and_each_answers_for_itself(
    tmp_path: Path, releases: _Releases
) -> None:
    releases.findings = {RELEASES[1]: [found("00ff")], RELEASES[2]: [found("1234")], RELEASES[3]: [found("1", "other")]}
    releases.verdicts = dict.fromkeys(RELEASES[1:], Verdict.VIOLATION)

    result = releases.tried(tmp_path, repeat=2)

    assert releases.order == [*RELEASES, *RELEASES]
    assert releases.judged == [8, 0]
    assert [each.seen for each in result[::2]] == [Seen.NO, Seen.SAME, Seen.ALIKE, Seen.NO]
    assert [each.number for each in result] == [1, 2] * 4
    assert bisection.exit_code(result) == 1


def test_a_release_without_a_conclusion_is_neither_with_nor_without_the_finding(
    tmp_path: Path, releases: _Releases
) -> None:
    first, second, third, fourth = RELEASES
    releases.refused, releases.unjudged = {first}, {second}
    releases.verdicts = {third: Verdict.VACUOUS, fourth: Verdict.INCONCLUSIVE}
    releases.findings = {fourth: [found("00ff")]}

    result = releases.tried(tmp_path)

    assert [each.seen for each in result] == [Seen.UNKNOWN, Seen.UNKNOWN, Seen.UNKNOWN, Seen.SAME]
    assert [each.note for each in result[:2]] == ["no free port", "torn table"]
    assert bisection.exit_code(result) == 4
    assert "none: no free port" in bisection.table(result)[1]


def test_a_release_whose_jars_are_missing_is_reported_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no jars here"))
    started: list[Scenario] = []
    monkeypatch.setattr(compose, "run_scenario", lambda scenario, **_: started.append(scenario))
    folder = loss_run(tmp_path)
    line = ["bisect", str(folder), "F1", "--versions", "2.8.2,3.9.1", "--runs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["kafka-chaos", *line])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert "fetch-kafka 2.8.2" in printed
    assert "fetch-kafka 3.9.1" in printed
    assert started == []


class _SharedSession:
    """In place of a session whose JVM is started for one command: the one of all tests."""

    shared: Any = None

    def __init__(self, **_: Any) -> None:
        pass

    def open(self) -> None:
        """It is open."""

    def session(self) -> Any:
        return self.shared

    def close(self) -> None:
        """Others need it."""


@pytest.mark.cluster
def test_the_schedule_of_a_run_shows_in_which_variant_its_finding_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spark: Any
) -> None:
    monkeypatch.setattr(_SharedSession, "shared", spark)
    monkeypatch.setattr("harness.checks.early_session.EarlySession", _SharedSession)
    stored = RunFolder(loss_run(tmp_path, classification="violation"))
    stored.write_scenario(written_out(load("flaw-acks-before-replication")))
    columns = ["--variant", "sound:cluster.flaws=[]", "--variant", "flawed:"]
    monkeypatch.setattr(
        sys, "argv", ["kafka-chaos", "bisect", str(stored.path), "F1", *columns, "--runs", str(tmp_path / "runs")]
    )

    with pytest.raises(SystemExit) as ended:
        cli.main()

    printed = capsys.readouterr().out
    rows = {line.split()[0]: line for line in printed.splitlines() if "report.html" in line}
    assert ended.value.code == 1, printed
    assert rows["sound"].split()[1:3] == ["pass", "no"]
    assert rows["flawed"].split()[1] == "violation"
    assert "It appeared between sound and flawed." in printed.splitlines()
