"""The example of docs/extending.md, installed by pip: what it adds is seen wherever our own things are seen."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.end_to_end.shell import Shell

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "extension"
pytestmark = pytest.mark.timeout(600)  # of the first of them, whose set-up is a run


@dataclass(frozen=True, kw_only=True)
class ShellWithPackage(Shell):
    """The package is on the path, as in an environment into which it was installed."""

    packages: Path

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.packages), str(ROOT)])
        return {**super().environment, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> ShellWithPackage:
    folder = tmp_path_factory.mktemp("extension").resolve()
    shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", *offline]
    subprocess.run([*pip, "--target", str(folder / "packages"), str(folder / "source")], check=True, timeout=200)
    shutil.copy(EXAMPLE / "mute.toml", folder)
    return ShellWithPackage(directory=folder, packages=folder / "packages")


@pytest.fixture(scope="module")
def folder(shell: ShellWithPackage) -> Path:
    """One run with all that the package adds, judged."""
    ended = shell.run("run", "mute.toml", timeout_s=230)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return shell.folder


def verdict_of(folder: Path) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    return stored


def test_doctor_names_the_package_and_what_it_adds(shell: ShellWithPackage) -> None:
    printed = shell.run("doctor").stdout
    assert "package kafka-chaos-example 1.0" in printed
    for each in ("fault mute", "workload bursts", "check slow-acknowledgement", "system patient"):
        assert each in printed


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("workload.brust=3", "unknown key 'brust' in [workload]; did you mean 'burst'?"),
        ("workload.burst=0", "a burst has at least one record, not 0"),
        ("cluster.system=patient:soon", "system 'patient:soon': its version is how many seconds a session lasts"),
        ("cluster.system=patent", "unknown system 'patent'; for example reference, kafka:4.3.1"),
        ("faults=[{kind='mute', at='1 s', options={rest=true}}]", "fault 'mute' has no option 'rest'"),
        ("workload.group=g", "unknown key 'group' in [workload]"),
    ],
)
def test_a_mistake_in_what_the_package_adds_is_refused_before_the_run(
    shell: ShellWithPackage, override: str, expected: str
) -> None:
    before = list(shell.runs.glob("*"))
    ended = shell.run("run", "mute.toml", "--set", override)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert expected in ended.stderr
    assert list(shell.runs.glob("*")) == before


def test_the_workload_wrote_what_the_final_read_found(folder: Path) -> None:
    records = pq.read_table(folder / "tables" / "records.parquet").to_pylist()
    sent = [row for row in records if row["kind"] == 0 and row["status"] == 0]
    read = {row["value"] for row in records if row["kind"] == 2}
    assert len(sent) > 20
    assert {row["value"] for row in sent} <= read
    assert {path.name for path in (folder / "history").glob("producer-*.jsonl")} == {
        "producer-1.jsonl",
        "producer-2.jsonl",
    }


def test_the_run_folder_says_which_package_it_was_made_with_and_is_itself_a_scenario(folder: Path) -> None:
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["versions"]["kafka-chaos-example"] == "1.0"
    assert run["environment"]["system"] == "patient cluster (sessions of 4000 ms)"
    written = (folder / "scenario.toml").read_text(encoding="utf-8")
    assert 'name = "bursts"' in written
    assert 'system = "patient:4"' in written


def test_the_fault_is_proved_counted_and_on_the_page(folder: Path) -> None:
    (fault,) = pq.read_table(folder / "tables" / "faults.parquet").to_pylist()
    assert fault["kind"] == "cut"
    assert len(fault["nodes"]) == 2
    assert {link["source"] for link in fault["links"]} == set(fault["nodes"])
    assert fault["proof_text"]
    assert fault["healed_proof_text"]
    counted = {each["condition"]: each["seen"] for each in verdict_of(folder)["coverage"]}
    assert counted["cuts"] == 1
    assert "mute" in (folder / "scenario.toml").read_text(encoding="utf-8")
    assert "mute" in (folder / "report.html").read_text(encoding="utf-8")


def test_the_check_is_judged_counted_and_expected_like_our_own(folder: Path) -> None:
    findings = pq.read_table(folder / "tables" / "findings.parquet").to_pylist()
    own = [row for row in findings if row["check"] == "slow-acknowledgement"]
    assert {(row["classification"], row["cause_text"]) for row in own} == {("observation", "the leader answered late")}
    assert all(json.loads(row["evidence"])["longest_s"] >= 1 for row in own)
    reported = verdict_of(folder)
    assert reported["counts"]["observation"] == sum(row["classification"] == "observation" for row in findings)
    expectation = next(each for each in reported["expectations"] if "slow-acknowledgement" in each["expectation"])
    assert expectation["met"]
    assert [each["package"] for each in reported["anomalies"]] == ["kafka-chaos-example 1.0"]


def test_without_the_package_the_run_is_still_shown_and_cannot_be_repeated(
    shell: ShellWithPackage, folder: Path, tmp_path: Path
) -> None:
    bare = ShellWithPackage(directory=shell.directory, packages=tmp_path)
    (folder / "report.html").unlink()
    ended = bare.run("report", str(folder))
    assert ended.returncode == 0, ended.stderr
    assert "promises no time." in (folder / "report.html").read_text(encoding="utf-8")
    again = bare.run("run", str(folder))
    assert (again.returncode, again.stderr.count("\n")) == (2, 1), again.stderr
    assert "unknown workload 'bursts'" in again.stderr


def test_page_and_terminal_explain_the_finding_by_the_packages_own_page(shell: ShellWithPackage, folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Slow acknowledgement" in page
    assert "promises no time." in page
    findings = pq.read_table(folder / "tables" / "findings.parquet").to_pylist()
    name = next(row["finding"] for row in findings if row["check"] == "slow-acknowledgement")
    printed = shell.run("show", str(folder), name).stdout
    assert printed.startswith(f"{name}  Slow acknowledgement: observation")
    assert "package kafka-chaos-example 1.0" in printed
