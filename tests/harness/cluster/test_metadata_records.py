"""One record of KRaft's metadata log: every needed kind, and what is newer, torn or not needed."""

import dataclasses
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    SnapshotHeader,
    TopicCreated,
    TopicRemoved,
    TransactionMark,
    decode,
    decode_control,
)
from harness.cluster.books.record_fields import UndecodableError, unsigned_varint
from tests.harness.cluster import metadata_writer as writer


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_a_varint_comes_back_whatever_stands_before_and_behind_it(value: int, before: bytes, behind: bytes) -> None:
    encoded = writer.unsigned(value)
    assert unsigned_varint(before + encoded + behind, len(before)) == (value, len(before) + len(encoded))


@given(st.integers(0, 2**32 - 1))
def test_half_a_varint_is_refused(value: int) -> None:
    with pytest.raises(UndecodableError):
        unsigned_varint(writer.unsigned(value)[:-1], 0)


def test_a_varint_without_end_is_refused() -> None:
    with pytest.raises(UndecodableError):
        unsigned_varint(b"\xff" * 9, 0)


def test_a_partition_is_read_in_each_version_of_its_record() -> None:
    fields = struct.pack(">i", 3) + writer.uuid_of("t") + writer.ids((2, 1)) + writer.ids((1,)) + writer.ids(()) * 2
    fields += struct.pack(">iii", 1, 5, 9)
    plain = PartitionWritten(
        topic_id=writer.uuid_text("t"),
        partition=3,
        leader=1,
        leader_epoch=5,
        partition_epoch=9,
        isr=(1,),
        replicas=(2, 1),
        recovering=False,
        elr=(),
        last_known_elr=(),
    )
    assert decode(writer.record(3, 0, fields)) == plain
    assert decode(writer.record(3, 1, fields + writer.uuids(("a", "b")))) == plain
    reported = decode(
        writer.record(3, 2, fields + writer.uuids(("a", "b")), {0: b"\x01", 1: writer.ids((2,)), 2: writer.ids((1, 2))})
    )
    assert isinstance(reported, PartitionWritten)
    assert (reported.recovering, reported.elr, reported.last_known_elr) == (True, (2,), (1, 2))


def test_a_change_reports_only_what_changed() -> None:
    nothing = PartitionChanged(
        topic_id=writer.uuid_text("t"),
        partition=0,
        leader=None,
        isr=None,
        replicas=None,
        recovering=None,
        elr=None,
        last_known_elr=None,
    )
    assert decode(writer.change("t")) == nothing
    reported = decode(writer.change("t", isr=(), leader=-1, recovery=1, elr=(1, 2), last_known_elr=(1,)))
    assert isinstance(reported, PartitionChanged)
    assert (reported.isr, reported.leader, reported.recovering, reported.elr, reported.last_known_elr) == (
        (),
        -1,
        True,
        (1, 2),
        (1,),
    )
    assert reported.replicas is None
    recovered = decode(writer.change("t", recovery=0))
    assert isinstance(recovered, PartitionChanged)
    assert recovered.recovering is False


def test_a_registration_is_read_past_its_listeners_and_features_in_each_version() -> None:
    reported = decode(writer.registration(4, "one", "two", fenced=False))
    assert reported == BrokerRegistered(
        broker=4,
        broker_epoch=7,
        incarnation=writer.uuid_text("incarnation"),
        fenced=False,
        log_directories=(writer.uuid_text("one"), writer.uuid_text("two")),
    )
    oldest = struct.pack(">i", 4) + writer.uuid_of("i") + struct.pack(">q", 7) + writer.unsigned(1) * 2
    old = decode(writer.record(0, 0, oldest + writer.text("rack") + b"\x01"))
    assert isinstance(old, BrokerRegistered)
    assert (old.broker, old.fenced, old.log_directories) == (4, True, ())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (writer.unregistration(3), BrokerUnregistered(broker=3, broker_epoch=7)),
        (writer.topic("ü"), TopicCreated(name="ü", topic_id=writer.uuid_text("ü"))),
        (writer.record(9, 0, writer.uuid_of("t")), TopicRemoved(topic_id=writer.uuid_text("t"))),
        (writer.config(2, "t", "k", None), ConfigWritten(resource_type=2, resource="t", key="k", value=None)),
        (writer.config(4, "", "k", ""), ConfigWritten(resource_type=4, resource="", key="k", value="")),
        (writer.feature("metadata.version", 30), FeatureWritten(name="metadata.version", level=30)),
        (writer.record(28, 0, writer.text("")), ElrCleared(topic="")),
        (writer.record(23, 0, b"", {0: writer.text("why")}), TransactionMark(mark="begin")),
        (writer.END, TransactionMark(mark="end")),
        (writer.ABORT, TransactionMark(mark="abort")),
    ],
)
def test_the_other_needed_records(value: bytes, expected: object) -> None:
    assert decode(value) == expected


@pytest.mark.parametrize(
    ("value", "fenced", "shutting_down"),
    [
        (writer.registration_change(2, {0: b"\x01"}), True, False),
        (writer.registration_change(2, {0: b"\xff"}), False, False),
        (writer.registration_change(2, {1: b"\x01"}), None, True),
        (writer.registration_change(2, {2: writer.uuids(("d",)), 3: writer.uuids(())}), None, False),
        (writer.record(7, 0, struct.pack(">iq", 2, 7)), True, False),
        (writer.record(8, 0, struct.pack(">iq", 2, 7)), False, False),
    ],
)
def test_fencing_is_reported_by_a_change_or_by_the_records_of_older_versions(
    value: bytes, fenced: bool | None, shutting_down: bool
) -> None:
    expected = BrokerChanged(broker=2, broker_epoch=7, fenced=fenced, in_controlled_shutdown=shutting_down)
    assert decode(value) == expected


def test_control_records_tell_the_quorum_leader_and_the_age_of_a_snapshot() -> None:
    assert decode_control(writer.LEADER_CHANGE, writer.leader_change(101)) == QuorumLeader(node=101)
    assert decode_control(writer.SNAPSHOT_HEADER, writer.snapshot_header(77)) == SnapshotHeader(last_wall_ms=77)
    assert decode_control(writer.SNAPSHOT_FOOTER, b"\0\0\0") is None


@given(st.integers(29, 10_000), st.binary(max_size=20))
def test_an_unknown_type_is_stepped_over_whatever_it_holds(kind: int, content: bytes) -> None:
    assert decode(writer.record(kind, 0, content)) is None


def test_a_needed_record_with_more_fields_than_are_known_is_refused_by_its_type_and_version() -> None:
    with pytest.raises(UndecodableError, match="record type 2 version 1 has more fields"):
        decode(writer.record(2, 1, writer.text("t") + writer.uuid_of("t") + b"\0more"))


def test_a_new_tagged_field_is_stepped_over() -> None:
    reported = decode(writer.record(2, 0, writer.text("t") + writer.uuid_of("t"), {9: b"new"}))
    assert reported == TopicCreated(name="t", topic_id=writer.uuid_text("t"))


def test_another_frame_version_is_refused() -> None:
    with pytest.raises(UndecodableError, match="frame version 2"):
        decode(b"\x02\x02\x00")


@given(st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 17, 28]), st.integers(0, 5), st.binary(max_size=80))
def test_bytes_that_are_no_record_raise_nothing_but_the_one_error(kind: int, version: int, content: bytes) -> None:
    reported: object = None
    with suppress(UndecodableError):
        reported = decode(writer.unsigned(1) + writer.unsigned(kind) + writer.unsigned(version) + content)
    assert reported is None or dataclasses.is_dataclass(reported)
