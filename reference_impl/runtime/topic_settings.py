"""A topic's effective settings for partitions and logs, from its overrides and the broker's properties.

Until the controller has sent a topic's overrides, everything that they might forbid is off: no acknowledgement with
acks=all, no deletion.
"""

from collections.abc import Mapping
from typing import Any

from reference_impl.core.cleaning.compaction import CompactionSettings
from reference_impl.core.controller.configuration import CLEANUP_POLICY, COMPACT, topic_value
from reference_impl.core.partition_data import PartitionSettings
from reference_impl.core.retention import RetentionSettings
from reference_impl.core.timestamps import TimestampSettings
from reference_impl.runtime.config import BrokerConfig
from reference_impl.storage.log import LogSettings

ALL_REPLICAS = 2**31 - 1  # as min.insync.replicas: the core limits it to the number of replicas


def partition_settings(config: BrokerConfig, overrides: Mapping[str, str] | None) -> PartitionSettings:
    """`overrides` None: not received yet."""

    def value(name: str) -> Any:
        return topic_value(overrides or {}, config.properties, name)

    # The older single limit applies to both of its successors (KIP-937).
    difference_ms = value("message.timestamp.difference.max.ms")
    return PartitionSettings(
        min_insync_replicas=ALL_REPLICAS if overrides is None else value("min.insync.replicas"),
        replica_lag_time_max_ms=config.replica_lag_time_max_ms,
        unclean_leader_election_enable=value("unclean.leader.election.enable"),
        max_message_bytes=value("max.message.bytes"),
        retention=RetentionSettings()
        if overrides is None or "delete" not in value(CLEANUP_POLICY)
        else RetentionSettings(retention_ms=value("retention.ms"), retention_bytes=value("retention.bytes")),
        compaction=CompactionSettings(
            min_dirty_ratio=value("min.cleanable.dirty.ratio"),
            min_lag_ms=value("min.compaction.lag.ms"),
            max_lag_ms=value("max.compaction.lag.ms"),
            delete_retention_ms=value("delete.retention.ms"),
        )
        if overrides is not None and COMPACT in value(CLEANUP_POLICY)
        else None,
        deletes="delete" in value(CLEANUP_POLICY),
        timestamps=TimestampSettings(
            is_log_append_time=value("message.timestamp.type") == "LogAppendTime",
            before_max_ms=min(difference_ms, value("message.timestamp.before.max.ms")),
            after_max_ms=min(difference_ms, value("message.timestamp.after.max.ms")),
        ),
        verifies_transactions=config.transaction_partition_verification_enable,
        validate_records=config.reference_validate_records,
    )


def log_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> LogSettings:
    def value(name: str) -> Any:
        return topic_value(overrides, config.properties, name)

    return LogSettings(
        segment_bytes=value("segment.bytes"),
        index_interval_bytes=value("index.interval.bytes"),
        # A record must be in a segment that is not the active one before it can be cleaned.
        segment_ms=min(value("segment.ms"), value("max.compaction.lag.ms"))
        if COMPACT in value(CLEANUP_POLICY)
        else value("segment.ms"),
        file_delete_delay_ms=value("file.delete.delay.ms"),
    )
