"""The same scenarios on real Kafka: what it loses under a configuration is found, explained, and nothing is left."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.cluster.brokers.kafka_jars import installed
from harness.cluster.brokers.kafka_versions import resolve_version
from tests.end_to_end.recomputed import lost_records
from tests.end_to_end.shell import Shell, read_json

SCENARIOS = Path(__file__).parents[2] / "harness" / "scenarios"


def needs(version: str) -> None:
    if installed(resolve_version(version)) is None:
        pytest.skip(f"Kafka {version} is not on this machine: kafka-chaos fetch-kafka {version}")


def test_records_lost_by_an_unclean_election_are_explained_record_for_record(fresh_shell: Shell) -> None:
    needs("4.3.1")
    ended = fresh_shell.run("run", "unclean-election", "--system", "kafka:4.3.1", timeout_s=220)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    lost = lost_records(fresh_shell.folder)
    page = (fresh_shell.folder / "report.html").read_text(encoding="utf-8")
    assert f"<h1>{len(lost)} acknowledged records of orders-0 were lost in an unclean election" in page
    assert "Apache Kafka 4.3.1" in page
    assert read_json(fresh_shell.folder / "verdict.json")["counts"]["violation"] == 0
    assert fresh_shell.processes() == []


@pytest.mark.further
@pytest.mark.parametrize(
    ("version", "names"),
    [("4.3.1", ["kip-966", "kip-101"]), ("0.9.0.1", ["kip-101"])],
    ids=["eligible leader replicas and epochs keep", "with one listener and before leader epochs it is lost"],
)
def test_what_kafka_lost_and_does_not_lose_any_more_comes_out_as_stated(
    fresh_shell: Shell, version: str, names: Sequence[str]
) -> None:
    needs(version)
    ended = fresh_shell.run("scenarios", "--verify", *names, "--system", f"kafka:{version}", timeout_s=220)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "NOT AS STATED" not in ended.stdout
    assert fresh_shell.processes() == []


@pytest.mark.further
def test_what_leader_epochs_mended_is_found_between_the_releases_before_and_after(fresh_shell: Shell) -> None:
    """KIP-101: lost as stated on the release before, and bisected from that run."""
    needs("0.10.2.2")
    needs("4.3.1")
    lost = fresh_shell.run("run", "kip-101", "--system", "kafka:0.10.2.2", timeout_s=220)
    assert lost.returncode == 1, lost.stdout + lost.stderr
    assert "the scenario states violation, and so it came" in lost.stdout

    bisected = fresh_shell.run("bisect", str(fresh_shell.folder), "F1", "--versions", "0.10.2.2,4.3.1", timeout_s=300)

    rows = {line.split()[0]: line for line in bisected.stdout.splitlines() if line.startswith("kafka:")}
    assert "same fingerprint" in rows["kafka:0.10.2.2"], bisected.stdout + bisected.stderr
    assert rows["kafka:4.3.1"].split()[2] == "no"
    assert "It went between kafka:0.10.2.2 and kafka:4.3.1." in bisected.stdout
    assert bisected.returncode == 1, "a release still lost it"
    assert fresh_shell.processes() == []


@pytest.mark.further
def test_before_0_11_unclean_elections_are_allowed_where_nobody_says_otherwise(fresh_shell: Shell) -> None:
    """KIP-106: by the brokers' own word. No log of theirs has leader epochs to say where the new leader began."""
    needs("0.10.2.2")
    shipped = (SCENARIOS / "unclean-election.toml").read_text(encoding="utf-8")
    ours = shipped.replace(', "unclean.leader.election.enable" = true', "")
    assert ours != shipped
    (fresh_shell.directory / "ours.toml").write_text(ours, encoding="utf-8")

    ended = fresh_shell.run("run", "ours.toml", "--system", "kafka:0.10.2.2", timeout_s=220)

    tables = fresh_shell.folder / "tables"
    rows = pq.read_table(tables / "findings.parquet").to_pylist()
    classes = {(row["check"], row["classification"]) for row in rows}
    assert {("lost-write", "permitted"), ("unclean-election", "permitted")} <= classes, ended.stdout + ended.stderr
    assert {check for check, given in classes if given == "violation"} <= {"replica-divergence"}, ended.stdout
    said = pq.read_table(tables / "configuration.parquet").to_pylist()
    of_brokers = {row["value"] for row in said if row["key"] == "unclean.leader.election.enable"}
    assert of_brokers == {"true"}
    assert fresh_shell.processes() == []
