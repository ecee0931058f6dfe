"""The logging configuration passes the needed lines of real brokers in a form that can be parsed."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.cluster.kafka_log_configuration import log4j2_properties, log4j_properties

_DATA = Path(__file__).parent / "data" / "kafka_log_lines"
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR")
_LINE = re.compile(r"[\d-]+ [\d:,]+ ([A-Z]+) .* \(([\w.$]+)\)")


def _properties(text: str) -> dict[str, str]:
    pairs = [line.partition("=") for line in text.splitlines()]
    assert len({key for key, _, _ in pairs}) == len(pairs), "a key is given twice"
    return {key: value for key, _, value in pairs}


def _log4j_levels(text: str) -> dict[str, str]:
    settings = _properties(text)
    named = {key.removeprefix("log4j.logger."): value for key, value in settings.items() if ".logger." in key}
    return {"": settings["log4j.rootLogger"].partition(",")[0]} | {
        name: value.partition(",")[0] for name, value in named.items()
    }


def _log4j2_levels(text: str) -> dict[str, str]:
    settings = _properties(text)
    names = {key.split(".")[1]: value for key, value in settings.items() if re.fullmatch(r"logger\.\w+\.name", key)}
    return {"": settings["rootLogger.level"]} | {name: settings[f"logger.{key}.level"] for key, name in names.items()}


def _lets_through(levels: Mapping[str, str], logger: str, level: str) -> bool:
    above = [".".join(logger.split(".")[:length]) for length in range(logger.count(".") + 1, -1, -1)]
    own = next(levels[name] for name in above if name in levels)
    return _LEVELS.index(level) >= _LEVELS.index(own)


@pytest.mark.parametrize("path", sorted(_DATA.glob("*.log")), ids=lambda path: path.stem)
def test_every_line_that_is_read_is_written(path: Path) -> None:
    version = path.name.partition("-")[0]
    if version.startswith("4."):
        levels = _log4j2_levels(log4j2_properties())
    else:
        levels = _log4j_levels(log4j_properties(traced_state_changes=version < "2."))
    for line in path.read_text().splitlines():
        match = _LINE.fullmatch(line)
        assert match is not None
        assert _lets_through(levels, match[2], match[1]), line


def test_what_is_noisy_is_not() -> None:
    for levels in (_log4j_levels(log4j_properties()), _log4j2_levels(log4j2_properties())):
        assert not _lets_through(levels, "org.apache.zookeeper.ClientCnxn", "INFO")
        assert not _lets_through(levels, "state.change.logger", "TRACE")
        assert _lets_through(levels, "kafka.server.KafkaServer", "INFO")


def test_a_brokers_own_configuration_is_let_through() -> None:
    """Of these two loggers; the second is that of every configuration since 4.0."""
    assert _lets_through(_log4j_levels(log4j_properties()), "kafka.server.KafkaConfig", "INFO")
    assert _lets_through(_log4j2_levels(log4j2_properties()), "org.apache.kafka.common.config.AbstractConfig", "INFO")


def test_of_traced_state_changes_only_what_a_replica_becomes_is_let_through() -> None:
    settings = _properties(log4j_properties(traced_state_changes=True))
    filters = sorted(key for key in settings if re.fullmatch(r"log4j\.appender\.stateChanges\.filter\.\d+", key))
    assert [settings[key].rpartition(".")[2] for key in filters] == [
        "StringMatchFilter",
        "StringMatchFilter",
        "LevelRangeFilter",
    ]
    assert settings[f"{filters[-1]}.LevelMin"] == "INFO"
    assert settings["log4j.additivity.state.change.logger"] == "false"


def test_log4j_2_leaves_the_end_of_the_log_to_kafka() -> None:
    settings = _properties(log4j2_properties())
    assert settings["shutdownHook"] == "disable"
    assert settings["appender.stdout.layout.pattern"].startswith("%d{yyyy-MM-dd HH:mm:ss,SSS}{UTC} %p")
