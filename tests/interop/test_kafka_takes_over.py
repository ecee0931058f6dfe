"""Apache Kafka as the judge of what a reference broker leaves behind: it starts on its data directory and its znodes,
believes its checkpoints, and goes on; then the reference goes on with what Kafka left."""

import signal
import socket
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import decode_response, encode_request, request_class
from tests.interop.kafka_tools import kafka_home
from tests.interop.zookeeper_cluster import SLOW_MACHINE_S, WithRealZookeeper, all_in_sync, create, read, write
from tests.loopback import address
from tests.reference_impl.runtime.broker_processes import BROKERS, running
from tests.waiting import until

HOME = kafka_home("3.9.1")
VERSION = 2


def epoch_end(cluster: WithRealZookeeper, node: int, topic: str, epoch: int) -> int:
    """Where an epoch ends in the log of a partition's leader, as that broker says."""
    request = request_class(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    topic_entry = request.fields["topics"].data_class
    partition = topic_entry.fields["partitions"].data_class(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    body = request(replica_id=-1, topics=[topic_entry(topic=topic, partitions=[partition])])
    with socket.create_connection((address(10 + node), cluster.client_port), timeout=10) as connection:
        connection.sendall(encode_request(ApiKey.OFFSET_FOR_LEADER_EPOCH, VERSION, 1, "judge", body))
        with connection.makefile("rb") as answers:
            answer: Any = decode_response(
                ApiKey.OFFSET_FOR_LEADER_EPOCH, VERSION, answers.read(int.from_bytes(answers.read(4), "big"))
            )[1]
    (found,) = answer.topics[0].partitions
    assert found.error_code == 0
    return int(found.end_offset)


def producer_of(cluster: WithRealZookeeper) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap, request_timeout_ms=3000, retry_backoff_ms=50)


def test_apache_kafka_goes_on_where_a_reference_broker_stopped_and_the_reference_where_kafka_stopped(
    tmp_path: Path,
) -> None:
    with running(WithRealZookeeper(tmp_path, HOME)) as cluster:
        create(cluster, "handed-over", [1, 2, 3])
        producer = producer_of(cluster)
        write(producer, "handed-over", range(300))
        cluster.end(1)
        until(lambda: cluster.state("handed-over")["leader"] == 2)
        write(producer, "handed-over", range(300, 500))
        producer.close()
        cluster.start_broker(1)
        all_in_sync(cluster, "handed-over")
        for node in (1, 3, 2):
            assert cluster.end(node, signal.SIGTERM) == 0
        assert cluster.state("handed-over")["isr"] == [2]

        cluster.start_kafka(2)
        until(lambda: cluster.children("/brokers/ids") == ["2"], timeout_s=SLOW_MACHINE_S)
        assert read(cluster, "handed-over", 500) == [b"%d" % number for number in range(500)]
        assert [epoch_end(cluster, 2, "handed-over", epoch) for epoch in (0, 1)] == [300, 500]
        producer = producer_of(cluster)
        write(producer, "handed-over", range(500, 600))
        producer.close()
        cluster.end(2, signal.SIGTERM)

        for node in (2, 1, 3):
            cluster.start_broker(node)
        until(lambda: cluster.broker_count() == len(BROKERS), timeout_s=SLOW_MACHINE_S)
        all_in_sync(cluster, "handed-over")
        assert read(cluster, "handed-over", 600) == [b"%d" % number for number in range(600)]
