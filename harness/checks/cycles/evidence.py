"""What proves each step of the chosen cycles: a value, and the micro-ops that sent and read it.

Two operations are often joined by many values. Jepsen shows the first: keys as the target met them, values in order;
an operation of more than eight keys meets them in the order of a hash map, if keys are numbers.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from harness.checks.cycles.graph import Graph, MicroOperations
from harness.checks.cycles.model import REALTIME, RW, WR, WW, Component, Cycle, Step
from harness.history.jepsen.clojure_order import set_order

_ARRAY_MAP_KEYS = 8
KeyOf = Callable[[int, int], object]

_Pair: TypeAlias = tuple[int, int, int, int]  # run, source, target, relation
_Value: TypeAlias = tuple[int, int, int]  # run, partition_id, value
_At: TypeAlias = tuple[int, int]  # micro-operation, and the place in the operation


class _Proof(NamedTuple):
    """Of the proofs in one partition the least is shown."""

    target_at: _At
    value: int
    next_value: int | None
    source_at: _At


def with_evidence(
    graph: Graph, components: Mapping[int, Sequence[Component]], key_of: KeyOf | None
) -> dict[int, list[Component]]:
    pairs = {
        (run, step.source, step.target, step.relation)
        for run, found in components.items()
        for component in found
        for cycle in component.cycles
        for step in cycle.steps
        if step.relation != REALTIME
    }
    proofs = _proofs(graph, sorted(pairs), key_of) if pairs else {}

    def proven(run: int, step: Step) -> Step:
        known = proofs.get((run, step.source, step.target, step.relation))
        if known is None:
            return step
        partition_id, proof = known
        return replace(
            step,
            partition_id=partition_id,
            value=proof.value,
            next_value=proof.next_value,
            source_mop=proof.source_at[0],
            target_mop=proof.target_at[0],
        )

    def proven_cycle(run: int, cycle: Cycle) -> Cycle:
        return replace(cycle, steps=[proven(run, step) for step in cycle.steps])

    return {
        run: [
            replace(component, cycles=[proven_cycle(run, cycle) for cycle in component.cycles]) for component in found
        ]
        for run, found in components.items()
    }


def _proofs(graph: Graph, pairs: Sequence[_Pair], key_of: KeyOf | None) -> dict[_Pair, tuple[int, _Proof]]:
    seen = _Seen.of(
        graph.micro_operations({(run, name) for run, source, target, _ in pairs for name in (source, target)})
    )
    chosen = {}
    for pair in pairs:
        by_partition: dict[int, list[_Proof]] = defaultdict(list)
        for partition_id, proof in seen.between(pair):
            by_partition[partition_id].append(proof)
        if by_partition:
            first = min(by_partition, key=lambda partition_id: seen.order(pair, partition_id, key_of))
            chosen[pair] = first, min(by_partition[first])
    return chosen


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """By operation (run, name). met: where an operation met each partition first, reading and writing."""

    reads: Mapping[tuple[int, int], Mapping[_Value, _At]]
    writers: Mapping[tuple[int, int], Mapping[_Value, _At]]
    first_of_partition: Mapping[tuple[int, int, int], Mapping[int, _At]]
    index: Mapping[_Value, int]
    previous: Mapping[_Value, int]

    @classmethod
    def of(cls, found: MicroOperations) -> "_Seen":
        first_of_partition: dict[tuple[int, int, int], dict[int, _At]] = defaultdict(dict)
        for relation, table in ((WR, found.reads), (WW, found.writes)):
            for (run, partition_id, _), name, at in _rows(table):
                keys = first_of_partition[run, name, relation]
                keys[partition_id] = min(at, keys.get(partition_id, at))
        orders = found.ordered.select(["run", "partition_id", "value", "index", "previous"]).to_pylist()
        values = [((row["run"], row["partition_id"], row["value"]), row) for row in orders]
        return cls(
            reads=_firsts(found.reads),
            writers=_firsts(found.writers),
            first_of_partition=first_of_partition,
            index={value: row["index"] for value, row in values},
            previous={value: row["previous"] for value, row in values if row["previous"] is not None},
        )

    def between(self, pair: _Pair) -> Iterator[tuple[int, _Proof]]:
        """All that joins the two, with its partition."""
        run, source, target, relation = pair
        into, out = (run, target), (run, source)
        if relation == WR:
            sent, read = self.writers.get(out, {}), self.reads.get(into, {})
            for value in sent.keys() & read.keys():
                yield value[1], _Proof(read[value], value[2], None, sent[value])
            return
        earlier = self.writers.get(out, {}) if relation == WW else self._last_read(out)
        for following, target_at in self.writers.get(into, {}).items():
            _, partition_id, next_value = following
            previous = self.previous.get(following)
            if previous is not None and (source_at := earlier.get((run, partition_id, previous))) is not None:
                yield partition_id, _Proof(target_at, previous, next_value, source_at)

    def _last_read(self, operation: tuple[int, int]) -> dict[_Value, _At]:
        last: dict[int, tuple[int, _Value]] = {}
        for value in self.reads.get(operation, {}):
            if (index := self.index.get(value)) is not None:
                last[value[1]] = max(last.get(value[1], (index, value)), (index, value))
        return {value: self.reads[operation][value] for _, value in last.values()}

    def order(self, pair: _Pair, partition_id: int, key_of: KeyOf | None) -> tuple[Any, ...]:
        run, _, target, relation = pair
        first_of_partition = (
            self.first_of_partition.get((run, target, WR if relation == WR else WW), {}) if relation != RW else {}
        )
        key = key_of(run, partition_id) if key_of is not None else None
        if len(first_of_partition) > _ARRAY_MAP_KEYS and isinstance(key, int):
            return (set_order(key), partition_id)
        return (*first_of_partition.get(partition_id, (0, 0)), partition_id)


def _rows(table: pa.Table) -> Iterator[tuple[_Value, int, _At]]:
    names = ("run", "partition_id", "value", "name", "micro_operation", "position")
    for run, partition_id, value, name, micro_operation, position in zip(
        *(table[column].to_pylist() for column in names), strict=True
    ):
        yield (run, partition_id, value), name, (micro_operation, position)


def _firsts(table: pa.Table) -> dict[tuple[int, int], dict[_Value, _At]]:
    """Where each operation first wrote or read each value."""
    found: dict[tuple[int, int], dict[_Value, _At]] = defaultdict(dict)
    for value, name, at in _rows(table):
        mine = found[value[0], name]
        mine[value] = min(at, mine.get(value, at))
    return found
