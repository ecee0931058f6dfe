"""Parts of a scenario for some systems only: steps and faults with `on`, and [[on]] tables merged into the file's own.

`on = "kraft"` names a property of the system under test: its kind (reference, kafka), its coordination (kraft,
zookeeper), its world (local, docker, simulated), its support of eligible leader replicas (elr), or its version ("kafka
>= 4"; <, = and >= are known). A list means any of them; "not kraft" means all others. An [[on]] table says why the
outcome differs there, since that is a fact about Kafka.
"""

import re
from collections.abc import Mapping
from typing import Any

from harness import extensions
from harness.scenario.keys import OVERLAID
from harness.scenario.model import Traits

_TERM = re.compile(r"(not\s+)?([a-z][a-z0-9_-]*)(?:\s*(>=|<|=)\s*([\d.]+))?")
_COMPARED = ("kafka", "reference")


KNOWN = (
    "reference",
    "kafka",
    "attached",
    "kraft",
    "zookeeper",
    "unknown",
    "elr",
    "local",
    "docker",
    "simulated",
    "compose",
)


def holds(on: Any, traits: Traits) -> bool:
    """Whether `on` matches the system. Raises ValueError for an unknown name."""
    if isinstance(on, list):
        found_here = [holds(each, traits) for each in on]  # all are evaluated, so that every misspelt one is found
        return any(found_here)
    match = _TERM.fullmatch(on.strip()) if isinstance(on, str) else None
    added = extensions.names(extensions.SYSTEMS) if match is not None and match[2] not in KNOWN else []
    if match is None or match[2] not in (*KNOWN, *added) or (match[3] and match[2] not in (*_COMPARED, *added)):
        raise ValueError(f'{on!r} is no system; write one of {", ".join(KNOWN)}, "kafka >= 4" or "not kraft"')
    found = match[2] in traits.names
    if found and match[3]:
        found = _compare(traits.version, match[3], tuple(int(part) for part in match[4].split(".") if part))
    return found != bool(match[1])


def _compare(version: tuple[int, ...], operator: str, bound: tuple[int, ...]) -> bool:
    if operator == "=":
        return version[: len(bound)] == bound
    return version >= bound if operator == ">=" else version < bound


def lay_over(document: dict[str, Any], variant: Mapping[str, Any]) -> None:
    """Merges a variant's tables into the document: tables key by key, all other values as a whole."""
    for section in OVERLAID:
        if section in variant:
            _merge(document.setdefault(section, {}), variant[section])


def _merge(into: dict[str, Any], table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
