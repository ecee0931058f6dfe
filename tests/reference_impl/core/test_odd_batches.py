"""The leader's answer to every invalid or unusual batch equals the table in docs/batches.md, and it appends only those
that it accepts. Kafka's answers are tested in tests/interop/test_odd_batches.py."""

from dataclasses import replace
from pathlib import Path

import pytest

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.timestamps import TimestampSettings
from reference_impl.wire.record_batches import parse_headers, validate
from tests.reference_impl.core.replication_world import World
from tests.reference_impl.odd_batches import CASES, NOW_MS, THREE, Case, batch, table

DOCUMENT = Path(__file__).parents[3] / "docs" / "batches.md"


def leader_with(*, validate_records: bool) -> World:
    world = World()
    settings = replace(
        world.settings, validate_records=validate_records, timestamps=TimestampSettings(after_max_ms=3_600_000)
    )
    for partition in world.partitions.values():
        partition.update_settings(settings)
    return world


def answer(world: World, data: bytes) -> ErrorCode:
    return world.leader.append(bytearray(data), acks=1, now_ms=world.now_ms, wall_clock_ms=NOW_MS).error


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
@pytest.mark.parametrize("validate_records", [False, True], ids=["by its header", "with a look inside"])
def test_a_leader_says_what_the_table_says(case: Case, validate_records: bool) -> None:
    world = leader_with(validate_records=validate_records)
    expected = case.looked_at if validate_records else case.header

    assert answer(world, case.data) is expected
    assert (world.logs[1].log_end_offset > 0) is (expected is ErrorCode.NONE)


def test_the_table_is_what_the_document_says() -> None:
    assert table() in DOCUMENT.read_text(encoding="utf-8")


def test_who_looks_inside_writes_the_true_largest_timestamp_as_kafka_does() -> None:
    world = leader_with(validate_records=True)
    assert answer(world, batch(THREE, max_time=5)) is ErrorCode.NONE
    appended = world.logs[1].all_batches()
    validate(appended)
    assert parse_headers(appended)[0].max_timestamp == NOW_MS
