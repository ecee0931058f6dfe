"""The reader of replicas' files, on segments built by Kafka's own record builder."""

import json
import struct
from pathlib import Path

from kafka.record import MemoryRecordsBuilder

from harness.cluster.record_batches import records_of
from harness.cluster.replica_logs import (
    log_end,
    partition_folders,
    read_events,
    read_high_watermarks,
    read_replica,
)
from harness.ports.cluster import LogRecord, NodeId
from tests.harness.cluster.log_folders import batch, replica_folder

_CONTROL_BIT = 0x20


def test_a_replica_is_read_whole_over_its_segments(tmp_path: Path) -> None:
    folder = replica_folder(
        tmp_path,
        {3: batch(3, [b"a", b"b"], epoch=1) + batch(5, [b"c"], epoch=2), 6: batch(6, [b"d"], epoch=4)},
    )
    (folder / "leader-epoch-checkpoint").write_text("0\n3\n1 3\n2 5\n4 6\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\norders 0 6\nother 1 9\n")
    replica = read_replica(NodeId(2), "orders", 0, folder, t_ns=17)
    assert (replica.node, replica.topic, replica.partition, replica.t_ns) == (2, "orders", 0, 17)
    assert (replica.log_start, replica.high_watermark, replica.log_end) == (3, 6, 7)
    assert replica.epochs == ((1, 3), (2, 5), (4, 6))
    assert replica.records == tuple(
        LogRecord(offset=offset, epoch=epoch, value=value)
        for offset, epoch, value in [(3, 1, b"a"), (4, 1, b"b"), (5, 2, b"c"), (6, 4, b"d")]
    )


def test_a_replica_without_files_is_empty(tmp_path: Path) -> None:
    replica = read_replica(NodeId(1), "orders", 0, replica_folder(tmp_path, {}), t_ns=0)
    assert (replica.log_start, replica.high_watermark, replica.log_end) == (0, None, 0)
    assert (replica.epochs, replica.records) == ((), ())


def test_a_torn_tail_is_where_the_log_ends_wherever_it_was_torn(tmp_path: Path) -> None:
    whole, last = batch(0, [b"a", b"b"]), batch(2, [b"c"])
    folder = replica_folder(tmp_path, {0: whole})
    for length in range(len(last)):
        (folder / f"{0:020}.log").write_bytes(whole + last[:length])
        assert log_end(folder) == 2, f"torn after {length} bytes"
        assert [record.offset for record in records_of(whole + last[:length])] == [0, 1]


def test_an_altered_batch_ends_the_records_also_those_of_later_segments(tmp_path: Path) -> None:
    altered = bytearray(batch(1, [b"b"]))
    altered[-2] ^= 1
    assert [record.offset for record in records_of(batch(0, [b"a"]) + bytes(altered) + batch(2, [b"c"]))] == [0]
    folder = replica_folder(tmp_path, {0: batch(0, [b"a"]) + bytes(altered), 2: batch(2, [b"c"])})
    assert [record.offset for record in read_replica(NodeId(1), "orders", 0, folder, t_ns=0).records] == [0]


def test_control_batches_have_offsets_and_no_records(tmp_path: Path) -> None:
    from kafka.record.util import calc_crc32c

    control = bytearray(batch(1, [b"commit"]))
    struct.pack_into(">h", control, 21, _CONTROL_BIT)
    struct.pack_into(">I", control, 17, calc_crc32c(bytes(control[21:])))
    data = batch(0, [b"a"]) + bytes(control) + batch(2, [b"c"])
    assert [record.offset for record in records_of(data)] == [0, 2]
    assert log_end(replica_folder(tmp_path, {0: data[: -len(batch(2, [b"c"]))]})) == 2


def test_the_log_end_is_that_of_the_last_segment_or_its_base_when_it_is_empty(tmp_path: Path) -> None:
    assert log_end(replica_folder(tmp_path, {0: batch(0, [b"a"]), 1: b""}, name="a-0")) == 1
    assert log_end(replica_folder(tmp_path, {0: b""}, name="b-0")) == 0
    assert log_end(replica_folder(tmp_path, {0: batch(0, [b"a"]) + bytes(200)}, name="c-0")) == 1
    # Headers alone decide: offsets may be missing within.
    assert log_end(replica_folder(tmp_path, {0: batch(0, [b"a"]) + batch(40, [b"b", b"c"])}, name="d-0")) == 42


def test_replicas_are_the_folders_named_topic_dash_partition(tmp_path: Path) -> None:
    dead = ("orders-0.8f3c-delete", "orders-0.8f3c-future", "orders-1.8f3c-stray", "lost+found", "__cluster_metadata-0")
    for name in ("orders-0", "two-words-12", *dead):
        (tmp_path / name).mkdir()
    (tmp_path / "file-1").write_text("")
    assert [found[:2] for found in partition_folders(tmp_path)] == [("orders", 0), ("two-words", 12)]
    assert list(partition_folders(tmp_path / "none")) == []


def test_where_a_log_ends_and_what_it_holds_come_from_the_same_bytes(tmp_path: Path) -> None:
    """Also where the headers go on behind a batch that was damaged, and where a segment was preallocated."""
    altered = bytearray(batch(1, [b"b"]))
    altered[-2] ^= 1
    folder = replica_folder(tmp_path, {0: batch(0, [b"a"]) + bytes(altered), 2: batch(2, [b"c"]) + bytes(4096), 3: b""})
    replica = read_replica(NodeId(1), "orders", 0, folder, t_ns=0)
    assert (replica.log_end, log_end(folder)) == (3, 3)
    assert [record.offset for record in replica.records] == [0]


def test_the_log_end_of_large_batches_is_found_by_their_heads(tmp_path: Path) -> None:
    large = [bytes(100_000)]
    folder = replica_folder(tmp_path, {0: batch(0, large) + batch(1, [b"a"]) + batch(2, large) + batch(3, large)[:-1]})
    assert log_end(folder) == 3


def test_a_replica_from_before_leader_epochs_has_none(tmp_path: Path) -> None:
    builder = MemoryRecordsBuilder(magic=1, compression_type=0, batch_size=1 << 20, offset=4)
    builder.append(timestamp=1, key=b"k", value=b"old")
    builder.close()
    replica = read_replica(NodeId(1), "orders", 0, replica_folder(tmp_path, {4: builder.buffer()}), t_ns=0)
    assert (replica.log_start, replica.log_end, replica.epochs) == (4, 5, ())
    assert replica.records == (LogRecord(offset=4, epoch=-1, value=b"old"),)


def test_files_that_are_no_segments_are_left_alone(tmp_path: Path) -> None:
    folder = replica_folder(tmp_path, {0: batch(0, [b"a"])})
    for name in (f"{1:020}.log.deleted", f"{1:020}.log.swap", "notes.log"):
        (folder / name).write_bytes(batch(1, [b"b"]))
    assert log_end(folder) == 1
    assert len(read_replica(NodeId(1), "orders", 0, folder, t_ns=0).records) == 1


def test_high_watermarks_of_a_disk_without_a_checkpoint_are_none(tmp_path: Path) -> None:
    assert read_high_watermarks(tmp_path) == {}


def test_events_are_read_with_the_batches_that_were_cut(tmp_path: Path) -> None:
    (tmp_path / "truncations").mkdir()
    (tmp_path / "truncations" / "1.batches").write_bytes(batch(8, [b"x", b"y"], epoch=3) + b"torn")
    lines = [
        {"t": 1, "event": "broker_start", "detail": {"clean": True}},
        {
            "t": 2,
            "event": "truncation",
            "topic": "orders",
            "partition": 0,
            "epoch": 4,
            "from_offset": 10,
            "to_offset": 8,
            "reason": "diverging epoch",
            "cut": "truncations/1.batches",
        },
        {"t": 3, "event": "truncation", "topic": "orders", "partition": 0, "cut": "truncations/gone"},
    ]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    start, truncation, gone = read_events(NodeId(2), tmp_path)
    assert (start.node, start.t_ns, start.event, start.detail, start.cut) == (
        2,
        1,
        "broker_start",
        '{"clean": true}',
        (),
    )
    assert (truncation.topic, truncation.partition, truncation.epoch) == ("orders", 0, 4)
    assert (truncation.from_offset, truncation.to_offset, truncation.reason) == (10, 8, "diverging epoch")
    assert truncation.cut == (
        LogRecord(offset=8, epoch=3, value=b"x"),
        LogRecord(offset=9, epoch=3, value=b"y"),
    )
    assert gone.cut == ()


def test_a_torn_last_event_is_left_out_wherever_it_was_torn(tmp_path: Path) -> None:
    first = b'{"t": 1, "event": "broker_start"}\n'
    last = json.dumps({"t": 2, "event": "truncation", "reason": "längst"}, ensure_ascii=False).encode()
    for length in range(len(last)):
        (tmp_path / "events.jsonl").write_bytes(first + last[:length])
        assert [event.event for event in read_events(NodeId(1), tmp_path)] == ["broker_start"]


def test_a_broker_without_a_journal_has_no_events(tmp_path: Path) -> None:
    assert list(read_events(NodeId(1), tmp_path)) == []
