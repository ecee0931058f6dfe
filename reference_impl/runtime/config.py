"""Reads server.properties into a frozen BrokerConfig. The keys are Kafka's.

An unknown key is ignored with a warning, as in Kafka. An invalid value is an error of one line: which key, what was
found, what is expected.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from reference_impl.core.controller.configuration import BROKER_KEYS, InvalidConfigurationError, broker_value

logger = logging.getLogger(__name__)


class ConfigurationError(Exception):
    """One line for the user: place, problem, remedy."""


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    """Field names are Kafka's keys with underscores."""

    broker_id: int
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    inter_broker_listener_name: str
    log_directory: Path
    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    replica_lag_time_max_ms: int
    replica_fetch_wait_max_ms: int
    replica_fetch_backoff_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_max_bytes: int
    replica_socket_timeout_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    default_replication_factor: int
    num_partitions: int
    log_segment_bytes: int
    log_index_interval_bytes: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_interval_messages: int | None
    log_flush_start_offset_checkpoint_interval_ms: int
    log_retention_check_interval_ms: int
    log_initial_task_delay_ms: int
    log_cleaner_enable: bool
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    controlled_shutdown_enable: bool
    socket_request_max_bytes: int
    request_timeout_ms: int
    controller_socket_timeout_ms: int
    offsets_topic_replication_factor: int
    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    transaction_state_log_replication_factor: int
    transaction_state_log_num_partitions: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    reference_transaction_version: int
    reference_validate_records: bool
    chaos_flaws: tuple[str, ...]
    chaos_evidence_dir: Path
    chaos_cluster_secret_file: Path
    properties: Mapping[str, str]  # the properties as written, for DescribeConfigs and topic defaults

    def advertised(self, listener: str) -> Endpoint:
        return next(endpoint for endpoint in self.advertised_listeners if endpoint.listener == listener)


KNOWN_BUT_UNUSED = frozenset(
    (
        "listener.security.protocol.map",
        "delete.topic.enable",
        "zookeeper.connection.timeout.ms",
    )
)


def parse_properties(text: str, place: str) -> dict[str, str]:
    """Parses Java's properties format as far as server.properties uses it: key=value lines, comments with # or !."""
    properties: dict[str, str] = {}
    for number, raw_line in enumerate(text.splitlines(), start=1):
        line = raw_line.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ConfigurationError(f"{place}:{number}: expected key=value, found {line!r}")
        properties[key.strip()] = value.strip()
    return properties


def load(path: Path) -> BrokerConfig:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"configuration {path}: {error.strerror}; give --config a readable file") from error
    return broker_config(parse_properties(text, str(path)), str(path))


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """NAME://host:port, separated by commas."""
    endpoints = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = item.partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not name or not port.isdigit() or int(port) > 65535:
            raise ValueError("NAME://host:port[,NAME://host:port...]")
        endpoints.append(Endpoint(name.upper(), host, int(port)))
    if len({endpoint.listener for endpoint in endpoints}) != len(endpoints) or not endpoints:
        raise ValueError("at least one listener, each name once")
    return tuple(endpoints)


def broker_config(properties: Mapping[str, str], place: str = "server.properties") -> BrokerConfig:
    written = _with_synonyms(properties)
    values: dict[str, Any] = {}
    for name in BROKER_KEYS:
        try:
            values[name.replace(".", "_")] = broker_value(written, name)
        except InvalidConfigurationError as error:
            raise ConfigurationError(f"{place}: {error}") from None
    for name in ("broker.id", "listeners", "log.dirs", "zookeeper.connect"):
        if name not in written:
            raise ConfigurationError(f"{place}: {name} is missing; a broker cannot start without it")
    if not values["chaos_cluster_secret_file"]:
        raise ConfigurationError(
            f"{place}: chaos.cluster.secret.file is missing; name a file of 16 bytes or more that all brokers of the"
            " cluster share and their user alone can read (chmod 600)"
        )
    values["listeners"] = _endpoints(written, "listeners", place)
    values["advertised_listeners"] = _endpoints(written, "advertised.listeners", place)
    if values["auto_create_topics_enable"]:
        raise ConfigurationError(
            f"{place}: auto.create.topics.enable=true: no topic is created here by being named; leave it false and"
            " create topics (an admin client, or kafka-topics.sh --create)"
        )
    names = {endpoint.listener for endpoint in values["listeners"]}
    if {endpoint.listener for endpoint in values["advertised_listeners"]} != names:
        raise ConfigurationError(f"{place}: advertised.listeners must name the same listeners as listeners")
    if values["inter_broker_listener_name"] not in names:
        place_and_key = f"{place}: inter.broker.listener.name={values['inter_broker_listener_name']}"
        raise ConfigurationError(f"{place_and_key}: is not one of the listeners {', '.join(sorted(names))}")
    if len(values["log_dirs"]) != 1:
        raise ConfigurationError(f"{place}: log.dirs={written['log.dirs']}: exactly one directory is kept")
    values["log_directory"] = Path(values["log_dirs"][0])
    if values["log_flush_interval_messages"] == 2**63 - 1:
        values["log_flush_interval_messages"] = None  # Kafka's "never"
    evidence_dir = values["chaos_evidence_dir"] or values["log_directory"].parent / "evidence"
    values["chaos_evidence_dir"] = Path(evidence_dir)
    values["chaos_cluster_secret_file"] = Path(values["chaos_cluster_secret_file"])
    values["properties"] = MappingProxyType(written)
    for key in sorted(set(written) - set(BROKER_KEYS) - KNOWN_BUT_UNUSED):
        logger.warning("%s: %s is not a setting of this broker and is ignored", place, key)
    return BrokerConfig(**{field.name: values[field.name] for field in fields(BrokerConfig)})


def _with_synonyms(properties: Mapping[str, str]) -> dict[str, str]:
    written = dict(properties)
    for old, name in (("node.id", "broker.id"), ("log.dir", "log.dirs"), ("listeners", "advertised.listeners")):
        if old in written:
            written.setdefault(name, written[old])
    for old in ("node.id", "log.dir"):
        written.pop(old, None)
    return written


def _endpoints(written: Mapping[str, str], key: str, place: str) -> tuple[Endpoint, ...]:
    try:
        return parse_endpoints(written[key])
    except ValueError as error:
        raise ConfigurationError(f"{place}: {key}={written[key]}: expected {error}") from None
