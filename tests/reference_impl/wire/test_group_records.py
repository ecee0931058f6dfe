"""Records of __consumer_offsets: what is written is read again, by us and by the harness's own decoder, which was
written from Kafka's files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.books import coordinator_records as from_kafkas_files
from harness.cluster.record_batches import stored_records
from reference_impl.core.coordinator_log import loaded_batches
from reference_impl.core.placement import coordinating_partition
from reference_impl.wire.compression import UnreadableRecords
from reference_impl.wire.group_records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    decode,
    group_record,
    offset_record,
)
from reference_impl.wire.key_values import KeyValue, StoredKeyValue, key_value_batch
from reference_impl.wire.record_batches import validate
from reference_impl.wire.record_fields import UnreadableRecord

_text = st.text(st.characters(codec="utf-8"), max_size=30)
_int32, _int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_offset_keys = st.builds(OffsetKey, group_id=_text, topic=_text, partition=_int32)
_offsets = st.builds(
    CommittedOffset, offset=_int64, leader_epoch=_int32, metadata=_text, committed_ms=_int64, expires_ms=st.just(-1)
) | st.builds(CommittedOffset, offset=_int64, metadata=_text, committed_ms=_int64, expires_ms=st.integers(0, 2**63 - 1))
_members = st.builds(
    StoredMember,
    member_id=_text,
    instance_id=st.none() | _text,
    client_id=_text,
    client_host=_text,
    rebalance_timeout_ms=_int32,
    session_timeout_ms=_int32,
    subscription=st.binary(max_size=50),
    assignment=st.binary(max_size=50),
)
_groups = st.builds(
    StoredGroup,
    protocol_type=_text,
    generation=_int32,
    protocol=st.none() | _text,
    leader=st.none() | _text,
    state_since_ms=_int64,
    members=st.lists(_members, max_size=4).map(tuple),
)
_key_values = st.builds(KeyValue, st.binary(max_size=300), st.none() | st.binary(max_size=300))


@given(_offset_keys, st.none() | _offsets)
def test_an_offset_is_read_as_it_was_written(key: OffsetKey, value: CommittedOffset | None) -> None:
    written = offset_record(key, value)
    assert decode(*written) == (key, value)
    outside = from_kafkas_files.decode(*written)
    where = outside.group, outside.topic, outside.topic_partition
    assert (outside.kind, *where) == ("offset", key.group_id, key.topic, key.partition)
    assert outside.removed == (value is None)
    if value is not None:
        assert outside.committed_offset == value.offset


@given(st.builds(GroupKey, group_id=_text), st.none() | _groups)
def test_a_group_is_read_as_it_was_written(key: GroupKey, value: StoredGroup | None) -> None:
    written = group_record(key, value)
    assert decode(*written) == (key, value)
    outside = from_kafkas_files.decode(*written)
    assert (outside.kind, outside.group, outside.removed) == ("group", key.group_id, value is None)
    if value is not None:
        assert outside.generation == value.generation
        assert list(outside.members or ()) == [member.member_id for member in value.members]


@given(st.binary(max_size=100), st.none() | st.binary(max_size=100))
def test_bytes_that_are_no_record_are_refused_and_nothing_else_is_raised(key: bytes, value: bytes | None) -> None:
    try:
        decode(key, value)
    except UnreadableRecord:
        return
    assert key[:2] in (b"\x00\x00", b"\x00\x01", b"\x00\x02")


@given(st.lists(_key_values, min_size=1, max_size=20), st.integers(0, 2**45))
def test_a_batch_of_keys_and_values_is_sound_and_read_again(records: list[KeyValue], time_ms: int) -> None:
    batch = key_value_batch(records, time_ms)
    validate(batch)
    expected = [StoredKeyValue(number, *record) for number, record in enumerate(records)]
    assert [each for one in loaded_batches(bytes(batch) * 2) for each in one.records] == expected * 2
    outside = [
        (record.offset, record.key, record.value, record.timestamp_ms) for record in stored_records(bytes(batch))
    ]
    assert outside == [(*record, time_ms) for record in expected]


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_damaged_batch_is_refused_or_read_and_nothing_else_is_raised(place: int, bits: int) -> None:
    batch = key_value_batch([KeyValue(b"key", b"value"), KeyValue(b"other", None)], 5)
    batch[place % len(batch)] ^= bits
    try:
        found = [each for one in loaded_batches(bytes(batch)) for each in one.records]
    except UnreadableRecords:
        return
    assert len(found) <= len(batch)


@pytest.mark.parametrize(
    ("group", "count", "partition"),
    [
        ("readers", 3, 1),
        ("readers", 50, 28),
        ("", 50, 0),
        ("polygenelubricants", 50, 0),
        ("G\N{GRINNING FACE}", 50, 30),
    ],
)
def test_a_group_has_the_partition_that_java_gives_it(group: str, count: int, partition: int) -> None:
    """The fourth hashes to the one number that has no absolute value in 32 bits."""
    assert coordinating_partition(group, count) == partition
