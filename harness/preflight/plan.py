"""Checks a plan before a run: everything it names is there (brokers, topics, partitions, links, clients), and can work
when it is planned: no heal without a fault, no kill of a node that is down, no fault when the load is over.

Only certain problems are reported. Any node may have a role, and a fault with `for` may be over or not: then nothing is
reported, and the run shows it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import faults.links
from faults.catalogue import find, is_fault
from faults.network.link_fault import LinkFault
from faults.planned import PlannedFault
from faults.targets import Target
from harness.cluster.base_cluster import BrokerCluster
from harness.cluster.catalogue import made
from harness.errors import Problem, UsageError
from harness.ports.cluster import COORDINATION, Cluster, Link, NodeId
from harness.ports.faults import NothingToStrike
from harness.scenario.model import FaultSpec, Scenario, StepSpec, TopicSpec
from harness.scenario.recast import ONE_BROKER
from harness.scenario.steps import KEYED_BY_BROKER, LISTS_BROKERS, wrong_condition
from harness.scenario.topic_names import wrong_count, wrong_name
from harness.values import is_number

Wrong = tuple[str, str]  # (what is wrong, the remedy)
_OF_PARTITION = ("leader", "followers", "isr", "last_isr")
_NOWHERE = Path("/nonexistent")


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Of a cluster that somebody else runs only `brokers` are known, if it has told them; neither links nor others."""

    topics: Mapping[str, int]  # name -> partitions
    brokers: tuple[int, ...]
    apart: tuple[int, ...]  # coordination services, and controllers that are not brokers
    links: Sequence[Link]
    clients: int
    coordinated: tuple[str, ...] = ()  # the load's group and transactional ids
    cluster: Cluster | None = None

    @property
    def knows_nodes(self) -> bool:
        return bool(self.brokers)

    def lacks_node(self, node: Any, *, also: Sequence[int] = ()) -> Wrong | None:
        """Why this node cannot be named: it is no broker, and not one of `also`. None if it can."""
        if type(node) is not int and not is_number(str(node).removeprefix("-")):
            return f"{node!r} is no broker's id", self._brokers_words()
        if not self.knows_nodes or int(node) in (*self.brokers, *also):
            return None
        if self.cluster is None and int(node) >= COORDINATION:  # of somebody else's, nobody tells which there are
            return None
        return f"there is no broker {node}", self._brokers_words()

    def lacks_partition(self, topic: str, partition: int) -> Wrong | None:
        if topic not in self.topics:
            close = get_close_matches(topic, self.topics, n=1)
            return f"there is no topic {topic!r}", (
                f"did you mean {close[0]!r}?" if close else f"topics: {', '.join(self.topics)}"
            )
        count = self.topics[topic]
        if not 0 <= partition < count:
            return f"topic {topic!r} has no partition {partition}", f"it has {count}, numbered from 0"
        return None

    def wrong_target(self, target: Target) -> Wrong | None:
        """Why a target of a fault or step names what is not there. None if it is right."""
        for _, word, argument in target.terms:
            wrong = self._wrong_term(word, argument)
            if wrong is not None:
                return f"target {target.words!r}: {wrong[0]}", wrong[1]
        if self.certainly(target) == frozenset():
            return f"target {target.words!r}: no node is left of it", "subtract less"
        return None

    def _wrong_term(self, word: str, argument: str | None) -> Wrong | None:
        if is_number(word):
            return self.lacks_node(word, also=self.apart)
        if word == "broker":
            return self.lacks_node(argument or "", also=self.apart)
        if word == "random":
            count = argument or "1"
            if not is_number(count) or int(count) < 1:
                return f"random({argument}) is nobody", "write random(1)"
            if self.knows_nodes and int(count) > len(self.brokers):
                return f"random({argument}) of {len(self.brokers)} brokers", f"at most random({len(self.brokers)})"
        if word == "coordinator" and (argument or "") not in self.coordinated:
            names = ", ".join(self.coordinated)
            return f"the load has no group or transactional id {argument!r}", (
                f"it has {names}" if names else "give [workload] a group"
            )
        if word in _OF_PARTITION:
            topic, slash, partition = (argument or "").rpartition("/")
            if not slash or not is_number(partition):
                return f"{word} is of a partition", f"write {word}({next(iter(self.topics), 'orders')}/0)"
            return self.lacks_partition(topic, int(partition))
        return None

    def certainly(self, target: Target) -> frozenset[int] | None:
        """The nodes a target means in every case; None if that depends on roles or on chance."""
        found: set[int] = set()
        for sign, word, argument in target.terms:
            everybody = word == "all" or (word == "random" and argument == str(len(self.brokers)))
            if everybody and self.knows_nodes:
                meant = set(self.brokers)
            elif is_number(word) or (word == "broker" and is_number(argument or "")):
                meant = {int(argument if word == "broker" and argument else word)}
            else:
                return None
            found = found - meant if sign == "-" else found | meant
        return frozenset(found)

    def strikes_nothing(self, planned: PlannedFault) -> Wrong | None:
        """Why a fault on links finds none in every case. None if it finds some, or that depends on roles or chance."""
        victims = self.certainly(planned.victims)
        if self.cluster is None or not isinstance(planned.fault, LinkFault) or not victims:
            return None
        try:
            planned.fault.strikes(self.cluster, [NodeId(victim) for victim in sorted(victims)])
        except NothingToStrike as nothing:
            return str(nothing), "name a target that leaves somebody to be cut from, or start more brokers"
        except UsageError:  # a link that is not there, which is reported by its name
            return None
        return None

    def _brokers_words(self) -> str:
        return f"brokers: {', '.join(str(broker) for broker in self.brokers)}" if self.brokers else ""


def topology_of(scenario: Scenario) -> Topology:
    """For a scenario whose target is known (target.py)."""
    clients = max(scenario.workload.workers, 1)
    topics = {topic.name: topic.partition_count for topic in scenario.topics}
    facts = scenario.workload.facts
    coordinated = (*([facts.group] if facts.group else []), *facts.transactional_ids)
    cluster = made(scenario.cluster, _NOWHERE, client_links=clients)  # nothing is started
    if not isinstance(cluster, BrokerCluster):
        brokers = scenario.traits.brokers
        return Topology(topics=topics, brokers=brokers, apart=(), links=(), clients=clients, coordinated=coordinated)
    return Topology(
        topics=topics,
        brokers=tuple(int(node.node) for node in cluster.nodes if node.role == "broker"),
        apart=tuple(int(node.node) for node in cluster.nodes if node.role != "broker"),
        links=cluster.links(),
        clients=clients,
        coordinated=coordinated,
        cluster=cluster,
    )


_NOBODY = (-1,)


def names(scenario: Scenario, topology: Topology) -> Iterator[Problem]:
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
            yield Problem(place=place, what=f"step {count}, {step.wording!r}: {what}", remedy=remedy)
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
    if topology.knows_nodes and topic.replicas > brokers:
        what = f"{topic.replicas} replicas on {brokers} brokers"
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
    found += [topology.lacks_node(body[key], also=(*topology.apart, *_NOBODY)) for key in ONE_BROKER if key in body]
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


# ---- the order of steps ---------------------------------------------------------------------------------------------


_ENDS_NODES = ("kill", "stop")
_KILLS = ("wipe", "power-loss", "power-off")  # a running node
_UNDOES = {"resume": "pause", "free": "fill"}
_MOVES_NO_LEADER = ("produce", "elect", "heal", "create_topic", "delete_topic")


def order(scenario: Scenario, topology: Topology) -> Iterator[Problem]:
    foreseen = Foreseen(topology)
    for number, step in enumerate(scenario.steps, 1):
        wrong = foreseen.act(step) if step.kind == "act" else None
        if wrong is not None:
            place = scenario.places.step(step.line, step.kind)
            yield Problem(place=place, what=f"step {number}, {step.wording!r}: {wrong[0]}", remedy=wrong[1])


class Foreseen:
    """The faults in force after the steps so far, as far as that is certain."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._links: list[frozenset[Link] | None] = []  # harmed links; None: which ones depends on roles
        self._down: set[int] = set()
        self._harmed: Mapping[str, set[int]] = {"pause": set(), "fill": set()}
        self._perhaps_harmed: set[str] = set()
        self._untouched = topology.cluster is not None  # our own cluster is new: its first replicas lead

    def act(self, step: StepSpec) -> Wrong | None:
        """Why this act is wrong at this place, or None. Also applies its effect."""
        word, value = next(iter(step.body.items()))
        wrong = None
        try:
            planned = step.planned
        except UsageError:  # `names` reports it
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
        """The nodes of its target; None where they depend on roles or on chance."""
        try:
            return self._topology.certainly(step.victims) if step.victims is not None else None
        except UsageError:  # `names` reports it
            return None

    def _named(self, names: Any) -> frozenset[Link] | None:
        try:
            return frozenset(faults.links.named(self._topology.links, names)) if self._topology.links else None
        except UsageError:  # `names` reports it
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
        elif word in ("start", "restart"):
            self._down -= self._down if nodes is None else nodes
        elif word in self._harmed:
            self._harmed[word].update(nodes or ())
            self._perhaps_harmed |= {word} if nodes is None else set()
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


# ---- times -----------------------------------------------------------------------------------------------------


def times(scenario: Scenario) -> Iterator[Problem]:
    duration_s = scenario.workload.duration_s
    for number, spec in enumerate(scenario.faults):
        for key, what, remedy in _of_times(spec, duration_s):
            place = scenario.places.fault(number, key)
            yield Problem(place=place, what=f"fault {spec.kind!r}: {what}", remedy=remedy)
    if scenario.faults and scenario.steps:
        place = scenario.places.section("steps")
        yield Problem(place=place, what="there are [[faults]] and [[steps]]", remedy="give either, not both")


def _of_times(spec: FaultSpec, duration_s: float) -> Iterator[tuple[str, str, str]]:
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
