"""The logging configuration of Kafka brokers: one line per event on standard output, including the lines that are
parsed.

`kafka_log_lines.py` reads the result. Times are UTC in ms: log4j 1 uses the JVM's time zone, so the brokers run with
-Duser.timezone=UTC. Leadership changes go to state.change.logger: at INFO since 2.0; before that only at TRACE, where
the filter passes only the messages that show what a replica becomes.
"""

from collections.abc import Mapping

_LINE = "%d{yyyy-MM-dd HH:mm:ss,SSS} %p %m (%c)%n"
_LINE_UTC = "%d{yyyy-MM-dd HH:mm:ss,SSS}{UTC} %p %m (%c)%n"  # log4j 2 does not depend on the JVM's time zone

_LEVELS: Mapping[str, str] = {
    "kafka": "INFO",
    "org.apache.kafka": "INFO",
    # Loggers that print every configuration at every start, also each client's.
    "org.apache.kafka.common.config": "WARN",
    "org.apache.kafka.clients": "WARN",
    "org.apache.kafka.common.utils.AppInfoParser": "WARN",
    "kafka.server.KafkaConfig": "INFO",  # a broker's own, once a start: printed_configuration.py reads it
    # Loggers that print one or more lines per request, metadata record or coordinator partition.
    "kafka.request.logger": "WARN",
    "kafka.network.RequestChannel$": "WARN",
    "kafka.coordinator": "WARN",
    "org.apache.kafka.coordinator": "WARN",
    "org.apache.kafka.image": "WARN",
    "org.apache.kafka.controller.PeriodicTaskControlManager": "WARN",
    "kafka.log.LogCleaner": "WARN",
    "org.apache.kafka.storage.internals.log.LogCleaner": "WARN",
    "org.apache.zookeeper": "WARN",
    "org.I0Itec.zkclient": "WARN",
}
# Since 4.0 the logger of all configurations; a broker's own is among them.
_CONFIGURATIONS = "org.apache.kafka.common.config.AbstractConfig"
_STATE_CHANGES = "state.change.logger"
# Up to 1.1 only TRACE shows what a replica becomes: the request, and the completed transition.
_TRACED = ("eceived LeaderAndIsr request", "ompleted LeaderAndIsr request")
_TRACED_IN = "stateChanges"


def log4j_properties(*, traced_state_changes: bool = False) -> str:
    """For 0.9 to 3.9: log4j 1.2 or reload4j. `traced_state_changes`: needed up to 1.1."""
    lines = [
        "log4j.rootLogger=WARN, stdout",
        *_console("stdout"),
        *(f"log4j.logger.{name}={level}" for name, level in _LEVELS.items()),
    ]
    if traced_state_changes:
        lines += [f"log4j.logger.{_STATE_CHANGES}=TRACE, {_TRACED_IN}", f"log4j.additivity.{_STATE_CHANGES}=false"]
        lines += _console(_TRACED_IN)
        for number, words in enumerate(_TRACED, start=1):
            lines += _filter(number, "StringMatchFilter", {"StringToMatch": words})
        lines += _filter(len(_TRACED) + 1, "LevelRangeFilter", {"LevelMin": "INFO"})
    else:
        lines.append(f"log4j.logger.{_STATE_CHANGES}=INFO")
    return "".join(f"{line}\n" for line in lines)


def _console(appender: str) -> list[str]:
    return [
        f"log4j.appender.{appender}=org.apache.log4j.ConsoleAppender",
        f"log4j.appender.{appender}.layout=org.apache.log4j.PatternLayout",
        f"log4j.appender.{appender}.layout.ConversionPattern={_LINE}",
    ]


def _filter(number: int, kind: str, settings: Mapping[str, str]) -> list[str]:
    """A range filter that only accepts or rejects ends the chain; a match filter that fails continues with the next."""
    name = f"log4j.appender.{_TRACED_IN}.filter.{number}"
    own = {**settings, "AcceptOnMatch": "true"}
    return [f"{name}=org.apache.log4j.varia.{kind}", *(f"{name}.{key}={value}" for key, value in own.items())]


def log4j2_properties() -> str:
    """For 4.x."""
    lines = [
        "status=warn",
        "shutdownHook=disable",  # log4j's own shutdown hook would end the log before Kafka's shutdown hook has logged
        "appender.stdout.type=Console",
        "appender.stdout.name=stdout",
        "appender.stdout.layout.type=PatternLayout",
        f"appender.stdout.layout.pattern={_LINE_UTC}",
        "rootLogger.level=WARN",
        "rootLogger.appenderRef.stdout.ref=stdout",
    ]
    for number, (name, level) in enumerate({**_LEVELS, _CONFIGURATIONS: "INFO", _STATE_CHANGES: "INFO"}.items()):
        lines += [f"logger.l{number}.name={name}", f"logger.l{number}.level={level}"]
    return "".join(f"{line}\n" for line in lines)
