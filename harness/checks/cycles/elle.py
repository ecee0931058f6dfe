"""Jepsen's own choice of cycles inside one component: what it says exists, what it looks for, which one it meets first.

A component is searched kind by kind, worst first, skipping what the statements rule out or a found kind implies. The
search grows paths breadth first from one operation after another, in trie order, and takes the first loop that uses
what its kind requires. A step is named by the strongest reason between its ends (ww, wr, realtime) whatever edge the
path took, so the kind reported can differ from the kind looked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from harness.checks.cycles.champ import components_in_order, operations_in_order
from harness.checks.cycles.model import REALTIME, WR, WW, Cycle, Kind, Limits, Statement, Step
from harness.checks.cycles.shortest import shortest_return
from harness.checks.cycles.strong import components_of

Edges: TypeAlias = Mapping[int, Mapping[int, int]]  # source -> target -> relations as bits

_PL_1, _PL_2, _STRONG_PL_1, _STRONG_PL_2 = "PL-1", "PL-2", "strong-PL-1", "strong-PL-2"
_MODELS = ((_PL_1, WW), (_PL_2, WW | WR), (_STRONG_PL_1, WW | REALTIME), (_STRONG_PL_2, WW | WR | REALTIME))
# A model that cannot hold rules out those that imply it.
_RULED_OUT = {
    _PL_1: {_PL_1, _PL_2, _STRONG_PL_1, _STRONG_PL_2},
    _PL_2: {_PL_2, _STRONG_PL_2},
    _STRONG_PL_1: {_STRONG_PL_1, _STRONG_PL_2},
    _STRONG_PL_2: {_STRONG_PL_2},
}
_G0_REALTIME, _G1C_REALTIME = Kind.G0 + Kind.REALTIME_SUFFIX, Kind.G1C + Kind.REALTIME_SUFFIX


@dataclass(frozen=True, kw_only=True)
class _Sought:
    """A kind as Jepsen looks for it: edges it may use, edges of which it needs one each, the models that exclude it."""

    kind: str
    legal: int
    required: tuple[int, ...]
    excluded_by: frozenset[str]
    implies: frozenset[str]


_SOUGHT = (
    _Sought(
        kind=Kind.G0,
        legal=WW,
        required=(),
        excluded_by=frozenset({_PL_1, _PL_2, _STRONG_PL_1, _STRONG_PL_2}),
        implies=frozenset({Kind.G1C, _G0_REALTIME, _G1C_REALTIME}),
    ),
    _Sought(
        kind=Kind.G1C,
        legal=WW | WR,
        required=(WR,),
        excluded_by=frozenset({_PL_2, _STRONG_PL_2}),
        implies=frozenset({_G1C_REALTIME}),
    ),
    _Sought(
        kind=_G0_REALTIME,
        legal=WW | REALTIME,
        required=(REALTIME,),
        excluded_by=frozenset({_STRONG_PL_1, _STRONG_PL_2}),
        implies=frozenset({_G1C_REALTIME}),
    ),
    _Sought(
        kind=_G1C_REALTIME,
        legal=WW | WR | REALTIME,
        required=(WR, REALTIME),
        excluded_by=frozenset({_STRONG_PL_2}),
        implies=frozenset(),
    ),
)


def projected(edges: Edges, relations: int) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for source, targets in edges.items():
        for target, bits in targets.items():
            if bits & relations:
                found.setdefault(source, {})[target] = bits & relations
                found.setdefault(target, {})
    return found


def statements_of(edges: Edges) -> list[Statement]:
    """Per model that is not ruled out yet: the smallest component of its edges, the first of them in trie order."""
    found: list[Statement] = []
    ruled_out: set[str] = set()
    for model, relations in _MODELS:
        if model in ruled_out:
            continue
        graph = projected(edges, relations)
        components = [frozenset(members) for members in components_of(graph, singles=True)]
        cyclic = [members for members in components_in_order(components) if len(members) > 1]
        if cyclic:
            smallest = min(cyclic, key=len)
            found.append(Statement(model=model, operations=sorted(smallest)))
            ruled_out |= _RULED_OUT[model]
    return found


def cycles_of(edges: Edges, statements: Sequence[Statement], begins: Mapping[int, int], limits: Limits) -> list[Cycle]:
    possible = {model for model, _ in _MODELS} - {
        out for statement in statements for out in _RULED_OUT[statement.model]
    }
    redundant: set[str] = {sought.kind for sought in _SOUGHT if sought.excluded_by & possible}
    found = []
    for sought in _SOUGHT:
        if sought.kind in redundant:
            continue
        search = _PathSearch(edges, sought, limits.path_steps)
        path = search.first_cycle()
        if path is None and search.exhausted:
            path = shortest_return(search.graph, sought.required or (WW,))
        if path is not None:
            found.append(_explained(edges, path, begins, shortest=not search.exhausted))
            redundant |= sought.implies
    return found


def _explained(edges: Edges, path: Sequence[int], begins: Mapping[int, int], *, shortest: bool) -> Cycle:
    steps = []
    for source, target in pairwise(path):
        bits = edges[source][target]
        relation = next(one for one in (WW, WR, REALTIME) if bits & one)
        begin = begins[target] if relation == REALTIME else None
        steps.append(Step(source=source, target=target, relation=relation, begin=begin))
    relations = {step.relation for step in steps}
    kind = (Kind.G1C if WR in relations else Kind.G0) + (Kind.REALTIME_SUFFIX if REALTIME in relations else "")
    return Cycle(kind=kind, steps=steps, shortest=shortest)


@dataclass(frozen=True)
class _Path:
    operations: tuple[int, ...]
    wanted: tuple[int, ...]

    @property
    def loops(self) -> bool:
        return self.operations[-1] in self.operations[:-1]

    @property
    def wanted_bits(self) -> int:
        return sum(self.wanted)

    def wanted_relations(self, bits: int) -> list[int]:
        return [relation for relation in (WW, WR, REALTIME) if relation in self.wanted and bits & relation]


class _PathSearch:
    """Paths are tried without remembering where they have been, so their number is bounded."""

    def __init__(self, edges: Edges, sought: _Sought, steps_max: int) -> None:
        relations = sought.legal
        for required in sought.required:
            relations |= required
        self.graph = projected(edges, relations)
        self.exhausted = False
        self._sought = sought
        self._steps_left = steps_max
        self._targets: dict[int, list[int]] = {}

    def first_cycle(self) -> tuple[int, ...] | None:
        for operation in operations_in_order(self.graph):
            path = self._from(operation, None)
            if path is not None or self.exhausted:
                return path
        return None

    def _from(self, operation: int, within: frozenset[int] | None) -> tuple[int, ...] | None:
        paths = [_Path((operation,), self._sought.required)]
        while paths:
            longer: list[_Path] = []
            for path in paths:
                if not path.loops:
                    longer.append(path)
                elif not path.wanted:
                    if path.operations[0] == path.operations[-1]:
                        return path.operations
                    trimmed = self._without_tail(path)
                    if trimmed is not None or self.exhausted:
                        return trimmed
            paths = [further for path in longer for further in self._extended(path, within)]
            if self._steps_left < 0:
                self.exhausted = True
                return None
        return None

    def _without_tail(self, path: _Path) -> tuple[int, ...] | None:
        loop = path.operations[path.operations.index(path.operations[-1]) :]
        for operation in loop:
            found = self._from(operation, frozenset(loop))
            if found is not None or self.exhausted:
                return found
        return None

    def _extended(self, path: _Path, within: frozenset[int] | None) -> Iterable[_Path]:
        """A step on a wanted relation first; the first step of all takes nothing else, as long as one is wanted."""
        source = path.operations[-1]
        if source not in self._targets:
            self._targets[source] = operations_in_order(self.graph[source])
        for target in self._targets[source]:
            if within is not None and target not in within:
                continue
            self._steps_left -= 1
            if self._steps_left < 0:
                return
            bits = self.graph[source][target]
            operations = (*path.operations, target)
            for relation in path.wanted_relations(bits):
                yield _Path(operations, tuple(want for want in path.wanted if want != relation))
            if path.wanted and len(path.operations) == 1:
                continue
            if bits & self._sought.legal & ~path.wanted_bits:
                yield _Path(operations, path.wanted)
