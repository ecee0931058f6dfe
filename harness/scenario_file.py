"""Reads scenario files: strict TOML in, frozen `Scenario` out (scenario_written.py is the way back).

Nothing is guessed: an unknown key is an error that names the file, the line and the nearest known name. What a key
means stands in docs/scenarios.md; the tables below are the loader's own truth, and a test holds the page against them.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.durations import seconds
from harness.errors import UsageError
from harness.scenario import (
    ClusterSpec,
    ExpectSpec,
    FaultSpec,
    FindingPattern,
    Scenario,
    StepSpec,
    TopicSpec,
    WorkloadSpec,
)
from harness.scenario_overrides import apply_override
from harness.scenario_steps import read_step
from harness.verdict import COVERAGE_CONDITIONS, Verdict

SHIPPED = Path(__file__).parent / "scenarios"

Reader = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text is needed, not {value!r}")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a whole number is needed, not {value!r}")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"a number is needed, not {value!r}")
    return float(value)


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


def _verdict(value: Any) -> str:
    names = [verdict.value for verdict in Verdict]
    if value not in names:
        raise ValueError(f"a verdict is one of {', '.join(names)}, not {value!r}")
    return str(value)


def _coverage(value: Any) -> str:
    """3 or ">= 3": at least; "= 0": exactly; "<= 2": at most."""
    text = str(value).strip()
    if not re.fullmatch(r"(>=|<=|=)?\s*\d+", text) or isinstance(value, bool):
        raise ValueError(f'a coverage bound is a number, ">= 3", "= 0" or "<= 2", not {value!r}')
    return text


def _options(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a table is needed, not {value!r}")
    return dict(value)


def _bounds(value: Any) -> dict[str, float]:
    known = ("availability_gap_s", "recovery_time_s")
    for key in _options(value):
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
}
TOPIC: dict[str, tuple[str, Reader]] = {
    "name": ("name", _text),
    "partitions": ("partitions", _whole),
    "replication_factor": ("replication_factor", _whole),
    "assignment": ("assignment", _assignment),
    "settings": ("settings", _settings),
}
WORKLOAD: dict[str, tuple[str, Reader]] = {
    "name": ("name", _text),
    "producers": ("producers", _whole),
    "consumers": ("consumers", _whole),
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
}
FAULT: dict[str, tuple[str, Reader]] = {
    "kind": ("kind", _text),
    "target": ("target", _text),
    "at": ("at_s", seconds),
    "every": ("every_s", seconds),
    "when": ("when", _text),
    "delay": ("delay_s", seconds),
    "for": ("for_s", seconds),
    "options": ("options", _options),
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
    "findings": ("findings", _options),
    "bounds": ("bounds", _bounds),
    "unreadable": ("unreadable", _flag),
}
RUN: dict[str, tuple[str, Reader]] = {
    "read_every_replica": ("read_every_replica", _flag),
    "recovery_timeout": ("recovery_timeout_s", seconds),
    "seed": ("seed", _whole),
}
SECTIONS = ("run", "cluster", "topics", "workload", "faults", "steps", "expect", "coverage")


class _Source:
    """The text of a scenario file and where in it things stand."""

    def __init__(self, text: str, place: str) -> None:
        self.place = place
        self.lines = text.splitlines()

    def header_line(self, section: str, index: int) -> int:
        """The line (from 1) of the index-th [section] or [[section]] header; 1 when it is written otherwise."""
        seen = -1
        for number, line in enumerate(self.lines, 1):
            if re.match(rf"\s*\[\[?\s*{re.escape(section)}\s*\]?\]", line):
                seen += 1
                if seen == index:
                    return number
        return 1

    def key_line(self, section: str, index: int, key: str) -> int:
        start = self.header_line(section, index)
        pattern = re.compile(rf'(^|[\s{{,.])"?{re.escape(key)}"?\s*[=.]')
        for number in range(start, len(self.lines) + 1):
            line = self.lines[number - 1]
            if number > start and re.match(r"\s*\[", line) and not line.lstrip().startswith(f"[{section}."):
                break
            if pattern.search(line.split("#", 1)[0]):
                return number
        return start

    def error(self, line: int, message: str) -> UsageError:
        return UsageError(f"{self.place}:{line}: {message}")


def nearest(name: str, known: Sequence[str]) -> str:
    """The remedy for an unknown name: the nearest known one, or all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"


def _read_table(
    source: _Source, section: str, index: int, table: Any, keys: Mapping[str, tuple[str, Reader]]
) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise source.error(source.header_line(section, index), f"[{section}] must be a table")
    fields: dict[str, Any] = {}
    for key, value in table.items():
        line = source.key_line(section, index, key)
        if key not in keys:
            raise source.error(line, f"unknown key {key!r} in [{section}]; {nearest(key, list(keys))}")
        name, reader = keys[key]
        try:
            fields[name] = reader(value)
        except ValueError as error:
            raise source.error(line, f"{key}: {error}") from error
    return fields


def _tables(source: _Source, document: Mapping[str, Any], section: str) -> list[Any]:
    tables = document.get(section, [])
    if not isinstance(tables, list):
        raise source.error(source.header_line(section, 0), f"write [[{section}]]: it can be repeated")
    return tables


def _read_topics(source: _Source, document: Mapping[str, Any]) -> tuple[TopicSpec, ...]:
    topics = []
    for index, table in enumerate(_tables(source, document, "topics")):
        fields = _read_table(source, "topics", index, table, TOPIC)
        line = source.header_line("topics", index)
        if "name" not in fields:
            raise source.error(line, "a topic needs a name")
        if "assignment" in fields and ("partitions" in fields or "replication_factor" in fields):
            raise source.error(line, "give either an assignment, or partitions and replication_factor, not both")
        topics.append(TopicSpec(**fields))
    return tuple(topics)


def _read_faults(source: _Source, document: Mapping[str, Any]) -> tuple[FaultSpec, ...]:
    faults = []
    for index, table in enumerate(_tables(source, document, "faults")):
        fields = _read_table(source, "faults", index, table, FAULT)
        line = source.header_line("faults", index)
        if "kind" not in fields:
            raise source.error(line, "a fault needs a kind")
        if sum(name in fields for name in ("at_s", "every_s", "when")) != 1:
            raise source.error(line, 'a fault needs exactly one of at = "5 s", every = "10 s", when = "acks >= 500"')
        faults.append(FaultSpec(**fields))
    return tuple(faults)


def _read_expect(source: _Source, document: Mapping[str, Any]) -> ExpectSpec:
    fields = _read_table(source, "expect", 0, document.get("expect", {}), EXPECT)
    findings = fields.pop("findings", {})
    for key, patterns in findings.items():
        line = source.key_line("expect", 0, key)
        if key not in ("required", "forbidden"):
            raise source.error(line, f"unknown key {key!r} in findings; {nearest(key, ['required', 'forbidden'])}")
        if not isinstance(patterns, list):
            raise source.error(line, f'{key} is a list of tables, for example [{{ check = "lost-write" }}]')
        fields[key] = tuple(
            FindingPattern(**_read_table(source, "expect", 0, pattern, PATTERN)) for pattern in patterns
        )
    return ExpectSpec(**fields)


def _read_coverage(source: _Source, document: Mapping[str, Any]) -> dict[str, str]:
    keys = {name: (name, _coverage) for name in COVERAGE_CONDITIONS}
    return _read_table(source, "coverage", 0, document.get("coverage", {}), keys)


def story_of(text: str) -> str:
    """The comment that opens a scenario file, as one paragraph."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").rstrip())
    return " ".join(lines)


def parse(text: str, *, name: str, place: str, overrides: Sequence[str] = ()) -> Scenario:
    """A scenario from the text of its file; `place` is what errors call the file. Raises UsageError."""
    source = _Source(text, place)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{place}: not TOML: {error}") from error
    for override in overrides:
        apply_override(document, override)
    for section in document:
        if section not in SECTIONS:
            line = max(source.header_line(section, 0), source.key_line("", 0, section))
            raise source.error(line, f"unknown section [{section}]; {nearest(section, SECTIONS)}")
    cluster = ClusterSpec(**_read_table(source, "cluster", 0, document.get("cluster", {}), CLUSTER))
    if len(set(cluster.brokers)) != len(cluster.brokers):
        raise source.error(source.key_line("cluster", 0, "brokers"), "a broker id is given twice")
    steps: list[StepSpec] = []
    for index, table in enumerate(_tables(source, document, "steps")):
        line = source.header_line("steps", index)
        try:
            steps.append(read_step(table, line=line))
        except ValueError as error:
            raise source.error(line, str(error)) from error
    topics = _read_topics(source, document)
    if not topics:
        raise source.error(1, "a scenario needs at least one [[topics]]")
    for index, topic in enumerate(topics):
        unknown = {broker for replicas in topic.assignment or () for broker in replicas} - set(cluster.brokers)
        if unknown:
            line = source.key_line("topics", index, "assignment")
            raise source.error(line, f"the assignment names brokers {sorted(unknown)} that [cluster] brokers has not")
    return Scenario(
        name=name,
        story=story_of(text),
        source=text,
        cluster=cluster,
        topics=topics,
        workload=WorkloadSpec(**_read_table(source, "workload", 0, document.get("workload", {}), WORKLOAD)),
        faults=_read_faults(source, document),
        steps=tuple(steps),
        expect=_read_expect(source, document),
        coverage=_read_coverage(source, document),
        **_read_table(source, "run", 0, document.get("run", {}), RUN),
    )


def shipped_names() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def find(reference: str) -> Path:
    """The file of a shipped scenario's name, of a TOML path, or of a run folder (its written-out scenario)."""
    path = Path(reference)
    if path.is_dir():
        written = path / "scenario.toml"
        if not written.is_file():
            raise UsageError(f"{reference}: no run folder (it has no scenario.toml); give a scenario's name or file")
        return written
    if path.suffix == ".toml":
        if not path.is_file():
            raise UsageError(f"{reference}: no such file")
        return path
    shipped = SHIPPED / f"{reference}.toml"
    if not shipped.is_file():
        raise UsageError(f"unknown scenario {reference!r}; {nearest(reference, shipped_names())}")
    return shipped


def load(reference: str, *, overrides: Sequence[str] = ()) -> Scenario:
    """The scenario named by `reference` (see `find`), with KEY=VALUE overrides such as workload.acks=1 applied."""
    path = find(reference)
    text = path.read_text(encoding="utf-8")
    name = path.stem
    if path.name == "scenario.toml":
        written = re.search(r"^# scenario: (\S+)$", text, re.MULTILINE)
        name = written.group(1) if written else path.parent.name
    return parse(text, name=name, place=str(path), overrides=overrides)
