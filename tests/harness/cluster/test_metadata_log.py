"""The reader of KRaft's metadata log, with logs from the tests' own writer and from real Kafka."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cluster.books.metadata_log import MetadataEntry, longest, read_log
from harness.cluster.books.metadata_records import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigWritten,
    ElrCleared,
    FeatureWritten,
    PartitionChanged,
    PartitionWritten,
    QuorumLeader,
    TopicCreated,
    TopicRemoved,
)
from harness.errors import HarnessError
from tests.harness.cluster import metadata_writer as writer

DATA = Path(__file__).parent / "data"


def write(folder: Path, segments: Mapping[int, Sequence[bytes]], *, rest: bytes = b"") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for base, batches in segments.items():
        (folder / f"{base:020}.log").write_bytes(b"".join(batches) + rest)
    return folder


def write_snapshot(folder: Path, end: int, epoch: int, values: Sequence[bytes], *, last_wall_ms: int) -> None:
    header = writer.batch(0, [writer.snapshot_header(last_wall_ms)], control=writer.SNAPSHOT_HEADER, wall_ms=9)
    footer = writer.batch(len(values) + 1, [b"\0\0\0"], control=writer.SNAPSHOT_FOOTER)
    content = header + writer.batch(1, values, epoch=epoch, wall_ms=9) + footer
    (folder / f"{end:020}-{epoch:010}.checkpoint").write_bytes(content)


def topics(entries: Sequence[MetadataEntry]) -> list[str]:
    return [entry.record.name for entry in entries if isinstance(entry.record, TopicCreated)]


def test_records_come_with_their_offset_their_time_and_the_epoch_of_the_quorum(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {
            0: [
                writer.batch(0, [writer.leader_change(100)], control=writer.LEADER_CHANGE, epoch=4, wall_ms=50),
                writer.batch(1, [writer.topic("a"), writer.NO_OP, writer.topic("b")], epoch=4, wall_ms=60, delta_ms=5),
            ]
        },
    )
    log = read_log(folder)
    assert [(entry.offset, entry.epoch, entry.wall_ms) for entry in log.entries] == [(0, 4, 50), (1, 4, 60), (3, 4, 70)]
    assert log.entries[0].record == QuorumLeader(node=100)
    assert topics(log.entries) == ["a", "b"]
    assert (log.end_epoch, log.end_offset) == (4, 4)


def test_unknown_types_are_counted_and_stepped_over(tmp_path: Path) -> None:
    values = [writer.record(99, 7, b"anything"), writer.topic("a"), writer.NO_OP, writer.record(99, 0, b"")]
    log = read_log(write(tmp_path, {0: [writer.batch(0, values)]}))
    assert topics(log.entries) == ["a"]
    assert log.skipped == {99: 2, 20: 1}


def test_a_needed_record_that_is_newer_than_the_reader_names_its_place(tmp_path: Path) -> None:
    newer = writer.record(2, 9, writer.text("t") + writer.uuid_of("t") + b"\0more")
    with pytest.raises(HarnessError, match=r"offset 7: record type 2 version 9 .*fetch-kafka") as caught:
        read_log(write(tmp_path, {0: [writer.batch(7, [newer])]}))
    assert "\n" not in str(caught.value)


def test_segments_are_one_log_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    segments = {at: [writer.batch(at, [writer.topic(f"t{at}")])] for at in (10, 0, 9)}
    assert topics(read_log(write(tmp_path, segments)).entries) == ["t0", "t9", "t10"]


def test_an_empty_or_absent_folder_is_an_empty_log(tmp_path: Path) -> None:
    assert read_log(write(tmp_path, {0: []})).entries == ()
    assert read_log(tmp_path / "absent").entries == ()
    assert longest([tmp_path / "absent"]) is None


def test_what_a_transaction_took_back_or_never_ended_did_not_happen(tmp_path: Path) -> None:
    leader = writer.batch(6, [writer.leader_change(101)], control=writer.LEADER_CHANGE, epoch=2)
    folder = write(
        tmp_path,
        {
            0: [
                writer.batch(0, [writer.BEGIN, writer.topic("kept"), writer.END]),
                writer.batch(3, [writer.BEGIN, writer.topic("given up"), writer.NO_OP]),
                leader,
                writer.batch(7, [writer.ABORT, writer.topic("plain"), writer.BEGIN, writer.topic("open")]),
            ]
        },
    )
    log = read_log(folder)
    assert topics(log.entries) == ["kept", "plain"]
    assert [entry.offset for entry in log.entries if entry.record == QuorumLeader(node=101)] == [6]


def test_a_log_without_its_beginning_starts_from_the_snapshot_that_reaches_it(tmp_path: Path) -> None:
    folder = write(tmp_path, {20: [writer.batch(20, [writer.topic("in it"), writer.topic("after")])]})
    write_snapshot(folder, 9, 1, [writer.topic("too old")], last_wall_ms=5)
    write_snapshot(folder, 21, 3, [writer.topic("first"), writer.topic("in it")], last_wall_ms=77)
    write_snapshot(folder, 22, 3, [writer.topic("later")], last_wall_ms=99)
    log = read_log(folder)
    assert topics(log.entries) == ["first", "in it", "after"]
    assert [(entry.offset, entry.epoch, entry.wall_ms, entry.from_snapshot) for entry in log.entries] == [
        (20, 3, 77, True),
        (20, 3, 77, True),
        (21, 1, 1000, False),
    ]


def test_a_whole_log_needs_no_snapshot(tmp_path: Path) -> None:
    folder = write(tmp_path, {0: [writer.batch(0, [writer.topic("a")])]})
    write_snapshot(folder, 0, 0, [writer.topic("a")], last_wall_ms=0)
    (folder / "bootstrap.checkpoint").write_bytes(b"")
    assert topics(read_log(folder).entries) == ["a"]


def test_a_log_that_lacks_its_beginning_and_the_snapshot_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="begins at offset 20 and no snapshot") as caught:
        read_log(write(tmp_path, {20: [writer.batch(20, [writer.topic("a")])]}))
    assert "\n" not in str(caught.value)


def test_of_several_nodes_the_log_with_the_highest_epoch_then_end_is_taken(tmp_path: Path) -> None:
    long_ago = write(tmp_path / "a", {0: [writer.batch(at, [writer.NO_OP]) for at in range(5)]})
    newer = write(tmp_path / "b", {0: [writer.batch(0, [writer.NO_OP]), writer.batch(1, [writer.NO_OP], epoch=2)]})
    further = write(
        tmp_path / "c", {0: [writer.batch(0, [writer.NO_OP]), writer.batch(1, [writer.NO_OP] * 2, epoch=2)]}
    )
    assert longest([long_ago, tmp_path / "absent", newer]) == newer
    assert longest([long_ago, further, newer]) == further


def test_a_damaged_batch_ends_the_log_in_later_segments_too(tmp_path: Path) -> None:
    damaged = bytearray(writer.batch(1, [writer.topic("b")]))
    damaged[-1] ^= 1
    first = [writer.batch(0, [writer.topic("a")]), bytes(damaged), writer.batch(2, [writer.topic("c")])]
    folder = write(tmp_path, {0: first, 3: [writer.batch(3, [writer.topic("d")])]})
    assert topics(read_log(folder).entries) == ["a"]
    assert read_log(folder).end_offset == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(st.integers(0, 8921), st.sampled_from([b"", bytes(100), b"\xff" * 100]))
def test_a_real_log_torn_anywhere_is_the_beginning_of_the_whole_one(tmp_path: Path, length: int, rest: bytes) -> None:
    data = (DATA / "cluster_metadata_4_3/00000000000000000000.log").read_bytes()
    whole = read_log(write(tmp_path / "whole", {0: [data]}))
    torn = read_log(write(tmp_path / "torn", {0: [data[:length]]}, rest=rest))
    assert torn.entries == whole.entries[: len(torn.entries)]
    if not rest:  # the log itself ends in zeros, which may make good what was torn off
        assert (length == len(data)) == (torn.entries == whole.entries)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
@given(st.binary(max_size=300))
def test_bytes_that_are_no_log_are_an_empty_one(tmp_path: Path, data: bytes) -> None:
    assert read_log(write(tmp_path, {0: [data]})).entries == ()


def _as_kafka_says(record: object) -> dict[str, Any]:
    """A decoded record under the names that Kafka's own decoder prints; only the fields that are read."""
    match record:
        case BrokerRegistered():
            return {
                "brokerId": record.broker,
                "brokerEpoch": record.broker_epoch,
                "fenced": record.fenced,
                "incarnationId": record.incarnation,
                "logDirs": list(record.log_directories),
            }
        case BrokerUnregistered():
            return {"brokerId": record.broker, "brokerEpoch": record.broker_epoch}
        case BrokerChanged():
            fenced = {} if record.fenced is None else {"fenced": 1 if record.fenced else -1}
            leaving = {"inControlledShutdown": 1} if record.in_controlled_shutdown else {}
            return {"brokerId": record.broker, "brokerEpoch": record.broker_epoch} | fenced | leaving
        case TopicCreated():
            return {"name": record.name, "topicId": record.topic_id}
        case TopicRemoved():
            return {"topicId": record.topic_id}
        case PartitionWritten():
            return {
                "partitionId": record.partition,
                "topicId": record.topic_id,
                "leader": record.leader,
                "leaderEpoch": record.leader_epoch,
                "partitionEpoch": record.partition_epoch,
                "isr": list(record.isr),
                "replicas": list(record.replicas),
            }
        case PartitionChanged():
            fields = {
                "leader": record.leader,
                "isr": record.isr,
                "replicas": record.replicas,
                "leaderRecoveryState": record.recovering,
                "eligibleLeaderReplicas": record.elr,
                "lastKnownElr": record.last_known_elr,
            }
            present = {key: list(v) if isinstance(v, tuple) else v for key, v in fields.items() if v is not None}
            return {"partitionId": record.partition, "topicId": record.topic_id} | present
        case ConfigWritten():
            return {
                "resourceType": record.resource_type,
                "resourceName": record.resource,
                "name": record.key,
                "value": record.value,
            }
        case FeatureWritten():
            return {"name": record.name, "featureLevel": record.level}
        case ElrCleared():
            return {"topicName": record.topic}
    raise AssertionError(record)


_NOT_READ = {
    "isMigratingZkBroker",
    "endPoints",
    "features",
    "rack",
    "inControlledShutdown",
    "cordonedLogDirs",
    "removingReplicas",
    "addingReplicas",
    "directories",
}
_STEPPED_OVER = ("BEGIN_TRANSACTION", "END_TRANSACTION", "NO_OP", "REGISTER_CONTROLLER", "ZK_MIGRATION_STATE")


@pytest.mark.parametrize(("name", "records"), [("cluster_metadata_4_3", 91), ("cluster_metadata_3_9", 68)])
def test_real_logs_are_read_as_kafkas_own_decoder_reads_them(name: str, records: int) -> None:
    with gzip.open(DATA / name / "dump.txt.gz", "rt") as file:
        lines = [line.split(" ", 2) for line in file]
    assert len(lines) == records
    expected = []
    for offset, wall_ms, payload in lines:
        stored = json.loads(payload)
        if not stored["type"].startswith(_STEPPED_OVER):
            unread = _NOT_READ - ({"inControlledShutdown"} if "CHANGE" in stored["type"] else set())
            fields = {key: value for key, value in stored["data"].items() if key not in unread}
            expected.append((int(offset), int(wall_ms), fields))
    entries = [entry for entry in read_log(DATA / name).entries if not isinstance(entry.record, QuorumLeader)]
    assert [(entry.offset, entry.wall_ms, _as_kafka_says(entry.record)) for entry in entries] == expected
