"""Logs have the same digest if and (with a probability of error of 2^-64) only if they agree below their high
watermarks."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from harness.history.facts.log_digest import with_digests
from harness.history.schema.cluster_rows import SnapshotRow
from harness.history.schema.schemas import TABLES
from tests.rows import row_of

Log = list[tuple[int, int | None, int | None]]

logs = st.dictionaries(
    st.integers(0, 5), st.tuples(st.sampled_from((0, 1, None)), st.sampled_from((0, 7, -1, 2**62, None))), max_size=5
).map(lambda drawn: [(offset, *rest) for offset, rest in drawn.items()])
watermarks = st.integers(0, 6)


def digests(*logs: tuple[Log, int | None]) -> list[Any]:
    """Of as many replicas of one partition, each a node with its own snapshot; another partition lies between them."""
    snapshots, rows = [], []
    for node, (log, watermark) in enumerate(logs):
        place = {"run": 0, "snapshot": 10 + node, "node": node, "topic": "t"}
        versions_of = {**place, "partition": 0, "high_watermark": watermark, "log_start_offset": 0}
        snapshots.append(row_of(SnapshotRow, **versions_of))
        rows += [
            {**place, "partition": 0, "partition_id": 0, "offset": o, "leader_epoch": e, "value": v} for o, e, v in log
        ]
        rows += [
            {**place, "partition": 1, "partition_id": 1, "offset": o, "leader_epoch": 9, "value": node}
            for o in range(node)
        ]
    table = pa.Table.from_pylist(rows, schema=TABLES["replica_log"])
    described = with_digests(snapshots, table)
    pa.Table.from_pylist(described, schema=TABLES["replica_snapshots"])
    return [row["digest"] for row in described]


@given(logs, logs, watermarks, watermarks)
def test_digests_tell_whether_two_logs_hold_the_same_below_their_high_watermarks(
    one: Log, other: Log, first: int, second: int
) -> None:
    same = {row for row in one if row[0] < first} == {row for row in other if row[0] < second}

    mine, theirs = digests((one, first), (other, second))

    assert (mine == theirs) == same


@given(logs, watermarks, st.randoms(use_true_random=False))
def test_neither_the_order_of_reading_nor_what_lies_above_the_high_watermark_matters(
    log: Log, watermark: int, chance: Any
) -> None:
    kept = [row for row in log if row[0] < watermark]
    shuffled = [*kept, (watermark, 3, 3), (watermark + 1, 3, 3)]
    chance.shuffle(shuffled)

    mine, theirs = digests((shuffled, watermark), (kept, watermark))

    assert mine == theirs


def test_where_the_high_watermark_is_not_known_there_is_no_digest() -> None:
    assert digests(([(0, 0, 0)], None), ([], 5)) == [None, 0]


@given(logs, watermarks, st.integers(0, 6))
def test_a_log_with_an_offset_twice_has_no_digest_that_could_hide_it(log: Log, watermark: int, offset: int) -> None:
    (digest,) = digests(([*log, (offset, 1, 8), (offset, 0, 7)], watermark))

    assert (digest is None) == (offset < watermark)
