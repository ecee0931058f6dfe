"""The same scenario with every node a container: reference and real Kafka, and nothing is left in the engine."""

import os

import pytest

from harness.cluster.brokers.kafka_jars import installed
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.cluster.docker.engine import connect, is_there
from harness.cluster.docker.images import BASE_VARIABLE
from harness.cluster.docker.labels import RUN
from tests.end_to_end.recomputed import lost_records
from tests.end_to_end.shell import Shell
from tests.waiting import until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not is_there(), reason="no Docker engine answers: .ci/prepare-docker starts one"),
]


def left_in_engine(shell: Shell) -> list[str]:
    engine = connect()
    try:
        kinds = (engine.client.containers.list(all=True), engine.client.networks.list(), engine.client.volumes.list())
        labelled = [
            (each.name, (each.attrs.get("Labels") or each.attrs.get("Config", {}).get("Labels") or {}))
            for kind in kinds
            for each in kind
        ]
        return [name for name, labels in labelled if str(labels.get(RUN, "")).startswith(str(shell.directory))]
    finally:
        engine.close()


@pytest.mark.parametrize("system", ["reference", pytest.param("kafka:4.3.1", marks=pytest.mark.further)])
def test_a_loss_in_containers_is_explained_record_for_record_and_nothing_is_left(
    fresh_shell: Shell, system: str
) -> None:
    if BASE_VARIABLE not in os.environ:
        pytest.skip(f"{BASE_VARIABLE} names no base image, and none can be pulled: .ci/prepare-docker makes one")
    if system != "reference" and installed(resolve_version("4.3.1")) is None:
        pytest.skip("Kafka 4.3.1 is not on this machine: kafka-chaos fetch-kafka 4.3.1")
    ended = fresh_shell.run("run", "unclean-election", "--world", "docker", "--system", system, timeout_s=220)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    lost = lost_records(fresh_shell.folder)
    assert lost
    page = (fresh_shell.folder / "report.html").read_text(encoding="utf-8")
    assert f"<h1>{len(lost)} acknowledged records of orders-0 were lost in an unclean election" in page
    assert left_in_engine(fresh_shell) == []
    assert fresh_shell.processes() == []


def test_what_a_killed_harness_left_in_the_engine_goes_with_the_next_command(fresh_shell: Shell) -> None:
    if BASE_VARIABLE not in os.environ:
        pytest.skip(f"{BASE_VARIABLE} names no base image, and none can be pulled: .ci/prepare-docker makes one")
    harness = fresh_shell.start("run", "unclean-election", "--world", "docker")
    until(lambda: fresh_shell.has_begun() and fresh_shell.phase() == "act", "the load runs", timeout_s=90)
    harness.kill()
    harness.wait()
    assert left_in_engine(fresh_shell)

    ended = fresh_shell.run("check", "latest")

    assert ended.returncode in (0, 1, 3), ended.stdout + ended.stderr
    assert "swept: removed container" in ended.stderr
    assert left_in_engine(fresh_shell) == []
    assert fresh_shell.processes() == []
