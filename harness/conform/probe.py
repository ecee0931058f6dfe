"""How a row asks: in a version that broker and codec have, at a partition's leader or a group's coordinator, bounded.

A cluster needs its time: a new topic has no leader yet, a coordinator loads its log. Who says so is asked again for a
while; what then is still so leaves the row undecided.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest

from harness.cluster.attached.administration import (
    ADDRESS,
    Administration,
    Answered,
    Unanswered,
    answers_of,
    brokers_in,
)
from harness.cluster.attached.front_ends import shared_id
from harness.cluster.attached.journal import OwnTopic
from harness.cluster.attached.reachability import look_at
from harness.cluster.books.observing import CREATION_VERSION, creation, known_id
from harness.cluster.broker_requests import BrokerConnection, Connect
from harness.conform.row import Need, NotOffered, Undecided, only
from harness.errors import HarnessError
from harness.history.facts.error_codes import error_code
from harness.host.clock import Clock
from harness.ports.cluster import NodeId, TopicDefinition

ASK_S = 10.0
SETTLES_S = 15.0
AGAIN_S = 0.1
_COMES_LATE_S = 5.0
GROUP, TRANSACTION = 0, 1  # kinds of a coordinator's key
EARLIEST, LATEST = -2, -1
# Loading, not here, not available, not in time: the cluster is busy with itself.
TRANSIENT = frozenset({5, 6, 7, 8, 14, 15, 16, 41, 51, 56, 78, 89})
CREATE_TOPICS_MOST = CREATION_VERSION
CREATE_TIME = {"message.timestamp.type": "CreateTime"}
_SETTING_REFUSED = frozenset({40, 42, 44})
_UNKNOWN_TOPIC = 3
_METADATA_MOST = 12
_REPLICAS_MOST = 3
_MARK_BYTES = 4
_BY_KEYS_FROM = 4  # FindCoordinator (KIP-699)

Answer = TypeVar("Answer")
Versions = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Topic:
    """One of this run's own, with one partition unless it was made with more. topic_id: None where there are no ids."""

    name: str
    topic_id: Any
    leader: NodeId
    epoch: int  # the leader's; -1 where metadata does not tell it

    @property
    def id_field(self) -> Mapping[str, Any]:
        return {} if self.topic_id is None else {"topic_id": self.topic_id}


@dataclass(frozen=True, kw_only=True)
class View:
    """The cluster from one address that was given. brokers: all of them; first: who is there, None: whoever."""

    at: str
    brokers: Mapping[NodeId, ADDRESS]
    first: NodeId | None = None


async def views(bootstrap: Sequence[ADDRESS], *, connect: Connect) -> tuple[Sequence[View], Sequence[str]]:
    """(A view for each address that somebody answers at, why others have none). Several addresses of one broker are
    one view; front ends, which share an id, have one each. Raises HarnessError if nobody answers."""
    answers = await answers_of(bootstrap, connect=connect)
    if not any(isinstance(answer, Answered) for answer in answers):
        return [View(at=_place(bootstrap[0]), brokers=await reach(bootstrap, connect=connect))], []
    shared, known = shared_id(answers), brokers_in(answers)
    nodes = {address: node for node, address in known.items()}
    found: dict[tuple[NodeId | None, ADDRESS | None], View] = {}
    for answer in answers:
        if not isinstance(answer, Answered):
            continue
        at = _place(answer.address)
        if shared is not None:
            found[shared, answer.address] = View(at=at, brokers={shared: answer.address}, first=shared)
        else:
            node = nodes.get(answer.address)
            found.setdefault((node, None), View(at=at, brokers=known, first=node))
    named = [view for view in found.values() if view.first is not None]
    silent = [answer.why for answer in answers if isinstance(answer, Unanswered)]
    return named or list(found.values()), silent


def _place(address: ADDRESS) -> str:
    return f"{address[0]}:{address[1]}"


async def reach(bootstrap: Sequence[ADDRESS], *, connect: Connect) -> dict[NodeId, ADDRESS]:
    """The registered brokers. Where nobody tells them in a form that can be read, the addresses that answer at all.
    Raises HarnessError if none does."""
    try:
        return dict(brokers_in(await answers_of(bootstrap, connect=connect)))
    except HarnessError:
        answers = {address for address in bootstrap if (await look_at(*address, connect=connect)).kind == "answers"}
        if not answers:
            raise
        return {NodeId(-1 - number): address for number, address in enumerate(sorted(answers))}


class Probe:
    """`addresses`: every broker. `first`: who is asked where any would do, if it answers; None: the lowest id. All that
    is made carries `mark`."""

    def __init__(
        self, addresses: Mapping[NodeId, ADDRESS], *, connect: Connect, clock: Clock, first: NodeId | None = None
    ) -> None:
        self.addresses = dict(addresses)
        self._first = first
        self.connect = connect
        self.clock = clock
        self.mark = f"kafka-chaos-conform-{secrets.token_hex(_MARK_BYTES)}"
        self._offered: dict[NodeId, Mapping[int, Versions]] = {}
        self._connections: dict[tuple[NodeId, str], BrokerConnection] = {}
        self._made: list[str] = []
        self._unanswered: set[str] = set()  # of these: what may still come to be
        self._taken: set[str] = set()  # of these: what was answered without an error, and may not be in metadata yet
        self.groups: list[str] = []  # that this run's members or offsets have made
        self._round = 0
        self.last_asked: tuple[NodeId, str, int] = (self.first, "ApiVersionsRequest", 0)

    async def learn(self) -> None:
        """Which versions each broker offers; one that does not say so in a form that can be read offers what is not
        known."""
        for node in self.addresses:
            with contextlib.suppress(OSError, TimeoutError):
                answer = await self.connection(node).ask_exactly(ApiVersionsRequest(), 0, timeout_s=ASK_S)
                self._offered[node] = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def begin_row(self) -> None:
        """Each asking has names of its own, and connections on which nobody else's answer is due."""
        self._round += 1
        self.close()

    # -- whom, and in which version -----------------------------------------------------------------------------------

    @property
    def nodes(self) -> Sequence[NodeId]:
        """Those that have answered."""
        return sorted(self._offered)

    @property
    def first(self) -> NodeId:
        known = self._offered or self.addresses
        return self._first if self._first is not None and self._first in known else min(known)

    def connection(self, node: NodeId, lane: str = "") -> BrokerConnection:
        """`lane`: answers that may keep each other waiting come on connections of their own."""
        if node not in self.addresses:
            raise Undecided(f"broker {node} is named, and has no address in the metadata")
        return self._connections.setdefault((node, lane), self.connect(*self.addresses[node]))

    def offered(self, node: NodeId | None = None) -> Mapping[int, Versions]:
        """By API key. Raises Undecided where the broker did not say it."""
        try:
            return self._offered[self.first if node is None else node]
        except KeyError:
            raise Undecided("which versions it offers is not known: see the row api-versions") from None

    def versions(self, api: Any, *, least: int = 0, most: int = 99, node: NodeId | None = None) -> range:
        """Those that broker and codec have. Raises NotOffered."""
        lowest, highest = self.offered(node).get(api.API_KEY, (0, -1))
        found = range(max(lowest, least), min(highest, most, api.max_version) + 1)
        if not found:
            raise NotOffered(f"{Need(api=api, version=least)} is not offered")
        return found

    def asks(self, api: Any, version: int, *, node: NodeId, lane: str = "") -> BrokerConnection:
        """The connection for it. It is kept whom was asked what last: an answer that does not come says nothing."""
        self.last_asked = node, api.__name__, version
        return self.connection(node, lane)

    async def ask(
        self, request: Any, *, node: NodeId, version: int | None = None, most: int = 99, lane: str = ""
    ) -> Any:
        """In `version`, or the highest of both that is not above `most`. Raises OSError or TimeoutError."""
        if version is None:
            version = self.versions(type(request), most=most, node=node)[-1]
        connection = self.asks(type(request), version, node=node, lane=lane)
        return await connection.ask_exactly(request, version, timeout_s=ASK_S)

    async def settled(
        self,
        ask: Callable[[], Awaitable[Answer]],
        code_of: Callable[[Answer], int],
        *,
        also: frozenset[int] = frozenset(),
    ) -> Answer:
        """The first answer whose code is not one of those that pass by themselves. Raises Undecided."""
        deadline = asyncio.get_running_loop().time() + SETTLES_S
        while True:
            answer = await ask()
            code = code_of(answer)
            if code not in TRANSIENT | also:
                return answer
            if asyncio.get_running_loop().time() >= deadline:
                raise Undecided(f"it still answers {error_code(code)} after {SETTLES_S:g} s")
            await asyncio.sleep(AGAIN_S)

    async def becomes(
        self, ask: Callable[[], Awaitable[Answer]], wanted: Callable[[Answer], bool], *, within_s: float = SETTLES_S
    ) -> Answer:
        """The answer that is as wanted, or the last one after a while."""
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            answer = await ask()
            if wanted(answer) or asyncio.get_running_loop().time() >= deadline:
                return answer
            await asyncio.sleep(AGAIN_S)

    # -- names of this run's own --------------------------------------------------------------------------------------

    def name(self, purpose: str) -> str:
        """Of a topic, a group or a transactional id."""
        return f"{self.mark}-{self._round}-{purpose}"

    @property
    def replicas(self) -> int:
        return min(_REPLICAS_MOST, len(self.addresses))

    async def request_creation(
        self, topic: TopicDefinition, *, version: int | None = None, validate: bool = False
    ) -> Any:
        """The answer for the one topic, from the controller."""
        self._made.append(topic.name)
        self._unanswered.add(topic.name)
        request = creation(topic)
        request.validate_only = validate

        async def ask() -> Any:
            return await self.ask(request, node=await self.controller(), version=version, most=CREATION_VERSION)

        answer = await self.settled(ask, lambda answer: only(answer.topics, "topics").error_code)
        self._unanswered.discard(topic.name)
        if not answer.topics[0].error_code:
            self._taken.add(topic.name)
        return answer.topics[0]

    async def topic(
        self,
        purpose: str = "t",
        *,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Topic:
        """A new one, whose leader answers. Raises Undecided if it cannot be had."""
        replicas = self.replicas if replicas is None else replicas
        wanted = TopicDefinition(
            name=self.name(purpose), partitions=partitions, replication_factor=replicas, settings=settings or {}
        )
        self.versions(CreateTopicsRequest)
        made = await self.request_creation(wanted)
        if made.error_code in _SETTING_REFUSED and wanted.settings == CREATE_TIME:  # which is Kafka's default
            plain = TopicDefinition(name=wanted.name, partitions=partitions, replication_factor=replicas)
            made = await self.request_creation(plain)
        if made.error_code:
            raise Undecided(f"a topic could not be made: {error_code(made.error_code)}")
        return await self._led(wanted.name)

    async def _led(self, name: str) -> Topic:
        """Once every broker knows it: a leader has its log, a coordinator its name, before or after others do."""
        topic = await self._known_by(name, self.first)
        partition = min(topic.partitions, key=lambda each: int(each.partition_index))
        found = Topic(
            name=name,
            topic_id=known_id(topic),
            leader=NodeId(partition.leader_id),
            epoch=int(getattr(partition, "leader_epoch", -1)),
        )
        for node in sorted({*self.nodes, found.leader} - {self.first}):
            await self._known_by(name, node)
        await self.settled(
            lambda: self.list_offsets(found, EARLIEST),
            lambda each: int(each.error_code),
            also=frozenset({_UNKNOWN_TOPIC}),
        )
        return found

    async def _known_by(self, name: str, node: NodeId) -> Any:
        def has_leaders(topic: Any) -> bool:
            return bool(topic.partitions) and all(each.leader_id in self.addresses for each in topic.partitions)

        topic = await self.becomes(partial(self.metadata_of, name, node=node), has_leaders)
        if not has_leaders(topic):
            raise Undecided(f"broker {node} knows no leader of a new topic after {SETTLES_S:g} s")
        return topic

    async def metadata_of(self, name: str, *, node: NodeId | None = None) -> Any:
        wanted = [MetadataRequest.MetadataRequestTopic(name=name)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer = await self.ask(request, node=self.first if node is None else node, most=_METADATA_MOST)
        return only(answer.topics, "topics")

    async def is_there(self, name: str) -> bool:
        return bool((await self.metadata_of(name)).error_code != _UNKNOWN_TOPIC)

    async def presence(self, name: str) -> str:
        """As a fact."""
        return "there" if await self.is_there(name) else "absent"

    async def controller(self) -> NodeId:
        answer = await self.ask(MetadataRequest(topics=[]), node=self.first, most=_METADATA_MOST)
        named = NodeId(getattr(answer, "controller_id", -1))
        return named if named in self.addresses else self.first

    async def coordinator(self, key: str, kind: int, *, version: int | None = None) -> NodeId:
        """Raises NotOffered or Undecided."""
        if version is None:
            version = self.versions(FindCoordinatorRequest, least=kind)[-1]  # kinds are told apart from 1 on
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])

        async def ask() -> Any:
            answer = await self.ask(request, node=self.first, version=version)
            return only(answer.coordinators, "coordinators") if version >= _BY_KEYS_FROM else answer

        found = await self.settled(ask, lambda each: int(each.error_code))
        if found.error_code:
            raise NotOffered(f"no coordinator is told: {error_code(found.error_code)}")
        return NodeId(found.node_id)

    async def list_offsets(
        self, topic: Topic, timestamp: int, *, version: int | None = None, committed: bool = False, epoch: int = -1
    ) -> Any:
        kinds = ListOffsetsRequest.ListOffsetsTopic
        wanted = kinds.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[kinds(name=topic.name, partitions=[wanted])],
            timeout_ms=5000,
        )
        if version is None:
            version = self.versions(ListOffsetsRequest, least=1, node=topic.leader)[-1]
        answer = await self.ask(request, node=topic.leader, version=version)
        return only(only(answer.topics, "topics").partitions, "partitions")

    # -- afterwards ---------------------------------------------------------------------------------------------------

    async def delete_topics(self) -> list[str]:
        """Deletes this run's topics, and returns what could not be deleted and why. No other is named: all that carry
        the mark were made by this run. One whose creation was not answered is waited for: it may come later."""
        administration = Administration(self.addresses, connect=self.connect)
        left = []
        try:
            there = await self.becomes(
                administration.topics, lambda seen: self._unanswered <= seen, within_s=_COMES_LATE_S
            )
            for name in sorted(self._taken.union(there).intersection(self._made)):
                try:
                    await administration.delete(OwnTopic(name=name, mark=None))
                except HarnessError as error:
                    left.append(str(error))
        except HarnessError as error:
            left.append(f"topics that begin with {self.mark!r} may be left: {error}")
        finally:
            administration.close()
        return left


@contextlib.asynccontextmanager
async def probing(
    addresses: Mapping[NodeId, ADDRESS], *, connect: Connect, clock: Clock, first: NodeId | None = None
) -> AsyncIterator[Probe]:
    probe = Probe(addresses, connect=connect, clock=clock, first=first)
    try:
        await probe.learn()
        yield probe
    finally:
        probe.close()


@contextlib.asynccontextmanager
async def probing_each(seen: Sequence[View], *, connect: Connect, clock: Clock) -> AsyncIterator[Mapping[str, Probe]]:
    """A probe for each view, by its address."""
    async with contextlib.AsyncExitStack() as open_ones:
        yield {
            view.at: await open_ones.enter_async_context(
                probing(view.brokers, connect=connect, clock=clock, first=view.first)
            )
            for view in seen
        }
