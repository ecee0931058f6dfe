"""The aborted transactions beside each segment, in Kafka's files (docs/replication.md R69)."""

import struct
from pathlib import Path

from reference_impl.core.cleaning.cleaning_rules import CleaningRules
from reference_impl.core.cleaning.compaction import CompactionSettings
from reference_impl.core.log_transactions import AbortedTransaction
from reference_impl.core.partition_data import PartitionSettings
from reference_impl.core.replica import LocalReplica
from reference_impl.core.rules import Rules
from reference_impl.storage.log import Log, LogSettings
from reference_impl.wire.control_records import Marker, marker_batch
from reference_impl.wire.key_values import KeyValue, Producer, key_value_batch
from reference_impl.wire.record_batches import parse_headers, stamp
from tests.reference_impl.core.replication_world import Evidence
from tests.reference_impl.storage.logs import ORDERS

SETTINGS = PartitionSettings(
    min_insync_replicas=1,
    replica_lag_time_max_ms=1000,
    unclean_leader_election_enable=False,
    max_message_bytes=1 << 20,
    compaction=CompactionSettings(min_dirty_ratio=0.0),
)
ENTRY = struct.Struct(">hqqqq")  # Kafka's: a version, and the fields of an AbortedTransaction


def read_aborted(path: Path) -> list[AbortedTransaction]:
    return [AbortedTransaction(*fields[1:]) for fields in ENTRY.iter_unpack(path.read_bytes())]


def opened(folder: Path) -> LocalReplica:
    log = Log.open(folder, ORDERS, LogSettings(segment_bytes=500), cleaned_to=0)
    replica = LocalReplica(
        topic_partition=ORDERS,
        broker_id=1,
        log=log,
        settings=SETTINGS,
        rules=Rules(cleaning=CleaningRules()),
        evidence=Evidence(),
        checkpointed_high_watermark=0,
    )
    replica.set_high_watermark(replica.log_end_offset)
    return replica


def append(replica: LocalReplica, batch: bytearray) -> None:
    stamp(batch, 0, replica.log_end_offset, 0)
    replica.append(batch, parse_headers(batch))
    replica.set_high_watermark(replica.log_end_offset)


def write(replica: LocalReplica, count: int) -> None:
    """Transactions of two records each, every other one aborted."""
    for number in range(count):
        records = [KeyValue(b"key-%d" % number, b"v"), KeyValue(b"last", b"v")]
        append(replica, key_value_batch(records, 1000, Producer(7, 0)))
        append(replica, marker_batch(7, 0, Marker(number % 2 == 1, 0), 1000))


def in_files(folder: Path) -> dict[int, list[AbortedTransaction]]:
    return {int(path.stem): read_aborted(path) for path in sorted(folder.glob("*.txnindex"))}


def listed(replica: LocalReplica) -> list[AbortedTransaction]:
    return list(replica.producers.transactions.all_aborted)


def test_each_segment_has_those_whose_markers_are_in_it_also_after_a_cut_and_a_start(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    write(replica, 12)
    files = in_files(tmp_path)
    assert len(files) > 1
    assert [each for some in files.values() for each in some] == listed(replica)
    bases = [segment.base_offset for segment in replica.log.segments]
    for base, some in files.items():
        following = min((each for each in bases if each > base), default=replica.log_end_offset)
        assert all(base <= each.last_offset < following for each in some)
    replica.truncate(20, epoch=0, reason="a test")
    assert [each for some in in_files(tmp_path).values() for each in some] == listed(replica)
    assert listed(replica)[-1].last_offset < 20
    for path in tmp_path.glob("*.txnindex"):
        path.write_bytes(b"")  # never trusted
    again = opened(tmp_path)
    assert [each for some in in_files(tmp_path).values() for each in some] == listed(again) == listed(replica)


def test_a_log_of_committed_transactions_has_no_such_file(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    append(replica, key_value_batch([KeyValue(b"k", b"v")], 1000, Producer(7, 0)))
    append(replica, marker_batch(7, 0, Marker(True, 0), 1000))
    assert in_files(tmp_path) == {}


def test_they_go_with_their_segment_and_with_their_marker_when_it_is_cleaned(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    write(replica, 12)
    log = replica.log
    assert isinstance(log, Log)
    plan = replica.cleaning(wall_clock_ms=2000)
    assert plan is not None
    assert log.replace(log.clean(plan, keys_max=100)())
    markers = {header.last_offset for header in log.headers() if header.is_control}
    assert all(each.last_offset in markers for some in in_files(tmp_path).values() for each in some)
    bases = {segment.base_offset for segment in log.segments}
    assert in_files(tmp_path).keys() <= bases
    log.delete_segments(1)
    assert min(in_files(tmp_path), default=0) >= log.segments[0].base_offset


def test_an_index_that_cannot_be_written_costs_nothing_that_was_appended(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    (tmp_path / f"{0:020d}.txnindex").mkdir()
    append(replica, key_value_batch([KeyValue(b"a", b"v")], 1000, Producer(7, 0)))
    append(replica, marker_batch(7, 0, Marker(False, 0), 1000))
    (aborted,) = replica.producers.transactions.all_aborted
    assert (aborted.producer_id, aborted.last_offset) == (7, replica.log_end_offset - 1)
