"""The search of intervals, one at a time in memory: components of edges and real time, then what to say of each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from harness.checks.cycles.champ import components_in_order
from harness.checks.cycles.elle import cycles_of, statements_of
from harness.checks.cycles.model import REALTIME, Component, Cycle, Limits, Mode, NotSearched
from harness.checks.cycles.realtime import Operation, begins_of, moments, reduced
from harness.checks.cycles.shortest import shortest_cycles
from harness.checks.cycles.strong import strong_components


@dataclass(frozen=True, kw_only=True)
class Answer:
    components: Sequence[Component]
    not_searched: Sequence[NotSearched] = ()


_INTERVAL = ["run", "interval"]
_OPERATION = ("name", "begin", "end", "ok")
_EDGE = ("source", "target", "relation")
_Columns: TypeAlias = Callable[[], Sequence[Sequence[Any]]]


def sizes_of(operations: pa.Table) -> pa.Table:
    """run, interval, operations, first, last. Of each operation its run, interval and place."""
    sizes = operations.group_by(_INTERVAL, use_threads=False).aggregate(
        [("place", "count"), ("place", "min"), ("place", "max")]
    )
    return sizes.rename_columns([*_INTERVAL, "operations", "first", "last"])


def too_long(sizes: pa.Table, limits: Limits) -> list[NotSearched]:
    """sizes: as sizes_of gives them."""
    long = sizes.filter(pc.field("operations") > limits.interval_operations)
    return [
        NotSearched(
            **row,
            reason=f"{row['operations']} operations lie between edges that run backward and were not searched for "
            f"cycles: more than {limits.interval_operations}",
        )
        for row in long.sort_by([("run", "ascending"), ("first", "ascending")]).to_pylist()
    ]


def search_intervals(operations: pa.Table, edges: pa.Table, mode: Mode, limits: Limits) -> Iterator[Answer]:
    """operations: run, interval, name, begin, end, ok; edges: run, source, target, relation. One interval at a time
    becomes Python objects; until then both tables stay in Arrow."""
    where = operations.select(["run", "name", "interval"])
    inside = edges.join(where.rename_columns(["run", "source", "interval"]), ["run", "source"], join_type="inner")
    inside = inside.join(
        where.rename_columns(["run", "target", "interval"]), ["run", "target", "interval"], join_type="left semi"
    ).sort_by([(name, "ascending") for name in (*_INTERVAL, *_EDGE)])
    found = _grouped(inside, _EDGE)
    members = _grouped(operations, _OPERATION) if found else {}
    for key, within in found.items():
        yield search_interval(key[0], _operations(*members[key]()), zip(*within(), strict=True), mode, limits)


def _grouped(table: pa.Table, columns: Sequence[str]) -> Mapping[tuple[int, int], _Columns]:
    lists = table.group_by(_INTERVAL, use_threads=False).aggregate([(name, "list") for name in columns])
    keys = zip(lists["run"].to_pylist(), lists["interval"].to_pylist(), strict=True)

    def at(place: int) -> _Columns:
        return lambda: [lists[f"{name}_list"][place].as_py() for name in columns]

    return {key: at(place) for place, key in enumerate(keys)}


def _operations(
    names: Iterable[int], begins: Iterable[int], ends: Iterable[int], oks: Iterable[bool]
) -> list[Operation]:
    found = [
        Operation(name, begin, end if ok else None)
        for name, begin, end, ok in zip(names, begins, ends, oks, strict=True)
    ]
    return sorted(found, key=lambda operation: (operation.begin, operation.name))


def search_interval(
    run: int, operations: Sequence[Operation], edges: Iterable[tuple[int, int, int]], mode: Mode, limits: Limits
) -> Answer:
    """`edges`: (source, target, relation) by names of operations; those that leave the interval are of no account."""
    place_of = {operation.name: place for place, operation in enumerate(operations)}
    data: list[dict[int, int]] = [{} for _ in operations]
    for source, target, relation in edges:
        start, end = place_of.get(source), place_of.get(target)
        if start is not None and end is not None:
            data[start][end] = data[start].get(end, 0) | relation
    if mode is Mode.UNTIMED and not any(len(members) > 1 for members in strong_components([[*to] for to in data])):
        return Answer(components=[])
    successors = moments(operations)
    for place, targets in enumerate(data):
        successors[place].extend(targets)
    count = len(operations)
    components: list[Component] = []
    not_searched: list[NotSearched] = []
    for members in strong_components(successors):
        places = sorted(place for place in members if place < count)
        if len(places) < 2:
            continue
        chosen = set(places)
        inside = [operations[place] for place in places]
        graph = {
            operations[place].name: {
                operations[target].name: bits for target, bits in data[place].items() if target in chosen
            }
            for place in places
        }
        if mode is Mode.JEPSEN:
            components.append(_as_jepsen(run, inside, graph, limits))
        else:
            component, undecided = _in_full(run, inside, graph, limits, timed=mode is Mode.FULL)
            components.append(component)
            not_searched += undecided
    return Answer(components=components, not_searched=not_searched)


def _as_jepsen(
    run: int, operations: Sequence[Operation], graph: dict[int, dict[int, int]], limits: Limits
) -> Component:
    for source, targets in reduced(operations).items():
        for target in targets:
            graph[source][target] = graph[source].get(target, 0) | REALTIME
    statements = statements_of(graph)
    cycles = cycles_of(graph, statements, begins_of(operations), limits)
    names = sorted(operation.name for operation in operations)
    return Component(run=run, operations=names, statements=statements, cycles=cycles, times=_times(operations, cycles))


def _times(operations: Sequence[Operation], cycles: Sequence[Cycle]) -> dict[int, tuple[int, int | None]]:
    named = {name for cycle in cycles for name in cycle.operations}
    return {operation.name: (operation.begin, operation.end) for operation in operations if operation.name in named}


def _in_full(
    run: int, operations: Sequence[Operation], graph: dict[int, dict[int, int]], limits: Limits, *, timed: bool
) -> tuple[Component, list[NotSearched]]:
    found = shortest_cycles(operations, graph, limits, timed=timed)
    names = sorted(operation.name for operation in operations)
    undecided = [
        NotSearched(
            run=run,
            operations=len(names),
            first=operations[0].begin,
            reason=f"whether {kind} cycles lie among {len(names)} operations that all precede one another: undecided "
            f"after {limits.shortest_visits} edges",
        )
        for kind in found.undecided
    ]
    times = _times(operations, found.cycles)
    return Component(run=run, operations=names, cycles=found.cycles, times=times), undecided


def in_jepsen_order(components: Iterable[Component]) -> list[Component]:
    """The order in which Jepsen lists components: that of the trie it keeps them in."""
    of = {frozenset(component.operations): component for component in components}
    return [of[members] for members in components_in_order(of)]
