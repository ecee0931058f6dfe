"""Sends the controller's updates to the brokers: one queue and one task per broker, so that a slow broker delays no
other.

Waiting updates are merged: for each partition only the newest is sent, and all in one request of each type. A request
is repeated until it is answered or the broker's incarnation is gone. Order: StopReplica, LeaderAndIsr, UpdateMetadata.
A replica that the broker could not create (for lack of file descriptors, for example) is sent again later and blocks
nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from reference_impl.core.controller.controller_state import ClusterState, Topic
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.state import LiveBroker, PartitionState
from reference_impl.runtime.connections import PeerUnreachable
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import request_class

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
NOT_TAKEN_RETRY_SECONDS = 1.0


class ControllerSender(Protocol):
    async def send(self, broker: LiveBroker, api_key: int, version: int, body: Any) -> Any:
        """Returns the response's body; raises OSError, TimeoutError or PeerUnreachable if there is no answer."""
        ...


@dataclass(frozen=True, kw_only=True)
class Office:
    """The controller (id and epoch) that a message comes from."""

    controller_id: int
    controller_epoch: int


@dataclass(kw_only=True)
class Pending:
    """The updates that a broker has not confirmed yet."""

    full: bool = False
    # replicas to delete, each with its last leader epoch
    stops: dict[TopicPartition, int] = field(default_factory=dict)
    leaders: dict[TopicPartition, PartitionState] = field(default_factory=dict)  # states of this broker's own replicas
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)  # states for its metadata cache
    topics: set[str] = field(default_factory=set)  # topics whose ids and overrides to send
    deleted_topics: set[str] = field(default_factory=set)

    def older_than(self, newer: "Pending") -> "Pending":
        """Merges an unanswered update with a newer one; for each partition the newer state wins."""
        dropped = newer.deleted_topics
        return Pending(
            full=self.full or newer.full,
            stops=self.stops | newer.stops,
            leaders=_without(self.leaders, dropped) | newer.leaders,
            partitions=_without(self.partitions, dropped) | newer.partitions,
            topics=(self.topics - dropped) | newer.topics,
            deleted_topics=self.deleted_topics | dropped,
        )


def _without(states: dict[TopicPartition, PartitionState], topics: set[str]) -> dict[TopicPartition, PartitionState]:
    return {key: state for key, state in states.items() if key.topic not in topics}


class BrokerChannel:
    """The channel to one incarnation of one broker."""

    def __init__(
        self,
        broker: LiveBroker,
        *,
        office: Office,
        state: Callable[[], ClusterState],
        send: ControllerSender,
        refused: Callable[[], None],
    ) -> None:
        self.broker = broker
        self._office = office
        self._state = state
        self._send = send
        self._refused = refused
        self._pending: Pending | None = None
        self._wake = asyncio.Event()
        self._again: asyncio.TimerHandle | None = None
        self._not_taken: set[TopicPartition] = set()
        self._task = asyncio.ensure_future(self._work())

    def tell(self, news: Pending) -> None:
        self._pending = news if self._pending is None else self._pending.older_than(news)
        self._wake.set()

    def _send_again(self, keys: Iterable[TopicPartition]) -> None:
        self._not_taken.update(keys)
        if self._not_taken and self._again is None:
            self._again = asyncio.get_running_loop().call_later(NOT_TAKEN_RETRY_SECONDS, self._send_what_was_not_taken)

    def _send_what_was_not_taken(self) -> None:
        keys, self._not_taken, self._again = self._not_taken, set(), None
        known = self._state().partitions
        states = {key: known[key] for key in keys if key in known and self.broker.broker_id in known[key].replicas}
        self.tell(Pending(leaders=states))

    def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._task.cancel()

    async def closed(self) -> None:
        await asyncio.wait([self._task])

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            sending, self._pending = self._pending, None
            if sending is None:
                continue
            try:
                confirmed = await self._deliver(sending)
            except (OSError, PeerUnreachable) as error:
                logger.debug("broker %d does not answer: %s", self.broker.broker_id, error)
                confirmed = False
            except Exception:
                logger.exception("no update can be sent to broker %d", self.broker.broker_id)
                confirmed = False
            if not confirmed:
                self._pending = sending if self._pending is None else sending.older_than(self._pending)
                self._wake.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _deliver(self, news: Pending) -> bool:
        for api_key, body in requests_for(self.broker, news, office=self._office, state=self._state()):
            answer = await self._send.send(self.broker, api_key, 0, body)
            if answer.error_code != ErrorCode.NONE:
                logger.info("broker %d refuses request %d: %d", self.broker.broker_id, api_key, answer.error_code)
                # The broker may not know its own registration yet; otherwise it may know a newer controller.
                if answer.error_code != ErrorCode.STALE_BROKER_EPOCH:
                    self._refused()
                return False
            if api_key == ApiKey.LEADER_AND_ISR:
                self._send_again(
                    TopicPartition(refused.topic, refused.partition)
                    for refused in answer.partition_errors
                    if refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                )
            if api_key == ApiKey.STOP_REPLICA:
                news.stops.clear()  # never repeated after LeaderAndIsr, which may have created the topic's successor
        return True


def requests_for(broker: LiveBroker, news: Pending, *, office: Office, state: ClusterState) -> list[tuple[int, Any]]:
    """The requests that bring a broker up to date: (api key, body) in sending order."""
    common_fields: dict[str, Any] = {
        "controller_id": office.controller_id,
        "controller_epoch": office.controller_epoch,
        "broker_epoch": broker.broker_epoch,
    }
    requests: list[tuple[int, Any]] = []
    if news.stops:
        stop = request_class(ApiKey.STOP_REPLICA)
        entry = stop.fields["partitions"].data_class
        stopped = [
            entry(topic=key.topic, partition=key.partition, leader_epoch=epoch, delete=True)
            for key, epoch in sorted(news.stops.items())
        ]
        requests.append((ApiKey.STOP_REPLICA, stop(**common_fields, partitions=stopped, version=0)))
    leaders, partitions, topics = news.leaders, news.partitions, news.topics
    if news.full:  # built now from the current state
        leaders = {key: s for key, s in state.partitions.items() if broker.broker_id in s.replicas}
        partitions, topics = state.partitions, set(state.topics)
    if leaders or news.full:
        lead = request_class(ApiKey.LEADER_AND_ISR)
        live = lead.fields["live_brokers"].data_class
        body = lead(
            **common_fields,
            is_full=news.full,
            partition_states=_states(lead, leaders, state.topics),
            live_brokers=[
                live(broker_id=b.broker_id, broker_epoch=b.broker_epoch)
                for b in state.brokers.values()
                if not b.shutting_down
            ],
            version=0,
        )
        requests.append((ApiKey.LEADER_AND_ISR, body))
    update = request_class(ApiKey.UPDATE_METADATA)
    body = update(
        **common_fields,
        is_full=news.full,
        live_brokers=[_live_broker(update, b) for b in sorted(state.brokers.values(), key=lambda b: b.broker_id)],
        partition_states=_states(update, partitions, state.topics),
        topics=[_topic(update, state.topics[name]) for name in sorted(topics) if name in state.topics],
        deleted_topics=sorted(news.deleted_topics),
        version=0,
    )
    requests.append((ApiKey.UPDATE_METADATA, body))
    return requests


def _states(message: Any, states: Mapping[TopicPartition, PartitionState], topics: Mapping[str, Topic]) -> list[Any]:
    entry = message.fields["partition_states"].data_class
    return [
        entry(
            topic=key.topic,
            topic_id=topics[key.topic].topic_id,
            partition=key.partition,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=list(state.replicas),
            controller_epoch=state.controller_epoch,
            is_new=state.partition_epoch == 0,
        )
        for key, state in sorted(states.items())
        if key.topic in topics
    ]


def _live_broker(message: Any, broker: LiveBroker) -> Any:
    entry = message.fields["live_brokers"].data_class
    endpoint = entry.fields["endpoints"].data_class
    return entry(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        shutting_down=broker.shutting_down,
        endpoints=[endpoint(listener=name, host=host, port=port) for name, host, port in broker.listeners],
    )


def _topic(message: Any, topic: Topic) -> Any:
    entry = message.fields["topics"].data_class
    config = entry.fields["configs"].data_class
    return entry(
        topic=topic.name,
        topic_id=topic.topic_id,
        configs=[config(name=name, value=value) for name, value in sorted(topic.configs.items())],
    )


class Announcer:
    """All channels of one controller term."""

    def __init__(
        self,
        *,
        office: Office,
        state: Callable[[], ClusterState],
        send: ControllerSender,
        refused: Callable[[], None],
    ) -> None:
        self._office = office
        self._state = state
        self._send = send
        self._refused = refused
        self._channels: dict[int, BrokerChannel] = {}

    def follow_brokers(self) -> None:
        """Opens and closes channels so that each registered incarnation has one; a new one gets the full state."""
        brokers = self._state().brokers
        for broker_id, channel in list(self._channels.items()):
            current = brokers.get(broker_id)
            if current is None or current.broker_epoch != channel.broker.broker_epoch:
                self._channels.pop(broker_id).close()
        for broker_id, broker in brokers.items():
            if broker_id not in self._channels:
                channel = BrokerChannel(
                    broker, office=self._office, state=self._state, send=self._send, refused=self._refused
                )
                self._channels[broker_id] = channel
                channel.tell(Pending(full=True))

    def everything(self) -> None:
        self.follow_brokers()
        for channel in self._channels.values():
            channel.tell(Pending(full=True))

    def changed(self, states: Iterable[PartitionState], *, topics: Iterable[str] = ()) -> None:
        """Sends changed partitions, topics and the live brokers to every broker; each gets the states of its own
        replicas."""
        by_key = {state.topic_partition: state for state in states}
        for broker_id, channel in self._channels.items():
            own = {key: state for key, state in by_key.items() if broker_id in state.replicas}
            channel.tell(Pending(leaders=own, partitions=dict(by_key), topics=set(topics)))

    def deleted(self, topic: str, states: Iterable[PartitionState]) -> None:
        gone = list(states)
        for broker_id, channel in self._channels.items():
            stops = {state.topic_partition: state.leader_epoch for state in gone if broker_id in state.replicas}
            channel.tell(Pending(stops=stops, deleted_topics={topic}))

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.close()
        for channel in channels:
            await channel.closed()
