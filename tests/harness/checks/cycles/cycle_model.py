"""The slow, obvious model: every pair in real time, every simple cycle by walking; only for a handful of operations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from harness.checks.cycles.model import REALTIME, RW, WR, WW
from harness.checks.cycles.realtime import Operation

Edge = tuple[int, int, int]


@dataclass(kw_only=True)
class Said:
    """What the model says of one history: its components, and per component the shortest length of each kind."""

    components: list[frozenset[int]] = field(default_factory=list)
    shortest: dict[frozenset[int], dict[str, int]] = field(default_factory=dict)
    jepsen: dict[frozenset[int], set[str]] = field(default_factory=dict)  # "PL-1", ...


def all_edges(operations: Sequence[Operation], data: Sequence[Edge]) -> set[Edge]:
    timed = {
        (before.name, after.name, REALTIME)
        for before in operations
        for after in operations
        if before.end is not None and before.end < after.begin
    }
    return timed | set(data)


def components(edges: set[Edge]) -> list[frozenset[int]]:
    """Operations that reach each other."""
    names = {name for source, target, _ in edges for name in (source, target)}
    reached = {name: {target for source, target, _ in edges if source == name} for name in names}
    for middle, start in product(names, names):
        if middle in reached[start]:
            reached[start] |= reached[middle]
    found = {frozenset({one, *(other for other in reached[one] if one in reached[other])}) for one in names}
    return sorted((members for members in found if len(members) > 1), key=min)


def simple_cycles(edges: set[Edge]) -> Iterator[tuple[int, ...]]:
    """The relations of each cycle that meets no operation twice; a pair joined in two ways gives a cycle for each."""
    after: dict[int, list[tuple[int, int]]] = {}
    for source, target, relation in edges:
        after.setdefault(source, []).append((target, relation))

    def walk(start: int, here: int, seen: frozenset[int], relations: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for target, relation in after.get(here, ()):
            if target == start:
                yield (*relations, relation)
            elif target > start and target not in seen:
                yield from walk(start, target, seen | {target}, (*relations, relation))

    for start in sorted(after):
        yield from walk(start, start, frozenset({start}), ())


def kind_of(relations: Sequence[int]) -> str:
    """The one name of a cycle of these edges; real time alone closes none."""
    against = relations.count(RW)
    if against:
        base = "G-single" if against == 1 else "G2-item"
    elif WR in relations:
        base = "G1c" if WW in relations else "G1c-wr"
    else:
        base = "G0"
    return base + ("-realtime" if REALTIME in relations else "")


COVERED = {
    "G1c": {"G1c-wr"},
    "G2-item": {"G-single"},
    "G0-realtime": {"G0"},
    "G1c-wr-realtime": {"G1c-wr"},
    "G1c-realtime": {"G1c", "G1c-wr", "G1c-wr-realtime"},
    "G-single-realtime": {"G-single"},
    "G2-item-realtime": {"G2-item", "G-single", "G-single-realtime"},
}
TELLING = {"G0-realtime": WW, "G1c-wr-realtime": WR, "G-single-realtime": RW}


def model(operations: Sequence[Operation], data: Sequence[Edge]) -> Said:
    edges = all_edges(operations, data)
    said = Said(components=components(edges))
    for members in said.components:
        inside = {edge for edge in edges if edge[0] in members and edge[1] in members}
        lengths: dict[str, int] = {}
        for relations in simple_cycles(inside):
            kind = kind_of(relations)
            lengths[kind] = min(lengths.get(kind, len(relations)), len(relations))
        said.shortest[members] = _reported(lengths, inside)
        said.jepsen[members] = _statements(inside)
    return said


def _reported(lengths: dict[str, int], edges: set[Edge]) -> dict[str, int]:
    """Without the kinds that a found one covers, except edges that real time contradicts outright."""
    kept = {kind: length for kind, length in lengths.items() if not COVERED.get(kind, set()) & lengths.keys()}
    backward = {(target, source) for source, target, relation in edges if relation == REALTIME}
    for kind, relation in TELLING.items():
        if any((source, target) in backward for source, target, found in edges if found == relation):
            kept[kind] = 2
    if "G1c-wr-realtime" in kept:
        kept.pop("G1c-realtime", None)
    return kept


def _statements(edges: set[Edge]) -> set[str]:
    """The weakest models that a component rules out, by whether a component is left among fewer relations."""

    def cyclic(relations: int) -> bool:
        return bool(components({edge for edge in edges if edge[2] & relations}))

    if cyclic(WW):
        return {"PL-1"}
    timed = {"strong-PL-1"} if cyclic(WW | REALTIME) else set()
    if cyclic(WW | WR):
        return {"PL-2", *timed}
    return timed or {"strong-PL-2"}
