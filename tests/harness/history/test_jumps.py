"""The table `jumps`, compared with a loop over plain rows; in one piece and in several."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_POLL, KIND_SEND, STATUS_FAIL, STATUS_OK, TABLES
from harness.history.sealed.derived_tables import Jumps, jumps_of

Rows = list[dict[str, Any]]

polls = st.tuples(
    st.sampled_from((KIND_POLL, KIND_FINAL_POLL)),
    st.sampled_from((STATUS_OK, STATUS_OK, STATUS_FAIL)),
    st.integers(0, 1),  # process
    st.sampled_from((None, 0, 1)),  # assignment
    st.integers(0, 1),  # partition
    st.lists(st.integers(0, 6), min_size=1, max_size=3),  # offsets
)


def rows_of(history: list[tuple[int, int, int, int | None, int, list[int]]]) -> list[Rows]:
    """By operation; a send lies between any two polls."""
    received = []
    for op, (kind, status, process, assignment, partition_id, offsets) in enumerate(history):
        blank = dict.fromkeys(TABLES["records"].names) | {
            "run": 0,
            "operation": 2 * op,
            "partition_id": partition_id,
            "process": process,
        }
        poll = [
            blank
            | {
                "kind": kind,
                "status": status,
                "assignment": assignment,
                "position": i,
                "offset": offset,
                "value": offset,
                "offset_step": offset - offsets[i - 1] if i else None,
                "last_of_poll": i == len(offsets) - 1,
            }
            for i, offset in enumerate(offsets)
        ]
        send = blank | {
            "kind": KIND_SEND,
            "status": STATUS_OK,
            "operation": 2 * op + 1,
            "position": 0,
            "offset": 3,
            "value": 3,
        }
        received += [poll, [send]]
    return received


def obvious(operations: list[Rows]) -> list[tuple[int, int, int]]:
    ends: dict[tuple[Any, ...], int] = {}
    found = []
    for rows in operations:
        if rows[0]["kind"] == KIND_SEND:
            continue
        reader = rows[0]["process"], rows[0]["assignment"], rows[0]["partition_id"]
        jump = rows[0]["offset"] - ends[reader] if reader in ends else 1
        if jump != 1:
            found.append((rows[0]["partition_id"], rows[0]["offset"], jump))
        if rows[0]["status"] == STATUS_OK:
            ends[reader] = rows[-1]["offset"]
    return sorted(found)


def table(operations: list[Rows]) -> pa.Table:
    return pa.Table.from_pylist([row for rows in operations for row in rows], schema=TABLES["records"])


def jump_rows(jumps: pa.Table) -> list[tuple[int, int, int]]:
    assert jumps.schema.equals(TABLES["jumps"])
    assert all(row["value"] == row["offset"] for row in jumps.to_pylist())
    return sorted((row["partition_id"], row["offset"], row["jump"]) for row in jumps.to_pylist())


@given(st.lists(polls, max_size=12), st.lists(st.integers(0, 24), max_size=3))
def test_jumps_are_the_obvious_ones_in_however_many_pieces_the_records_come(
    history: list[tuple[int, int, int, int | None, int, list[int]]], cuts: list[int]
) -> None:
    operations = rows_of(history)
    pieces = Jumps()
    begin = 0
    for end in [*sorted(min(cut, len(operations)) for cut in cuts), len(operations)]:
        pieces.add(table(operations[begin:end]))
        begin = end

    assert jump_rows(jumps_of(table(operations))) == obvious(operations)
    assert jump_rows(pieces.table()) == obvious(operations)


def test_each_run_has_readers_of_its_own() -> None:
    first, _, second, _ = rows_of([(KIND_POLL, STATUS_OK, 0, 0, 0, [0, 1]), (KIND_POLL, STATUS_OK, 0, 0, 0, [5])])

    assert jump_rows(jumps_of(table([first, second]))) == [(0, 5, 4)]
    assert jump_rows(jumps_of(table([first, [row | {"run": 1} for row in second]]))) == []


def test_a_record_without_a_value_stays_without_one() -> None:
    first, _, second, _ = rows_of([(KIND_POLL, STATUS_OK, 0, 0, 0, [0]), (KIND_POLL, STATUS_OK, 0, 0, 0, [9])])
    unnamed = [row | {"value": None} for row in second]

    assert [row["value"] for row in jumps_of(table([first, unnamed])).to_pylist()] == [None]
