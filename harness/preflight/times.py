"""Checks that a fault planned by time can begin while the load runs."""

from collections.abc import Iterator

from harness.errors import Problem
from harness.scenario.model import FaultSpec, Scenario


def problems(scenario: Scenario) -> Iterator[Problem]:
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
