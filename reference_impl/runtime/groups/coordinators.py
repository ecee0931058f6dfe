"""The group coordinators of this broker: one for each partition of __consumer_offsets that it leads.

A coordinator lives as long as one term of its partition's leader. When a term begins its log is read, a piece at a
time, so that other requests are served meanwhile; groups are served when the whole of it is known to be committed, that
is when the high watermark has reached the place where the term began (docs/replication.md R63).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reference_impl.core.groups.coordinator import GroupCoordinator, Phase
from reference_impl.core.groups.group_data import GroupSettings, too_long
from reference_impl.core.groups.group_rules import GroupRules
from reference_impl.core.groups.placement import partition_of_group
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, ErrorCode, TopicPartition
from reference_impl.core.partition import Partition
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.groups.offsets_log import OffsetsLog
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.wire.compression import UnreadableRecords
from reference_impl.wire.group_records import UnreadableRecord
from reference_impl.wire.key_values import stored_key_values
from reference_impl.wire.record_batches import parse_headers

logger = logging.getLogger(__name__)

TICK_MS = 50
READ_AT_ONCE_BYTES = 256 << 10
_MINUTE_MS = 60_000


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
        offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
    )


@dataclass(kw_only=True, eq=False)
class _Term:
    partition: Partition
    log: OffsetsLog
    coordinator: GroupCoordinator
    log_end: int  # when it began: what is below has to be read, and committed
    loading: asyncio.Task[None] | None = None


class GroupCoordinators:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        rules: GroupRules,
        new_id: Callable[[], str],
    ) -> None:
        self._settings = group_settings(config)
        self._replicas = replicas
        self._metadata = metadata
        self._rules = rules
        self._new_id = new_id
        self._terms: dict[int, _Term] = {}
        self._progressed: set[int] = set()
        replicas.on_progress = self._note_progress
        replicas.on_topics_deleted = self._topics_deleted

    # Who coordinates

    def partition_of(self, group_id: str) -> int | None:
        """None: the topic does not exist, as far as this broker knows."""
        count = len(self._metadata.partitions(GROUP_OFFSETS_TOPIC))
        return partition_of_group(group_id, count) if count else None

    def coordinator_of(self, group_id: str) -> GroupCoordinator | ErrorCode:
        """The coordinator of a group, if it is this broker; as in Kafka, what is wrong with the name is said first."""
        if too_long(group_id):
            return ErrorCode.INVALID_GROUP_ID
        number = self.partition_of(group_id)
        if number is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        term = self._terms.get(number)
        if term is not None and self._is_over(term):
            self._look_at(number)
            term = self._terms.get(number)
        return ErrorCode.NOT_COORDINATOR if term is None else term.coordinator

    def coordinator_of_members(self, group_id: str) -> GroupCoordinator | ErrorCode:
        """The same for what members ask: a group without a name has offsets at most, whoever is asked."""
        return self.coordinator_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def all(self) -> Iterator[GroupCoordinator]:
        return (term.coordinator for term in self._terms.values())

    # Terms

    def _note_progress(self, key: TopicPartition) -> None:
        """Called in the middle of a partition's own work: what follows from it is done in the loop's next turn."""
        if key.topic != GROUP_OFFSETS_TOPIC:
            return
        if not self._progressed:
            asyncio.get_running_loop().call_soon(self._look_at_progressed)
        self._progressed.add(key.partition)

    def _look_at_progressed(self) -> None:
        progressed, self._progressed = self._progressed, set()
        for number in sorted(progressed):
            self._look_at(number)

    def _look_at(self, number: int) -> None:
        term = self._terms.get(number)
        if term is not None:
            term.log.progressed()
            if self._is_over(term):
                self._end(number)
            elif self._is_ready(term):
                self._serve(number, term)
        partition = self._replicas.partitions.get(TopicPartition(GROUP_OFFSETS_TOPIC, number))
        if number not in self._terms and partition is not None and partition.is_leader:
            self._begin(number, partition)

    def _is_over(self, term: _Term) -> bool:
        hosted = self._replicas.partitions.get(term.partition.topic_partition)
        is_same = hosted is term.partition and term.partition.leader_epoch == term.log.leader_epoch
        return not (is_same and term.partition.is_leader)

    def _begin(self, number: int, partition: Partition) -> None:
        log = OffsetsLog(partition, self._replicas)
        coordinator = GroupCoordinator(
            log, clock=self._replicas, settings=self._settings, rules=self._rules, new_id=self._new_id
        )
        term = _Term(partition=partition, log=log, coordinator=coordinator, log_end=partition.log.log_end_offset)
        self._terms[number] = term
        if partition.log.log_start_offset == term.log_end:
            self._serve_when_committed(number, term)
        else:
            term.loading = asyncio.ensure_future(self._load(number, term))

    async def _load(self, number: int, term: _Term) -> None:
        log = term.partition.log
        position = self._rules.loads_from(log.log_start_offset, log.segments[-1].base_offset)
        try:
            while position < term.log_end and not self._is_over(term):
                batches = log.read(position, READ_AT_ONCE_BYTES, term.log_end)
                headers = parse_headers(batches)
                if not headers:
                    raise UnreadableRecords(f"nothing to be read at offset {position}, the log ends at {term.log_end}")
                term.coordinator.replay(stored_key_values(batches))
                position = headers[-1].next_offset
                await asyncio.sleep(0)
        except (UnreadableRecords, UnreadableRecord) as error:
            logger.error("%s: no group is served: %s", term.partition.topic_partition, error)
            term.coordinator.failed()
            return
        term.loading = None
        self._serve_when_committed(number, term)

    def _serve_when_committed(self, number: int, term: _Term) -> None:
        if self._terms.get(number) is term and self._is_ready(term):
            self._serve(number, term)

    @staticmethod
    def _is_ready(term: _Term) -> bool:
        is_read = term.loading is None and term.coordinator.phase is Phase.LOADING
        return is_read and term.partition.high_watermark >= term.log_end

    def _serve(self, number: int, term: _Term) -> None:
        term.coordinator.loaded()
        groups = len(term.coordinator.groups)
        if groups:
            logger.info("coordinator of %d groups in partition %d of %s", groups, number, GROUP_OFFSETS_TOPIC)

    def _end(self, number: int) -> None:
        term = self._terms.pop(number)
        if term.loading is not None:
            term.loading.cancel()
        term.log.progressed()  # whoever waits for a record is told that the term is over
        term.coordinator.end()

    def end(self) -> None:
        for number in list(self._terms):
            self._end(number)

    # Timers

    def tick(self) -> None:
        for term in list(self._terms.values()):
            term.coordinator.tick()

    def expire(self) -> None:
        for term in list(self._terms.values()):
            term.coordinator.expire()

    def _topics_deleted(self, topics: frozenset[str]) -> None:
        for term in list(self._terms.values()):
            term.coordinator.topics_deleted(topics)
