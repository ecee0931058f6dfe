"""The partitions that this broker hosts. The controller assigns their roles; timers do the periodic work.

A controller message is accepted only if its controller epoch is not older than the last one seen and it is addressed to
this incarnation (broker epoch). A broker without a coordination session keeps its last known state: a leader goes on as
a zombie and serves acks 0 and 1, while its ISR cannot shrink, so acks=all hangs (R44).

The disk work of a message is awaited, for many partitions at once. Therefore these messages are handled one after the
other, each to its end, and a role changes only after a new look at what happened meanwhile (fetches, appends, ISR
answers).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reference_impl.core.identifiers import ErrorCode, TopicPartition, is_topic_name
from reference_impl.core.partition import Partition
from reference_impl.core.partition_data import PartitionSettings
from reference_impl.core.rules import Rules
from reference_impl.core.state import IsrProposal, PartitionState
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.disk_work import DiskEffects
from reference_impl.runtime.evidence import EvidenceJournal
from reference_impl.runtime.handlers.metadata import MetadataCache, partition_state
from reference_impl.runtime.replication.fetchers import FetcherManager
from reference_impl.runtime.replication.purgatory import Purgatory
from reference_impl.runtime.replication.turns import Turns
from reference_impl.runtime.topic_settings import log_settings, partition_settings
from reference_impl.storage.log import Log, LogSettings
from reference_impl.storage.log_directory import LogDirectory
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import response_class

logger = logging.getLogger(__name__)

LeaderAndIsrResponse = response_class(ApiKey.LEADER_AND_ISR)
StopReplicaResponse = response_class(ApiKey.STOP_REPLICA)
UpdateMetadataResponse = response_class(ApiKey.UPDATE_METADATA)

AT_ONCE = 200  # partitions whose roles change between two pauses of the loop


class ReplicaManager:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        log_directory: LogDirectory,
        disk: DiskEffects,
        rules: Rules,
        evidence: EvidenceJournal,
        metadata: MetadataCache,
        purgatory: Purgatory,
        fetchers: FetcherManager,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.broker_epoch = -1
        self.controller_epoch = 0
        self.compaction_changed = asyncio.Event()  # wakes who marks the logs, and so the log cleaner
        self.isr_may_change = asyncio.Event()  # wakes the task that sends AlterPartition
        # Called when role, log end or high watermark changed; when acks=all is settled for what lies below that offset;
        # when topics were deleted.
        self.on_progress: list[Callable[[TopicPartition], None]] = []
        self.on_acknowledged: list[Callable[[TopicPartition, int], None]] = []
        self.on_topics_deleted: list[Callable[[frozenset[str]], None]] = []
        self._config = config
        self._log_directory = log_directory
        self._disk = disk
        self._turns = Turns()  # order of the controller's messages
        self._about_to_lead: dict[TopicPartition, asyncio.Future[None]] = {}
        self.rules = rules
        self._evidence = evidence
        self._metadata = metadata
        self._purgatory = purgatory
        self._fetchers = fetchers
        self.wall_clock_ms = wall_clock_ms
        self._expandable: set[TopicPartition] = set()
        self._flush_messages: dict[str, int] = {}  # topics' overrides of log.flush.interval.messages
        self._checkpointed: dict[TopicPartition, int] = log_directory.read_high_watermarks()

    def now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def load(self) -> None:
        """Opens every replica found on disk; each waits, without a role, for a controller message."""
        for topic_partition, log in self._log_directory.logs.items():
            self._adopt(topic_partition, log)
            self._evidence.recovered(topic_partition, end=log.log_end_offset, cut=log.cut_at_start)

    # Controller messages

    def _fenced(self, message: Any) -> ErrorCode:
        if self.rules.fences_controller(message.controller_epoch, self.controller_epoch):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        # Before it is registered, whatever comes is meant for its last incarnation, whose log may have been longer.
        if self.broker_epoch < 0 or message.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        self.controller_epoch = message.controller_epoch
        return ErrorCode.NONE

    def _refused(self, message: Any, topics: Iterable[str]) -> ErrorCode:
        """For requests that succeed or fail as a whole."""
        return self._fenced(message) if all(map(is_topic_name, topics)) else ErrorCode.INVALID_TOPIC_EXCEPTION

    async def leader_and_isr(self, message: Any) -> Any:
        return await self._turns.take(lambda: self._take_leader_and_isr(message))

    async def stop_replica(self, message: Any) -> Any:
        return await self._turns.take(lambda: self._take_stop_replica(message))

    async def end_turns(self) -> None:
        await self._turns.end()

    async def _take_leader_and_isr(self, message: Any) -> Any:
        error = self._fenced(message)
        if error:
            logger.warning("LeaderAndIsr of controller %d refused: %s", message.controller_id, error.name)
            return LeaderAndIsrResponse(error_code=error, partition_errors=[])
        live = {broker.broker_id: broker.broker_epoch for broker in message.live_brokers}
        assigned = [(partition_state(each), each.topic_id) for each in message.partition_states]
        errors = []
        for start in range(0, len(assigned), AT_ONCE):
            for key, outcome in await self._apply_some(assigned[start : start + AT_ONCE], live):
                errors.append(
                    LeaderAndIsrResponse.PartitionError(topic=key.topic, partition=key.partition, error_code=outcome)
                )
            await asyncio.sleep(0)
        return LeaderAndIsrResponse(error_code=0, partition_errors=errors)

    async def _apply_some(
        self, assigned: Sequence[tuple[PartitionState, Any]], live: Mapping[int, int]
    ) -> list[tuple[TopicPartition, ErrorCode]]:
        about_to_lead = asyncio.get_running_loop().create_future()
        to_lead = [state.topic_partition for state, _ in assigned if state.leader == self._config.broker_id]
        self._about_to_lead |= dict.fromkeys(to_lead, about_to_lead)
        try:
            return await self._apply_prepared(assigned, live)
        finally:
            for key in to_lead:
                self._about_to_lead.pop(key, None)
            about_to_lead.set_result(None)

    def about_to_lead(self, keys: Iterable[TopicPartition]) -> set[asyncio.Future[None]]:
        """Completes when this broker leads the partitions that it was assigned; a fetch before that is early, not
        wrong."""
        if not self._about_to_lead:
            return set()
        return {self._about_to_lead[key] for key in keys if key in self._about_to_lead}

    async def _apply_prepared(
        self, assigned: Sequence[tuple[PartitionState, Any]], live: Mapping[int, int]
    ) -> list[tuple[TopicPartition, ErrorCode]]:
        """Does all disk work first: deletes old replicas, creates new ones, writes the epochs to be led ahead."""
        outcomes = {state.topic_partition: self._refusal(state) for state, _ in assigned}
        states = {state.topic_partition: (state, topic_id) for state, topic_id in assigned}
        mine = {key: states[key] for key, outcome in outcomes.items() if outcome is ErrorCode.NONE}
        failed = await self._host(mine)
        _log_failed("replicas cannot be made", failed)
        outcomes |= dict.fromkeys(failed, ErrorCode.KAFKA_STORAGE_ERROR)
        begun = {
            key: state.leader_epoch
            for key, (state, _) in mine.items()
            if outcomes[key] is ErrorCode.NONE and state.leader == self._config.broker_id and not self._is_old(state)
        }
        for key in begun:
            self._fetchers.remove(key)  # or the log would end elsewhere when the epoch begins
        failed = await self._disk.write_epochs_ahead(begun)
        _log_failed("leader epochs cannot be written", failed)
        outcomes |= dict.fromkeys(failed, ErrorCode.KAFKA_STORAGE_ERROR)
        await self._disk.settle_recovery_points()
        # No await from here on until the roles have changed.
        try:
            for key, (state, _) in mine.items():
                if outcomes[key] is ErrorCode.NONE:
                    self._apply(state, live)
        finally:
            self._disk.take_back_epochs(begun)
        return list(outcomes.items())

    def _refusal(self, state: PartitionState) -> ErrorCode:
        key = state.topic_partition
        if not is_topic_name(key.topic):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if key.partition < 0:
            return ErrorCode.INVALID_PARTITIONS
        if self._config.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    async def _host(
        self, hosted: Mapping[TopicPartition, tuple[PartitionState, Any]]
    ) -> dict[TopicPartition, Exception]:
        """Deletes replicas of older topics of the same name and creates missing ones; returns the failures."""
        known = {key: self._log_directory.topic_id(key) for key in hosted if key in self.partitions}
        strangers = [key for key, topic_id in known.items() if topic_id not in (None, hosted[key][1])]
        for key in strangers:
            logger.warning("%s: the topic was deleted and created anew; the old replica is dropped", key)
        await self._drop(strangers)
        nameless = {
            key: hosted[key][1] for key, topic_id in known.items() if topic_id is None and hosted[key][1] is not None
        }
        await self._disk.write_topic_ids(nameless)
        made = await self._disk.create(
            [(key, topic_id) for key, (_, topic_id) in hosted.items() if key not in self.partitions]
        )
        failed: dict[TopicPartition, Exception] = {}
        for key, log in made.items():
            if isinstance(log, Log):
                self._adopt(key, log)
            else:
                failed[key] = log
        return failed

    def _is_old(self, state: PartitionState) -> bool:
        """True for a message that a newer one overtook."""
        known = self.partitions[state.topic_partition].state
        return known is not None and (state.leader_epoch, state.partition_epoch) < (
            known.leader_epoch,
            known.partition_epoch,
        )

    def _apply(self, state: PartitionState, live: Mapping[int, int]) -> None:
        if self._is_old(state):
            return
        key = state.topic_partition
        partition = self.partitions[key]
        known = partition.state
        partition.update_live_brokers(live)
        if state.leader == self._config.broker_id:
            self._fetchers.remove(key)
            partition.become_leader(state, now_ms=self.now_ms())
        else:
            restart = partition.become_follower(state, now_ms=self.now_ms())
            self._fetchers.follow(partition, state.leader, restart=restart)
        if known is None or known.leader_epoch != state.leader_epoch:
            logger.info("%s: leader %d in epoch %d, isr %s", key, state.leader, state.leader_epoch, list(state.isr))
        self._note_expandable(partition)
        self._progressed(key)

    async def _take_stop_replica(self, message: Any) -> Any:
        error = self._refused(message, (stopped.topic for stopped in message.partitions))
        if error:
            return StopReplicaResponse(error_code=error)
        dropped = []
        for stopped in message.partitions:
            key = TopicPartition(stopped.topic, stopped.partition)
            partition = self.partitions.get(key)
            if partition is None:
                continue
            self._fetchers.remove(key)
            if stopped.delete:
                dropped.append(key)
            elif partition.state is not None and partition.is_leader:
                # Shutting down: it stays a follower without a leader until the controller names the next one.
                partition.become_follower(replace(partition.state, leader=-1), now_ms=self.now_ms())
            self._progressed(key)
        await self._drop(dropped)
        return StopReplicaResponse(error_code=ErrorCode.NONE)

    def update_metadata(self, message: Any) -> Any:
        assigned = [*message.topics, *message.partition_states]
        error = self._refused(message, [*(each.topic for each in assigned), *message.deleted_topics])
        if error:
            return UpdateMetadataResponse(error_code=error)
        self._metadata.update(message)
        eligible = self._metadata.eligible_replicas()
        for partition in list(self.partitions.values()):
            partition.update_live_brokers(eligible)
        for topic in {topic.topic for topic in message.topics}:
            settings = self._settings(topic)
            flush_messages = self._metadata.topic_configs[topic].get("flush.messages")
            if flush_messages is None:
                self._flush_messages.pop(topic, None)
            else:
                self._flush_messages[topic] = int(flush_messages)
            for key, partition in self.partitions.items():
                if key.topic == topic and partition.settings != settings:
                    partition.update_settings(settings)
                    self.compaction_changed.set()
                if key.topic == topic:
                    self._log_directory.logs[key].update_settings(self._log_settings(topic))
        if message.deleted_topics:
            for deleted in self.on_topics_deleted:
                deleted(frozenset(message.deleted_topics))
        self._fetchers.addresses_changed()
        self.isr_may_change.set()
        return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    # Services for partitions

    def _adopt(self, key: TopicPartition, log: Log) -> Partition:
        log.update_settings(self._log_settings(key.topic))  # if the settings arrived before the log existed
        partition = Partition(
            topic_partition=key,
            broker_id=self._config.broker_id,
            log=log,
            settings=self._settings(key.topic),
            rules=self.rules,
            evidence=self._evidence,
            checkpointed_high_watermark=self._checkpointed.get(key, 0),
        )
        partition.progressed = lambda: self._moved(partition)
        self.partitions[key] = partition
        if partition.settings.compaction is not None:
            self.compaction_changed.set()
        return partition

    def _moved(self, partition: Partition) -> None:
        key = partition.topic_partition
        flush_messages = self._flush_messages.get(key.topic, self._config.log_flush_interval_messages)
        log = self._log_directory.logs.get(key)
        # The log tracks its flushed end itself: a truncation lowers it.
        if log and flush_messages is not None and log.log_end_offset - log.recovery_point >= flush_messages:
            self._log_directory.flush([key])
        self._progressed(key)

    async def _drop(self, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            self._fetchers.remove(key)
            self.partitions.pop(key, None)
            self._expandable.discard(key)
            self._progressed(key)

        def forget() -> None:
            for key in keys:
                self._checkpointed.pop(key, None)

        if keys:
            await self._disk.delete(keys, forget)

    def _settings(self, topic: str) -> PartitionSettings:
        return partition_settings(self._config, self._metadata.topic_configs.get(topic))

    def _log_settings(self, topic: str) -> LogSettings:
        return log_settings(self._config, self._metadata.topic_configs.get(topic, {}))

    def error_when_absent(self, key: TopicPartition) -> ErrorCode:
        """The error for a partition that is not hosted here."""
        if self._metadata.state(key) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _progressed(self, key: TopicPartition) -> None:
        self._purgatory.moved(key)
        for progressed in self.on_progress:
            progressed(key)

    def acknowledged(self, key: TopicPartition, end_offset: int) -> None:
        for acknowledged in self.on_acknowledged:
            acknowledged(key, end_offset)

    # ISR

    def follower_fetched(self, partition: Partition) -> None:
        """A replica may have caught up (R28: expansion is checked on every follower fetch)."""
        if partition.topic_partition in self._expandable:
            self.isr_may_change.set()

    def _note_expandable(self, partition: Partition) -> None:
        state = partition.state
        if state is not None and partition.is_leader and len(state.isr) < len(state.replicas):
            self._expandable.add(partition.topic_partition)
        else:
            self._expandable.discard(partition.topic_partition)

    def check_shrink(self) -> None:
        now_ms = self.now_ms()
        for partition in self.partitions.values():
            if partition.is_leader:
                partition.check_shrink(now_ms=now_ms)
        self.isr_may_change.set()

    def isr_proposals(self) -> list[tuple[Partition, IsrProposal]]:
        now_ms = self.now_ms()
        found = []
        for partition in list(self.partitions.values()):
            proposal = partition.isr_proposal(now_ms=now_ms) if partition.is_leader else None
            if proposal is not None:
                found.append((partition, proposal))
        return found

    def isr_answered(
        self, partition: Partition, proposal: IsrProposal, error: ErrorCode, state: PartitionState | None
    ) -> None:
        partition.isr_answered(proposal, error, state)
        self._note_expandable(partition)

    def log(self, key: TopicPartition) -> Log | None:
        return self._log_directory.logs.get(key)

    def topic_id(self, key: TopicPartition) -> Any:
        return self._log_directory.topic_id(key)

    # Producers

    def expire_producers(self) -> None:
        after_ms = self._config.producer_id_expiration_ms
        for key, partition in self.partitions.items():
            gone = partition.expire_producers(wall_clock_ms=self.wall_clock_ms(), after_ms=after_ms)
            if gone:
                logger.info("%s: %d idempotent producers silent for %d ms are forgotten", key, gone, after_ms)

    # Checkpoints

    async def checkpoint_log_starts(self) -> None:
        await self._disk.checkpoint_log_starts()

    async def checkpoint_high_watermarks(self) -> None:
        await self._disk.checkpoint_high_watermarks(self._changed_high_watermarks, self._high_watermarks_checkpointed)

    def _changed_high_watermarks(self) -> Mapping[TopicPartition, int] | None:
        present = {key: partition.high_watermark for key, partition in self.partitions.items()}
        return None if present == self._checkpointed else present

    def _high_watermarks_checkpointed(self, present: Mapping[TopicPartition, int]) -> None:
        known, self._checkpointed = self._checkpointed, dict(present)
        self._evidence.high_watermarks_checkpointed(
            {key: high_watermark for key, high_watermark in present.items() if known.get(key) != high_watermark}
        )


def _log_failed(what: str, failed: Mapping[TopicPartition, Exception]) -> None:
    """Logs one line for all failures, because the work is retried again and again."""
    for key, error in list(failed.items())[:1]:
        logger.error("%d %s, %s among them: %s", len(failed), what, key, error)
