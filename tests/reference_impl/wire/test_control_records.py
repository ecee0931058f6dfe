"""Transaction markers, as Kafka's clients read them and as they come back from a log."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from reference_impl.wire.control_records import Marker, marker_batch, read_marker
from reference_impl.wire.key_values import KeyValue, Producer, key_value_batch
from reference_impl.wire.record_batches import crc_holds, parse_headers

INT32, INT16 = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**15 - 1)


@given(st.integers(0, 2**63 - 1), INT16, st.booleans(), INT32, st.integers(0, 2**40))
def test_a_marker_comes_back_as_it_was_written(
    producer_id: int, producer_epoch: int, commit: bool, coordinator_epoch: int, time_ms: int
) -> None:
    marker = Marker(commit, coordinator_epoch)
    batch = marker_batch(producer_id, producer_epoch, marker, time_ms)
    (header,) = parse_headers(batch)
    assert read_marker(batch) == marker
    assert header.is_control
    assert header.is_transactional
    assert crc_holds(batch, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer_id, producer_epoch, -1)


def test_kafka_python_reads_the_marker_as_a_control_record() -> None:
    for commit in (True, False):
        one = MemoryRecords(bytes(marker_batch(7, 1, Marker(commit, 3), 1000))).next_batch()
        assert one.is_control_batch
        (record,) = one
        assert record.abort is not commit
        assert record.commit is commit


@given(st.binary(max_size=12), st.binary(max_size=12) | st.none())
def test_another_control_record_is_no_marker_and_ends_nothing(key: bytes, value: bytes | None) -> None:
    batch = key_value_batch([KeyValue(key, value)], 1000, Producer(7, 0, is_control=True))
    read = read_marker(batch)
    known = len(key) >= 4 and key[2:4] in (b"\x00\x00", b"\x00\x01") and value is not None and len(value) >= 6
    assert (read is not None) == known


def test_data_is_no_marker() -> None:
    assert read_marker(key_value_batch([KeyValue(b"\0\0\0\1", b"\0\0\0\0\0\0")], 1000, Producer(7, 0))) is None
