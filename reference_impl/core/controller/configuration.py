"""Every configuration key of the reference cluster in one table: name, type, default and scope.

The runtime reads server.properties with this table, the admin handlers describe and validate with it, and the
controller computes a topic's effective values from it. A topic key falls back to its broker key (`broker_synonym`),
then to broker keys of a coarser unit (retention in minutes, then in hours), then to the default. Defaults are Kafka's,
except auto.create.topics.enable, which must be false.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum


class ConfigType(IntEnum):
    """The type numbers of DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """The source of an effective value, numbered as in DescribeConfigs (KIP-226)."""

    DYNAMIC_TOPIC_CONFIG = 1
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class ConfigScope(IntEnum):
    """The resource types of the configuration APIs."""

    TOPIC = 2
    BROKER = 4


class InvalidConfigurationError(ValueError):
    """The key is unknown or its type does not accept the value."""


@dataclass(frozen=True, kw_only=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: str | None  # None: no default; the reader of the properties reports a missing required key
    scope: ConfigScope
    dynamic: bool  # can be changed while the broker runs
    broker_synonym: str | None = None
    # further broker keys of a coarser unit, each with its factor to this key's unit
    coarser: tuple[tuple[str, int], ...] = ()
    choices: tuple[str, ...] = ()  # of a string, or of each item of a list
    minimum: float | None = None
    maximum: float | None = None

    def validate(self, value: str) -> None:
        """Raises InvalidConfigurationError if the text is not a valid value of this key's type and range."""
        parsed = parse_value(self, value)
        chosen = set(parsed if isinstance(parsed, tuple) else (parsed,))
        if self.choices and not (chosen and chosen <= set(self.choices)):
            raise InvalidConfigurationError(f"{self.name}={value}: must be {' or '.join(self.choices)}")
        if isinstance(parsed, int | float) and not isinstance(parsed, bool):
            if self.minimum is not None and parsed < self.minimum:
                raise InvalidConfigurationError(f"{self.name}={value}: must be at least {self.minimum:g}")
            if self.maximum is not None and parsed > self.maximum:
                raise InvalidConfigurationError(f"{self.name}={value}: must be at most {self.maximum:g}")


ConfigValue = bool | int | float | str | tuple[str, ...]


def parse_value(key: ConfigKey, text: str) -> ConfigValue:
    """Converts a key's text to its value."""
    stripped = text.strip()
    if key.type is ConfigType.BOOLEAN:
        if stripped.lower() not in ("true", "false"):
            raise InvalidConfigurationError(f"{key.name}={text}: must be true or false")
        return stripped.lower() == "true"
    if key.type in (ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE):
        try:
            return float(stripped) if key.type is ConfigType.DOUBLE else int(stripped)
        except ValueError as error:
            raise InvalidConfigurationError(f"{key.name}={text}: not a number") from error
    if key.type is ConfigType.LIST:
        return tuple(part.strip() for part in stripped.split(",") if part.strip())
    return stripped


_BOOLEAN, _STRING, _INT, _LONG, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
)
_LONG_MAX = str(2**63 - 1)


def _broker(
    name: str,
    kind: ConfigType,
    default: str | None,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> ConfigKey:
    # No broker key is dynamic: settings of a running cluster are changed per topic.
    return ConfigKey(
        name=name,
        type=kind,
        default=default,
        scope=ConfigScope.BROKER,
        dynamic=False,
        choices=choices,
        minimum=minimum,
        maximum=maximum,
    )


BROKER_KEYS: Mapping[str, ConfigKey] = {
    key.name: key
    for key in (
        _broker("broker.id", _INT, None, minimum=0),
        _broker("listeners", _LIST, None),
        _broker("advertised.listeners", _LIST, None),
        _broker("inter.broker.listener.name", _STRING, "INTERNAL"),
        _broker("log.dirs", _LIST, None),
        _broker("zookeeper.connect", _STRING, None),
        _broker("zookeeper.session.timeout.ms", _INT, "18000", minimum=1),
        _broker("replica.lag.time.max.ms", _LONG, "30000", minimum=1),
        _broker("replica.fetch.wait.max.ms", _INT, "500", minimum=0),
        _broker("replica.fetch.backoff.ms", _INT, "1000", minimum=0),
        _broker("replica.fetch.min.bytes", _INT, "1", minimum=0),
        _broker("replica.fetch.max.bytes", _INT, "1048576", minimum=0),
        _broker("replica.socket.timeout.ms", _INT, "30000", minimum=1),
        _broker("min.insync.replicas", _INT, "1", minimum=1),
        _broker("unclean.leader.election.enable", _BOOLEAN, "false"),
        _broker("auto.create.topics.enable", _BOOLEAN, "false"),
        _broker("default.replication.factor", _INT, "1", minimum=1),
        _broker("num.partitions", _INT, "1", minimum=1),
        _broker("log.segment.bytes", _INT, "1073741824", minimum=14),
        _broker("log.index.interval.bytes", _INT, "4096", minimum=0),
        _broker("log.flush.interval.messages", _LONG, _LONG_MAX, minimum=1),
        _broker("log.roll.ms", _LONG, None, minimum=1),
        _broker("log.roll.hours", _INT, "168", minimum=1),
        _broker("log.cleanup.policy", _LIST, "delete", choices=("delete", "compact")),
        _broker("log.cleaner.enable", _BOOLEAN, "true"),
        _broker("log.cleaner.backoff.ms", _LONG, "15000", minimum=0),
        _broker("log.cleaner.dedupe.buffer.size", _LONG, "134217728", minimum=1),
        _broker("log.cleaner.delete.retention.ms", _LONG, "86400000", minimum=0),
        _broker("log.cleaner.min.cleanable.ratio", ConfigType.DOUBLE, "0.5", minimum=0, maximum=1),
        _broker("log.cleaner.min.compaction.lag.ms", _LONG, "0", minimum=0),
        _broker("log.cleaner.max.compaction.lag.ms", _LONG, _LONG_MAX, minimum=1),
        _broker("log.retention.ms", _LONG, None, minimum=-1),
        _broker("log.retention.minutes", _INT, None, minimum=-1),
        _broker("log.retention.hours", _INT, "168", minimum=-1),
        _broker("log.retention.bytes", _LONG, "-1", minimum=-1),
        _broker("log.retention.check.interval.ms", _LONG, "300000", minimum=1),
        _broker("log.initial.task.delay.ms", _LONG, "30000", minimum=0),
        _broker("log.segment.delete.delay.ms", _LONG, "60000", minimum=0),
        _broker("log.message.timestamp.type", _STRING, "CreateTime", choices=("CreateTime", "LogAppendTime")),
        _broker("log.message.timestamp.before.max.ms", _LONG, _LONG_MAX, minimum=0),
        _broker("log.message.timestamp.after.max.ms", _LONG, "3600000", minimum=0),
        _broker("log.message.timestamp.difference.max.ms", _LONG, _LONG_MAX, minimum=0),
        _broker("log.flush.start.offset.checkpoint.interval.ms", _INT, "60000", minimum=1),
        _broker("replica.high.watermark.checkpoint.interval.ms", _LONG, "5000", minimum=1),
        _broker("log.flush.offset.checkpoint.interval.ms", _INT, "60000", minimum=0),
        _broker("producer.id.expiration.ms", _INT, "86400000", minimum=1),
        _broker("producer.id.expiration.check.interval.ms", _INT, "600000", minimum=1),
        _broker("auto.leader.rebalance.enable", _BOOLEAN, "true"),
        _broker("leader.imbalance.check.interval.seconds", _LONG, "300", minimum=1),
        _broker("leader.imbalance.per.broker.percentage", _INT, "10", minimum=0),
        _broker("controlled.shutdown.enable", _BOOLEAN, "true"),
        _broker("message.max.bytes", _INT, "1048588", minimum=0),
        _broker("socket.request.max.bytes", _INT, "104857600", minimum=1),
        _broker("request.timeout.ms", _INT, "30000", minimum=1),
        _broker("controller.socket.timeout.ms", _INT, "30000", minimum=1),
        _broker("offsets.topic.replication.factor", _INT, "3", minimum=1),
        _broker("offsets.topic.num.partitions", _INT, "50", minimum=1),
        _broker("offsets.topic.segment.bytes", _INT, "104857600", minimum=14),
        _broker("offsets.commit.timeout.ms", _INT, "5000", minimum=1),
        _broker("offsets.retention.minutes", _INT, "10080", minimum=1),
        _broker("offsets.retention.check.interval.ms", _LONG, "600000", minimum=1),
        _broker("offset.metadata.max.bytes", _INT, "4096", minimum=0),
        _broker("group.initial.rebalance.delay.ms", _INT, "3000", minimum=0),
        _broker("group.min.session.timeout.ms", _INT, "6000", minimum=1),
        _broker("group.max.session.timeout.ms", _INT, "1800000", minimum=1),
        _broker("group.max.size", _INT, str(2**31 - 1), minimum=1),
        _broker("transaction.state.log.replication.factor", _INT, "3", minimum=1),
        _broker("transaction.state.log.num.partitions", _INT, "50", minimum=1),
        _broker("transaction.state.log.min.isr", _INT, "2", minimum=1),
        _broker("transaction.state.log.segment.bytes", _INT, "104857600", minimum=14),
        _broker("transaction.max.timeout.ms", _INT, "900000", minimum=1),
        _broker("transactional.id.expiration.ms", _INT, "604800000", minimum=1),
        _broker("transaction.abort.timed.out.transaction.cleanup.interval.ms", _INT, "10000", minimum=1),
        _broker("transaction.remove.expired.transaction.cleanup.interval.ms", _INT, "3600000", minimum=1),
        _broker("transaction.partition.verification.enable", _BOOLEAN, "true"),
        # Kafka has it as a feature of the cluster, not as a setting.
        _broker("reference.transaction.version", _INT, "2", minimum=0, maximum=2),
        _broker("reference.validate.records", _BOOLEAN, "false"),
        _broker("chaos.flaws", _LIST, ""),
        _broker("chaos.evidence.dir", _STRING, None),
        _broker("chaos.cluster.secret.file", _STRING, None),
    )
}


def _topic(
    name: str,
    *,
    synonym: str,
    default: str | None = None,
    coarser: tuple[tuple[str, int], ...] = (),
    choices: tuple[str, ...] = (),
) -> ConfigKey:
    broker = BROKER_KEYS[synonym]
    return ConfigKey(
        name=name,
        type=broker.type,
        default=default or broker.default,
        scope=ConfigScope.TOPIC,
        dynamic=True,
        broker_synonym=synonym,
        coarser=coarser,
        choices=choices or broker.choices,
        minimum=broker.minimum,
        maximum=broker.maximum,
    )


CLEANUP_POLICY, COMPACT = "cleanup.policy", "compact"
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_WEEK_MS = str(168 * _HOUR_MS)

TOPIC_KEYS: Mapping[str, ConfigKey] = {
    key.name: key
    for key in (
        _topic("min.insync.replicas", synonym="min.insync.replicas"),
        _topic("unclean.leader.election.enable", synonym="unclean.leader.election.enable"),
        _topic("max.message.bytes", synonym="message.max.bytes"),
        _topic("segment.bytes", synonym="log.segment.bytes"),
        _topic("index.interval.bytes", synonym="log.index.interval.bytes"),
        _topic("flush.messages", synonym="log.flush.interval.messages"),
        _topic("segment.ms", synonym="log.roll.ms", default=_WEEK_MS, coarser=(("log.roll.hours", _HOUR_MS),)),
        _topic(CLEANUP_POLICY, synonym="log.cleanup.policy"),
        _topic("min.cleanable.dirty.ratio", synonym="log.cleaner.min.cleanable.ratio"),
        _topic("min.compaction.lag.ms", synonym="log.cleaner.min.compaction.lag.ms"),
        _topic("max.compaction.lag.ms", synonym="log.cleaner.max.compaction.lag.ms"),
        _topic("delete.retention.ms", synonym="log.cleaner.delete.retention.ms"),
        _topic(
            "retention.ms",
            synonym="log.retention.ms",
            default=_WEEK_MS,
            coarser=(("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
        ),
        _topic("retention.bytes", synonym="log.retention.bytes"),
        _topic("file.delete.delay.ms", synonym="log.segment.delete.delay.ms"),
        _topic("message.timestamp.type", synonym="log.message.timestamp.type"),
        _topic("message.timestamp.before.max.ms", synonym="log.message.timestamp.before.max.ms"),
        _topic("message.timestamp.after.max.ms", synonym="log.message.timestamp.after.max.ms"),
        _topic("message.timestamp.difference.max.ms", synonym="log.message.timestamp.difference.max.ms"),
    )
}


def key_table(scope: ConfigScope) -> Mapping[str, ConfigKey]:
    return TOPIC_KEYS if scope is ConfigScope.TOPIC else BROKER_KEYS


def broker_value(properties: Mapping[str, str], name: str) -> ConfigValue | None:
    """Returns a broker key's parsed and checked value from server.properties, else its default, else None."""
    key = BROKER_KEYS[name]
    text = properties.get(name, key.default)
    if text is None:
        return None
    key.validate(text)
    return parse_value(key, text)


def topic_value(overrides: Mapping[str, str], properties: Mapping[str, str], name: str) -> ConfigValue:
    """Returns a topic key's effective value: the topic's override, else the broker's setting, else the default."""
    key = TOPIC_KEYS[name]
    return parse_value(key, effective_text(key, overrides, properties)[0] or "")


def effective_text(
    key: ConfigKey, overrides: Mapping[str, str], properties: Mapping[str, str]
) -> tuple[str | None, ConfigSource]:
    """Returns the effective text of a key and its source. `overrides` is empty for a broker."""
    if key.scope is ConfigScope.TOPIC and key.name in overrides:
        return overrides[key.name], ConfigSource.DYNAMIC_TOPIC_CONFIG
    broker_name = key.broker_synonym or key.name
    if broker_name in properties:
        return properties[broker_name], ConfigSource.STATIC_BROKER_CONFIG
    for coarser_name, factor in key.coarser:
        if coarser_name in properties:
            units = int(properties[coarser_name])
            return str(units * factor if units >= 0 else units), ConfigSource.STATIC_BROKER_CONFIG
    return key.default, ConfigSource.DEFAULT_CONFIG


def validate_overrides(overrides: Iterable[tuple[str, str | None]]) -> None:
    """Raises InvalidConfigurationError for the first override with an unknown key or an invalid value."""
    for name, value in overrides:
        if name not in TOPIC_KEYS:
            raise InvalidConfigurationError(f"unknown configuration key {name!r}")
        if value is None:
            raise InvalidConfigurationError(f"{name}: a value is needed")
        TOPIC_KEYS[name].validate(value)
