"""A real Kafka of one node with an id of its own, which somebody else runs: a run leaves what was there as it was."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from tests.end_to_end.shell import Shell, read_json
from tests.interop.kafka_tools import kafka_home
from tests.interop.somebodys_kafka import SomebodysKafka

HOME = kafka_home("4.3.1")
pytestmark = [pytest.mark.further, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[SomebodysKafka]:
    made = SomebodysKafka(folder=tmp_path / "kafka", home=HOME)
    made.prepare([7])
    try:
        made.start(7)
        made.wait_until_up()
        yield made
    finally:
        made.end()


def topics_and_groups(kafka: SomebodysKafka) -> tuple[set[str], set[str]]:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as administration:
        topics = {name for name in administration.list_topics() if not name.startswith("__")}
        return topics, {str(group[0] if isinstance(group, tuple) else group) for group in administration.list_groups()}


def test_a_run_on_a_node_of_any_id_touches_nothing_that_was_there_and_leaves_nothing(
    kafka: SomebodysKafka, tmp_path: Path
) -> None:
    shell = Shell(directory=tmp_path.resolve())
    (tmp_path / "mine.toml").write_text(kafka.commands())
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as administration:
        administration.create_topics([NewTopic("orders", 1, 1)])
    before = topics_and_groups(kafka)
    where = ("--bootstrap", kafka.bootstrap, "--attached", "mine.toml")

    shown = shell.run("run", "node-groups", *where, "--preflight")
    assert shown.returncode == 0, shown.stderr
    assert "it would make topic chaos-<mark>-orders: 4 partitions of 1 replica; deleted after the run" in shown.stdout
    assert topics_and_groups(kafka) == before, "a preflight only reads"

    ended = shell.run("run", "node-groups", *where, "--no-check", timeout_s=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    run = read_json(shell.folder / "run.json")
    assert run["world"] == "attached"
    assert run["names_there"]["orders"].endswith("-orders")
    assert topics_and_groups(kafka) == before
