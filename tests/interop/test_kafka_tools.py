"""Kafka's own tools as outside judges: the reference cluster is asked, filled, changed and taken apart by them alone.

Every consumer here assigns its partitions (kafka-console-consumer reads by --partition and --offset); of groups there
is test_kafka_group_tools.py.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from reference_impl.wire.messages import SUPPORTED
from tests.interop.kafka_tools import KafkaTools, Ran, kafka_home
from tests.reference_impl.runtime.broker_processes import BROKERS, Processes, running
from tests.waiting import until

HOME = kafka_home("4.3.1")
TOPICS, CONFIGS, ELECTION = "TopicCommand", "kafka.admin.ConfigCommand", "LeaderElectionCommand"
CONSUMER, PRODUCER, OFFSETS, DUMP = "consumer.ConsoleConsumer", "ConsoleProducer", "GetOffsetShell", "DumpLogSegments"
RECORDS = 3000
RECORDS_PER_SECOND = 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Small segments with many index entries: there is something to judge in every file."""
    small = "log.segment.bytes=16384\nlog.index.interval.bytes=512\nlog.cleaner.backoff.ms=100\n"
    with running(Processes(tmp_path_factory.mktemp("cluster"), properties=small)) as made:
        yield made


@pytest.fixture(scope="module")
def tools(cluster: Processes) -> KafkaTools:
    return KafkaTools(home=HOME, bootstrap=",".join(cluster.bootstrap))


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A partition as kafka-topics prints it."""

    leader: str
    replicas: str
    isr: set[str]


def described(ran: Ran) -> list[Seen]:
    rows = [re.search(r"Leader: (\S+)\tReplicas: (\S+)\tIsr: (\S+)", line) for line in ran.lines]
    return [Seen(leader=row[1], replicas=row[2], isr=set(row[3].split(","))) for row in rows if row]


def leader(cluster: Processes, topic: str) -> int:
    return int(cluster.state(topic)["leader"])


def isr(cluster: Processes, topic: str) -> list[int]:
    return sorted(cluster.state(topic)["isr"])


def test_kafka_broker_api_versions_can_use_everything_the_brokers_offer(tools: KafkaTools) -> None:
    ran = tools.ask("BrokerApiVersionsCommand")
    usable = re.findall(r"\((\d+)\): (\d+)(?: to (\d+))? \[usable: (\d+)\]", str(ran))
    assert len(usable) == len(BROKERS) * len(SUPPORTED)
    assert {(int(key), int(low), int(high or low)) for key, low, high, _ in usable} == {
        (key, each.lowest, each.highest) for key, each in SUPPORTED.items()
    }
    assert all(best == (high or low) for _, low, high, best in usable)


def test_kafka_topics_creates_enlarges_and_describes_by_name_and_by_id(tools: KafkaTools) -> None:
    tools.ask(
        TOPICS,
        "--create",
        "--topic",
        "enlarged",
        "--replica-assignment",
        "3:2:1,1:2:3",
        "--config",
        "max.message.bytes=7777",
    )
    tools.ask(TOPICS, "--alter", "--topic", "enlarged", "--partitions", "5")

    by_name = tools.ask(TOPICS, "--describe", "--topic", "enlarged")
    assert re.search(r"PartitionCount: 5\tReplicationFactor: 3\tConfigs: .*\bmax.message.bytes=7777\b", str(by_name))
    partitions = described(by_name)
    assert [partition.replicas for partition in partitions[:2]] == ["3,2,1", "1,2,3"]
    assert [partition.leader for partition in partitions] == [
        partition.replicas.partition(",")[0] for partition in partitions
    ]
    assert {partition.leader for partition in partitions[2:]} == {"1", "2", "3"}
    assert all(partition.isr == {"1", "2", "3"} for partition in partitions)

    (topic_id,) = set(re.findall(r"TopicId: (\S+)", str(by_name)))
    assert tools.ask(TOPICS, "--describe", f"--topic-id={topic_id}").lines == by_name.lines


def test_kafka_topics_is_told_why_a_topic_does_not_shrink(tools: KafkaTools) -> None:
    tools.ask(TOPICS, "--create", "--topic", "shrunk", "--partitions", "2", "--replication-factor", "3")
    refused = tools.run(
        TOPICS, "--bootstrap-server", tools.bootstrap, "--alter", "--topic", "shrunk", "--partitions", "1"
    )
    assert refused.code == 1
    assert "InvalidPartitionsException: the topic has 2 partitions: 1 would not be an increase" in str(refused)


def test_kafka_configs_changes_a_topic_and_shows_where_each_value_comes_from(tools: KafkaTools) -> None:
    tools.ask(
        TOPICS,
        "--create",
        "--topic",
        "tuned",
        "--partitions",
        "1",
        "--replication-factor",
        "3",
        "--config",
        "flush.messages=7",
    )
    tools.ask(
        CONFIGS,
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        "tuned",
        "--add-config",
        "min.insync.replicas=3,max.message.bytes=4321",
        "--delete-config",
        "flush.messages",
    )

    topic = tools.ask(CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "tuned")
    assert [line.strip() for line in topic.lines if "sensitive" in line] == [
        "max.message.bytes=4321 sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=4321, DEFAULT_CONFIG:message.max.bytes=1048588}",
        "min.insync.replicas=3 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:min.insync.replicas=3, "
        "STATIC_BROKER_CONFIG:min.insync.replicas=2, DEFAULT_CONFIG:min.insync.replicas=1}",
    ]
    brokers = str(tools.ask(CONFIGS, "--describe", "--entity-type", "brokers", "--all"))
    assert [broker for broker in BROKERS if f"  broker.id={broker} sensitive=false" in brokers] == list(BROKERS)


def test_kafka_console_consumer_reads_what_kafka_console_producer_wrote_by_idempotence(tools: KafkaTools) -> None:
    tools.ask(TOPICS, "--create", "--topic", "typed", "--partitions", "1", "--replication-factor", "3")
    began_ms = time.time() * 1000
    typed = "".join(f"h:{number}\tkey-{number}\tvalue of {number}\n" for number in range(500))
    tools.ask(
        PRODUCER,
        "--topic",
        "typed",
        "--compression-codec",
        "zstd",
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "parse.headers=true",
        "--command-property",
        "enable.idempotence=true",
        "--command-property",
        "acks=all",
        stdin=typed,
    )

    read = tools.ask(
        CONSUMER,
        "--topic",
        "typed",
        "--partition",
        "0",
        "--offset",
        "100",
        "--max-messages",
        "400",
        "--timeout-ms",
        "20000",
        "--command-property",
        "isolation.level=read_committed",
        *(
            word
            for what in ("key", "offset", "timestamp", "headers")
            for word in ("--formatter-property", f"print.{what}=true")
        ),
    )
    rows = [line.split("\t") for line in read.lines]
    assert [row[1:] for row in rows] == [
        [f"Offset:{number}", f"h:{number}", f"key-{number}", f"value of {number}"] for number in range(100, 500)
    ]
    assert all(began_ms - 1 <= int(row[0].removeprefix("CreateTime:")) <= time.time() * 1000 for row in rows)

    assert tools.ask(OFFSETS, "--topic", "typed").lines == ["typed:0:500"]


@pytest.fixture(scope="module")
def failed_over(cluster: Processes, tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """Topic `judged`, written by the Java producer with idempotence while its leader, broker 3, is killed and comes
    back: the offsets it was told, in the order of the values 0, 1, 2..."""
    folder = tmp_path_factory.mktemp("producer")
    settings = folder / "producer.properties"
    settings.write_text("enable.idempotence=true\nretries=2147483647\nrequest.timeout.ms=3000\nlinger.ms=2\n")
    tools.ask(TOPICS, "--create", "--topic", "judged", "--replica-assignment", "3:2:1")
    said = folder / "said"
    producer = tools.start(
        "VerifiableProducer",
        "--bootstrap-server",
        tools.bootstrap,
        "--topic",
        "judged",
        "--acks",
        "-1",
        "--max-messages",
        str(RECORDS),
        "--throughput",
        str(RECORDS_PER_SECOND),
        "--command-config",
        str(settings),
        output=said,
    )
    try:
        until(lambda: said.read_text().count("producer_send_success") >= RECORDS // 3)
        cluster.end(3)
        assert said.read_text().count("producer_send_success") < RECORDS
        until(lambda: leader(cluster, "judged") == 2)
        cluster.start_broker(3)
        assert producer.wait(60) == 0, said.read_text()[-2000:]
    finally:
        if producer.poll() is None:
            producer.kill()
            producer.wait()
    until(lambda: isr(cluster, "judged") == [1, 2, 3])
    rows = [json.loads(line) for line in said.read_text().splitlines() if line.startswith("{")]
    assert [row for row in rows if row["name"] == "producer_send_error"] == []
    acknowledged = {int(row["value"]): int(row["offset"]) for row in rows if row["name"] == "producer_send_success"}
    return [acknowledged[value] for value in range(RECORDS)]


def test_the_java_producer_goes_through_a_leader_change_without_loss_duplicate_or_disorder(
    tools: KafkaTools, failed_over: list[int]
) -> None:
    assert failed_over == list(range(RECORDS))
    read = tools.ask(
        CONSUMER,
        "--topic",
        "judged",
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        str(RECORDS),
        "--timeout-ms",
        "20000",
        "--formatter-property",
        "print.offset=true",
    )
    assert read.lines == [f"Offset:{number}\t{number}" for number in range(RECORDS)]
    assert tools.ask(OFFSETS, "--topic", "judged", "--time", "-2").lines == ["judged:0:0"]


BATCH = re.compile(r"baseOffset: (\d+) .* producerId: (\d+) .* partitionLeaderEpoch: (\d+) .* isvalid: (\w+)")
RECORD = re.compile(r"\| offset: (\d+) .*sequence: (\d+) .*payload: (\d+)")


def test_kafka_dump_log_finds_every_replicas_segments_sound_and_their_epochs_as_the_checkpoint_says(
    cluster: Processes, tools: KafkaTools, failed_over: list[int]
) -> None:
    for broker in BROKERS:
        folder = cluster.data(broker) / "judged-0"
        segments = sorted(folder.glob("*.log"))
        assert len(segments) > 2
        ran = tools.run(DUMP, "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, segments)))
        assert ran.code == 0, ran
        batches = [found.groups() for line in ran.lines if (found := BATCH.match(line))]
        assert {valid for *_, valid in batches} == {"true"}
        assert len({producer_id for _, producer_id, _, _ in batches}) == 1
        records = [tuple(map(int, found.groups())) for line in ran.lines if (found := RECORD.match(line))]
        assert records == [(number, number, number) for number in range(RECORDS)]

        starts: list[str] = []
        for base, _, epoch, _ in batches:
            if not starts or starts[-1].split()[0] != epoch:
                starts.append(f"{epoch} {base}")
        assert len(starts) == 2
        assert (folder / "leader-epoch-checkpoint").read_text().splitlines() == ["0", str(len(starts)), *starts]


def test_kafka_dump_log_finds_the_indexes_sound_and_a_damaged_one_not(
    cluster: Processes, tools: KafkaTools, failed_over: list[int], tmp_path: Path
) -> None:
    indexes = [path for broker in BROKERS for path in sorted((cluster.data(broker) / "judged-0").glob("*.*index"))]
    sound = next(path for path in indexes if path.suffix == ".index" and path.stat().st_size)
    damaged = tmp_path / sound.name
    damaged.with_suffix(".log").write_bytes(sound.with_suffix(".log").read_bytes())
    entries = bytearray(sound.read_bytes())
    entries[3] += 1  # the first entry's offset
    damaged.write_bytes(entries)

    sane = tools.run(DUMP, "--index-sanity-check", "--files", ",".join(map(str, indexes)))
    assert sane.code == 0, sane
    passed = [path for path in indexes if f"{path} passed sanity check." in sane.lines]
    assert passed == [path for path in indexes if path.stat().st_size or path.suffix == ".timeindex"]
    assert len(passed) > len(BROKERS) * 2, "of more than one segment each"

    verified = tools.run(DUMP, "--verify-index-only", "--files", ",".join(map(str, [*indexes, damaged])))
    assert verified.code == 0, verified
    mismatches = [line for line in verified.complaints.splitlines() if "WARNING" not in line]
    assert mismatches[0] == f"Mismatches in :{damaged}"
    assert len(mismatches) == 2, verified


def test_kafka_dump_log_reads_the_producers_that_a_snapshot_has(
    cluster: Processes, tools: KafkaTools, failed_over: list[int]
) -> None:
    snapshots = sorted((cluster.data(2) / "judged-0").glob("*.snapshot"))
    assert snapshots
    ran = tools.run(DUMP, "--files", str(snapshots[-1]))
    assert ran.code == 0, ran
    (producer,) = [line for line in ran.lines if line.startswith("producerId: ")]
    assert f"lastOffset: {int(snapshots[-1].stem) - 1} " in producer, ran


def test_kafka_leader_election_hands_back_and_takes_what_was_not_in_sync(
    cluster: Processes, tools: KafkaTools, failed_over: list[int]
) -> None:
    assert leader(cluster, "judged") == 2
    preferred = tools.ask(ELECTION, "--election-type", "preferred", "--topic", "judged", "--partition", "0")
    assert preferred.lines == ["Successfully completed leader election (PREFERRED) for partitions judged-0"]
    until(lambda: leader(cluster, "judged") == 3)

    tools.ask(TOPICS, "--create", "--topic", "risked", "--replica-assignment", "3:2")
    until(lambda: leader(cluster, "risked") == 3)
    cluster.end(2)
    until(lambda: isr(cluster, "risked") == [3])
    cluster.end(3)
    until(lambda: leader(cluster, "risked") == -1)
    cluster.start_broker(2)
    until(lambda: cluster.broker_count() == len(BROKERS) - 1)

    unclean = tools.ask(ELECTION, "--election-type", "unclean", "--topic", "risked", "--partition", "0")
    assert unclean.lines == ["Successfully completed leader election (UNCLEAN) for partitions risked-0"]
    until(lambda: leader(cluster, "risked") == 2)
    cluster.start_broker(3)
    until(lambda: isr(cluster, "risked") == [2, 3])


def test_kafka_delete_records_moves_the_start_of_every_replicas_log(
    cluster: Processes, tools: KafkaTools, tmp_path: Path
) -> None:
    tools.ask(TOPICS, "--create", "--topic", "trimmed", "--partitions", "1", "--replication-factor", "3")
    sent = "".join(f"{number}\n" for number in range(10))
    tools.ask(PRODUCER, "--topic", "trimmed", stdin=sent)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(
        json.dumps({"partitions": [{"topic": "trimmed", "partition": 0, "offset": 4}], "version": 1}), encoding="utf-8"
    )
    ran = tools.ask("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert "partition: trimmed-0\tlow_watermark: 4" in ran.lines, ran
    assert tools.ask(OFFSETS, "--topic", "trimmed", "--time", "earliest").lines == ["trimmed:0:4"]


def test_kafka_dump_log_finds_what_the_log_cleaner_left_sound(cluster: Processes, tools: KafkaTools) -> None:
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic("kept", 1, 3, topic_configs=configs)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    began_ms = int(time.time() * 1000) - 10_000
    for number in range(200):  # a segment for each 50
        key, value = b"key-%d" % (number % 5), b"%d" % number
        producer.send("kept", key=key, value=value, partition=0, timestamp_ms=began_ms + 1000 * (number // 50))
        if number % 50 == 49:
            producer.flush()
    producer.close()

    def is_cleaned(broker: int) -> bool:
        path = cluster.data(broker) / "cleaner-offset-checkpoint"
        return path.exists() and "kept 0 150" in path.read_text(encoding="ascii")

    until(lambda: all(map(is_cleaned, BROKERS)))
    segments = [str(path) for broker in BROKERS for path in sorted((cluster.data(broker) / "kept-0").glob("*.log"))]
    ran = tools.run(DUMP, "--deep-iteration", "--print-data-log", "--files", ",".join(segments))
    assert ran.code == 0, ran
    batches = [found.groups() for line in ran.lines if (found := re.search(r"baseOffset: .* isvalid: (\w+)", line))]
    assert set(batches) == {("true",)}
    kept = re.findall(r"\| offset: (\d+) .* key: key-\d payload: (\d+)", str(ran))
    assert sorted(set(kept)) == [(str(number), str(number)) for number in range(145, 200)], ran
