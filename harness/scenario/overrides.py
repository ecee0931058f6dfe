"""`--set KEY=VALUE`: changes one value of a scenario before it is checked, as strictly as the file itself.

KEY is a path such as workload.acks or topics.orders.settings.min.insync.replicas, or one of Kafka's own keys alone:
that is set for every topic that has it, otherwise for the brokers. VALUE is TOML; anything else is taken as text.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.scenario.places import OverriddenKey, Override

_TABLES = ("run", "cluster", "attached", "workload", "expect", "coverage")
_SECTIONS = (*_TABLES, "topics", "faults", "steps")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _table(document: dict[str, Any], section: str) -> dict[str, Any]:
    table = document.setdefault(section, {})
    if not isinstance(table, dict):
        raise UsageError(f"[{section}] must be a table")
    return table


def _topics(document: dict[str, Any]) -> list[dict[str, Any]]:
    topics = document.get("topics", [])
    return [topic for topic in topics if isinstance(topic, dict)] if isinstance(topics, list) else []


def _settings(table: dict[str, Any], inner: str = "settings") -> dict[str, Any]:
    settings = table.setdefault(inner, {})
    if not isinstance(settings, dict):
        raise UsageError(f"{inner} must be a table")
    return settings


def _set_kafka_key(document: dict[str, Any], key: str, value: Any) -> list[OverriddenKey]:
    topics = [topic for topic in _topics(document) if key in _settings(topic)]
    for topic in topics:
        _settings(topic)[key] = value
    if not topics:
        _settings(_table(document, "cluster"))[key] = value
        return [OverriddenKey(section="cluster", key="settings")]
    return [OverriddenKey(section="topics", topic=str(topic.get("name", "")), key="settings") for topic in topics]


def attached_overrides(file: Path) -> list[Override]:
    """The [attached] table of a TOML file as overrides: one file about a cluster serves every scenario."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"--attached {file}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--attached {file}: not TOML: {error}") from None
    if set(document) != {"attached"} or not isinstance(document["attached"], dict):
        raise UsageError(f"--attached {file}: write one table, [attached]; see docs/other_systems.md")
    said = f"--attached {file}"
    return [Override(f"attached.{key}={inline_toml(value)}", said) for key, value in document["attached"].items()]


def inline_toml(value: Any) -> str:
    """The value as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {inline_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)  # the same in TOML for texts, numbers, true and false


def apply_override(document: dict[str, Any], override: str) -> list[OverriddenKey]:
    """Changes the parsed document in place. Returns what it set. Raises UsageError if KEY names nothing."""
    key, equals, text = override.partition("=")
    key, value = key.strip(), _value(text.strip())
    if not equals or not key:
        raise UsageError("write KEY=VALUE, for example --set workload.acks=1")
    section, _, rest = key.partition(".")
    if section in ("faults", "steps") and not rest:
        document[section] = value
        return [OverriddenKey(section=section)]
    if section == "topics":
        return _set_of_topic(document, rest, value)
    if section in _TABLES and rest:
        table = _table(document, section)
        inner, _, setting = rest.partition(".")
        if inner in ("settings", "bounds", "nodes", "services", "security") and setting:
            _settings(table, inner)[setting] = value
            return [OverriddenKey(section=section, key=inner)]
        table[rest] = value
        return [OverriddenKey(section=section, key=rest)]
    if key == "seed":
        _table(document, "run")["seed"] = value
        return [OverriddenKey(section="run", key="seed")]
    if section not in _SECTIONS and "." in key:
        return _set_kafka_key(document, key, value)
    raise UsageError(
        f"KEY is a path such as workload.acks, topics.NAME.partitions, or a Kafka key; sections: {', '.join(_SECTIONS)}"
    )


def _set_of_topic(document: dict[str, Any], rest: str, value: Any) -> list[OverriddenKey]:
    name, _, field = rest.partition(".")
    topic = next((one for one in _topics(document) if one.get("name") == name), None)
    if topic is None or not field:
        names = ", ".join(str(one.get("name", "?")) for one in _topics(document))
        raise UsageError(f"write topics.NAME.KEY=VALUE; topics here: {names}")
    inner, _, setting = field.partition(".")
    if inner == "settings" and setting:
        _settings(topic)[setting] = value
    else:
        topic[field] = value
    return [OverriddenKey(section="topics", topic=name, key=inner if inner == "settings" else field)]
