"""The command: its exit codes, what it prints and writes, and that a cluster is afterwards as it was."""

import contextlib
import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from harness.conform.asking import READING_ROWS, ROWS
from harness.errors import INTERRUPTED
from harness.history.facts.internal_topics import COORDINATORS_TOPICS
from tests.end_to_end.shell import Shell
from tests.harness.conform.rows_asked import Addresses, cluster
from tests.waiting import until

pytestmark = pytest.mark.cluster
FLAW = ("--brokers", "1", "--set", "chaos.flaws=answer-end-as-of-election")


@pytest.fixture(scope="module")
def flawed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("conform"), *FLAW) as addresses:
        yield bootstrap_of(addresses)


def bootstrap_of(addresses: Addresses) -> str:
    return ",".join(f"{host}:{port}" for host, port in addresses.values())


def topics(bootstrap: str) -> list[str]:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        return sorted(admin.list_topics())


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(directory=tmp_path.resolve())


def test_a_broken_row_is_exit_code_1_and_is_told_in_lines_and_in_junit(flawed: str, shell: Shell) -> None:
    ended = shell.run("conform", flawed, "--row", "list-offsets", "--row", "fetch", "--junit", "j.xml")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    fetch, lists, expected, follows, head = ended.stdout.splitlines()
    assert fetch.split()[:2] == ["conforms", "fetch"]
    assert lists.split()[:2] == ["violates", "list-offsets"]
    assert "version 1, latest: 0, not 6" in lists
    assert "earliest is the first record that can be fetched" in expected
    assert "KIP-79" in follows
    assert head == "2 rows: 1 conforms, 1 violates, 0 undecided, 0 not offered"
    suite = ElementTree.parse(shell.directory / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_json_has_every_fact_and_rows_that_read_leave_nothing(flawed: str, shell: Shell) -> None:
    ended = shell.run("conform", flawed, "--reads", "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document = json.loads(ended.stdout)
    assert [row["name"] for row in document["rows"]] == [row.name for row in READING_ROWS]
    assert document["counts"]["conforms"] == len(READING_ROWS)
    assert all(fact["holds"] for row in document["rows"] for fact in row["facts"])
    assert topics(flawed) == []


def test_what_is_there_is_not_touched_and_what_was_made_is_gone(flawed: str, shell: Shell) -> None:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=flawed)) as admin:
        admin.create_topics([NewTopic("orders", 1, 1)])
    producer = KafkaProducer(bootstrap_servers=flawed)
    producer.send("orders", b"mine", partition=0).get(30)
    producer.close()
    ended = shell.run("conform", flawed, "--json", timeout_s=240)
    assert ended.returncode == 1, ended.stderr
    document = json.loads(ended.stdout)
    assert [row["name"] for row in document["rows"]] == [row.name for row in ROWS]
    assert {row["name"] for row in document["rows"] if row["state"] == "violates"} >= {"list-offsets"}
    assert document["left"] == []
    until(lambda: set(topics(flawed)) <= {"orders", *COORDINATORS_TOPICS}, "what was made is gone")
    with contextlib.closing(KafkaConsumer(bootstrap_servers=flawed)) as reader:
        reader.assign([TopicPartition("orders", 0)])
        reader.seek_to_beginning()
        (records,) = reader.poll(30_000).values()
    assert [record.value for record in records] == [b"mine"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_who_interrupts_it_finds_nothing_of_it_afterwards(flawed: str, shell: Shell, number: int) -> None:
    process = shell.start("conform", flawed)
    try:
        until(lambda: made(topics(flawed)) != [], "it has made a topic")
        process.send_signal(number)
        assert process.wait(120) == INTERRUPTED
    finally:
        process.kill()
    said = shell.output.read_text()
    until(lambda: made(topics(flawed)) == [], f"{made(topics(flawed))} is gone: {said}")
    assert "interrupted: what was made is deleted first" in said


def made(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith("kafka-chaos-conform-")]


def test_every_row_stands_in_the_documentation_as_it_is() -> None:
    page = Path("docs/conform.md").read_text(encoding="utf-8")
    missing = [row.name for row in ROWS if f"| `{row.name}` | {row.expected} | {row.follows} |" not in page]
    assert missing == []
    assert page.count("\n| `") == len(ROWS)
