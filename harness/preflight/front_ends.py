"""What a scenario cannot ask of front ends: they share one node id, so nobody of them leads, follows or is in sync."""

import contextlib
from collections.abc import Iterator

from faults.targets import MOVING, Target
from harness.errors import Place, Problem, UsageError
from harness.scenario.model import Scenario, StepSpec

_ANY = "name front ends by number, all or random(1)"
_ONE_ID = "front ends share one node id"
_STEPS = ("acks", "recovered", "elapsed", "produce", "read")  # first words of steps that ask about no ids


def problems(scenario: Scenario) -> Iterator[Problem]:
    """A line for each. Another system can do them, so none is a mistake of the scenario."""
    if not (scenario.cluster.is_foreign and scenario.cluster.attached.front_ends):
        return
    for place, what, remedy in _refused(scenario):
        yield Problem(place=place, what=what, remedy=remedy, of_machine=True)


def _refused(scenario: Scenario) -> Iterator[tuple[Place, str, str]]:
    places = scenario.places
    for index, topic in enumerate(scenario.topics):
        key = "assignment" if topic.assignment is not None else "replication_factor"
        if topic.assignment is not None or (topic.replication_factor or 1) > 1:
            place = places.key("topics", key, index=index, topic=topic.name)
            yield place, f"topic {topic.name!r}: {_ONE_ID}, and {key} is about several", "leave it out"
    for number, spec in enumerate(scenario.faults):
        with contextlib.suppress(UsageError):  # plan.py tells
            if not spec.planned.fault.may_hit:
                yield places.fault(number, "kind"), f"fault {spec.kind!r}: {_ONE_ID}, and it is about several", ""
            elif (role := _role_of(spec.planned.victims)) is not None:
                yield places.fault(number, "target"), f"fault {spec.kind!r}: {_ONE_ID}, so {role} is none of them", _ANY
            if any(part.topic for part in spec.trigger):
                what = f"fault {spec.kind!r}, trigger {spec.when!r}: {_ONE_ID}, and no leader or ISR ever changes"
                yield places.fault(number, "when"), what, 'write "acks >= +500" or "restarted"'
    for count, step in enumerate(scenario.steps, 1):
        with contextlib.suppress(UsageError):
            if (wrong := _of_step(step)) is not None:
                what, remedy = wrong
                yield places.step(step.line, step.kind), f"step {count}, {step.wording!r}: {what}", remedy
    if scenario.read_every_replica:
        place = places.key("run", "read_every_replica")
        yield place, f"read_every_replica: {_ONE_ID}, and what is behind them is read as one", "leave it out"


def _role_of(victims: Target) -> str | None:
    return next((word for _, word, _ in victims.terms if word in MOVING), None)


def _of_step(step: StepSpec) -> tuple[str, str] | None:
    if step.kind == "act":
        if step.planned is not None and not step.planned.fault.may_hit:
            return f"{_ONE_ID}, and it is about several", ""
        role = None if step.victims is None else _role_of(step.victims)
        return None if role is None else (f"{_ONE_ID}, so {role} is none of them", _ANY)
    word = next(iter(step.body))
    return None if word in _STEPS else (f"{_ONE_ID}, and it asks for them", f"there are {', '.join(_STEPS)}")
