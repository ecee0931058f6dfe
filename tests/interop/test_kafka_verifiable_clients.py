"""Kafka's own verifiable clients, those of its system tests, on the reference: what they are told and what they did."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from tests.interop.kafka_tools import KafkaTools, Ran, kafka_home
from tests.reference_impl.runtime.broker_processes import Processes, running

NEW = kafka_home("4.3.1")
RECORDS, PARTITIONS = 300, 2


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    quick = "offsets.topic.num.partitions=3\ntransaction.state.log.num.partitions=3\n"
    with running(Processes(tmp_path_factory.mktemp("cluster"), properties=quick)) as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in ("orders", "copied")])
        admin.close()
        yield KafkaTools(home=NEW, bootstrap=",".join(cluster.bootstrap))


def told(ran: Ran) -> Sequence[Mapping[str, Any]]:
    """What such a client says: an object a line."""
    assert ran.code == 0, ran
    return [json.loads(line) for line in ran.lines if line.startswith("{")]


@pytest.fixture(scope="module")
def produced(tools: KafkaTools) -> Sequence[Mapping[str, Any]]:
    arguments = ["--topic", "orders", "--max-messages", str(RECORDS), "--acks", "-1", "--throughput", "1000"]
    arguments += ["--repeating-keys", "20"]  # without keys all go to one partition
    return told(tools.ask("VerifiableProducer", *arguments))


def consumed(tools: KafkaTools, group: str) -> Sequence[Mapping[str, Any]]:
    arguments = ["--topic", "orders", "--group-id", group, "--max-messages", str(RECORDS), "--verbose"]
    return told(tools.ask("VerifiableConsumer", *arguments, "--reset-policy", "earliest"))


def test_the_verifiable_producer_is_answered_for_each_record(produced: Sequence[Mapping[str, Any]]) -> None:
    sent = [each for each in produced if each["name"] == "producer_send_success"]
    places = {(each["partition"], each["offset"]) for each in sent}
    assert sorted(int(each["value"]) for each in sent) == list(range(RECORDS))
    assert len(places) == RECORDS
    (summary,) = (each for each in produced if each["name"] == "tool_data")
    assert (summary["sent"], summary["acked"]) == (RECORDS, RECORDS)


def test_the_verifiable_consumer_gets_each_once_and_commits_behind_the_last(
    tools: KafkaTools, produced: Sequence[Mapping[str, Any]]
) -> None:
    got = consumed(tools, "readers")
    read = [each for each in got if each["name"] == "record_data"]
    sent = [each for each in produced if each["name"] == "producer_send_success"]
    place = ("partition", "offset", "value")
    assert sorted([each[name] for name in place] for each in read) == sorted(
        [each[name] for name in place] for each in sent
    )
    committed = {
        each["partition"]: each["offset"]
        for event in got
        if event["name"] == "offsets_committed" and event["success"]
        for each in event["offsets"]
    }
    ends = {
        each["partition"]: 1 + max(one["offset"] for one in sent if one["partition"] == each["partition"])
        for each in sent
    }
    assert committed == ends


def test_the_transactional_copier_copies_each_record_once_with_aborts_between(
    tools: KafkaTools, produced: Sequence[Mapping[str, Any]]
) -> None:
    """It consumes, produces and commits its offsets in transactions, and aborts some of them by chance."""
    sent = [each for each in produced if each["name"] == "producer_send_success"]
    for partition in {each["partition"] for each in sent}:
        count = sum(each["partition"] == partition for each in sent)
        copy = ["--input-topic", "orders", "--input-partition", str(partition), "--output-topic", "copied"]
        as_whom = ["--transactional-id", f"copier-{partition}", "--consumer-group", "copiers"]
        ran = tools.run(
            "TransactionalMessageCopier",
            *("--broker-list", tools.bootstrap),
            *copy,
            *as_whom,
            *("--max-messages", str(count), "--transaction-size", "7", "--enable-random-aborts"),
        )
        assert [each["remaining"] for each in told(ran)][-1] == 0
    committed = ["--topic", "copied", "--from-beginning", "--isolation-level", "read_committed"]
    read = tools.ask("consumer.ConsoleConsumer", *committed, "--max-messages", str(RECORDS), "--timeout-ms", "20000")
    assert sorted(map(int, read.lines)) == list(range(RECORDS))
