"""Kafka's own tools as outside judges of the reference's consumer groups: what is committed, described, reset, deleted,
and how it is stored."""

import re
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from harness.cluster.brokers.kafka_jars import KafkaHome
from harness.history.facts.internal_topics import partition_of
from tests.interop.kafka_tools import KafkaTools, kafka_home
from tests.reference_impl.runtime.broker_processes import BROKERS, Processes, running

NEW, OLD = kafka_home("4.3.1"), kafka_home("2.8.2")
GROUPS, CONSUMER = "consumer.group.ConsumerGroupCommand", "consumer.ConsoleConsumer"
PARTITIONS, RECORDS, OFFSETS_PARTITIONS = 2, 20, 3
QUICK = (
    "group.initial.rebalance.delay.ms=0\ngroup.min.session.timeout.ms=500\n"
    f"offsets.topic.num.partitions={OFFSETS_PARTITIONS}\n"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with running(Processes(tmp_path_factory.mktemp("cluster"), properties=QUICK)) as made:
        yield made


@pytest.fixture(scope="module")
def tools(cluster: Processes) -> KafkaTools:
    return KafkaTools(home=NEW, bootstrap=",".join(cluster.bootstrap))


@pytest.fixture(scope="module")
def read(cluster: Processes) -> str:
    """A group that read a topic of two partitions with ten records each, committed, and left."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic("orders", PARTITIONS, 3)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    for number in range(RECORDS):
        producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap,
        group_id="readers",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    seen = 0
    while seen < RECORDS:
        seen += sum(len(records) for records in consumer.poll(timeout_ms=1000).values())
    consumer.commit()
    consumer.close()
    return "readers"


def offsets(tools: KafkaTools, group: str) -> dict[int, str]:
    """Partition -> committed offset, as kafka-consumer-groups prints it."""
    rows = [line.split() for line in tools.ask(GROUPS, "--describe", "--group", group).lines]
    return {int(row[2]): row[3] for row in rows if row[:2] == [group, "orders"]}


def test_kafka_consumer_groups_describes_lists_resets_and_deletes(tools: KafkaTools, read: str) -> None:
    assert offsets(tools, read) == {0: "10", 1: "10"}
    assert tools.ask(GROUPS, "--list").lines == [read]
    state = tools.ask(GROUPS, "--describe", "--group", read, "--state")
    assert re.search(rf"^{read}\s.*\sEmpty\s+0", str(state), re.MULTILINE), state

    reset = ["--reset-offsets", "--group", read, "--topic", "orders", "--to-offset", "4", "--execute"]
    tools.ask(GROUPS, *reset)
    assert offsets(tools, read) == {0: "4", 1: "4"}
    tools.ask(GROUPS, "--delete-offsets", "--group", read, "--topic", "orders:1")
    assert offsets(tools, read) == {0: "4"}
    tools.ask(GROUPS, "--reset-offsets", "--group", "gone", "--topic", "orders", "--to-earliest", "--execute")
    tools.ask(GROUPS, "--delete", "--group", "gone")
    assert tools.ask(GROUPS, "--list").lines == [read]


def test_kafka_console_consumer_reads_as_a_member_of_a_group(tools: KafkaTools, read: str) -> None:
    arguments = ["--topic", "orders", "--group", "console", "--from-beginning", "--max-messages", str(RECORDS)]
    ran = tools.ask(CONSUMER, *arguments, "--timeout-ms", "20000")
    assert sorted(map(int, ran.lines)) == list(range(RECORDS))
    assert offsets(tools, "console") == {0: "10", 1: "10"}


@pytest.mark.parametrize(
    ("home", "dump", "committed", "generation"),
    [
        (
            NEW,
            "DumpLogSegments",
            r'"group":"readers","topic":"orders","partition":0.*"offset":10',
            r'"group":"readers".*"generation":1',
        ),
        (
            OLD,
            "kafka.tools.DumpLogSegments",
            r"group=readers,partition=orders-0.*offset=10",
            r'group=readers payload.*"generationId":1',
        ),
    ],
    ids=["4.3.1", "2.8.2"],
)
def test_kafka_dump_log_decodes_groups_and_offsets(
    cluster: Processes, read: str, home: KafkaHome, dump: str, committed: str, generation: str
) -> None:
    tools = KafkaTools(home=home, bootstrap="")
    partition = partition_of(read, OFFSETS_PARTITIONS)
    segments = [next((cluster.data(broker) / f"__consumer_offsets-{partition}").glob("*.log")) for broker in BROKERS]
    ran = tools.run(dump, "--offsets-decoder", "--files", ",".join(map(str, segments)))
    assert ran.code == 0, ran
    for wanted in (committed, generation):
        assert len([line for line in ran.lines if re.search(wanted, line)]) >= len(BROKERS), ran
    assert not re.search(r"isvalid: false|Exception", str(ran), re.IGNORECASE)
