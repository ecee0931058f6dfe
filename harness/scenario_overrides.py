"""`--set KEY=VALUE`: changes one thing of a scenario before it is checked, as strictly as the file itself.

KEY is a path such as workload.acks or topics.orders.settings.min.insync.replicas, or one of Kafka's own keys alone:
that goes to every topic that sets it, or else to the brokers. VALUE is TOML; anything else is taken as text.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from harness.errors import UsageError

_TABLES = ("run", "cluster", "attached", "workload", "expect", "coverage")
_SECTIONS = (*_TABLES, "topics", "faults", "steps")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set_kafka_key(document: dict[str, Any], key: str, value: Any) -> None:
    topics = [topic for topic in document.get("topics", []) if key in topic.get("settings", {})]
    for topic in topics:
        topic["settings"][key] = value
    if not topics:
        document.setdefault("cluster", {}).setdefault("settings", {})[key] = value


def attached_overrides(file: Path) -> list[str]:
    """The [attached] table of a TOML file as overrides: one file about a cluster serves every scenario."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"--attached {file}: no such file") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--attached {file}: not TOML: {error}") from None
    if set(document) != {"attached"} or not isinstance(document["attached"], dict):
        raise UsageError(f"--attached {file}: write one table, [attached]; see docs/other_systems.md")
    return [f"attached.{key}={_inline(value)}" for key, value in document["attached"].items()]


def _inline(value: Any) -> str:
    """As TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {_inline(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)  # the same in TOML for texts, numbers, true and false


def apply_override(document: dict[str, Any], override: str) -> None:
    """Changes the parsed document in place. Raises UsageError where KEY leads nowhere."""
    key, equals, text = override.partition("=")
    key, value = key.strip(), _value(text.strip())
    if not equals or not key:
        raise UsageError(f"--set {override}: write KEY=VALUE, for example --set workload.acks=1")
    section, _, rest = key.partition(".")
    if section in ("faults", "steps") and not rest:
        document[section] = value
    elif section == "topics":
        name, _, field = rest.partition(".")
        topic = next((one for one in document.get("topics", []) if one.get("name") == name), None)
        if topic is None or not field:
            names = ", ".join(one.get("name", "?") for one in document.get("topics", []))
            raise UsageError(f"--set {override}: write topics.NAME.KEY=VALUE; topics here: {names}")
        inner, _, setting = field.partition(".")
        if inner == "settings" and setting:
            topic.setdefault("settings", {})[setting] = value
        else:
            topic[field] = value
    elif section in _TABLES and rest:
        table = document.setdefault(section, {})
        inner, _, setting = rest.partition(".")
        if inner in ("settings", "bounds", "nodes", "services") and setting:
            table.setdefault(inner, {})[setting] = value
        else:
            table[rest] = value
    elif key == "seed":
        document.setdefault("run", {})["seed"] = value
    elif section not in _SECTIONS and "." in key:
        _set_kafka_key(document, key, value)
    else:
        raise UsageError(
            f"--set {override}: KEY is a path such as workload.acks, topics.NAME.partitions, or a Kafka key; "
            f"sections: {', '.join(_SECTIONS)}"
        )
