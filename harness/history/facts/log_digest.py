"""A digest of a replica's log below its high watermark: logs with the same records have the same digest.

Most replicas agree in the end, and then their records need not be compared. A different log has the same digest with a
probability of 2^-64: each record is mixed to 64 random bits (the finalizer of Steele, Lea and Flood's SplitMix, OOPSLA
2014) and these are summed, so the order in which a log is read does not matter.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.schema.cluster_rows import SnapshotRow
from harness.history.schema.schemas import TABLES

_ABSENT = -(2**62)
_PLACE = ("snapshot", "node", "partition")
_RECORD = ["offset", "leader_epoch", "value"]


def with_digests(snapshots: Sequence[SnapshotRow], log: pa.Table) -> list[SnapshotRow]:
    """The rows of the table replica_snapshots, each with the `digest` of its rows of replica_log.

    None if the high watermark is unknown, because then the committed part is unknown, and if the log has an offset
    twice, which is wrong whatever other logs contain.
    """
    logs = _by_place(log)
    with_digest: list[SnapshotRow] = []
    for row in snapshots:
        place = (row["topic"], row["snapshot"], row["node"], row["partition"])
        watermark = row["high_watermark"]
        with_digest.append({**row, "digest": None if watermark is None else _digest(logs.get(place, []), watermark)})
    return with_digest


def _by_place(log: pa.Table) -> dict[tuple[Any, ...], list[pa.Table]]:
    """The runs of rows that belong to one replica's log at one moment."""
    if not len(log):
        return {}
    topics = log.column("topic").combine_chunks().dictionary_encode()
    columns = [np.asarray(topics.indices), *(log.column(name).to_numpy() for name in _PLACE)]
    changes = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    heads = np.append(0, np.flatnonzero(changes) + 1)
    ends = np.append(heads[1:], len(log))
    found: dict[tuple[Any, ...], list[pa.Table]] = {}
    for head, end in zip(heads.tolist(), ends.tolist(), strict=True):
        topic, *numbers = (column[head] for column in columns)
        place = (topics.dictionary[int(topic)].as_py(), *map(int, numbers))
        found.setdefault(place, []).append(log.slice(head, end - head))
    return found


def _digest(parts: Sequence[pa.Table], watermark: int) -> int | None:
    log = pa.concat_tables(
        [TABLES["replica_log"].empty_table().select(_RECORD), *(part.select(_RECORD) for part in parts)]
    )
    columns = [_integers(log, name) for name in _RECORD]
    below = columns[0] < watermark
    offsets = columns[0][below]
    if len(np.unique(offsets)) < len(offsets):
        return None
    return int(_of_rows([column[below] for column in columns]).sum(dtype=np.int64))


def numbers_of(records: pa.Table, columns: Sequence[str]) -> pa.Array:
    """A number for each row; the sum of some is the digest of these, in whatever order."""
    return pa.array(_of_rows([_integers(records, name) for name in columns]))


def _of_rows(columns: Sequence[Any]) -> Any:
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = _mixed(mixed ^ column.view(np.uint64))
    return mixed.view(np.int64)


def _integers(partition: pa.Table, name: str) -> Any:
    return partition.column(name).cast(pa.int64()).fill_null(_ABSENT).combine_chunks().to_numpy()


def _mixed(bits: Any) -> Any:
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
