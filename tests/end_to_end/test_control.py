"""`kafka-chaos cluster --control` as a user starts it, and the plugin's clients on it, without any judging."""

import asyncio
import json
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pyarrow.parquet as pq
import pytest
from kafka_chaos_pytest import Chaos, ChaosCluster, ChaosError, KafkaChaosContainer, anybody, broker, followers, leader
from kafka_chaos_pytest.control import Control

from harness.cluster.brokers.kafka_jars import installed
from harness.cluster.brokers.kafka_versions import resolve_version
from tests.end_to_end.shell import HARNESS, Shell
from tests.waiting import until

COMMAND = " ".join(HARNESS)
ROOT = Path(__file__).parents[2]
SENT, POLLED = 0, 1  # kinds of records


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        runs = tmp_path_factory.mktemp("control") / "runs"
        with ChaosCluster(command=COMMAND, runs=runs) as made:
            yield made


def test_a_fault_by_role_is_in_force_for_its_block_alone_whatever_happens_in_it(cluster: ChaosCluster) -> None:
    chaos = Chaos(cluster)
    cluster.create_topic("blocks", settings={"min.insync.replicas": "2"})

    def test_that_fails() -> None:
        with chaos.kill(leader("blocks")) as (fault,):
            assert cluster.state()["nodes"][fault.nodes[0]]["state"] == "down"
            chaos.wait_for_new_leader("blocks", than=fault.nodes[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        test_that_fails()
    assert {node["state"] for node in cluster.state()["nodes"]} == {"up"}
    chaos.wait_until_recovered()
    with chaos.pause(followers("blocks") - broker(chaos.leader("blocks"))), chaos.cut("2>3"), chaos.slow(broker(1)):
        assert len(cluster.state()["faults"]) == 4
    assert cluster.state()["faults"] == []
    chaos.wait_until_recovered()
    with chaos.isolate(anybody()) as (cut,):
        assert len(cut.links) == 4
    with pytest.raises(ChaosError, match="did you mean 'isolate'") as refused:
        chaos.fault("isolat", leader("blocks")).__enter__()
    assert refused.value.code == "bad-request"


def test_elections_are_asked_for_and_refused_as_the_brokers_do(cluster: ChaosCluster) -> None:
    chaos = Chaos(cluster)
    cluster.create_topic("elected")
    first = chaos.leader("elected")
    with chaos.kill(leader("elected")):
        chaos.wait_for_new_leader("elected", than=first)
    chaos.wait_until_recovered()
    chaos.elect("elected")
    chaos.wait_for({"leader": first, "topic": "elected"})
    with pytest.raises(ChaosError, match="error 84"):
        chaos.elect("elected")  # it leads already


def sent_and_read(run: Path, prefix: str) -> tuple[dict[str, int | None], dict[str, int]]:
    """The offsets of the values with that prefix as their sender was told them, and as a consumer got them."""
    names = {row["value"]: row["name"] for row in pq.read_table(run / "tables" / "value_names.parquet").to_pylist()}
    rows = pq.read_table(run / "tables" / "records.parquet").to_pylist()
    own = [(names[row["value"]], row) for row in rows if names.get(row["value"], "").startswith(prefix)]
    sent = {name: row["offset"] if row["status"] == 0 else None for name, row in own if row["kind"] == SENT}
    return sent, {name: row["offset"] for name, row in own if row["kind"] == POLLED}


async def _by_aiokafka(chaos: Chaos, servers: str, values: list[str]) -> list[str]:
    producer = chaos.producer(aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all"), name="aio")
    async with producer:
        for value in values:
            await producer.send_and_wait("kept", value.encode(), key=value.encode())
    consumer = chaos.consumer(
        aiokafka.AIOKafkaConsumer("kept", bootstrap_servers=servers, auto_offset_reset="earliest"),
        from_beginning=True,
        name="aio-reader",
    )
    read: list[str] = []
    await consumer.start()
    try:
        while len(read) < len(values):
            answer = await asyncio.wait_for(consumer.getmany(timeout_ms=500), 60)
            read += [one.value.decode() for records in answer.values() for one in records if one.value[:3] == b"aio"]
    finally:
        await consumer.stop()
    return read


def _by_kafka_python(chaos: Chaos, servers: str, values: list[str]) -> list[str]:
    own = kafka.KafkaProducer(bootstrap_servers=servers.split(","), acks="all", value_serializer=str.encode)
    producer = chaos.producer(own, name="python")
    for value in values:
        producer.send("kept", value).get(30)
    producer.close()
    reader = kafka.KafkaConsumer(bootstrap_servers=servers.split(","), auto_offset_reset="earliest", group_id=None)
    reader.subscribe(["kept"])
    consumer, read = chaos.consumer(reader, from_beginning=True, name="python-reader"), []
    for record in consumer:
        read += [record.value.decode()] if record.value.startswith(b"python") else []
        if len(read) == len(values):
            break
    consumer.close()
    return read


def _by_confluent(chaos: Chaos, servers: str, values: list[str]) -> list[str]:
    own_producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all"})
    producer = chaos.producer(own_producer, acks="all", name="rd")
    received: list[Any] = []
    for value in values:
        producer.produce("kept", value, on_delivery=lambda error, message: received.append(message.offset()))
    assert producer.flush(30) == 0
    assert len(received) == len(values)
    own = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "x", "enable.auto.commit": False})
    consumer = chaos.consumer(own, from_beginning=True, name="rd-reader")
    consumer.assign([confluent_kafka.TopicPartition("kept", each, 0) for each in range(2)])
    read: list[str] = []

    def polled() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None and message.value().startswith(b"confluent"):
            read.append(message.value().decode())
        return len(read) == len(values)

    until(polled, "the consumer has read what was sent")
    consumer.close()
    return read


def test_what_the_clients_of_three_libraries_send_and_read_is_kept_with_its_offsets(cluster: ChaosCluster) -> None:
    chaos, servers = Chaos(cluster), cluster.bootstrap
    values = {each: [f"{each} {number}" for number in range(6)] for each in ("python", "confluent", "aio")}
    with chaos.record("kept", name="libraries", partitions=2) as recording:
        assert sorted(_by_kafka_python(chaos, servers, values["python"])) == values["python"]
        assert sorted(_by_confluent(chaos, servers, values["confluent"])) == values["confluent"]
        assert sorted(asyncio.run(_by_aiokafka(chaos, servers, values["aio"]))) == values["aio"]
    for prefix, own in values.items():
        sent, read = sent_and_read(recording.folder, prefix)
        assert sorted(sent) == own, prefix
        assert sent == read, prefix
    run = json.loads((recording.folder / "run.json").read_text(encoding="utf-8"))
    assert (run["status"], run["inconclusive"]) == ("complete", [])


@pytest.mark.further
def test_real_kafka_is_commanded_in_the_same_words_and_its_history_judged(tmp_path: Path) -> None:
    if installed(resolve_version("4.3.1")) is None:
        pytest.skip("Kafka 4.3.1 is not on this machine: kafka-chaos fetch-kafka 4.3.1")
    values = [f"real {number}" for number in range(9)]
    with ChaosCluster(command=COMMAND, runs=tmp_path / "runs", system="kafka:4.3.1") as cluster:
        chaos, servers = Chaos(cluster), cluster.bootstrap.split(",")
        with chaos.record({"name": "orders", "settings": {"min.insync.replicas": "2"}}):
            own = kafka.KafkaProducer(bootstrap_servers=servers, acks="all", value_serializer=str.encode)
            producer, first = chaos.producer(own), chaos.leader("orders")
            with chaos.kill(leader("orders")):
                chaos.wait_for_new_leader("orders", than=first)
                for value in values[:3]:
                    producer.send("orders", value).get(30)
            chaos.wait_until_recovered(within_s=60)
            with chaos.cut("2>3"), chaos.slow(broker(1), delay_s=0.05):
                for value in values[3:]:
                    producer.send("orders", value).get(30)
            answer = chaos.check()
        sent, _ = sent_and_read(Path(answer["run"]), "real")
    assert sorted(sent) == values
    assert answer["verdict"] == "pass"
    assert "Apache Kafka 4.3.1" in Path(answer["page"]).read_text(encoding="utf-8")


def start(shell: Shell, *arguments: str) -> "subprocess.Popen[bytes]":
    with shell.output.open("ab") as output:
        return subprocess.Popen(
            [*HARNESS, "cluster", "--control", "c/control", "--ready-file", "ready.json", *arguments],
            cwd=shell.directory,
            env=shell.environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
        )


def test_a_cluster_ends_with_its_starter_and_heals_and_leaves_nothing(tmp_path: Path) -> None:
    shell = Shell(directory=tmp_path)
    process = start(shell, "--until-stdin-closes", "--brokers", "1")
    try:
        until((tmp_path / "ready.json").exists, "the cluster is ready")
        path = tmp_path / "c" / "control"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        asking = Control(path)
        assert asking.ask("act", {"pause": 1})["faults"][0]["nodes"] == [1]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert not path.exists()
    until(lambda: not shell.processes(), "no process is left")
    assert [path for path in tmp_path.iterdir() if path.name.startswith("kafka-chaos-cluster-")] == []


def test_ctrl_c_during_a_recording_heals_and_seals_it(tmp_path: Path) -> None:
    shell = Shell(directory=tmp_path)
    process = start(shell, "--runs", "kept")
    try:
        until((tmp_path / "ready.json").exists, "the cluster is ready")
        asking = Control(tmp_path / "c" / "control")
        run = Path(asking.ask("record", {"name": "stopped", "topics": [{"name": "orders"}]})["run"])
        asking.ask("act", {"kill": "leader(orders/0)"})
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))["status"] == "interrupted"
    (fault,) = pq.read_table(run / "tables" / "faults.parquet").to_pylist()
    assert fault["healed_proof_text"]
    until(lambda: not shell.processes(), "no process is left")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--until-stdin-closes"], "--until-stdin-closes goes with --control"),
        (["--control", "x" * 120], "at most 107 bytes"),
        (["--control", "c", "--system", "compose:none.yml"], ""),
    ],
)
def test_what_cannot_be_commanded_is_refused_in_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    ended = Shell(directory=tmp_path).run("cluster", *arguments)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert said in ended.stderr


def test_a_command_that_is_not_there_is_reported_with_the_remedy() -> None:
    with pytest.raises(ChaosError, match="KAFKA_CHAOS_COMMAND"):
        KafkaChaosContainer(command="no-such-command").start()
    with pytest.raises(ChaosError, match="ended: ") as refused:
        KafkaChaosContainer(command=COMMAND, system="redis").start()
    assert "redis" in refused.value.message
