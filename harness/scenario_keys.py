"""The keys of a scenario file: what each is called in the file and in `Scenario`, and how its value is read.

What a key means stands in docs/scenarios.md; the tables here are the loader's own truth, and a test holds the page
against them.
"""

import re
from collections.abc import Callable
from typing import Any

from harness.durations import seconds
from harness.scenario import COMMANDS
from harness.verdict import Verdict

COUNT_MAX = 10_000
Reader = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text is needed, not {value!r}")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a whole number is needed, not {value!r}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"a whole number of 64 bits is needed, not {value!r}")
    return value


def _count(value: Any) -> int:
    """Of what is started or made one by one."""
    if _whole(value) > COUNT_MAX:
        raise ValueError(f"at most {COUNT_MAX} are possible, not {value!r}")
    return int(value)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 2**63:
        raise ValueError(f"a number is needed, not {value!r}")
    return float(value)


def _share(value: Any) -> float:
    if not 0 <= _number(value) <= 1:
        raise ValueError(f"a share between 0 and 1 is needed, not {value!r}")
    return _number(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is needed, not {value!r}")
    return value


def _whole_numbers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"a list of whole numbers is needed, not {value!r}")
    return tuple(_whole(item) for item in value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"a list of texts is needed, not {value!r}")
    return tuple(_text(item) for item in value)


def _settings(value: Any) -> dict[str, str]:
    """Kafka's own keys, as in server.properties; true/false and numbers may be written bare."""
    if not isinstance(value, dict):
        raise ValueError(f"a table of Kafka settings is needed, not {value!r}")
    for key, item in value.items():
        if isinstance(item, dict | list):
            raise ValueError(f'setting {key!r} must be one value; write keys with dots in quotes: "{key}.…" = …')
    return {key: str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}


def _assignment(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("an assignment is a list of lists of broker ids, one per partition, preferred leader first")
    return tuple(_whole_numbers(item) for item in value)


def _acks(value: Any) -> str:
    if str(value) not in ("0", "1", "all"):
        raise ValueError(f'acks is "0", "1" or "all", not {value!r}')
    return str(value)


def _network(value: Any) -> str:
    if value not in ("internal", "open"):
        raise ValueError(f'a network is "internal" or "open", not {value!r}')
    return str(value)


def _verdict(value: Any) -> str:
    names = [verdict.value for verdict in Verdict]
    if value not in names:
        raise ValueError(f"a verdict is one of {', '.join(names)}, not {value!r}")
    return str(value)


def coverage_bound(value: Any) -> str:
    """3 or ">= 3": at least; "= 0": exactly; "<= 2": at most."""
    text = str(value).strip()
    if not re.fullmatch(r"(>=|<=|=)?\s*\d{1,18}", text) or isinstance(value, bool):
        raise ValueError(f'a coverage bound is a number, ">= 3", "= 0" or "<= 2", not {value!r}')
    return text


def table_of(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a table is needed, not {value!r}")
    return dict(value)


def _bounds(value: Any) -> dict[str, float]:
    known = ("availability_gap_s", "recovery_time_s")
    for key in table_of(value):
        if key not in known:
            raise ValueError(f"unknown bound {key!r}; known: {', '.join(known)}")
    return {key: seconds(item) for key, item in value.items()}


# Section -> key in the file -> (field of the dataclass, reader).
CLUSTER: dict[str, tuple[str, Reader]] = {
    "brokers": ("brokers", _whole_numbers),
    "settings": ("settings", _settings),
    "flaws": ("flaws", _texts),
    "system": ("system", _text),
    "world": ("world", _text),
    "layout": ("layout", _text),
    "features": ("features", _settings),
    "image": ("image", _text),
    "disk_bytes": ("disk_bytes", _whole),
    "network": ("network", _network),
    "bootstrap": ("bootstrap", _text),
}
ATTACHED: dict[str, tuple[str, Reader]] = {
    "nodes": ("nodes", _settings),
    **{name: (name, _text) for name in COMMANDS},
    "timeout": ("command_timeout_s", seconds),
    "delete_topics": ("delete_topics", _flag),
    "services": ("services", _settings),
    "project": ("project", _text),
    "data": ("data", _text),
}
TOPIC: dict[str, tuple[str, Reader]] = {
    "name": ("name", _text),
    "partitions": ("partitions", _count),
    "replication_factor": ("replication_factor", _whole),
    "assignment": ("assignment", _assignment),
    "settings": ("settings", _settings),
}
WORKLOAD: dict[str, tuple[str, Reader]] = {
    "name": ("name", _text),
    "producers": ("producers", _count),
    "consumers": ("consumers", _count),
    "rate_per_second": ("rate_per_second", _number),
    "batch": ("batch", _whole),
    "acks": ("acks", _acks),
    "idempotence": ("idempotence", _flag),
    "linger_ms": ("linger_ms", _whole),
    "request_timeout_ms": ("request_timeout_ms", _whole),
    "delivery_timeout_ms": ("delivery_timeout_ms", _whole),
    "retries": ("retries", _whole),
    "value_bytes": ("value_bytes", _whole),
    "topics": ("topics", _texts),
    "duration": ("duration_s", seconds),
    "warm_up": ("warm_up_s", seconds),
    "client": ("client", _text),
    "replace_client": ("replace_client", _flag),
    "stuck_after": ("stuck_after_s", seconds),
    "keys": ("keys", _whole),
    "group": ("group", _text),
    "session_timeout_ms": ("session_timeout_ms", _whole),
    "stay": ("stay_s", seconds),
    "crash_share": ("crash_share", _share),
    "seek_share": ("seek_share", _share),
    "processors": ("processors", _count),
    "output": ("output", _text),
    "abort_share": ("abort_share", _share),
    "transaction_timeout_ms": ("transaction_timeout_ms", _whole),
}
FAULT: dict[str, tuple[str, Reader]] = {
    "kind": ("kind", _text),
    "target": ("target", _text),
    "at": ("at_s", seconds),
    "every": ("every_s", seconds),
    "when": ("when", _text),
    "delay": ("delay_s", seconds),
    "for": ("for_s", seconds),
    "options": ("options", table_of),
}
PATTERN: dict[str, tuple[str, Reader]] = {
    "check": ("check", _text),
    "class": ("classification", _text),
    "count": ("count", _whole),
    "at_least": ("at_least", _whole),
    "at_most": ("at_most", _whole),
}
EXPECT: dict[str, tuple[str, Reader]] = {
    "verdict": ("verdict", _verdict),
    "findings": ("findings", table_of),
    "bounds": ("bounds", _bounds),
    "unreadable": ("unreadable", _flag),
}
RUN: dict[str, tuple[str, Reader]] = {
    "read_every_replica": ("read_every_replica", _flag),
    "recovery_timeout": ("recovery_timeout_s", seconds),
    "seed": ("seed", _whole),
}
# [[on]]: what differs on some systems; each of its tables is laid over the file's own.
ON: dict[str, tuple[str, Reader]] = {
    "system": ("system", _text),
    "why": ("why", _text),
    "runs": ("runs", _flag),
}
OVERLAID = ("run", "cluster", "workload", "expect", "coverage")
SECTIONS = ("run", "cluster", "attached", "topics", "workload", "faults", "steps", "expect", "coverage", "on")
