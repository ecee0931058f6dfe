"""Finds what cannot work when it is planned: a heal without a fault, a kill of a node that is down, a fault that comes
when the load is over.

Only certain problems are reported. Any node may have a role, and a fault with `for` may be over or not: then nothing is
reported, and the run shows it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import faults.links
from harness.errors import Problem, UsageError
from harness.ports.cluster import Link
from harness.preflight.topology import Topology, Wrong
from harness.scenario.model import FaultSpec, Scenario, StepSpec

_ENDS_NODES = ("kill", "stop")
_KILLS = ("wipe", "power-loss")  # a running node
_UNDOES = {"resume": "pause", "free": "fill"}
_MOVES_NO_LEADER = ("produce", "elect", "heal", "create_topic", "delete_topic")


def problems(scenario: Scenario, topology: Topology) -> Iterator[Problem]:
    foreseen = Foreseen(topology)
    for number, step in enumerate(scenario.steps, 1):
        wrong = foreseen.act(step) if step.kind == "act" else None
        if wrong is not None:
            place = scenario.places.step(step.line, step.kind)
            yield Problem(place=place, what=f"step {number}, {step.said!r}: {wrong[0]}", remedy=wrong[1])


class Foreseen:
    """The faults in force after the steps so far, as far as that is certain."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._links: list[frozenset[Link] | None] = []  # harmed links; None: which ones depends on roles
        self._down: set[int] = set()
        self._perhaps_down = False  # other nodes may be down, too
        self._harmed: Mapping[str, set[int]] = {"pause": set(), "fill": set()}
        self._perhaps_harmed: set[str] = set()
        self._untouched = topology.knows_nodes  # our own cluster is new: its first replicas lead

    def act(self, step: StepSpec) -> Wrong | None:
        """Why this act is wrong at this place, or None. Also applies its effect."""
        word, value = next(iter(step.body.items()))
        wrong = None
        try:
            planned = step.planned
        except UsageError:  # names.py reports it
            return None
        if planned is not None and planned.fault.undone_by == "heal":
            links = planned.given.get("links")
            self._links.append(self._named(links) if links else None)
        elif planned is not None:
            wrong = self._of_nodes(planned.fault.name, self._nodes(step))
        elif word == "heal":
            wrong = self._heal(value)
        elif word == "elect" and self._untouched:
            wrong = "nothing has moved a leader by then, so no election is needed", "leave it out, or put it later"
        elif word == "start":
            wrong = self._of_nodes(word, self._nodes(step))
        elif word in _UNDOES:
            wrong = self._undo(word, _UNDOES[word], self._nodes(step))
        self._untouched = self._untouched and word in _MOVES_NO_LEADER
        return wrong

    def _nodes(self, step: StepSpec) -> frozenset[int] | None:
        """Those of its target, where that is certain."""
        try:
            return self._topology.certainly(step.victims) if step.victims is not None else None
        except UsageError:  # names.py reports it
            return None

    def _named(self, names: Any) -> frozenset[Link] | None:
        try:
            return frozenset(faults.links.named(self._topology.links, names)) if self._topology.links else None
        except UsageError:  # names.py reports it
            return None

    def _heal(self, value: Any) -> Wrong | None:
        if not self._links:
            return "nothing is cut, slowed or impaired by then", "leave it out, or put it after what it heals"
        if value == "all":
            self._links.clear()
            return None
        wanted = self._named(value) if isinstance(value, list) else None  # a fault's name: any fault of that kind
        if wanted is None or None in self._links:
            return None
        if wanted not in self._links:
            return (
                "no cut, slow or impaired link of that name is in force by then",
                'name them as they were, or "all"',
            )
        self._links.remove(wanted)
        return None

    def _of_nodes(self, word: str, nodes: frozenset[int] | None) -> Wrong | None:
        wrong = None
        if word in (*_ENDS_NODES, "restart", "pause"):
            for node in sorted((nodes or frozenset()) & self._down):
                wrong = f"broker {node} is down by then", "start it before"
        if word in _ENDS_NODES or word in _KILLS:
            self._down |= nodes or frozenset()
            self._perhaps_down |= nodes is None
        elif word in ("start", "restart"):
            self._down -= self._down if nodes is None else nodes
        elif word in self._harmed:
            self._harmed[word].update(nodes or ())
            self._perhaps_harmed |= {word} if nodes is None else set()
        if word in ("fill", "damage"):  # it may end by that
            self._perhaps_down = True
        return wrong

    def _undo(self, word: str, harm: str, nodes: frozenset[int] | None) -> Wrong | None:
        harmed = self._harmed[harm]
        if harm in self._perhaps_harmed:
            return None
        if not harmed:
            return f"no {harm} is in force by then", f"put it after the {harm} that it ends"
        for node in sorted((nodes or frozenset()) - harmed):
            return f"no {harm} of broker {node} is in force by then", f"put it after the {harm} that it ends"
        harmed -= nodes or frozenset()
        return None


# ---- [[faults]] -----------------------------------------------------------------------------------------------------


def problems_of_times(scenario: Scenario) -> Iterator[Problem]:
    duration_s = scenario.workload.duration_s
    for number, spec in enumerate(scenario.faults):
        for key, what, remedy in _of_fault(spec, duration_s):
            place = scenario.places.fault(number, key)
            yield Problem(place=place, what=f"fault {spec.kind!r}: {what}", remedy=remedy)
    if scenario.faults and scenario.steps:
        place = scenario.places.section("steps")
        yield Problem(place=place, what="there are [[faults]] and [[steps]]", remedy="give either, not both")


def _of_fault(spec: FaultSpec, duration_s: float) -> Iterator[tuple[str, str, str]]:
    """(key, what is wrong, the remedy)."""
    longer = "give the workload a longer duration"
    if spec.at_s is not None and spec.at_s >= duration_s:
        yield "at", f"at {spec.at_s:g} s the load is over, which lasts {duration_s:g} s", f"make it sooner, or {longer}"
    if spec.every_s is not None:
        lasting_s = spec.for_s if spec.for_s is not None else spec.every_s / 2
        if spec.every_s <= 0:
            yield "every", "every 0 s has no pause", 'write for example every = "10 s"'
        elif lasting_s >= duration_s:
            what = f"one of {lasting_s:g} s never fits into a load of {duration_s:g} s"
            yield "for" if spec.for_s is not None else "every", what, f"make it shorter, or {longer}"
    if spec.delay_s and spec.when is None:
        yield "delay", "delay is the time after a trigger, and there is none", "give `when`, or a later `at`"
    if spec.times < 1:
        yield "times", f"{spec.times} times is never", "at least 1"
    if spec.times > 1 and spec.when is None:
        yield "times", "times is how often a trigger begins it, and there is none", "give `when`, or `every`"
