"""The table `activity`, compared with a loop over plain rows; in one piece and in several."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_SEND, STATUS_OK, TABLES
from harness.history.sealed.derived_tables import SLOW_NS, Activity, activity_of

Rows = list[dict[str, Any]]

records = st.fixed_dictionaries(
    {
        "kind": st.integers(0, 2),
        "status": st.integers(0, 2),
        "acks": st.sampled_from((None, 0, 1, -1)),
        "offset": st.sampled_from((None, 4)),
        "invoked_ns": st.integers(0, 9),
        "completed_ns": st.sampled_from((10, SLOW_NS, 2 * SLOW_NS)),
        "transaction": st.sampled_from((None, None, 3)),
        "replica": st.sampled_from((None, 2)),
        "log_append": st.sampled_from((None, False, False, True)),
    }
)


def obvious(rows: Rows) -> dict[str, Any]:
    sends = [row for row in rows if row["kind"] == KIND_SEND]
    final = [row for row in rows if row["kind"] == KIND_FINAL_POLL]
    halting = [
        row
        for row in sends
        if row["acks"] != 0
        and not (
            (row["status"] == STATUS_OK or (row["transaction"] is not None and row["offset"] is not None))
            and row["completed_ns"] - row["invoked_ns"] <= SLOW_NS
        )
    ]
    return {
        "run": 0,
        "sends": len(sends),
        "reads": len(rows) - len(sends) - len(final),
        "final_reads": sum(row["replica"] is None for row in final),
        "last_ns": max(row["completed_ns"] for row in rows),
        "replica_reads_began_ns": min((row["invoked_ns"] for row in final if row["replica"] is not None), default=None),
        "transactional": any(row["transaction"] is not None for row in rows),
        "halting": bool(halting),
        "log_append": any(row["log_append"] for row in rows),
    }


def table(rows: Rows, run: int = 0) -> pa.Table:
    blank = dict.fromkeys(TABLES["records"].names) | {"run": run}
    return pa.Table.from_pylist([blank | row for row in rows], schema=TABLES["records"])


@settings(deadline=None)
@given(st.lists(records, max_size=8), st.integers(0, 8))
def test_counts_and_marks_are_the_obvious_ones(rows: Rows, cut: int) -> None:
    pieces = Activity()
    for piece in (rows[:cut], rows[cut:]):
        pieces.add(table(piece))

    assert pieces.table().to_pylist() == ([obvious(rows)] if rows else [])
    assert activity_of(table(rows)).to_pylist() == pieces.table().to_pylist()


@settings(deadline=None)
@given(st.lists(records, min_size=1, max_size=5), st.lists(records, min_size=1, max_size=5))
def test_each_run_has_a_row_of_its_own(one: Rows, other: Rows) -> None:
    reported = activity_of(pa.concat_tables([table(one, 0), table(other, 3)])).to_pylist()

    assert reported == [obvious(one), obvious(other) | {"run": 3}]
