"""The search of one interval, held in memory: components of its edges and real time, then what to say of each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
            component, undecided = _in_full(run, inside, graph, limits)
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
    run: int, operations: Sequence[Operation], graph: dict[int, dict[int, int]], limits: Limits
) -> tuple[Component, list[NotSearched]]:
    found = shortest_cycles(operations, graph, limits)
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
