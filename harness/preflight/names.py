"""Checks that everything a scenario names exists: brokers, topics, partitions, links, clients, in faults and steps."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import faults.links
from faults.catalogue import find, is_fault
from faults.planned import PlannedFault
from harness.errors import Problem, UsageError
from harness.preflight.topology import Topology, Wrong
from harness.scenario.model import FaultSpec, Scenario, StepSpec, TopicSpec
from harness.scenario.steps import KEYED_BY_BROKER, LISTS_BROKERS, wrong_condition
from harness.scenario.topic_names import wrong_count, wrong_name

_NAMES_A_BROKER = ("leader", "controller", "to", "broker", "log_end_unchanged_on")
_NOBODY = (-1,)


def problems(scenario: Scenario, topology: Topology) -> Iterator[Problem]:
    yield from _of_topics(scenario, topology)
    for number, spec in enumerate(scenario.faults):
        for key, (what, remedy) in _of_fault(spec, topology):
            place = scenario.places.fault(number, key)
            sentence = what if what.startswith(f"fault {spec.kind!r}") else f"fault {spec.kind!r}: {what}"
            yield Problem(place=place, what=sentence, remedy=remedy)
    made: set[str] = set()
    for count, step in enumerate(scenario.steps, 1):
        for what, remedy in _of_step(step, topology, made):
            place = scenario.places.step(step.line, step.kind)
            yield Problem(place=place, what=f"step {count}, {step.said!r}: {what}", remedy=remedy)
        if step.kind == "expect" and "create_topic" in step.body:
            made.add(str(step.body["create_topic"]))


# ---- [[topics]] -----------------------------------------------------------------------------------------------------


def _of_topics(scenario: Scenario, topology: Topology) -> Iterator[Problem]:
    names = Counter(topic.name for topic in scenario.topics)
    for index, topic in enumerate(scenario.topics):
        for key, what, remedy in _of_topic(topic, topology):
            place = scenario.places.key("topics", key, index=index, topic=topic.name)
            yield Problem(place=place, what=f"topic {topic.name!r}: {what}", remedy=remedy)
        if names[topic.name] > 1:
            place = scenario.places.key("topics", "name", index=index, topic=topic.name)
            yield Problem(place=place, what=f"topic {topic.name!r} is there twice", remedy="give one another name")
            names[topic.name] = 0  # reported once


def _of_topic(topic: TopicSpec, topology: Topology) -> Iterator[tuple[str, str, str]]:
    """(key, what is wrong, the remedy)."""
    if (wrong := wrong_name(topic.name)) is not None:
        yield "name", *wrong
    if topic.assignment is not None:
        yield from (("assignment", *wrong) for wrong in _of_assignment(topic.assignment))
        return
    if (few := wrong_count(topic)) is not None:
        yield few
    brokers = len(topology.brokers)
    if topology.knows_nodes and topic.replication_factor > brokers:
        what = f"{topic.replication_factor} replicas on {brokers} brokers"
        yield "replication_factor", what, f"at most {brokers} are possible; [cluster] brokers says who there is"


def _of_assignment(assignment: Sequence[Sequence[int]]) -> Iterator[Wrong]:
    for partition, replicas in enumerate(assignment):
        if len(set(replicas)) < len(replicas):
            yield f"partition {partition} has a replica twice on one broker", "name each broker once"
    if len({len(replicas) for replicas in assignment}) > 1:
        yield "its partitions have different numbers of replicas", "Kafka wants one for all of them"


# ---- [[faults]] -----------------------------------------------------------------------------------------------------


def _of_fault(spec: FaultSpec, topology: Topology) -> Iterator[tuple[str, Wrong]]:
    """(key, what is wrong and the remedy)."""
    try:
        planned = spec.planned
    except UsageError as error:
        yield "options" if is_fault(spec.kind) else "kind", (str(error), "")
        return
    found = [("target", _of_victims(planned, topology)), ("when", _of_trigger(spec, topology))]
    if "links" in spec.options:
        found.append(("options", _of_links(spec.options["links"], topology)))
    if {"topic", "partition"} & set(spec.options):
        found.append(("options", _of_partition(spec.options, topology)))
    yield from ((key, wrong) for key, wrong in found if wrong is not None)


def _of_victims(planned: PlannedFault, topology: Topology) -> Wrong | None:
    try:
        return topology.wrong_target(planned.victims) or topology.strikes_nothing(planned)
    except UsageError as error:
        return str(error), ""


def _of_trigger(spec: FaultSpec, topology: Topology) -> Wrong | None:
    try:
        lacking = (topology.lacks_partition(part.topic, part.partition) for part in spec.trigger if part.topic)
    except UsageError as error:
        return str(error), ""
    return next((wrong for wrong in lacking if wrong is not None), None)


def _of_links(names: Any, topology: Topology) -> Wrong | None:
    if not topology.links:
        return None
    try:
        faults.links.named(topology.links, [str(name) for name in names])
    except UsageError as error:
        return str(error), ""
    return None


def _of_partition(body: Mapping[str, Any], topology: Topology) -> Wrong | None:
    topic = str(body.get("topic", next(iter(topology.topics))))
    return topology.lacks_partition(topic, int(body.get("partition", 0)))


# ---- [[steps]] ------------------------------------------------------------------------------------------------------


def _of_step(step: StepSpec, topology: Topology, made: set[str]) -> Iterator[Wrong]:
    """`made`: topics created by earlier steps, about which nothing else is known."""
    body = step.body
    word, value = next(iter(body.items()))
    found: list[Wrong | None] = []
    try:
        planned, victims = step.planned, step.victims
    except UsageError as error:
        found.append((str(error), ""))
        planned = victims = None
    if planned is not None and planned.fault.may_hit:
        found.append(_of_victims(planned, topology))
    elif planned is None and victims is not None:
        found.append(topology.wrong_target(victims))
    if planned is not None and planned.given.get("links"):
        found.append(_of_links(planned.given["links"], topology))
    if step.kind == "act" and word == "heal" and isinstance(value, str):
        found.append(_of_healed(value))
    if step.kind == "act" and word == "heal" and isinstance(value, list):
        found.append(_of_links(value, topology))
    if step.kind == "act" and word in ("delete_topic", "create_topic"):
        found.append(topology.lacks_partition(str(value), 0))
    elif {"topic", "partition"} & set(body) and not body.get("error") and str(body.get("topic")) not in made:
        found.append(_of_partition(body, topology))  # the broker may be expected to refuse an unknown topic
    if step.kind != "act":
        found += _of_condition(word, value, topology, body)
    if word == "create_topic" and step.kind == "expect" and not body.get("error"):
        found += _of_created(body.get("assignment"))
    found += [
        topology.lacks_node(body[key], also=(*topology.apart, *_NOBODY)) for key in _NAMES_A_BROKER if key in body
    ]
    if word == "read" and not 1 <= body.get("from", 1) <= topology.clients:
        found.append((f"there is no client link {body['from']}", f"links of clients: 1 to {topology.clients}"))
    yield from (wrong for wrong in found if wrong is not None)


def _of_healed(name: str) -> Wrong | None:
    try:
        undone_by = "heal" if name == "all" else find(name)[0].undone_by
    except UsageError as error:
        return str(error), ""
    return None if undone_by == "heal" else (f"heal does not undo {name!r}; {undone_by} does", "")


def _of_created(assignment: Any) -> Iterator[Wrong]:
    """Of a topic that a step creates; where the step expects an error, a wrong assignment is what it is about."""
    if assignment is None:
        return
    if not isinstance(assignment, list) or not all(
        isinstance(replicas, list) and replicas and all(type(broker) is int for broker in replicas)
        for replicas in assignment
    ):
        yield f"assignment lists the brokers of each partition, not {assignment!r}", "write assignment = [[1, 2, 3]]"
        return
    yield from _of_assignment(assignment)


def _of_condition(word: str, value: Any, topology: Topology, body: Mapping[str, Any]) -> Iterator[Wrong | None]:
    if (wrong := wrong_condition(word, value)) is not None:
        yield wrong
        return
    if word in LISTS_BROKERS:
        yield from (topology.lacks_node(broker, also=_NOBODY if word == "leaders" else ()) for broker in value)
        partitions = topology.topics.get(str(body.get("topic", next(iter(topology.topics)))), len(value))
        if word == "leaders" and len(value) > partitions:
            yield f"{len(value)} leaders of {partitions} partitions", "name as many as there are"
    if word in KEYED_BY_BROKER:
        yield from (topology.lacks_node(broker) for broker in value)
        if word == "leader_seen_by":
            yield from (topology.lacks_node(leader, also=_NOBODY) for leader in value.values())
