"""A sound history of any size, whose transactions could all have happened one after another, and cycles put into it."""

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.harness.checks.cycles.histories import OPS, ORDERS, RECORDS, table_of

PARTITIONS = 8
CONCURRENCY = 10
READ_BACK = 3  # records that a transaction reads, the last ones that were there


@dataclass(frozen=True, kw_only=True)
class Planted:
    records: pa.Table
    operations: pa.Table
    orders: pa.Table
    pairs: list[set[int]]  # the two transactions of each planted cycle, by operation


def planted(*, transactions: int, cycles: int, seed: int = 1) -> Planted:
    """Each transaction happens at one moment between its ends: it reads what is there, then its record is there."""
    chance = random.Random(seed)
    begins: list[float] = [number + chance.random() for number in range(transactions)]
    ends = [begin + chance.random() * CONCURRENCY for begin in begins]
    moments = [
        (events, number)
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True))
        for events in (begin, end)
    ]
    index_of = {(at, number): index for index, (at, number) in enumerate(sorted(moments))}
    name = [index_of[ends[number], number] for number in range(transactions)]
    happened = sorted(
        range(transactions), key=lambda number: begins[number] + (ends[number] - begins[number]) * chance.random()
    )
    logs: list[list[int]] = [[] for _ in range(PARTITIONS)]
    writes: list[tuple[int, int]] = [(0, 0)] * transactions
    reads: list[list[tuple[int, int]]] = [[] for _ in range(transactions)]
    for number in happened:
        source, target = chance.randrange(PARTITIONS), chance.randrange(PARTITIONS)
        reads[number] = [(source, value) for value in logs[source][-READ_BACK:]]
        writes[number] = (target, number)
        logs[target].append(number)
    pairs = []
    for place in range(cycles):
        first = (place * transactions) // cycles + 7
        second = first + 1
        reads[first].append(writes[second])
        reads[second].append(writes[first])
        pairs.append({name[first], name[second]})
    records: list[tuple[Any, ...]] = []
    for number in range(transactions):
        records.append((0, 0, name[number], writes[number][0], 0, 0, None, writes[number][1]))
        records += [
            (0, 1, name[number], partition_id, 1, place, None, value)
            for place, (partition_id, value) in enumerate(reads[number], start=1)
        ]
    ops = [
        (0, name[number], 0, "txn", 0, None, None, index_of[begins[number], number], name[number])
        for number in range(transactions)
    ]
    orders = [
        (0, partition_id, index, value) for partition_id, log in enumerate(logs) for index, value in enumerate(log)
    ]
    return Planted(
        records=table_of(RECORDS, records),
        operations=table_of(OPS, ops),
        orders=table_of(ORDERS, orders),
        pairs=pairs,
    )
