"""Checkpoint files: Kafka's format, replaced as a whole, and clear errors for damaged ones."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference_impl.core.identifiers import TopicPartition
from reference_impl.storage.checkpoints import (
    CorruptCheckpoint,
    read_epochs,
    read_offsets,
    write_atomically,
    write_epochs,
    write_offsets,
)


def test_epochs_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    write_epochs(path, [(0, 0), (3, 120)], sync=True)
    assert path.read_text() == "0\n2\n0 0\n3 120\n"
    assert read_epochs(path) == [(0, 0), (3, 120)]


def test_no_file_is_no_entry(tmp_path: Path) -> None:
    assert read_epochs(tmp_path / "none") == []
    assert read_offsets(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ":1: version and count are missing"),
        ("0\n", ":2: version and count are missing"),
        ("1\n0\n", ":1: version 1 is unknown"),
        ("0\n2\n1 2\n", ":2: 2 entries expected, 1 found"),
        ("0\n1\n1 2 3\n", ":3: 2 fields expected, 3 found"),
        ("0\n1\n1 x\n", ":3: 'x' is not a number"),
        ("0\nmany\n", ":2: 'many' is not a number"),
        ("0\n1\n-1 5\n", ":3: neither epoch nor offset may be negative"),
    ],
)
def test_a_damaged_file_is_named_with_line_and_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text(text)
    with pytest.raises(CorruptCheckpoint) as caught:
        read_epochs(path)
    assert str(caught.value) == f"{path}{reason}"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_nothing_else(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    path.write_bytes(data)
    found = {}
    with suppress(CorruptCheckpoint):
        found = read_offsets(path)
    assert len(found) <= data.count(b"\n"), "an entry is a line"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 99)),
        st.integers(0, 2**63 - 1),
    )
)
def test_offsets_come_back(tmp_path: Path, offsets: dict[TopicPartition, int]) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    write_offsets(path, offsets, sync=False)
    assert read_offsets(path) == offsets


def test_a_replacement_leaves_no_second_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text in ("first", "second"):
        write_atomically(path, text, sync=True)
    assert path.read_text() == "second"
    assert list(tmp_path.iterdir()) == [path]
