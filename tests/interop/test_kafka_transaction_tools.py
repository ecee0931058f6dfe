"""Kafka's own tools as outside judges of the reference's transactions: what is listed, described, read with
read_committed, and how it is stored."""

import re
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from harness.cluster.brokers.kafka_jars import KafkaHome
from harness.history.facts.internal_topics import partition_of
from tests.interop.kafka_tools import KafkaTools, kafka_home
from tests.reference_impl.runtime.broker_processes import BROKERS, Processes, running

NEW, OLD = kafka_home("4.3.1"), kafka_home("2.8.2")
CONSUMER, TRANSACTIONS = "consumer.ConsoleConsumer", "TransactionsCommand"
COMMITS, ABORTS, HANGS = "committing", "aborting", "hanging"
PARTITIONS = 3
QUICK = f"transaction.state.log.num.partitions={PARTITIONS}\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with running(Processes(tmp_path_factory.mktemp("cluster"), properties=QUICK)) as made:
        yield made


@pytest.fixture(scope="module")
def tools(cluster: Processes) -> KafkaTools:
    return KafkaTools(home=NEW, bootstrap=",".join(cluster.bootstrap))


@pytest.fixture(scope="module")
def written(cluster: Processes) -> Iterator[None]:
    """One transaction is committed, one aborted, one stays open."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic("orders", 1, 3)])
    admin.close()
    producers = {}
    for name in (COMMITS, ABORTS, HANGS):
        producer = producers[name] = KafkaProducer(
            bootstrap_servers=cluster.bootstrap, transactional_id=name, transaction_timeout_ms=600_000
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", name.encode(), partition=0).get(timeout=30)
        if name == COMMITS:
            producer.commit_transaction()
        elif name == ABORTS:
            producer.abort_transaction()
    yield
    producers[HANGS].abort_transaction()
    for producer in producers.values():
        producer.close()


@pytest.mark.usefixtures("written")
def test_kafka_transactions_lists_and_describes(tools: KafkaTools) -> None:
    listed = {line.split()[0]: line.split()[-1] for line in tools.ask(TRANSACTIONS, "list").lines[1:]}
    assert listed == {COMMITS: "CompleteCommit", ABORTS: "CompleteAbort", HANGS: "Ongoing"}
    described = str(tools.ask(TRANSACTIONS, "describe", "--transactional-id", HANGS))
    assert re.search(r"Ongoing\s.*\sorders-0", described), described
    producers = tools.ask(TRANSACTIONS, "describe-producers", "--topic", "orders", "--partition", "0").lines[1:]
    assert [line.split()[-1] for line in producers] == ["None", "None", "4"], producers


@pytest.mark.usefixtures("written")
def test_kafka_console_consumer_reads_what_was_committed(tools: KafkaTools) -> None:
    def read(isolation: str, *arguments: str) -> list[str]:
        every = ["--topic", "orders", "--from-beginning", "--isolation-level", isolation, *arguments]
        return [line for line in tools.ask(CONSUMER, *every).lines if line in (COMMITS, ABORTS, HANGS)]

    assert read("read_committed", "--timeout-ms", "15000") == [COMMITS]
    assert read("read_uncommitted", "--max-messages", "3") == [COMMITS, ABORTS, HANGS]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    ("home", "dump", "shown"),
    [
        (NEW, "DumpLogSegments", r'"transactionalId":"{name}".*"transactionStatus":{number}\b'),
        (OLD, "kafka.tools.DumpLogSegments", r"transactionalId={name} .*state={state}\b"),
    ],
    ids=["4.3.1", "2.8.2"],
)
@pytest.mark.parametrize(
    ("name", "state", "number"),
    [(COMMITS, "CompleteCommit", 4), (ABORTS, "CompleteAbort", 5), (HANGS, "Ongoing", 1)],
)
def test_kafka_dump_log_decodes_transactions(
    cluster: Processes, home: KafkaHome, dump: str, shown: str, name: str, state: str, number: int
) -> None:
    tools = KafkaTools(home=home, bootstrap="")
    folder = f"__transaction_state-{partition_of(name, PARTITIONS)}"
    segments = [next((cluster.data(broker) / folder).glob("*.log")) for broker in BROKERS]
    ran = tools.run(dump, "--transaction-log-decoder", "--files", ",".join(map(str, segments)))
    assert ran.code == 0, ran
    wanted = shown.format(name=name, state=state, number=number)
    assert len([line for line in ran.lines if re.search(wanted, line)]) == len(BROKERS), ran
    assert not re.search(r"isvalid: false|Exception", str(ran), re.IGNORECASE)


@pytest.mark.usefixtures("written")
def test_kafka_dump_log_reads_the_markers(cluster: Processes) -> None:
    tools = KafkaTools(home=NEW, bootstrap="")
    segment = next((cluster.data(BROKERS[0]) / "orders-0").glob("*.log"))
    ran = tools.run("DumpLogSegments", "--print-data-log", "--files", str(segment))
    assert ran.code == 0, ran
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: 0", str(ran)) == ["COMMIT", "ABORT"], ran


@pytest.mark.usefixtures("written")
def test_kafka_dump_log_reads_the_index_of_aborted_transactions(cluster: Processes) -> None:
    tools = KafkaTools(home=NEW, bootstrap="")
    for broker in BROKERS:
        (index,) = (cluster.data(broker) / "orders-0").glob("*.txnindex")
        ran = tools.run("DumpLogSegments", "--files", str(index))
        assert ran.code == 0, ran
        assert re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", str(ran)) == [
            ("2", "3", "4")
        ]


@pytest.mark.usefixtures("written")
def test_kafkas_own_producer_has_an_epoch_for_each_transaction_and_kafka_reads_how_it_is_stored(
    cluster: Processes, tools: KafkaTools
) -> None:
    """KIP-890: R87, R88. The tool commits one transaction after the other on one producer."""
    name = "perf"
    load = ["--topic", "orders", "--num-records", "200", "--record-size", "10", "--throughput", "100"]
    as_told = ["--transactional-id", name, "--transaction-duration-ms", "100"]
    servers = ["--bootstrap-server", tools.bootstrap]
    ran = tools.run("ProducerPerformance", *load, *as_told, *servers)
    assert ran.code == 0, ran
    assert "200 records sent" in str(ran), ran
    folder = f"__transaction_state-{partition_of(name, PARTITIONS)}"
    segment = next((cluster.data(BROKERS[0]) / folder).glob("*.log"))
    dumped = KafkaTools(home=NEW, bootstrap="").run(
        "DumpLogSegments", "--transaction-log-decoder", "--files", str(segment)
    )
    assert dumped.code == 0, dumped
    own = [line for line in dumped.lines if f'"transactionalId":"{name}"' in line]
    committed = [line for line in own if '"transactionStatus":4' in line]
    epochs = [int(found) for line in committed for found in re.findall(r'"producerEpoch":(\d+)', line)]
    assert len(epochs) >= 3, dumped
    assert epochs == list(range(1, len(epochs) + 1)), dumped
    assert all('"clientTransactionVersion":2' in line for line in committed), dumped
