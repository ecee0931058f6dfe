"""The keys of a scenario file: the name of each in the file and in `Scenario`, and how its value is read.

docs/scenarios.md explains the keys; the loader uses the tables here, and a test compares the page with them. The keys
of [workload] belong to each workload (workloads.py).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import NAME_SHOWN
from harness.ports.security import MECHANISMS
from harness.scenario.model import COMMANDS
from harness.values import (
    Reader,
    count,
    flag,
    seconds,
    settings_table,
    table_of,
    target,
    text,
    texts,
    whole,
    whole_numbers,
)
from harness.verdict import Verdict


def _assignment(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("an assignment is a list of lists of broker ids, one per partition, preferred leader first")
    return tuple(whole_numbers(item) for item in value)


def _network(value: Any) -> str:
    if value not in ("internal", "open"):
        raise ValueError(f'a network is "internal" or "open", not {value!r}')
    return str(value)


def _verdict(value: Any) -> str:
    names = [verdict.value for verdict in Verdict]
    if value not in names:
        raise ValueError(f"a verdict is one of {', '.join(names)}, not {value!r}")
    return str(value)


def _path(value: Any) -> str:
    """Relative to where the command was started, as the user's commands are; the run may be healed from elsewhere."""
    if not text(value):
        raise ValueError("the name of a file is needed")
    try:
        return str(Path(value).expanduser().absolute())
    except RuntimeError:  # a home that there is not
        raise ValueError(f"{value!r} is no file of this machine") from None


def _prefix(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._-]{0,100}", value):
        raise ValueError(f"a prefix has letters, digits, '.', '_' and '-', up to 100, not {value!r:.{NAME_SHOWN}}")
    return value


def _mechanism(value: Any) -> str:
    if value not in MECHANISMS:
        raise ValueError(f"a mechanism is one of {', '.join(MECHANISMS)}, not {value!r}")
    return str(value)


def coverage_bound(value: Any) -> str:
    """3 or ">= 3": at least; "= 0": exactly; "<= 2": at most."""
    text = str(value).strip()
    if not re.fullmatch(r"(>=|<=|=)?\s*\d{1,18}", text) or isinstance(value, bool):
        raise ValueError(f'a coverage bound is a number, ">= 3", "= 0" or "<= 2", not {value!r}')
    return text


def _bounds(value: Any) -> dict[str, float]:
    known = ("availability_gap_s", "recovery_time_s", "reading_gap_s", "reading_recovery_time_s")
    for key in table_of(value):
        if key not in known:
            raise ValueError(f"unknown bound {key!r}; known: {', '.join(known)}")
    return {key: seconds(item) for key, item in value.items()}


# Section -> key in the file -> (field of the dataclass, reader).
CLUSTER: dict[str, tuple[str, Reader]] = {
    "brokers": ("brokers", whole_numbers),
    "settings": ("settings", settings_table),
    "flaws": ("flaws", texts),
    "system": ("system", text),
    "world": ("world", text),
    "layout": ("layout", text),
    "features": ("features", settings_table),
    "image": ("image", text),
    "disk_bytes": ("disk_bytes", whole),
    "network": ("network", _network),
    "bootstrap": ("bootstrap", text),
}
ATTACHED: dict[str, tuple[str, Reader]] = {
    "nodes": ("nodes", settings_table),
    "front_ends": ("front_ends", flag),
    **{name: (name, text) for name in COMMANDS},
    "timeout": ("command_timeout_s", seconds),
    "prefix": ("prefix", _prefix),
    "delete_topics": ("delete_topics", flag),
    "services": ("services", settings_table),
    "project": ("project", text),
    "data": ("data", text),
}
# The table attached.security
SECURITY: dict[str, tuple[str, Reader]] = {
    "tls": ("tls", flag),
    "ca_file": ("ca_file", _path),
    "certificate_file": ("certificate_file", _path),
    "key_file": ("key_file", _path),
    "key_password_env": ("key_password_env", text),
    "key_password_file": ("key_password_file", _path),
    "verify_host_name": ("verify_host_name", flag),
    "sasl": ("sasl", _mechanism),
    "user": ("user", text),
    "password_env": ("password_env", text),
    "password_file": ("password_file", _path),
    "token_command": ("token_command", text),
}
# Secrets themselves, as people would write them there -> what to write instead.
LITERAL_SECRETS: Mapping[str, str] = {
    "password": 'password_env = "VARIABLE" or password_file = "FILE"',
    "key_password": 'key_password_env = "VARIABLE" or key_password_file = "FILE"',
    "token": 'token_command = "COMMAND THAT PRINTS IT"',
}
TOPIC: dict[str, tuple[str, Reader]] = {
    "name": ("name", text),
    "partitions": ("partitions", count),
    "replication_factor": ("replication_factor", whole),
    "assignment": ("assignment", _assignment),
    "settings": ("settings", settings_table),
}
FAULT: dict[str, tuple[str, Reader]] = {
    "kind": ("kind", text),
    "target": ("target", target),
    "at": ("at_s", seconds),
    "every": ("every_s", seconds),
    "when": ("when", text),
    "delay": ("delay_s", seconds),
    "times": ("times", count),
    "for": ("for_s", seconds),
    "options": ("options", table_of),
}
PATTERN: dict[str, tuple[str, Reader]] = {
    "check": ("check", text),
    "class": ("classification", text),
    "count": ("count", whole),
    "at_least": ("at_least", whole),
    "at_most": ("at_most", whole),
}
EXPECT: dict[str, tuple[str, Reader]] = {
    "verdict": ("verdict", _verdict),
    "findings": ("findings", table_of),
    "bounds": ("bounds", _bounds),
    "unreadable": ("unreadable", flag),
}
RUN: dict[str, tuple[str, Reader]] = {
    "read_every_replica": ("read_every_replica", flag),
    "recovery_timeout": ("recovery_timeout_s", seconds),
    "read_again_after": ("read_again_after_s", seconds),
    "seed": ("seed", whole),
}
# [[on]]: what differs on some systems; each of its tables replaces keys of the file's own table.
ON: dict[str, tuple[str, Reader]] = {
    "system": ("system", text),
    "why": ("why", text),
    "runs": ("runs", flag),
}
OVERLAID = ("run", "cluster", "workload", "expect", "coverage")
SECTIONS = ("run", "cluster", "attached", "topics", "workload", "faults", "steps", "expect", "coverage", "on")
