"""The shortest cycle of each kind in one component, by breadth-first search back to the source of its own edge.

A kind is known by one edge that every cycle of it has (ww, wr or rw) and by the relations that may lead back. Real time
counts as one step however many completions lie between. Realtime kinds are looked for when their plain kind is absent,
and besides when an edge is contradicted outright: its target had completed before its source was invoked.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness.checks.cycles.model import REALTIME, RW, WR, WW, Cycle, Kind, Limits, Step
from harness.checks.cycles.realtime import Operation, moments
from harness.checks.cycles.strong import strong_components

Edges: TypeAlias = Mapping[int, Mapping[int, int]]

# kind -> (the edge that distinguishes it, the relations that may lead back, the kinds whose presence makes it no news)
_PLAIN = {
    Kind.G0: (WW, WW, ()),
    Kind.G1C_WR: (WR, WR, ()),
    Kind.G1C: (WR, WW | WR, (Kind.G1C_WR,)),
    Kind.G_SINGLE: (RW, WW | WR, ()),
    Kind.G2_ITEM: (RW, WW | WR | RW, (Kind.G_SINGLE,)),
}
_EVERY = WW | WR | RW
_ALONE = -1


@dataclass(frozen=True, kw_only=True)
class Found:
    cycles: Sequence[Cycle]
    undecided: Sequence[str]  # kinds that were not decided within the bound


class _Component:
    """Operations 0..n-1 and moments from n on; `data[place]` holds (target, relations)."""

    def __init__(self, operations: Sequence[Operation], edges: Edges) -> None:
        self.operations = operations
        self.place_of = {operation.name: place for place, operation in enumerate(operations)}
        self.data: list[list[tuple[int, int]]] = [
            sorted((self.place_of[target], bits) for target, bits in edges.get(operation.name, {}).items())
            for operation in operations
        ]
        self.time = moments(operations)
        self.visits = 0
        self._parts_along: dict[int, Sequence[int]] = {}

    def distinguishing(self, relation: int, allowed: int) -> dict[int, list[int]]:
        """target -> sources of the edges of this relation that may lie on a cycle with the allowed ones."""
        part_of = self._parts(allowed | relation)
        found: dict[int, list[int]] = {}
        for source, targets in enumerate(self.data):
            if part_of[source] == _ALONE:
                continue
            for target, bits in targets:
                if bits & relation and part_of[source] == part_of[target]:
                    found.setdefault(target, []).append(source)
        return found

    def _parts(self, relations: int) -> Sequence[int]:
        """Of each place, which component it is in along these relations, or _ALONE. Looked for inside those of one
        relation more, which as a rule are few and small: along all of them the whole is one."""
        if relations == _EVERY | REALTIME:
            return [0] * len(self.time)
        if relations not in self._parts_along:
            missing = next(bit for bit in (WW, WR, RW, REALTIME) if not relations & bit)
            within = self._parts(relations | missing)
            self._parts_along[relations] = self._parted(relations, within)
        return self._parts_along[relations]

    def _parted(self, relations: int, within: Sequence[int]) -> Sequence[int]:
        places = [place for place, part in enumerate(within) if part != _ALONE]
        local = dict(zip(places, range(len(places)), strict=True))
        successors = [
            [local[target] for target in self._along(place, relations) if within[target] == within[place]]
            for place in places
        ]
        parts = [_ALONE] * len(within)
        for number, members in enumerate(strong_components(successors)):
            if len(members) > 1:
                for member in members:
                    parts[places[member]] = number
        return parts

    def _along(self, place: int, relations: int) -> list[int]:
        targets = [target for target, bits in self.data[place] if bits & relations] if place < len(self.data) else []
        return targets + self.time[place] if relations & REALTIME else targets

    def way_back(self, start: int, goals: set[int], allowed: int, shorter_than: int) -> list[tuple[int, int]] | None:
        """(operation, relation that led to it) from `start` to the nearest goal, in fewer than that many steps."""
        count = len(self.operations)
        distance = {start: 0}
        came: dict[int, tuple[int, int]] = {}
        queue = deque([start])
        while queue:
            place = queue.popleft()
            steps = distance[place]
            if place in goals:
                return self._traced(start, place, came)
            for target, relation, cost in self._further(place, allowed, count):
                self.visits += 1
                far = steps + cost
                if far < shorter_than and far < distance.get(target, shorter_than):
                    distance[target] = far
                    came[target] = (place, relation)
                    if cost:
                        queue.append(target)
                    else:
                        queue.appendleft(target)
        return None

    def _further(self, place: int, allowed: int, count: int) -> list[tuple[int, int, int]]:
        """Entering real time costs the step; moving along its moments and leaving it is free."""
        if place >= count:
            return [(target, REALTIME, 0) for target in self.time[place]]
        steps = [(target, bits & allowed & -(bits & allowed), 1) for target, bits in self.data[place] if bits & allowed]
        if allowed & REALTIME:
            steps += [(target, REALTIME, 1) for target in self.time[place]]
        return steps

    def _traced(self, start: int, goal: int, came: Mapping[int, tuple[int, int]]) -> list[tuple[int, int]]:
        way = []
        place = goal
        while place != start:
            before, relation = came[place]
            if place < len(self.operations):
                way.append((place, relation))
            place = before
        return way[::-1]

    def cycle(self, kind: str, source: int, relation: int, target: int, way: Sequence[tuple[int, int]]) -> Cycle:
        places, relations = [source, target], [relation]
        for place, taken in way:
            places.append(place)
            relations.append(taken)
        steps = [
            Step(
                source=self.operations[before].name,
                target=self.operations[after].name,
                relation=taken,
                begin=self.operations[after].begin if taken == REALTIME else None,
            )
            for before, after, taken in zip(places, places[1:], relations, strict=False)
        ]
        return Cycle(kind=kind, steps=steps)

    def contradicted(self, kind: str, relation: int) -> Cycle | None:
        """An edge whose target had completed before its source was invoked: a cycle of two steps."""
        for source, targets in enumerate(self.data):
            for target, bits in targets:
                end = self.operations[target].end
                if bits & relation and end is not None and end < self.operations[source].begin:
                    return self.cycle(kind, source, relation, target, [(source, REALTIME)])
        return None


def shortest_cycles(operations: Sequence[Operation], edges: Edges, limits: Limits, *, timed: bool) -> Found:
    """timed: the kinds with real time too."""
    component = _Component(operations, edges)
    cycles: dict[str, Cycle] = {}
    undecided: list[str] = []
    for suffix, time in (("", 0), (Kind.REALTIME_SUFFIX, REALTIME))[: 1 + timed]:
        for base, (relation, allowed, covered_by) in _PLAIN.items():
            known = {*cycles, *undecided}
            kind = base + suffix
            if known.intersection(cover + end for cover in covered_by for end in ("", suffix)):
                continue
            if time and base in known:
                found = None if covered_by else component.contradicted(kind, relation)
            else:
                found = _shortest(component, kind, relation, allowed | time, limits, undecided)
            if found is not None:
                cycles[kind] = found
    return Found(cycles=list(cycles.values()), undecided=undecided)


def _shortest(
    component: _Component, kind: str, relation: int, allowed: int, limits: Limits, undecided: list[str]
) -> Cycle | None:
    best: Cycle | None = None
    proven = True
    bound = component.visits + limits.shortest_visits
    for target, sources in sorted(component.distinguishing(relation, allowed).items()):
        if component.visits > bound:
            if best is None and not relation & allowed:
                undecided.append(kind)
                return None
            if best is not None:
                proven = False
                break
        way = component.way_back(target, set(sources), allowed, len(best.steps) - 1 if best else len(component.time))
        if way is not None:
            best = component.cycle(kind, way[-1][0], relation, target, way)
            if len(best.steps) == 2:
                break
    if best is None or proven:
        return best
    return Cycle(kind=best.kind, steps=best.steps, shortest=False)


def shortest_return(graph: Edges, required: Sequence[int]) -> tuple[int, ...] | None:
    """A cycle of whatever edges the graph has, through an edge of the first required relation; closed."""
    for source in sorted(graph):
        for first, bits in sorted(graph[source].items()):
            if bits & required[0]:
                way = _way(graph, first, source)
                if way is not None:
                    return (source, *way)
    return None


def _way(graph: Edges, start: int, goal: int) -> list[int] | None:
    came: dict[int, int | None] = {start: None}
    queue = deque([start])
    while queue:
        place = queue.popleft()
        if place == goal:
            way = []
            here: int | None = place
            while here is not None:
                way.append(here)
                here = came[here]
            return way[::-1]
        for target in sorted(graph[place]):
            if target not in came:
                came[target] = place
                queue.append(target)
    return None
