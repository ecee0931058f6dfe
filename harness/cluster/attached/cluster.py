"""A cluster that the user started and that continues after the run: the part common to all ways of injecting faults.

Its own records cannot be read, so leaders and in-sync replicas are polled. Subclasses add the faults that are possible.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from harness.cluster.attached.administration import (
    ADDRESS,
    Administration,
    Answers,
    NobodyAnswers,
    addresses_of,
    answers_of,
    brokers_in,
)
from harness.cluster.attached.front_ends import FrontEndsObservation, refuse_unsaid
from harness.cluster.attached.journal import DELETE_GROUP, DELETE_TOPIC, DELETIONS, AttachedJournal
from harness.cluster.attached.listener import refusal_of
from harness.cluster.attached.own_groups import OwnGroups
from harness.cluster.attached.own_topics import OwnTopics, there_already
from harness.cluster.attached.reachability import (
    Reachability,
    UnansweringBrokers,
    becomes,
    is_answering,
    is_there,
    look_at,
)
from harness.cluster.books.observing import LOOK_S, Observation, QuorumObservation
from harness.cluster.broker_requests import connections
from harness.cluster.local.processes import Spawner
from harness.cluster.printed_configuration import KEYS
from harness.cluster.questions import BrokerQuestions
from harness.cluster.replica_logs import log_end_in, may_be_held, partition_folders, read_high_watermarks, read_replica
from harness.errors import HarnessError
from harness.history.schema.schemas import AT_START
from harness.host.clock import Clock
from harness.ports.cluster import (
    BEHIND_FRONT_ENDS,
    COORDINATION,
    ClientId,
    ClusterHistory,
    Evidence,
    Link,
    Node,
    NodeEnd,
    NodeId,
    PartitionState,
    ReplicaLog,
    TopicDefinition,
)
from harness.ports.faults import AlreadyDown
from harness.ports.own_names import OwnNames
from harness.ports.security import SecuritySpec
from harness.scenario.model import ClusterSpec

EFFECT_S = 10.0  # seconds; shorter than the default time of a step
_UP_S = 60.0
# Settings that decide whether a loss was permitted or a write possible; read from the topics once they exist.
# What the checks judge a topic by.
_ASKED = (
    "unclean.leader.election.enable",
    "min.insync.replicas",
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "message.timestamp.type",
)


class ForeignCluster(ABC):
    """Implements Cluster and CanReconfigure. Before `start`, only what the run has stored can be read."""

    title = "a cluster that was there"

    def __init__(self, *, run_path: Path, spec: ClusterSpec, clock: Clock) -> None:
        self._run = run_path.absolute()  # not resolved: the sweep passes a path that is bound to one particular folder
        self._spec = spec
        self._clock = clock
        self._journal = AttachedJournal(self._run)
        self._spawner = Spawner(run=self._run)
        self._addresses: dict[NodeId, ADDRESS] = self._journal.addresses()
        self._down: set[NodeId] = set()  # stopped by the harness
        self._observation: Observation | None = None
        self._administration: Administration | None = None
        self._connect = connections(spec.attached.security)
        self._unanswering = UnansweringBrokers(
            clock=clock, is_struck=self._is_struck, code_of=self.exit_code_of, connect=self._connect
        )
        self._quorum = False
        self._shared_id: NodeId | None = None  # of front ends, as the cluster has it
        self._controller: int | None = None
        self._made: dict[str, int] = {}  # the topics that this run has made, and how many partitions they have
        self._names = self._journal.names() or OwnNames.drawn(spec.attached.prefix)

    # -- to be implemented by subclasses -----------------------------------------------------------------------------

    @abstractmethod
    async def find(self) -> Mapping[NodeId, ADDRESS]:
        """Returns the address at which the harness reaches each broker."""

    @abstractmethod
    def known(self) -> Sequence[NodeId]:
        """Returns every node that can be told apart, brokers or not."""

    def apart(self) -> Sequence[NodeId]:
        """Returns coordination services and controllers: numbered from 100 on, and not registered as brokers."""
        return [node for node in self.known() if node >= COORDINATION and node not in self._addresses]

    async def undo(self, what: str, subject: str) -> Evidence:
        """Executes an undo action that the journal lists. After a killed harness, the next command calls it without
        `start`."""
        administration = Administration(self._addresses, connect=self._connect)
        try:
            return self._seen(await self._deleted(what, subject, administration))
        finally:
            administration.close()

    async def _deleted(self, what: str, subject: str, administration: Administration) -> str:
        """`subject`: its name on the cluster."""
        assert what in DELETIONS, what
        own: OwnTopics | OwnGroups = OwnTopics(journal=self._journal, administration=administration)
        if what == DELETE_GROUP:
            own = OwnGroups(journal=self._journal, administration=administration, names=self._names)
        with self._undoing(what, subject):
            return await own.delete(subject)

    @contextlib.contextmanager
    def _undoing(self, what: str, subject: str) -> Iterator[None]:
        """Notes what came of it: the next command tries again only if it is told to."""
        try:
            yield
        except HarnessError:
            self._journal.failed(what, subject)
            raise
        self._journal.paid(what, subject)

    # -- Cluster ------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Sequence[Node]:
        brokers = sorted(self._addresses) or [NodeId(each) for each in sorted(self._spec.brokers)]
        apart = [Node(node=each, role="coordination", name=self._name(each)) for each in self.apart()]
        return [*apart, *(Node(node=each, role="broker", name=self._name(each)) for each in brokers)]

    @property
    def brokers(self) -> Sequence[NodeId]:
        return [node.node for node in self.nodes if node.role == "broker"]

    async def start(self) -> None:
        """Starts nothing: finds the brokers and checks that each of them answers."""
        self._addresses = dict(await self.find())
        self._journal.found(self._addresses)
        self._journal.named(self._names)
        for node, (host, port) in self._addresses.items():
            _, seen = await becomes(host, port, is_there, within_s=EFFECT_S, connect=self._connect)
            if not is_answering(seen):
                who = "front end" if self._spec.attached.front_ends else "broker"
                raise HarnessError(
                    f"{self._name(node)}: {seen.words}; every {who} has to be up, and reached from here, before a run"
                )
        administration = self._administration = Administration(self._addresses, connect=self._connect)
        self._quorum = await administration.has_quorum()
        if self._spec.attached.front_ends:
            self._observation = FrontEndsObservation(
                self._addresses, is_running=self.is_running, clock=self._clock, connect=self._connect
            )
        elif self._quorum:
            # Brokers forward the request for the quorum's leader to it.
            self._observation = QuorumObservation(
                self._addresses,
                controllers=self._addresses,
                is_running=self.is_running,
                clock=self._clock,
                connect=self._connect,
            )
        else:
            self._observation = Observation(
                self._addresses, is_running=self.is_running, clock=self._clock, connect=self._connect
            )

    async def stop(self) -> None:
        """Stops nothing. Deletes what the run has made unless the user wants to keep it; a failed deletion stays in the
        journal."""
        try:
            for what, subject in self._journal.owed():
                if what in DELETIONS and self._administration is not None:
                    with contextlib.suppress(HarnessError):
                        await self._deleted(what, subject, self._administration)
        finally:
            for part in (self._observation, self._administration):
                if part is not None:
                    part.close()
            self._observation = self._administration = None

    def bootstrap(self, client: ClientId | None) -> str:
        """The same addresses for every client: clients of an attached cluster have no links of their own."""
        known = [f"{host}:{port}" for host, port in self._addresses.values()]
        given = [each.strip() for each in self._spec.bootstrap.split(",") if each.strip()]
        return ",".join([*given, *(each for each in known if each not in given)])

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        # No other is named: brokers before 0.11 create a topic that is named (auto.create.topics.enable).
        there = [self._names.there(topic) for topic in topics if topic in self._made]
        states = [replace(state, topic=self._names.here(state.topic)) for state in await self._observing().look(there)]
        await self._unanswering.look(self._observing().answered, self._addresses)
        controller = self._observing().controller()
        if controller != self._controller:
            self._controller = controller
            self._journal.controller(controller, t_ns=self._clock.monotonic_ns(), uncertainty_ns=int(LOOK_S * 1e9))
        return states

    async def controller(self) -> int:
        return self._observing().controller()

    # -- SeesNodesEnd: by brokers that do not answer any more ---------------------------------------------------------

    def node_ends(self) -> Sequence[NodeEnd]:
        return self._unanswering.found()

    async def exit_code_of(self, node: NodeId) -> int | None:
        """Of a broker's process that is gone, where that can be known from here."""
        return None

    async def _has_ended(self, node: NodeId) -> bool:
        """Whether a broker that is to be ended had ended by itself."""
        return node in self._addresses and await self._unanswering.has_ended(node, self._addresses[node])

    def _is_struck(self, node: NodeId) -> bool:
        """Whether a fault that is not undone yet may be why a broker does not answer."""
        return not self.is_running(node) or any(undo not in DELETIONS for undo, _ in self._journal.owed())

    # -- SharedWithOthers ---------------------------------------------------------------------------------------------

    @property
    def own_names(self) -> OwnNames:
        return self._names

    async def claim(self, *, groups: Sequence[str], transactional_ids: Sequence[str]) -> None:
        own = OwnGroups(journal=self._journal, administration=self._administering(), names=self._names)
        deletes = self._spec.attached.delete_topics
        await own.claim(groups=groups, transactional_ids=transactional_ids, owes_deletion=deletes)

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None:
        """Raises HarnessError, before any topic is created, if a topic exists already or a broker does not."""
        administration = self._administering()
        there = await administration.topics()
        for topic in topics:
            if self._names.there(topic.name) in there:
                raise there_already(self._names.there(topic.name))
            missing = {node for replicas in topic.assignment or () for node in replicas} - set(self._addresses)
            if missing:
                raise HarnessError(
                    f"topic {topic.name!r}: its assignment names brokers {sorted(missing)}; the cluster has "
                    f"{sorted(self._addresses)}"
                )
        await self._observing().look([])
        await self._note_brokers_configuration()
        owes_deletion = self._spec.attached.delete_topics and await administration.deletes_topics()
        for topic in topics:
            renamed = replace(topic, name=self._names.there(topic.name))
            await self._own_topics().create(renamed, self._observing(), owes_deletion=owes_deletion)
            self._made[topic.name] = topic.partition_count
            await self._note_configuration(topic.name)

    async def _note_configuration(self, topic: str) -> None:
        settings = await self._administering().in_force(self._names.there(topic), _ASKED)
        if settings:
            self._journal.configured(topic, settings, t_ns=self._clock.monotonic_ns(), source=AT_START)

    async def _note_brokers_configuration(self) -> None:
        """Front ends have those of the one node that they answer for."""
        shared = self._shared_id
        found = await self._administering().of_brokers(sorted(KEYS), shared=shared)
        if shared is not None and found:
            found = {BEHIND_FRONT_ENDS: next(iter(found.values()))}
        for node, settings in found.items():
            self._journal.configured_broker(node, settings, t_ns=self._clock.monotonic_ns())

    def collect(self) -> ClusterHistory:
        """Returns what was polled during the run; the cluster's own records are not accessible."""
        return self._journal.history()

    def environment(self) -> Mapping[str, str]:
        places = ", ".join(f"{node} at {host}:{port}" for node, (host, port) in self._addresses.items())
        if self._spec.attached.front_ends:
            system = f"{self.title}, {len(self._addresses)} front ends of node id {self._shared_id}"
            return {"system": system, "front ends": places, "leaders and ISRs": "as each front end tells them"}
        environment = {"system": f"{self.title}, {'KRaft' if self._quorum else 'ZooKeeper'}"}
        environment["coordination"] = "kraft" if self._quorum else "zookeeper"
        environment["brokers"] = places
        return {**environment, "leaders and ISRs": "polled from each broker, not from the cluster's own books"}

    def coordination(self) -> str:
        raise HarnessError("somebody else runs this cluster: there is nothing to start; see `kafka-chaos run`")

    # -- CanReconfigure -----------------------------------------------------------------------------------------------

    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        there = self._names.there(topic)
        await self._own_topics().confirm(there, "configure")
        await self._observing().set_topic_config(there, settings)
        self._journal.configured(topic, settings, t_ns=self._clock.monotonic_ns())

    async def delete_topic(self, topic: str) -> None:
        """Of this run, and no other of that name; it is not owed any more then."""
        there = self._names.there(topic)
        if self._journal.own_topic(there) is None:
            raise HarnessError(f"topic {there!r} is not this run's, and is left alone")
        await self._own_topics().delete(there)
        self._journal.paid(DELETE_TOPIC, there)

    async def elect(self, topic: str, partition: int, *, kind: Literal["preferred", "unclean"]) -> int:
        there = self._names.there(topic)
        await self._own_topics().confirm(there, "elect")
        return await self._observing().elect(there, partition, kind=kind)

    # -- internal ------------------------------------------------------------------------------------------------

    def is_running(self, node: NodeId) -> bool:
        """False if the harness stopped the node; a node that ended by itself shows as a broker that does not answer."""
        return node not in self._down

    async def spawn_worker(self, arguments: Sequence[str], *, log: Path) -> asyncio.subprocess.Process:
        return await self._spawner.spawn_worker(arguments, log=log)

    @property
    def longest_act_s(self) -> float:
        """A command, and then its effect."""
        timeout_s = self._spec.attached.command_timeout_s
        return timeout_s + max(_UP_S, timeout_s)

    async def _shows(
        self, node: NodeId, wanted: Callable[[Reachability], bool], *, after: str, within_s: float = EFFECT_S
    ) -> Evidence:
        """Waits until the broker is in the wanted state; the evidence has the time since which it was seen to be.
        Raises HarnessError if it is not in time."""
        if node not in self._addresses:  # not a broker: it cannot be observed from outside
            return self._seen(f"{self._name(node)}: {after}; it is not seen from outside")
        if wanted is is_answering:
            within_s = max(_UP_S, self._spec.attached.command_timeout_s)
        came, seen = await becomes(*self._addresses[node], wanted, within_s=within_s, connect=self._connect)
        if not came:
            raise HarnessError(f"{self._name(node)}: {after}, and yet {seen.words} {within_s:g} s later")
        now = self._seen(f"{self._name(node)}: {after}; {seen.words}")
        return replace(now, t_ns=now.t_ns - int(seen.for_s * 1e9))

    # -- what somebody else did to a node, or has on it, is left alone ------------------------------------------------

    def _owes(self, undo: str, node: NodeId) -> bool:
        return (undo, str(node)) in self._journal.owed()

    def _stopped_by_us(self, node: NodeId) -> bool:
        """Whether it was this run that ended the node, and so is to start it."""
        return self._owes("start", node)

    async def _refuse_if_down(self, node: NodeId) -> None:
        """Before a node is ended: one that is down already would be started by this run and against its owner's
        will. Where the node is no broker, nobody can tell."""
        if node not in self._addresses or self._stopped_by_us(node):
            return
        seen = await look_at(*self._addresses[node], connect=self._connect)
        if seen.kind == "gone":
            await self._has_ended(node)
            raise self._down_by_others(node, seen.words)

    def _down_by_others(self, node: NodeId, words: str) -> AlreadyDown:
        return AlreadyDown(f"{self._name(node)} is down already, and not by this run: {words}; it is left alone")

    async def _refuse_if_last_copy(self, node: NodeId) -> None:
        """Before a disk is wiped: other topics' records are not this run's to destroy."""
        others = await self._administering().only_copies_on(node) - set(self._journal.topics())
        if others:
            raise HarnessError(
                f"{self._name(node)} is not wiped: it has the only in-sync replica of partitions of topics that are "
                f"not this run's ({', '.join(sorted(others)[:3])}); give them more replicas, or another cluster"
            )

    def _node_links(self) -> Sequence[Link]:
        """Links from every node to every other; a coordination service opens no connections, and clients have no links
        of their own."""
        everybody = [node.node for node in self.nodes]
        return [
            Link(source=source, target=target) for source in self.brokers for target in everybody if source != target
        ]

    def questions(self) -> BrokerQuestions:
        return _Questions(
            self._addresses,
            is_running=self.is_running,
            clock=self._clock,
            connect=self._connect,
            names=self._names,
            made=self._note_made,
        )

    async def _note_made(self, there: str) -> None:
        await self._own_topics().note(there, owes_deletion=self._spec.attached.delete_topics)

    def _observing(self) -> Observation:
        if self._observation is None:
            raise HarnessError("the cluster was not attached to")
        return self._observation

    def _administering(self) -> Administration:
        if self._administration is None:
            raise HarnessError("the cluster was not attached to")
        return self._administration

    def _own_topics(self) -> OwnTopics:
        return OwnTopics(journal=self._journal, administration=self._administering())

    def _seen(self, sentence: str) -> Evidence:
        return Evidence(t_ns=self._clock.monotonic_ns(), sentence=sentence)

    def _name(self, node: NodeId) -> str:
        if node in self.apart():
            return f"node {node}"
        return f"front end {node}" if self._spec.attached.front_ends else f"broker {node}"

    # -- the replicas' logs, where they can be brought here -----------------------------------------------------------

    def _data(self, node: NodeId) -> Path:
        return self._run / "nodes" / str(node) / "data"

    def _partitions(self) -> list[tuple[str, int]]:
        """As their folders are called."""
        return [(self._names.there(topic), part) for topic, count in self._made.items() for part in range(count)]

    def _replicas_in(self, node: NodeId, data: Path) -> list[ReplicaLog]:
        """The replicas of this run's topics only."""
        topics = self._journal.topics()
        now = self._clock.monotonic_ns()
        return [
            replace(read_replica(node, topic, partition, folder, t_ns=now), topic=self._names.here(topic))
            for topic, partition, folder in may_be_held(each for each in partition_folders(data) if each[0] in topics)
        ]

    def _log_end_in(self, data: Path, topic: str, partition: int) -> int | None:
        return log_end_in(data, self._names.there(topic), partition)

    def _high_watermark_in(self, data: Path, topic: str, partition: int) -> int | None:
        return read_high_watermarks(data).get((self._names.there(topic), partition))


class _Questions(BrokerQuestions):
    """`made` is told the name of a topic that a question has made: it is the run's, too."""

    def __init__(self, *arguments: Any, made: Callable[[str], Awaitable[None]], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._made = made

    async def create_topic(self, topic: TopicDefinition) -> int:
        code = await super().create_topic(topic)
        if code == 0:
            await self._made(self._names.there(topic.name))
        return code


async def registered(given: str, place: str, *, security: SecuritySpec | None) -> Mapping[NodeId, ADDRESS]:
    """Returns the brokers registered in the cluster at "host:port,host:port". Raises HarnessError, which says what a
    listener wants where that is why nobody answers, and OtherTopology where these are front ends."""
    answers = await answers_at(given, place, security=security)
    refuse_unsaid(answers)
    return brokers_in(answers)


async def answers_at(given: str, place: str, *, security: SecuritySpec | None) -> Answers:
    """What each address tells of the brokers; one of them does. Raises HarnessError as `registered` does."""
    answers = await answers_of(addresses_of(given, place), connect=connections(security))
    try:
        brokers_in(answers)
    except NobodyAnswers:
        for answer in answers:
            if (refused := await refusal_of(answer.address, security)) is not None:
                raise HarnessError(str(refused)) from None
        raise
    return answers
