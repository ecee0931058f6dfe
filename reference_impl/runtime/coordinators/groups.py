"""The group coordinators of this broker: one for each partition of __consumer_offsets that it leads."""

from collections.abc import Callable

from reference_impl.core.coordinator_log import Written
from reference_impl.core.groups.coordinator import GroupCoordinator
from reference_impl.core.groups.group_data import GroupSettings, too_long
from reference_impl.core.groups.group_rules import GroupRules
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, ErrorCode
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.coordinators.log import PartitionTermLog
from reference_impl.runtime.coordinators.terms import CoordinatorTerms
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import Producer

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


class GroupCoordinators(CoordinatorTerms[GroupCoordinator]):
    def __init__(
        self,
        *,
        config: BrokerConfig,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        rules: GroupRules,
        new_id: Callable[[], str],
    ) -> None:
        settings = group_settings(config)

        def begin(number: int, log: PartitionTermLog) -> GroupCoordinator:
            return GroupCoordinator(log, clock=replicas, settings=settings, rules=rules, new_id=new_id)

        super().__init__(
            GROUP_OFFSETS_TOPIC, replicas=replicas, metadata=metadata, begin=begin, loads_from=rules.loads_from
        )
        replicas.on_topics_deleted.append(self._topics_deleted)

    def coordinator_of(self, name: str) -> GroupCoordinator | ErrorCode:
        """As in Kafka, what is wrong with the name is said first."""
        return ErrorCode.INVALID_GROUP_ID if too_long(name) else super().coordinator_of(name)

    def coordinator_of_members(self, group_id: str) -> GroupCoordinator | ErrorCode:
        """The same for what only groups with a name can ask: one without has offsets at most, plainly committed."""
        return self.coordinator_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def end_transaction(
        self, number: int, producer: Producer, marker: Marker, decided: Callable[[ErrorCode], None]
    ) -> None:
        """R77: writes the marker to that partition, and tells its groups when it is replicated."""
        term = self.current(number)
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER if term is None else term.coordinator.error
        if error is not ErrorCode.NONE or term is None:
            decided(error)
            return
        coordinator = term.coordinator

        def replicated(written: Written) -> None:
            if written.error is ErrorCode.NONE:
                coordinator.transaction_ended(producer.producer_id, is_commit=marker.is_commit)
            decided(written.error)

        appended = term.log.append_marker(producer, marker, replicated)
        if appended.error is not ErrorCode.NONE:
            decided(appended.error)

    def _topics_deleted(self, topics: frozenset[str]) -> None:
        for coordinator in self.all():
            coordinator.topics_deleted(topics)
