"""Everything a plan may name: the nodes, the topics with their partitions, the links, the clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from faults.network.link_fault import LinkFault
from faults.planned import PlannedFault
from faults.targets import Target
from harness.cluster.base_cluster import BrokerCluster
from harness.errors import UsageError
from harness.ports.cluster import Cluster, Link, NodeId
from harness.ports.faults import NothingToStrike
from harness.scenario.model import Scenario
from harness.systems import made
from harness.values import is_number

Wrong = tuple[str, str]  # (what is wrong, the remedy)
_OF_PARTITION = ("leader", "followers", "isr", "last_isr")
_NOWHERE = Path("/nonexistent")


@dataclass(frozen=True, kw_only=True)
class Topology:
    """`brokers`, `apart` and `links` are empty for a cluster that somebody else runs: they are not known yet."""

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
        if not isinstance(node, int) and not is_number(str(node).removeprefix("-")):
            return f"{node!r} is no broker's id", self._brokers_words()
        if not self.knows_nodes or int(node) in (*self.brokers, *also):
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


def of(scenario: Scenario) -> Topology:
    """For a scenario whose target is known (target.py)."""
    clients = max(scenario.workload.workers, 1)
    topics = {topic.name: topic.partition_count for topic in scenario.topics}
    facts = scenario.workload.facts
    coordinated = (*([facts.group] if facts.group else []), *facts.transactional_ids)
    cluster = made(scenario.cluster, _NOWHERE, client_links=clients)  # nothing is started
    if not isinstance(cluster, BrokerCluster):
        return Topology(topics=topics, brokers=(), apart=(), links=(), clients=clients, coordinated=coordinated)
    return Topology(
        topics=topics,
        brokers=tuple(int(node.node) for node in cluster.nodes if node.role == "broker"),
        apart=tuple(int(node.node) for node in cluster.nodes if node.role != "broker"),
        links=cluster.links(),
        clients=clients,
        coordinated=coordinated,
        cluster=cluster,
    )
