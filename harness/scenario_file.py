"""Reads scenario files: strict TOML in, frozen `Scenario` out (scenario_written.py is the way back).

Nothing is guessed: an unknown key is an error that names the file, the line and the nearest known name. What differs
from system to system (scenario_variants.py) is settled here, so that a `Scenario` is of one system.
"""

import difflib
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.history.files_below import FilesBelow
from harness.history.texts import NESTING_MAX, check_nesting, text_of
from harness.scenario import (
    AttachedSpec,
    ClusterSpec,
    ExpectSpec,
    FaultSpec,
    FindingPattern,
    Scenario,
    StepSpec,
    TopicSpec,
    WorkloadSpec,
)
from harness.scenario_keys import (
    ATTACHED,
    CLUSTER,
    EXPECT,
    FAULT,
    ON,
    OVERLAID,
    PATTERN,
    RUN,
    SECTIONS,
    TOPIC,
    WORKLOAD,
    Reader,
    coverage_bound,
)
from harness.scenario_overrides import apply_override
from harness.scenario_steps import read_step
from harness.scenario_variants import Traits, holds, lay_over
from harness.verdict import COVERAGE_CONDITIONS

_HEADER = re.compile(r"\s*\[\[?\s*([\w.\-]+)\s*\]?\]")
_NAME_SHOWN = 100  # characters of a name that is wrong; longer ones are nobody's slip
SHIPPED = Path(__file__).parent / "scenarios"


class _Source:
    """The text of a scenario file and where in it things stand."""

    def __init__(self, text: str, place: str) -> None:
        self.place = place
        self.lines = text.splitlines()
        # All at once: of as many sections as a file has room for, each is asked for.
        self._headers: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self.lines, 1):
            if header := _HEADER.match(line):
                self._headers[header[1]].append(number)

    def header_line(self, section: str, index: int) -> int:
        """The line (from 1) of the index-th [section] or [[section]] header; 1 when it is written otherwise."""
        lines = self._headers.get(section, [])
        return lines[index] if index < len(lines) else 1

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
    close = difflib.get_close_matches(name[:_NAME_SHOWN], known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"


def _read_table(
    source: _Source, section: str, index: int, table: Any, keys: Mapping[str, tuple[str, Reader]]
) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise source.error(source.header_line(section, index), f"[{section}] must be a table")
    fields: dict[str, Any] = {}
    for key, value in table.items():
        try:
            if key not in keys:
                raise ValueError(f"unknown key {key[:_NAME_SHOWN]!r} in [{section}]; {nearest(key, list(keys))}")
            name, reader = keys[key]
            fields[name] = _read_value(key, value, reader)
        except ValueError as error:  # only now: to look for a line takes longer than to read it
            raise source.error(source.key_line(section, index, key), str(error)) from error
    return fields


def _read_value(key: str, value: Any, reader: Reader) -> Any:
    try:
        return reader(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _tables(source: _Source, document: Mapping[str, Any], section: str) -> list[Any]:
    tables = document.get(section, [])
    if not isinstance(tables, list):
        raise source.error(source.header_line(section, 0), f"write [[{section}]]: it can be repeated")
    return tables


def _read_cluster(source: _Source, document: Mapping[str, Any]) -> ClusterSpec:
    attached = AttachedSpec(**_read_table(source, "attached", 0, document.get("attached", {}), ATTACHED))
    return ClusterSpec(**_read_table(source, "cluster", 0, document.get("cluster", {}), CLUSTER), attached=attached)


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


def _is_for(source: _Source, section: str, index: int, table: Any, traits: Traits) -> bool:
    """Whether a step or a fault is for this system; its `on` is taken away, having been obeyed."""
    if not isinstance(table, dict) or "on" not in table:
        return True
    try:
        return holds(table.pop("on"), traits)
    except ValueError as error:
        raise source.error(source.key_line(section, index, "on"), f"on: {error}") from error


def _read_variants(source: _Source, document: dict[str, Any], traits: Traits) -> str:
    """Lays over what differs on this system; why the scenario says nothing here, or an empty text."""
    not_here = ""
    for index, table in enumerate(_tables(source, document, "on")):
        if not isinstance(table, dict):
            raise source.error(source.header_line("on", index), "[on] must be a table")
        for section in OVERLAID:
            if not isinstance(table.get(section, {}), dict) or not isinstance(document.get(section, {}), dict):
                raise source.error(source.key_line("on", index, section), f"[{section}] must be a table")
        own = {key: value for key, value in table.items() if key not in OVERLAID}
        fields = _read_table(source, "on", index, {**own, "system": "reference"}, ON)
        line = source.header_line("on", index)
        if "system" not in table or not fields.get("why"):
            raise source.error(line, "[[on]] names a system, and says why it is another story there")
        try:
            applies = holds(table["system"], traits)
        except ValueError as error:
            raise source.error(source.key_line("on", index, "system"), f"system: {error}") from error
        if applies:
            lay_over(document, table)
            not_here = not_here or ("" if fields.get("runs", True) else fields["why"])
    document.pop("on", None)
    return not_here


def _read_faults(source: _Source, document: Mapping[str, Any], traits: Traits) -> tuple[FaultSpec, ...]:
    faults = []
    for index, table in enumerate(_tables(source, document, "faults")):
        if not _is_for(source, "faults", index, table, traits):
            continue
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
            raise source.error(
                line, f"unknown key {key[:_NAME_SHOWN]!r} in findings; {nearest(key, ['required', 'forbidden'])}"
            )
        if not isinstance(patterns, list):
            raise source.error(line, f'{key} is a list of tables, for example [{{ check = "lost-write" }}]')
        fields[key] = tuple(
            FindingPattern(**_read_table(source, "expect", 0, pattern, PATTERN)) for pattern in patterns
        )
    return ExpectSpec(**fields)


def _read_coverage(source: _Source, document: Mapping[str, Any]) -> dict[str, str]:
    keys = {name: (name, coverage_bound) for name in COVERAGE_CONDITIONS}
    return _read_table(source, "coverage", 0, document.get("coverage", {}), keys)


def story_of(text: str) -> str:
    """The comment that opens a scenario file, as one paragraph."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").rstrip())
    return " ".join(lines)


def _traits_of_reference(cluster: ClusterSpec) -> Traits:
    return Traits(world=cluster.world)


def parse(
    text: str,
    *,
    name: str,
    place: str,
    overrides: Sequence[str] = (),
    traits_of: Callable[[ClusterSpec], Traits] = _traits_of_reference,
) -> Scenario:
    """A scenario from the text of its file; `place` is what errors call the file. Raises UsageError.

    `traits_of`: what the system that the scenario (or an override) names is like; see scenario_variants.py.
    """
    source = _Source(text, place)
    try:
        document = tomllib.loads(text)
        check_nesting(document)
    except RecursionError:
        raise UsageError(f"{place}: nested more than {NESTING_MAX} deep") from None
    except ValueError as error:
        raise UsageError(f"{place}: not TOML that can be read: {error}") from error
    for override in overrides:
        apply_override(document, override)
    for section in document:
        if section not in SECTIONS:
            line = max(source.header_line(section, 0), source.key_line("", 0, section))
            raise source.error(line, f"unknown section [{section[:_NAME_SHOWN]}]; {nearest(section, SECTIONS)}")
    cluster = _read_cluster(source, document)
    traits = traits_of(cluster)
    not_here = _read_variants(source, document, traits)
    for override in overrides:  # again: what the user says goes before what a variant says
        apply_override(document, override)
    cluster = _read_cluster(source, document)
    if len(set(cluster.brokers)) != len(cluster.brokers):
        raise source.error(source.key_line("cluster", 0, "brokers"), "a broker id is given twice")
    steps: list[StepSpec] = []
    for index, table in enumerate(_tables(source, document, "steps")):
        if not _is_for(source, "steps", index, table, traits):
            continue
        line = source.header_line("steps", index)
        try:
            steps.append(read_step(table, line=line))
        except ValueError as error:
            raise source.error(line, str(error)) from error
    topics = _read_topics(source, document)
    if not topics:
        raise source.error(1, "a scenario needs at least one [[topics]]")
    brokers = set(cluster.brokers)
    for index, topic in enumerate(topics):
        unknown = {broker for replicas in topic.assignment or () for broker in replicas} - brokers
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
        faults=_read_faults(source, document, traits),
        steps=tuple(steps),
        expect=_read_expect(source, document),
        coverage=_read_coverage(source, document),
        not_here=not_here,
        **_read_table(source, "run", 0, document.get("run", {}), RUN),
    )


def shipped_names() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def seed_names() -> list[str]:
    """What the seed documents claim, as scenarios (docs/seed_claims.md)."""
    return sorted(f"seeds/{path.stem}" for path in SHIPPED.glob("seeds/*.toml"))


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
        raise UsageError(f"unknown scenario {reference!r}; {nearest(reference, [*shipped_names(), *seed_names()])}")
    return shipped


def load(
    reference: str,
    *,
    overrides: Sequence[str] = (),
    traits_of: Callable[[ClusterSpec], Traits] = _traits_of_reference,
) -> Scenario:
    """The scenario named by `reference` (see `find`), with KEY=VALUE overrides such as workload.acks=1 applied."""
    path = find(reference)
    below = FilesBelow(path.parent) if Path(reference).is_dir() else None  # a run's may be somebody else's: no links
    text = text_of(path) if below is None else text_of(path, opened=lambda: below.open(path.name))
    name = f"seeds-{path.stem}" if path.parent == SHIPPED / "seeds" else path.stem  # it becomes a folder's name
    if path.name == "scenario.toml":
        written = re.search(r"^# scenario: ([^\s/]+)$", text, re.MULTILINE)
        name = written.group(1) if written else path.parent.name
    return parse(text, name=name, place=str(path), overrides=overrides, traits_of=traits_of)
