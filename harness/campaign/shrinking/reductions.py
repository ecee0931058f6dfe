"""What can be taken from a scenario, the largest parts first: each reduction leaves a smaller one, or the same.

Faults and steps go in halves, quarters, and one by one (delta debugging: Zeller and Hildebrandt, "Simplifying and
isolating failure-inducing input", 2002); then partitions, clients and settings; then whatever lasts gets shorter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import Any

from faults import triggers
from harness.scenario.model import FaultSpec, Scenario, StepSpec, TopicSpec
from harness.values import seconds

_SHORTEST_S = 0.2  # of a fault, and of what is waited for
_SHORTEST_LOAD_S = 2.0
_AFTER_THE_LAST_FAULT_S = 1.5
_FEWEST_PER_SECOND = 5.0
_FEWEST_CLIENTS = {"producers": 1, "consumers": 0, "processors": 1}
_LASTING = ("elapsed", "throughout")  # keys of a step


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """what: goes, or gets smaller, in words. apply: returns the scenario as it was where there is nothing of it."""

    what: str
    apply: Callable[[Scenario], Scenario]


def reductions(scenario: Scenario) -> list[Reduction]:
    """Those that change it."""
    found = [
        *fewer_parts(scenario),
        *_fewer_topics(scenario),
        *_fewer_clients(scenario),
        *_fewer_settings(scenario),
        *_shorter(scenario),
    ]
    return [each for each in found if each.apply(scenario) != scenario]


# ---- faults and steps -----------------------------------------------------------------------------------------------


def fewer_parts(scenario: Scenario) -> list[Reduction]:
    """Faults, or steps, less: all, halves, quarters, one by one."""
    found = []
    parts: Sequence[FaultSpec | StepSpec] = scenario.steps or scenario.faults
    size = len(parts)
    while size:
        for first in range(0, len(parts), size):
            gone = parts[first : first + size]
            if len(gone) == 1 and size > 1:  # it comes again, one by one
                continue
            found.append(Reduction(what=f"without {_named(gone, len(parts))}", apply=partial(_without, gone)))
        size = size // 2
    return found


def _named(gone: Sequence[FaultSpec | StepSpec], of: int) -> str:
    if len(gone) == 1:
        return name_of(gone[0])
    words = "steps" if isinstance(gone[0], StepSpec) else "faults"
    return f"any {words}" if len(gone) == of else f"{len(gone)} {words} from {name_of(gone[0])} on"


def name_of(part: FaultSpec | StepSpec) -> str:
    """In words."""
    if isinstance(part, StepSpec):
        return f"step {part.wording!r}"
    begins = "" if part.when is not None else f" at {part.at_s or 0:g} s"
    return f"fault {part.kind} {part.target or 'all'}{begins}"


def _without(gone: Sequence[FaultSpec | StepSpec], scenario: Scenario) -> Scenario:
    """By identity: two faults may say the same."""

    def is_kept(part: FaultSpec | StepSpec) -> bool:
        return not any(part is each for each in gone)

    return replace(
        scenario,
        faults=tuple(filter(is_kept, scenario.faults)),
        steps=tuple(filter(is_kept, scenario.steps)),
    )


# ---- topics, clients, settings --------------------------------------------------------------------------------------


def _fewer_topics(scenario: Scenario) -> Iterator[Reduction]:
    for topic in scenario.topics[1:]:
        yield Reduction(what=f"without topic {topic.name}", apply=partial(_without_topic, topic.name))
    for topic in scenario.topics:
        for count in dict.fromkeys((1, topic.partition_count // 2, topic.partition_count - 1)):
            if 0 < count < topic.partition_count:
                apply = partial(_each_topic, topic.name, partial(_partitions, count))
                yield Reduction(what=f"topic {topic.name} with {count} partitions", apply=apply)


def _without_topic(name: str, scenario: Scenario) -> Scenario:
    workload = scenario.workload
    named = tuple(each for each in workload.topics if each != name)
    if workload.topics and not named:  # then it would mean all of them
        return scenario
    topics = tuple(each for each in scenario.topics if each.name != name)
    return replace(scenario, topics=topics, workload=replace(workload, topics=named))


def _each_topic(name: str, change: Callable[[TopicSpec], TopicSpec], scenario: Scenario) -> Scenario:
    return replace(scenario, topics=tuple(change(each) if each.name == name else each for each in scenario.topics))


def _partitions(count: int, topic: TopicSpec) -> TopicSpec:
    if topic.partition_count <= count:
        return topic
    return replace(topic, partitions=count, assignment=topic.assignment and topic.assignment[:count])


def _fewer_clients(scenario: Scenario) -> Iterator[Reduction]:
    for role, fewest in _FEWEST_CLIENTS.items():
        for count in dict.fromkeys((fewest, 1)):
            yield Reduction(what=f"{role} = {count}", apply=partial(_at_most, role, count))


def _at_most(role: str, count: int, scenario: Scenario) -> Scenario:
    if getattr(scenario.workload, role, 0) <= count:
        return scenario
    return _of_load({role: count}, scenario)


def _fewer_settings(scenario: Scenario) -> Iterator[Reduction]:
    if scenario.read_every_replica:
        yield Reduction(what="read_every_replica = false", apply=lambda of: replace(of, read_every_replica=False))
    if scenario.cluster.settings:
        keys = tuple(scenario.cluster.settings)
        yield Reduction(what="without [cluster] settings", apply=partial(_without_settings, keys))
        for key in keys if len(keys) > 1 else ():
            yield Reduction(what=f"without {key}", apply=partial(_without_settings, (key,)))
    for topic in scenario.topics:
        for key in topic.settings:
            apply = partial(_each_topic, topic.name, partial(_without_setting, key))
            yield Reduction(what=f"topic {topic.name} without {key}", apply=apply)
    for field in fields(scenario.workload):
        if field.name.endswith("_ms") and field.default is not MISSING:
            apply = partial(_of_load, {field.name: field.default})
            yield Reduction(what=f"{field.name} as by default", apply=apply)


def _without_settings(keys: Sequence[str], scenario: Scenario) -> Scenario:
    left = {key: value for key, value in scenario.cluster.settings.items() if key not in keys}
    return replace(scenario, cluster=replace(scenario.cluster, settings=left))


def _without_setting(key: str, topic: TopicSpec) -> TopicSpec:
    return replace(topic, settings={each: value for each, value in topic.settings.items() if each != key})


def _of_load(changed: Mapping[str, Any], scenario: Scenario) -> Scenario:
    return replace(scenario, workload=replace(scenario.workload, **changed))


# ---- shorter, earlier, fewer a second -------------------------------------------------------------------------------


def _shorter(scenario: Scenario) -> Iterator[Reduction]:
    if not scenario.steps:
        yield Reduction(what="a load that ends soon after the last fault", apply=_ends_with_the_faults)
        yield Reduction(what="half the load's time", apply=_half_the_load)
    for fault in scenario.faults:
        yield from _simpler_triggers(fault)
    for fault in scenario.faults:
        yield Reduction(what=f"{name_of(fault)} for half its time", apply=partial(_half_a_fault, fault))
    for step in scenario.steps:
        yield Reduction(what=f"{name_of(step)} for half its time", apply=partial(_half_a_step, step))
    yield Reduction(what="timed faults as early as can be", apply=_earlier)
    yield Reduction(what="half as many records a second", apply=_half_the_rate)


def _ends_with_the_faults(scenario: Scenario) -> Scenario:
    if any(fault.at_s is None or fault.for_s is None for fault in scenario.faults):
        return scenario
    last_s = max((fault.at_s or 0) + (fault.for_s or 0) for fault in scenario.faults) if scenario.faults else 0.0
    return _load_of(scenario, max(last_s + _AFTER_THE_LAST_FAULT_S, _SHORTEST_LOAD_S))


def _half_the_load(scenario: Scenario) -> Scenario:
    return _load_of(scenario, max(scenario.workload.duration_s / 2, _SHORTEST_LOAD_S))


def _load_of(scenario: Scenario, duration_s: float) -> Scenario:
    if duration_s >= scenario.workload.duration_s:
        return scenario
    return _of_load({"duration_s": round(duration_s, 3)}, scenario)


def _earlier(scenario: Scenario) -> Scenario:
    """The timed ones, so that the first begins with the end of the warm-up."""
    timed = [fault.at_s for fault in scenario.faults if fault.at_s is not None]
    by_s = min(timed, default=0.0) - scenario.workload.warm_up_s
    if by_s <= 0:
        return scenario
    faults = tuple(
        fault if fault.at_s is None else replace(fault, at_s=round(fault.at_s - by_s, 3)) for fault in scenario.faults
    )
    return replace(scenario, faults=faults)


def _simpler_triggers(fault: FaultSpec) -> Iterator[Reduction]:
    """A part less of what is waited for; a moment alone is a timed fault."""
    parts = () if fault.when is None else triggers.parts(fault.when)
    if len(parts) > 1:
        for fewer in (parts[:-1], parts[1:]):
            when = " then ".join(fewer)
            apply = partial(_instead, fault, replace(fault, when=when))
            yield Reduction(what=f"{name_of(fault)} when {when}", apply=apply)
    elif parts and fault.times == 1 and fault.trigger[0].kind == "elapsed":
        timed = replace(fault, when=None, at_s=round(fault.trigger[0].after_s + fault.delay_s, 3), delay_s=0.0)
        yield Reduction(what=f"{name_of(timed)}, not triggered", apply=partial(_instead, fault, timed))


def _instead(fault: FaultSpec, other: FaultSpec, scenario: Scenario) -> Scenario:
    return replace(scenario, faults=tuple(other if each is fault else each for each in scenario.faults))


def _half_a_fault(fault: FaultSpec, scenario: Scenario) -> Scenario:
    if fault.for_s is None or fault.for_s / 2 < _SHORTEST_S:
        return scenario
    return _instead(fault, replace(fault, for_s=round(fault.for_s / 2, 3)), scenario)


def _half_a_step(step: StepSpec, scenario: Scenario) -> Scenario:
    body = dict(step.body)
    for key in _LASTING:
        if key in body and (lasts_s := seconds(body[key]) / 2) >= _SHORTEST_S:
            body[key] = round(lasts_s, 3)
    shorter = replace(step, body=body)
    return replace(scenario, steps=tuple(shorter if each is step else each for each in scenario.steps))


def _half_the_rate(scenario: Scenario) -> Scenario:
    rate = getattr(scenario.workload, "rate_per_second", 0.0) / 2
    return scenario if rate < _FEWEST_PER_SECOND else _of_load({"rate_per_second": rate}, scenario)
