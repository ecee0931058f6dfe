"""One term of a controller: its view of the cluster, and every change that it makes.

The role's queue calls it, one job at a time. Each job decides (core), writes (store), then sends (channels): a broker
never receives a state that the coordination service does not hold. When a write fails, its outcome is unknown; the
exception reaches the role, which reads everything again.
"""

import logging
import random
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reference_impl.core.controller import alter_partition, assignment, preferred
from reference_impl.core.controller.assignment import RefusedRequestError
from reference_impl.core.controller.configuration import InvalidConfigurationError, validate_overrides
from reference_impl.core.controller.controller_rules import ControllerRules
from reference_impl.core.controller.controller_state import (
    ClusterState,
    Topic,
    brokers_changed,
    leaderless_after,
    shutting_down,
)
from reference_impl.core.controller.election import before_shutdown, elect_preferred, elect_unclean, first_in_order
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.state import IsrProposal, LiveBroker, PartitionState
from reference_impl.runtime.controller.channel import Announcer, ControllerSender, Office
from reference_impl.runtime.controller.store import Claim, ControllerStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    """The settings that the controller takes from its own broker's configuration."""

    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: float = 300
    leader_imbalance_per_broker_percentage: float = 10
    default_replication_factor: int = 1
    num_partitions: int = 1
    rules: ControllerRules = field(default_factory=ControllerRules)


@dataclass(frozen=True, kw_only=True)
class NewTopic:
    """One topic of a CreateTopics request. -1: the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, kw_only=True)
class CreatedTopic:
    topic: Topic
    assignment: assignment.Assignment


class ControllerTerm:
    def __init__(
        self,
        *,
        broker_id: int,
        claim: Claim,
        store: ControllerStore,
        settings: ControllerSettings,
        send: ControllerSender,
        chance: random.Random,
        doubted: Callable[[], None],
    ) -> None:
        self.claim = claim
        self._store = store
        self._settings = settings
        self._chance = chance
        self.state = ClusterState(unclean_by_default=settings.unclean_leader_election_enable, rules=settings.rules)
        office = Office(controller_id=broker_id, controller_epoch=claim.epoch)
        self._announcer = Announcer(office=office, state=lambda: self.state, send=send, refused=doubted)

    async def begin(self) -> None:
        """Reads everything, sets the watches, elects leaders for those that died, sends the full state to every broker.
        Also called after a write with an unknown outcome."""
        state = ClusterState(
            unclean_by_default=self._settings.unclean_leader_election_enable, rules=self._settings.rules
        )
        state.incarnations = await self._store.incarnations()
        shutting = {b.broker_id: b.broker_epoch for b in self.state.brokers.values() if b.shutting_down}
        missing: dict[TopicPartition, tuple[int, ...]] = {}
        for name in sorted(await self._store.topic_names()):
            missing |= await self._load_topic(state, name)
        self.state = state
        registered = await self._store.registrations()
        for broker_id, broker in registered.items():
            if shutting.get(broker_id) == broker.broker_epoch:
                registered[broker_id] = replace(broker, shutting_down=True)
        await self._take_registrations(registered)
        # A topic whose deletion has begun is not completed first.
        doomed = await self._store.deletions_wanted()
        await self._create_states({key: members for key, members in missing.items() if key.topic not in doomed})
        self._announcer.everything()
        await self.deletions_wanted()

    async def end(self) -> None:
        await self._announcer.close()

    async def _load_topic(self, state: ClusterState, name: str) -> dict[TopicPartition, tuple[int, ...]]:
        """Returns the partitions that have replicas but no state yet."""
        found = await self._store.topic(name)
        if found is None:
            return {}
        topic, replicas = found
        state.topics[name] = topic
        state.partitions.update(await self._store.partition_states(replicas))
        return {key: members for key, members in replicas.items() if key not in state.partitions}

    async def _create_states(self, missing: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        if missing:
            first = [self._first_state(key, members) for key, members in missing.items()]
            self._adopt(await self._store.create_states(self.claim, first))

    # Watches.

    async def registrations_changed(self) -> None:
        await self._take_registrations(await self._store.registrations())

    async def _take_registrations(self, registered: Mapping[int, LiveBroker]) -> None:
        change = brokers_changed(self.state, registered)
        for broker_id in sorted(change.lost_disks):
            known = self.state.incarnations[broker_id].directory_ids
            logger.warning("broker %d came back without its directories %s", broker_id, ", ".join(known))
        written, incarnations = await self._store.write_states(self.claim, change.partitions, change.incarnations)
        self.state.brokers = dict(change.brokers)
        self.state.incarnations.update(incarnations)
        self._adopt(written)
        self._announcer.follow_brokers()
        if change.born or change.died or written:
            logger.info("brokers born %s, died %s: %d changes", set(change.born), set(change.died), len(written))
            self._announcer.changed(written)

    async def topics_changed(self) -> None:
        """Handles topics that another client created or removed; the controller's own changes are known already."""
        names = await self._store.topic_names()
        for name in sorted(set(self.state.topics) - names):
            self._forget(name)
        for name in sorted(names - set(self.state.topics)):
            await self._create_states(await self._load_topic(self.state, name))
            self._announcer.changed(self.state.topic_partitions(name), topics=[name])

    async def deletions_wanted(self) -> None:
        for name in sorted(await self._store.deletions_wanted()):
            await self._delete(name)

    async def configs_changed(self, name: str) -> None:
        known = self.state.topics.get(name)
        if known is None:
            return
        self.state.topics[name] = await self._store.with_configs(known)
        # Enabling unclean election elects at once: leaderless partitions have nothing else to wait for (R34, scenario
        # recovery-2b).
        await self._commit(leaderless_after(self.state, name), topics=[name])

    async def rebalance(self) -> None:
        moved = preferred.rebalanced(
            self.state.partitions.values(),
            eligible=self.state.eligible(),
            percentage=self._settings.leader_imbalance_per_broker_percentage,
            rules=self._settings.rules,
        )
        if moved:
            logger.info("handing %d partitions back to their preferred leaders", len(moved))
            await self._commit(moved)

    # Requests of brokers.

    async def alter_partition(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[tuple[IsrProposal, int]]
    ) -> ErrorCode | dict[TopicPartition, PartitionState | ErrorCode]:
        """Returns when the coordination service holds the accepted states. Each proposal carries its leader recovery
        state."""
        sender = alter_partition.check_sender(broker_id, broker_epoch, self.state.brokers)
        if sender is not ErrorCode.NONE:
            return sender
        outcomes: dict[TopicPartition, PartitionState | ErrorCode] = {}
        for proposal, recovery_state in proposals:
            key = proposal.topic_partition
            known = self.state.partitions.get(key)
            outcomes[key] = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if known is None
                else alter_partition.decide(
                    proposal,
                    sender=broker_id,
                    state=known,
                    brokers=self.state.brokers,
                    recovery_state=recovery_state,
                    rules=self._settings.rules,
                )
            )
        accepted = [outcome for outcome in outcomes.values() if isinstance(outcome, PartitionState)]
        await self._commit(accepted)
        for state in accepted:
            outcomes[state.topic_partition] = self.state.partitions[state.topic_partition]
        return outcomes

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> ErrorCode | list[TopicPartition]:
        """Moves the leaderships that can be moved; returns the replicated partitions that the broker still leads."""
        sender = alter_partition.check_sender(broker_id, broker_epoch, self.state.brokers)
        if sender is not ErrorCode.NONE:
            return sender
        self.state.brokers[broker_id] = shutting_down(self.state, broker_id)
        live, eligible = self.state.brokers, self.state.eligible()
        moved = [
            before_shutdown(state, broker_id, live=live, eligible=eligible, rules=self._settings.rules)
            for state in self.state.partitions.values()
        ]
        await self._commit([state for state in moved if state != self.state.partitions[state.topic_partition]])
        self._announcer.changed([])  # its shutdown is known first, so that no leader lets it back into an ISR
        return sorted(
            key for key, state in self.state.partitions.items() if state.leader == broker_id and len(state.replicas) > 1
        )

    # Requests of clients.

    async def check_creation(self, wanted: Iterable[NewTopic]) -> None:
        """Checks a whole request. Raises RefusedRequestError."""
        counts = (len(topic.assignment) if topic.assignment else topic.partitions for topic in wanted)
        assignment.check_request(sum(self._settings.num_partitions if n == -1 else max(n, 0) for n in counts))

    async def check_growth(self, wanted: Mapping[str, int]) -> None:
        """Checks a whole request. Raises RefusedRequestError."""
        existing = Counter(key.topic for key in self.state.partitions)
        assignment.check_request(
            sum(max(count - existing[name], 0) for name, count in wanted.items() if name in self.state.topics)
        )

    async def create_topic(self, wanted: NewTopic, *, validate_only: bool) -> CreatedTopic:
        """Creates the topic. Raises RefusedRequestError."""
        assignment.check_topic_name(wanted.name)
        if wanted.name in self.state.topics:
            raise RefusedRequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {wanted.name!r} already exists")
        try:
            validate_overrides(wanted.configs)
        except InvalidConfigurationError as error:
            raise RefusedRequestError(ErrorCode.INVALID_CONFIG, str(error)) from error
        replicas = self._assignment(wanted)
        topic = Topic(
            name=wanted.name,
            topic_id=uuid.UUID(int=self._chance.getrandbits(128), version=4),
            configs={name: value for name, value in wanted.configs if value is not None},
        )
        if not validate_only:
            states = [
                self._first_state(TopicPartition(wanted.name, number), members)
                for number, members in enumerate(replicas)
            ]
            created = await self._store.create_topic(self.claim, topic, states)
            self.state.topics[topic.name] = await self._store.with_configs(topic)
            self._adopt(created)
            self._announcer.changed(created, topics=[topic.name])
        return CreatedTopic(topic=topic, assignment=replicas)

    def _assignment(self, wanted: NewTopic) -> assignment.Assignment:
        eligible = self.state.eligible()
        if wanted.assignment:
            if wanted.partitions != -1 or wanted.replication_factor != -1:
                raise RefusedRequestError(
                    ErrorCode.INVALID_REQUEST, "give either an assignment or partitions and replication factor"
                )
            return assignment.explicit(wanted.assignment, known=self.state.incarnations, live=eligible)
        partitions = self._settings.num_partitions if wanted.partitions == -1 else wanted.partitions
        factor = wanted.replication_factor
        return assignment.round_robin(
            eligible,
            partitions=partitions,
            replication_factor=self._settings.default_replication_factor if factor == -1 else factor,
            start=self._chance.randrange(max(len(eligible), 1)),
            shift=self._chance.randrange(max(len(eligible), 1)),
        )

    async def create_partitions(
        self, name: str, count: int, wanted: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> None:
        """Grows the topic to `count` partitions. Raises RefusedRequestError."""
        topic = self.state.topics.get(name)
        if topic is None:
            raise RefusedRequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        existing = [state.replicas for state in self.state.topic_partitions(name)]
        replicas = assignment.added(
            existing, count=count, wanted=wanted, known=self.state.incarnations, live=self.state.eligible()
        )
        if validate_only:
            return
        states = [
            self._first_state(TopicPartition(name, number), members)
            for number, members in enumerate(replicas, start=len(existing))
        ]
        created = await self._store.add_partitions(self.claim, topic, states)
        self._adopt(created)
        self._announcer.changed(created)

    def _first_state(self, key: TopicPartition, replicas: Collection[int]) -> PartitionState:
        """The first state of an empty partition: every live replica is in the ISR, and the first of them leads."""
        eligible = self.state.eligible()
        members = tuple(replicas)
        isr = tuple(replica for replica in members if replica in eligible)
        return PartitionState(
            topic_partition=key,
            replicas=members,
            leader=first_in_order(members, members, eligible),
            isr=isr or members,
            leader_epoch=0,
            partition_epoch=0,
            controller_epoch=self.claim.epoch,
        )

    async def delete_topic(self, name: str) -> None:
        """Raises RefusedRequestError. Because of the mark in /admin/delete_topics, a successor completes an interrupted
        deletion."""
        if name not in self.state.topics:
            raise RefusedRequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        await self._store.ask_for_deletion(name)
        await self._delete(name)

    async def _delete(self, name: str) -> None:
        await self._store.delete_topic(self.claim, name)
        self._forget(name)

    def _forget(self, name: str) -> None:
        gone = self.state.topic_partitions(name)
        self.state.topics.pop(name, None)
        for state in gone:
            del self.state.partitions[state.topic_partition]
        self._announcer.deleted(name, gone)

    async def elect(self, wanted: Iterable[TopicPartition] | None, *, unclean: bool) -> dict[TopicPartition, ErrorCode]:
        """ElectLeaders. None means every partition; then partitions that need no election are left out
        of the answer."""
        keys = sorted(self.state.partitions) if wanted is None else list(dict.fromkeys(wanted))
        outcomes: dict[TopicPartition, ErrorCode] = {}
        elected = []
        for key in keys:
            state = self.state.partitions.get(key)
            if state is None:
                outcomes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            eligible = self.state.eligible()
            outcome = (
                elect_unclean(state, live=self.state.brokers, eligible=eligible, rules=self._settings.rules)
                if unclean
                else elect_preferred(state, eligible=eligible, rules=self._settings.rules)
            )
            if isinstance(outcome, PartitionState):
                elected.append(outcome)
                outcomes[key] = ErrorCode.NONE
            elif wanted is not None or outcome is not ErrorCode.ELECTION_NOT_NEEDED:
                outcomes[key] = outcome
        await self._commit(elected)
        return outcomes

    async def _commit(self, states: Sequence[PartitionState], *, topics: Sequence[str] = ()) -> None:
        written, _ = await self._store.write_states(self.claim, states)
        self._adopt(written)
        if written or topics:
            self._announcer.changed(written, topics=topics)

    def _adopt(self, states: Iterable[PartitionState]) -> None:
        self.state.partitions.update({state.topic_partition: state for state in states})
