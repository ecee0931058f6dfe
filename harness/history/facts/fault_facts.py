"""What the rows of `faults` say: when a fault was planned, began and ended, which links it struck, which were in force
together.

All that is counted is counted from when its effect was seen. A fault of a plan may have several rows, one for each
victim: they are of one `scheduled` or of one `step`. Runs stored before that have neither a planned time nor a place in
the schedule; there each row is a fault of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.history.schema.cluster_rows import FaultRow
from harness.history.schema.column_types import END_OF_TIME_NS


def begun(faults: Iterable[FaultRow]) -> list[FaultRow]:
    """Those that were seen to begin."""
    return [fault for fault in faults if fault["begin_ns"] is not None]


def begin_of(fault: FaultRow) -> int:
    """Of one that was seen to begin."""
    begin_ns = fault["begin_ns"]
    assert begin_ns is not None, f"fault {fault['fault']} was never seen to begin"
    return begin_ns


def end_of(fault: FaultRow) -> int:
    """END_OF_TIME_NS for one that was not seen to end."""
    return END_OF_TIME_NS if fault["end_ns"] is None else fault["end_ns"]


# ---- the links that it struck ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StruckLink:
    """The connections that the node `source`, or the client `client`, opens to the node `target`.

    Both None: unknown.
    """

    source: int | None
    client: int | None
    target: int

    def __str__(self) -> str:
        if self.source is not None:
            return f"n{self.source}>n{self.target}"
        return f"{'?' if self.client is None else f'c{self.client}'}>n{self.target}"

    def touches(self, node: int) -> bool:
        return node in (self.source, self.target)


def struck_links(fault: FaultRow) -> Sequence[StruckLink]:
    """From a row of `faults`; none if it affected no link, or if they are unknown."""
    return [
        StruckLink(source=link["source"], client=link["client"], target=link["target"]) for link in fault["links"] or ()
    ]


# ---- when it was planned, and when it came ---------------------------------------------------------------------------


# What authors write in `at` are seconds, and what follows a fault (fetches, sessions, elections) takes some: an effect
# a second later is another story than the one that was planned, however long the run had lasted by then.
LATE_S = 1.0
# Why a planned fault did not begin (skipped_faults of run.json), in words.
WHY_SKIPPED = {
    "no-trigger": "what it waited for never came",
    "not-alone": "it, or another fault that was not over, has to be alone",
    "no-victim": "nobody that it could strike was there and up when it was to begin",
}


def late_s(fault: FaultRow) -> float | None:
    """How long after its planned time it was begun; None where one of them is not known.

    Counted to when it was begun, not to when its effect was seen: an orderly stop takes its time.
    """
    planned_ns, asked_ns = fault["planned_ns"], fault["asked_ns"]
    if planned_ns is None or asked_ns is None:
        return None
    return max((asked_ns - planned_ns) / 1e9, 0.0)


def came_late(fault: FaultRow) -> bool:
    return (late_s(fault) or 0.0) > LATE_S


def late_words(fault: FaultRow) -> str:
    """For people; empty where it came in its time, or nobody knows."""
    return f"{late_s(fault):.1f} s late" if came_late(fault) else ""


def overlapping(faults: Iterable[FaultRow]) -> list[tuple[frozenset[int], frozenset[int]]]:
    """The victims of every pair of planned faults that were in force, with proof, at the same time."""
    proved = sorted((row for row in begun(faults) if row["proved"]), key=begin_of)
    victims: dict[tuple[str, int], frozenset[int]] = {}
    for row in proved:
        victims[_planned(row)] = victims.get(_planned(row), frozenset()) | frozenset(row["nodes"] or ())
    pairs: set[tuple[tuple[str, int], tuple[str, int]]] = set()
    in_force: list[FaultRow] = []
    for row in proved:
        in_force = [each for each in in_force if end_of(each) > begin_of(row)]
        one = _planned(row)
        pairs |= {(min(one, other), max(one, other)) for other in map(_planned, in_force) if other != one}
        in_force.append(row)
    return [(victims[one], victims[other]) for one, other in sorted(pairs)]


def _planned(fault: FaultRow) -> tuple[str, int]:
    """What all rows of one fault of the plan have in common."""
    if fault["scheduled"] is not None:
        return "scheduled", fault["scheduled"]
    return ("fault", fault["fault"]) if fault["step"] is None else ("step", fault["step"])
