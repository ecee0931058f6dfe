"""The partitions this broker hosts: told what they are by the controller, watched over by timers.

The controller's messages are taken only from a controller epoch not older than the last one seen, and only when they
are meant for this incarnation (broker epoch). A broker without a coordination session still believes the last word it
had: a leader goes on as a zombie, serving acks 0 and 1, while its ISR cannot shrink, so that acks=all hangs (1.10)."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from reference_impl.core.identifiers import ErrorCode, TopicPartition, is_topic_name
from reference_impl.core.partition import Partition
from reference_impl.core.partition_data import PartitionSettings
from reference_impl.core.rules import Rules
from reference_impl.core.state import IsrProposal, PartitionState
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.evidence import EvidenceJournal
from reference_impl.runtime.fetchers import FetcherManager
from reference_impl.runtime.metadata import MetadataCache, partition_state
from reference_impl.runtime.purgatory import Purgatory
from reference_impl.runtime.topic_settings import log_settings, partition_settings
from reference_impl.storage.log import Log, LogSettings
from reference_impl.storage.log_directory import LogDirectory
from reference_impl.wire.messages import response_class
from reference_impl.wire.record_batches import scan

logger = logging.getLogger(__name__)

LeaderAndIsrResponse = response_class(4)
StopReplicaResponse = response_class(5)
UpdateMetadataResponse = response_class(6)


class ReplicaManager:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        log_directory: LogDirectory,
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
        self.isr_may_change = asyncio.Event()  # wakes the AlterPartition loop
        self._config = config
        self._log_directory = log_directory
        self._rules = rules
        self._evidence = evidence
        self._metadata = metadata
        self._purgatory = purgatory
        self._fetchers = fetchers
        self.wall_clock_ms = wall_clock_ms
        self._expandable: set[TopicPartition] = set()
        self._flush_messages: dict[str, int] = {}  # topic overrides of log.flush.interval.messages
        self._flushed_to: dict[TopicPartition, int] = {}
        self._checkpointed: dict[TopicPartition, int] = log_directory.read_high_watermarks()

    def now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def load(self) -> None:
        """Opens every replica found on disk: each waits, without a role, for the controller's word."""
        for topic_partition, log in self._log_directory.logs.items():
            self._adopt(topic_partition, log)
            self._tell_recovery(topic_partition, log)

    def _tell_recovery(self, key: TopicPartition, log: Log) -> None:
        """What had to go because a batch was torn or damaged; of whole batches behind it the offsets are known."""
        if not log.cut_at_start:
            return
        end = log.log_end_offset
        self._evidence.note("corrupt_batch", topic=key.topic, partition=key.partition, to_offset=end)
        headers, _ = scan(log.cut_at_start)
        if headers:
            self._evidence.truncated(
                key, from_offset=headers[-1].next_offset, to_offset=end, epoch=None,
                reason="corrupt batch found in recovery", cut=log.cut_at_start,
            )  # fmt: skip

    # What the controller says

    def _fenced(self, message: Any) -> ErrorCode:
        if message.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if message.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        self.controller_epoch = message.controller_epoch
        return ErrorCode.NONE

    def _refused(self, message: Any, topics: Iterable[str]) -> ErrorCode:
        """For requests that are taken whole or not at all."""
        return self._fenced(message) if all(map(is_topic_name, topics)) else ErrorCode.INVALID_TOPIC_EXCEPTION

    def leader_and_isr(self, message: Any) -> Any:
        error = self._fenced(message)
        if error:
            logger.warning("LeaderAndIsr of controller %d refused: %s", message.controller_id, error.name)
            return LeaderAndIsrResponse(error_code=error, partition_errors=[])
        live = {broker.broker_id: broker.broker_epoch for broker in message.live_brokers}
        errors = []
        for state_message in message.partition_states:
            state = partition_state(state_message)
            outcome = self._apply(state, state_message.topic_id, live)
            errors.append(
                LeaderAndIsrResponse.PartitionError(
                    topic=state.topic_partition.topic, partition=state.topic_partition.partition, error_code=outcome
                )
            )
        return LeaderAndIsrResponse(error_code=0, partition_errors=errors)

    def _apply(self, state: PartitionState, topic_id: Any, live: Mapping[int, int]) -> ErrorCode:
        key = state.topic_partition
        if not is_topic_name(key.topic):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if key.partition < 0:
            return ErrorCode.INVALID_PARTITIONS
        if self._config.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if key in self.partitions and self._log_directory.topic_id(key) not in (None, topic_id):
            logger.warning("%s: the topic was deleted and created anew; the old replica is dropped", key)
            self._drop(key)
        partition = self.partitions.get(key)
        if partition is None:
            partition = self._adopt(key, self._log_directory.create(key, topic_id))
        known = partition.state
        if known is not None and (state.leader_epoch, state.partition_epoch) < (
            known.leader_epoch,
            known.partition_epoch,
        ):
            return ErrorCode.NONE  # an older word, overtaken on its way
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
        self._purgatory.moved(key)
        return ErrorCode.NONE

    def stop_replica(self, message: Any) -> Any:
        error = self._refused(message, (stopped.topic for stopped in message.partitions))
        if error:
            return StopReplicaResponse(error_code=error)
        for stopped in message.partitions:
            key = TopicPartition(stopped.topic, stopped.partition)
            partition = self.partitions.get(key)
            if partition is None:
                continue
            self._fetchers.remove(key)
            if stopped.delete:
                self._drop(key)
            elif partition.state is not None and partition.is_leader:
                # Shutting down: it stays as a follower of nobody until the controller names the next leader.
                partition.become_follower(replace(partition.state, leader=-1), now_ms=self.now_ms())
            self._purgatory.moved(key)
        return StopReplicaResponse(error_code=ErrorCode.NONE)

    def update_metadata(self, message: Any) -> Any:
        told = [*message.topics, *message.partition_states]
        error = self._refused(message, [*(each.topic for each in told), *message.deleted_topics])
        if error:
            return UpdateMetadataResponse(error_code=error)
        self._metadata.update(message)
        eligible = self._metadata.eligible_replicas()
        for partition in self.partitions.values():
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
                if key.topic == topic:
                    self._log_directory.logs[key].update_settings(self._log_settings(topic))
        self._fetchers.addresses_changed()
        self.isr_may_change.set()
        return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    # What partitions need

    def _adopt(self, key: TopicPartition, log: Log) -> Partition:
        log.update_settings(self._log_settings(key.topic))  # if they were told before there was a log
        partition = Partition(
            topic_partition=key,
            broker_id=self._config.broker_id,
            log=log,
            settings=self._settings(key.topic),
            rules=self._rules,
            evidence=self._evidence,
            checkpointed_high_watermark=self._checkpointed.get(key, 0),
        )
        partition.progressed = lambda: self._moved(partition)
        self.partitions[key] = partition
        self._flushed_to[key] = log.log_end_offset
        return partition

    def _moved(self, partition: Partition) -> None:
        key, end_offset = partition.topic_partition, partition.log.log_end_offset
        flush_messages = self._flush_messages.get(key.topic, self._config.log_flush_interval_messages)
        if flush_messages is not None and end_offset - self._flushed_to.get(key, end_offset) >= flush_messages:
            self._log_directory.flush([key])
            self._flushed_to[key] = end_offset
        self._purgatory.moved(key)

    def _drop(self, key: TopicPartition) -> None:
        self._fetchers.remove(key)
        self.partitions.pop(key, None)
        self._expandable.discard(key)
        self._checkpointed.pop(key, None)
        self._log_directory.delete(key)
        self._purgatory.moved(key)

    def _settings(self, topic: str) -> PartitionSettings:
        return partition_settings(self._config, self._metadata.topic_configs.get(topic))

    def _log_settings(self, topic: str) -> LogSettings:
        return log_settings(self._config, self._metadata.topic_configs.get(topic, {}))

    def error_when_absent(self, key: TopicPartition) -> ErrorCode:
        """For a partition that is not hosted here."""
        if self._metadata.state(key) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # ISR

    def follower_fetched(self, partition: Partition) -> None:
        """A replica may have caught up (1.8: expansion is looked at on every follower fetch)."""
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

    def topic_id(self, key: TopicPartition) -> Any:
        return self._log_directory.topic_id(key)

    # Checkpoints

    def checkpoint_high_watermarks(self) -> None:
        current = {key: partition.high_watermark for key, partition in self.partitions.items()}
        if current == self._checkpointed:
            return
        self._log_directory.checkpoint_high_watermarks(current)
        for key, high_watermark in current.items():
            if self._checkpointed.get(key) != high_watermark:
                self._evidence.high_watermark_checkpointed(key, high_watermark)
        self._checkpointed = current

    def every(
        self, interval_ms: float, action: Callable[[], None], *, first_after_ms: float | None = None
    ) -> asyncio.Task[None]:
        """A timer of the replica manager; a failing action is logged and tried again next time."""

        async def run() -> None:
            wait_ms = interval_ms if first_after_ms is None else first_after_ms
            while True:
                await asyncio.sleep(wait_ms / 1000)
                wait_ms = interval_ms
                try:
                    action()
                except Exception:
                    logger.exception("timer %s failed", getattr(action, "__name__", action))

        return asyncio.ensure_future(run())
