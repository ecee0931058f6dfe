"""Reads scenario files: strict TOML in, frozen `Scenario` out (written.py does the reverse).

Nothing is guessed: an unknown key is an error that names the file, the line and the nearest known name. Differences
between systems (variants.py) are resolved here, so that a `Scenario` is for one system.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import NAME_SHOWN, Place, Problems, UsageError, nearest
from harness.history.files_below import FilesBelow
from harness.history.run_folder import RunFolder
from harness.history.schema.texts import NESTING_MAX, Unfit, check_nesting, text_of
from harness.ports.load import LoadFacts, WorkloadSpec
from harness.ports.security import SecuritySpec
from harness.scenario.keys import (
    ATTACHED,
    CLUSTER,
    EXPECT,
    FAULT,
    LITERAL_SECRETS,
    ON,
    OVERLAID,
    PATTERN,
    RUN,
    SECTIONS,
    SECURITY,
    TOPIC,
    coverage_bound,
)
from harness.scenario.model import (
    DEFAULT_REPLICAS,
    ON_A_LOOP,
    SIMULATED,
    AttachedSpec,
    ClusterSpec,
    ExpectSpec,
    FaultSpec,
    FindingPattern,
    Given,
    Scenario,
    StepSpec,
    TopicSpec,
    Traits,
)
from harness.scenario.overrides import apply_override
from harness.scenario.places import SECURITY_SECTION, Override, Places, Source
from harness.scenario.steps import read_step
from harness.scenario.topic_names import wrong_name
from harness.scenario.variants import holds, lay_over
from harness.scenario.workloads import DEFAULT as DEFAULT_WORKLOAD
from harness.scenario.workloads import RecordedWorkload, settings_of
from harness.scenario.workloads import names as workload_names
from harness.values import Reader, keys_of
from harness.verdict import COVERAGE_CONDITIONS, is_coverage_name

SHIPPED = Path(__file__).parents[1] / "scenarios"
WorkloadOf = Callable[[str], type[WorkloadSpec] | None]
_FRONT_ENDS_ALONE = "it strikes front ends, several addresses that answer with one node id: give them by --bootstrap"


def _read_table(
    source: Source,
    section: str,
    index: int,
    table: Any,
    keys: Mapping[str, tuple[str, Reader]],
    *,
    topic: str = "",
    more: str = "",
) -> dict[str, Any]:
    """The fields that can be read; the others are reported and left out. `more` is appended for an unknown key."""
    places = source.places
    if not isinstance(table, dict):
        source.wrong(places.section(section, index), f"[{section}] must be a table")
        return {}
    fields: dict[str, Any] = {}
    for key, value in table.items():
        with source.telling(lambda key=key: places.key(section, key, index=index, topic=topic)):  # type: ignore[misc]
            if key not in keys:
                raise ValueError(f"unknown key {key[:NAME_SHOWN]!r} in [{section}]; {nearest(key, list(keys))}{more}")
            name, reader = keys[key]
            fields[name] = _read_value(key, value, reader)
    return fields


def _read_value(key: str, value: Any, reader: Reader) -> Any:
    try:
        return reader(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _tables(source: Source, document: Mapping[str, Any], section: str) -> list[Any]:
    tables = document.get(section, [])
    if not isinstance(tables, list):
        source.wrong(source.places.section(section), f"write [[{section}]]: it can be repeated")
        return []
    return tables


def _read_cluster(source: Source, document: Mapping[str, Any]) -> ClusterSpec:
    table, security = document.get("attached", {}), None
    if isinstance(table, dict) and "security" in table:
        security = _read_security(source, table["security"])
        table = {key: value for key, value in table.items() if key != "security"}
    attached = AttachedSpec(**_read_table(source, "attached", 0, table, ATTACHED), security=security)
    return ClusterSpec(**_read_table(source, "cluster", 0, document.get("cluster", {}), CLUSTER), attached=attached)


def _read_security(source: Source, table: Any) -> SecuritySpec:
    """A secret that stands there is refused, and not shown."""
    places = source.places
    literal = [key for key in LITERAL_SECRETS if isinstance(table, dict) and key in table]
    for key in literal:
        what = f"{key} is a secret, and would be written into every run: give {LITERAL_SECRETS[key]}"
        source.wrong(places.security(key), what)
        table = {name: value for name, value in table.items() if name != key}
    return SecuritySpec(**_read_table(source, SECURITY_SECTION, 0, table, SECURITY))


def _read_topics(
    source: Source, document: Mapping[str, Any], brokers: Sequence[int], *, is_foreign: bool = False
) -> tuple[TopicSpec, ...]:
    """is_foreign: the cluster's brokers are not known yet."""
    topics = []
    tables = _tables(source, document, "topics")
    for index, table in enumerate(tables):
        name = str(table.get("name", "")) if isinstance(table, dict) else ""
        fields = _read_table(source, "topics", index, table, TOPIC, topic=name)
        place = source.places.section("topics", index)
        if not isinstance(table, dict) or "name" not in table:
            source.wrong(place, "a topic needs a name")
        if "assignment" in fields and ("partitions" in fields or "replication_factor" in fields):
            source.wrong(place, "give either an assignment, or partitions and replication_factor, not both")
        unknown = {broker for replicas in fields.get("assignment", ()) for broker in replicas} - set(brokers)
        if unknown:
            source.wrong(
                source.places.key("topics", "assignment", index=index, topic=name),
                f"the assignment names brokers {sorted(unknown)} that [cluster] brokers has not",
            )
        if "assignment" not in fields and not is_foreign:
            fields.setdefault("replication_factor", min(DEFAULT_REPLICAS, len(brokers)))
        if "name" in fields:
            topics.append(TopicSpec(**fields))
    if not tables:
        source.wrong(source.places.section("topics"), "a scenario needs at least one [[topics]]")
    return tuple(topics)


def _read_workload(
    source: Source, document: Mapping[str, Any], topics: Sequence[TopicSpec], workload_of: WorkloadOf
) -> WorkloadSpec:
    table, places = document.get("workload", {}), source.places
    if not isinstance(table, dict):
        source.wrong(places.section("workload"), "[workload] must be a table")
        return WorkloadSpec()
    name = table.get("name", DEFAULT_WORKLOAD)
    settings = workload_of(name) if isinstance(name, str) else None
    if settings is None:
        known = nearest(name, workload_names()) if isinstance(name, str) else f"a text is needed, not {name!r}"
        source.wrong(places.key("workload", "name"), f"unknown workload {name!r:.{NAME_SHOWN}}; {known}")
        return WorkloadSpec()
    keys = keys_of(settings)
    of_others = issubclass(settings, RecordedWorkload)  # its own keys are not known here
    own = {key: value for key, value in table.items() if key != "name" and not (of_others and key not in keys)}
    more = f"; workload {name!r} has: {', '.join(sorted(keys))}"
    fields = _read_table(source, "workload", 0, own, keys, more=more)
    workload = settings()
    with source.telling(lambda: places.section("workload")):
        workload = settings(**fields)
        workload.check([topic.name for topic in topics])
    return workload


def read_workload(table: Mapping[str, Any], *, topics: Sequence[str]) -> WorkloadSpec:
    """Reads a [workload] table of a written-out scenario. Raises Problems."""
    source = Source("", "workload")
    named = [TopicSpec(name=topic) for topic in dict.fromkeys(topics)]
    workload = _read_workload(source, {"workload": table}, named, settings_of)
    if source.problems:
        raise Problems(source.problems)
    return workload


def read_topics(tables: Any, *, brokers: Sequence[int]) -> tuple[TopicSpec, ...]:
    """From [[topics]] tables that were given otherwise than by a scenario file. Raises Problems."""
    source = Source("", "topics")
    topics = _read_topics(source, {"topics": tables}, brokers)
    for topic in topics:  # those of a file are checked before a run; a folder is judged whatever it says
        if (wrong := wrong_name(topic.name)) is not None:
            source.wrong(source.places.section("topics"), f"topic {topic.name!r:.{NAME_SHOWN}}: {'; '.join(wrong)}")
    if source.problems:
        raise Problems(source.problems)
    return topics


def read_security(overrides: Sequence[str]) -> tuple[SecuritySpec | None, Places]:
    """(how to get into a cluster, where each key of that is said), by options alone. Raises Problems."""
    source, document = Source("", "attached"), dict[str, Any]()
    _apply(source, document, overrides)
    security = _read_cluster(source, document).attached.security
    if source.problems:
        raise Problems(source.problems)
    return security, source.places


def _apply(source: Source, document: dict[str, Any], overrides: Sequence[str]) -> None:
    for override in overrides:
        with source.telling(lambda override=override: Place(option=Override.of(override).option)):  # type: ignore[misc]
            said = apply_override(document, override)
            source.places.overridden |= dict.fromkeys(said, Override.of(override).option)


def _is_for(source: Source, section: str, index: int, table: Any, traits: Traits) -> bool:
    """Whether a step or a fault is for this system. Removes its key `on`, which is then applied."""
    if not isinstance(table, dict) or "on" not in table:
        return True
    try:
        return holds(table.pop("on"), traits)
    except ValueError as error:
        source.wrong(source.places.key(section, "on", index=index), f"on: {error}")
        return True


def _read_variants(source: Source, document: dict[str, Any], traits: Traits) -> str:
    """Applies the variants of this system. Returns why the scenario does not apply to it, or an empty text."""
    not_here, places = "", source.places
    for index, table in enumerate(_tables(source, document, "on")):
        if not isinstance(table, dict):
            source.wrong(places.section("on", index), "[on] must be a table")
            continue
        before = len(source.problems)
        for section in OVERLAID:
            if not isinstance(table.get(section, {}), dict) or not isinstance(document.get(section, {}), dict):
                source.wrong(places.key("on", section, index=index), f"[{section}] must be a table")
        own = {key: value for key, value in table.items() if key not in OVERLAID}
        fields = _read_table(source, "on", index, {**own, "system": "reference"}, ON)
        if "system" not in table or not fields.get("why"):
            source.wrong(places.section("on", index), "[[on]] needs a system, and why the outcome differs there")
            continue
        try:
            applies = holds(table["system"], traits)
        except ValueError as error:
            source.wrong(places.key("on", "system", index=index), f"system: {error}")
            continue
        if applies and len(source.problems) == before:
            lay_over(document, table)
            not_here = not_here or ("" if fields.get("runs", True) else fields["why"])
    document.pop("on", None)
    return not_here


def _read_faults(source: Source, document: Mapping[str, Any], traits: Traits) -> tuple[FaultSpec, ...]:
    faults, numbers = [], []
    for index, table in enumerate(_tables(source, document, "faults")):
        if not _is_for(source, "faults", index, table, traits):
            continue
        fields = _read_table(source, "faults", index, table, FAULT)
        given = table if isinstance(table, dict) else {}
        if "kind" not in given:
            source.wrong(source.places.section("faults", index), "a fault needs a kind")
        if sum(name in given for name in ("at", "every", "when")) != 1:
            source.wrong(
                source.places.section("faults", index),
                'a fault needs exactly one of at = "5 s", every = "10 s", when = "acks >= 500"',
            )
        if "kind" in fields:
            faults.append(FaultSpec(**fields))
            numbers.append(index)
    source.places.faults = tuple(numbers)
    return tuple(faults)


def _read_steps(source: Source, document: Mapping[str, Any], traits: Traits) -> tuple[StepSpec, ...]:
    steps = []
    for index, table in enumerate(_tables(source, document, "steps")):
        if _is_for(source, "steps", index, table, traits):
            place = source.places.section("steps", index)
            with source.telling(lambda place=place: place):  # type: ignore[misc]
                steps.append(read_step(table, line=place.line or 1))
    return tuple(steps)


def _read_expect(source: Source, document: Mapping[str, Any]) -> ExpectSpec:
    fields = _read_table(source, "expect", 0, document.get("expect", {}), EXPECT)
    for key, patterns in fields.pop("findings", {}).items():
        place = source.places.key("expect", key)
        if key not in ("required", "forbidden"):
            near = nearest(key, ["required", "forbidden"])
            source.wrong(place, f"unknown key {key[:NAME_SHOWN]!r} in findings; {near}")
        elif not isinstance(patterns, list):
            source.wrong(place, f'{key} is a list of tables, for example [{{ check = "lost-write" }}]')
        else:
            read = [_read_table(source, "expect", 0, pattern, PATTERN) for pattern in patterns]
            fields[key] = tuple(FindingPattern(**pattern) for pattern in read)
    return ExpectSpec(**fields)


def _read_coverage(source: Source, document: Mapping[str, Any]) -> dict[str, str]:
    table = document.get("coverage", {})
    named = [name for name in table if is_coverage_name(name)] if isinstance(table, dict) else []
    keys = {name: (name, coverage_bound) for name in (*COVERAGE_CONDITIONS, *named)}
    return _read_table(source, "coverage", 0, table, keys)


def story_of(text: str) -> str:
    """The comment at the start of a scenario file, as one paragraph."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").rstrip())
    return " ".join(lines)


class Draft:
    """The text of a scenario that has been read as far as it is the same on every system. `place`: the file's name in
    errors; all of them are told together, by `scenario`."""

    def __init__(
        self, text: str, *, name: str, place: str, overrides: Sequence[str] = (), given: Given | None = None
    ) -> None:
        self._name, self._text, self._overrides, self._given = name, text, overrides, given
        source = self._source = Source(text, place)
        document = self._document = document_of(text, place)
        _apply(source, document, overrides)
        for section in document:
            if section not in SECTIONS:
                line = max(source.places.section(section).line, source.places.key("", section).line)
                name_shown = section[:NAME_SHOWN]
                source.wrong(source.places.line(line), f"unknown section [{name_shown}]; {nearest(section, SECTIONS)}")
        self.cluster = _read_cluster(source, document)

    def wrong_system(self, error: UsageError) -> None:
        self._source.wrong(self._source.places.key("cluster", "system"), str(error))

    def scenario(self, traits: Traits | None = None, *, workload_of: WorkloadOf = settings_of) -> Scenario:
        """For a system with these traits (variants.py); None: for the reference. `workload_of`: returns the settings
        class of a workload by name. Raises Problems."""
        source, document = self._source, self._document
        traits = traits or Traits(world=self.cluster.world)
        not_here = _read_variants(source, document, traits)
        for override in self._overrides:  # again: the user's overrides win over a variant
            with suppress(UsageError):
                apply_override(document, override)
        cluster = _read_cluster(source, document)
        if cluster.world == SIMULATED and isinstance(document.setdefault("workload", {}), dict):
            document["workload"].setdefault("client", ON_A_LOOP)
        if len(set(cluster.brokers)) != len(cluster.brokers):
            source.wrong(source.places.key("cluster", "brokers"), "a broker id is given twice")
        if cluster.attached.front_ends and not cluster.is_foreign:
            not_here = not_here or _FRONT_ENDS_ALONE
        topics = _read_topics(source, document, cluster.brokers, is_foreign=cluster.is_foreign)
        scenario = Scenario(
            name=self._name,
            story=story_of(self._text),
            source=self._text,
            cluster=cluster,
            topics=topics,
            workload=_read_workload(source, document, topics, workload_of),
            faults=_read_faults(source, document, traits),
            steps=_read_steps(source, document, traits),
            expect=_read_expect(source, document),
            coverage=_read_coverage(source, document),
            not_here=not_here,
            places=source.places,
            given=self._given,
            traits=traits,
            **_read_table(source, "run", 0, document.get("run", {}), RUN),
        )
        if source.problems:
            raise Problems(sorted(source.problems, key=lambda problem: problem.place.line))
        return scenario


def parse(text: str, *, name: str, place: str, overrides: Sequence[str] = ()) -> Scenario:
    """For the reference cluster, from the text of its file. Raises Problems."""
    return Draft(text, name=name, place=place, overrides=overrides).scenario()


def document_of(text: str, place: str) -> dict[str, Any]:
    """Raises UsageError."""
    try:
        document = tomllib.loads(text)
        check_nesting(document)
    except RecursionError:
        raise UsageError(f"{place}: nested more than {NESTING_MAX} deep") from None
    except ValueError as error:
        raise UsageError(f"{place}: not TOML that can be read: {error}") from error
    return document


# ---- by reference ---------------------------------------------------------------------------------------------------


def shipped_names() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def seed_names() -> list[str]:
    """The scenarios that test the claims of docs/seed_claims.md."""
    return sorted(f"seeds/{path.stem}" for path in SHIPPED.glob("seeds/*.toml"))


def find(reference: str) -> Path:
    """The file of a shipped scenario, of a TOML path, or of a run folder (its written-out scenario)."""
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
    if not shipped.is_file() and path.exists():
        raise UsageError(f"{reference}: no scenario; the name of a scenario's file ends in .toml")
    if not shipped.is_file():
        raise UsageError(f"unknown scenario {reference!r}; {nearest(reference, [*shipped_names(), *seed_names()])}")
    return shipped


def is_run(reference: str) -> bool:
    """Whether the reference is a run folder, not a scenario's name or file."""
    return Path(reference).is_dir()


def lasting(reference: str) -> str:
    """The reference as given; a link beside a run folder, such as `latest`, is resolved, since it will change."""
    path = Path(reference)
    if is_run(reference) and path.is_symlink() and path.resolve().parent == path.parent.resolve():
        return str(path.parent / path.resolve().name)
    return reference


def drafted(reference: str, *, overrides: Sequence[str] = ()) -> Draft:
    """What `reference` names (see `find`), with KEY=VALUE overrides such as workload.acks=1."""
    path = find(reference)
    below = FilesBelow(path.parent) if is_run(reference) else None  # it may be somebody else's: no links
    try:
        text = text_of(path) if below is None else text_of(path, opened=lambda: below.open(path.name))
    except Unfit as error:
        raise UsageError(str(error)) from error
    name = f"seeds-{path.stem}" if path.parent == SHIPPED / "seeds" else path.stem  # it becomes a folder's name
    if path.name == "scenario.toml":
        written = re.search(r"^# scenario: ([^\s/]+)$", text, re.MULTILINE)
        name = written.group(1) if written else path.parent.name
    given = Given(reference=lasting(reference), file=path if below is None else None, overrides=tuple(overrides))
    return Draft(text, name=name, place=str(path), overrides=overrides, given=given)


def load(reference: str, *, overrides: Sequence[str] = ()) -> Scenario:
    """For the reference cluster, or as a stored run had it. Raises Problems."""
    return drafted(reference, overrides=overrides).scenario()


def scenario_of(folder: RunFolder) -> Scenario:
    """The scenario that the folder is a run of; the workload of a package that is not installed here is as it was."""

    def workload_of(name: str) -> type[WorkloadSpec] | None:
        facts = folder.run.get("workload")
        return settings_of(name) or (recorded(name, facts) if facts is not None else None)

    return drafted(str(folder.path)).scenario(workload_of=workload_of)


def recorded(name: str, facts: Mapping[str, Any]) -> type[RecordedWorkload]:
    """A class for that workload. `facts`: the fields of its LoadFacts, from run.json."""
    lists = {name: tuple(facts.get(name, ())) for name in ("outputs", "transactional_ids")}
    load_facts = LoadFacts(**{**facts, **lists})
    own = {"name": name, "facts": property(lambda self: load_facts), "__module__": __name__}
    return type("Recorded", (RecordedWorkload,), own)
