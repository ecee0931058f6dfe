"""Pours a judged run folder into the page model. A section that fails shows its error in place; the verdict stays."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from reports import accounting as accounts
from reports import findings, timeline
from reports.done import done
from reports.explanations import explanations
from reports.headline import answers, badges, headline, lead, settings
from reports.model import CoverageRow, FindingGroup, MeasureRow, Page, ProofRow, StepRow
from reports.run_data import RunData
from reports.settings import MIN_INSYNC, known_settings, preventing
from reports.story import evidence_of, story, worst
from reports.terms import TERMS

T = TypeVar("T")


class Problems:
    """Runs a section's builder; what goes wrong in it is a line on the page."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def safely(self, section: str, build: Callable[[], T], otherwise: T) -> T:
        try:
            return build()
        except Exception as error:  # noqa: BLE001  # a page with a hole beats no page; the hole is named
            self.found.append((section, f"{type(error).__name__}: {error}"))
            return otherwise


def build(path: Path) -> Page:
    """The page of one run. Raises UsageError when the folder is none or was not judged."""
    data = RunData(path)
    problems = Problems()
    told = problems.safely("What happened", lambda: story(data), None)
    empty: Sequence[FindingGroup] = ()
    groups = problems.safely("Findings", lambda: findings.groups(data), empty)
    kinds = [(row["check"], row["kind"]) for row in data.findings]
    return Page(
        title=f"{data.verdict['verdict']}: {data.scenario.name}, seed {data.run['seed']} (kafka-chaos loss report)",
        scenario=data.scenario.name,
        seed=str(data.run["seed"]),
        badges=badges(data),
        aside=_aside(data),
        headline=headline(data),
        concluded=data.verdict["verdict"] in ("pass", "violation"),
        lead=lead(data),
        answers=problems.safely("Answers", lambda: answers(data), []),
        facts=problems.safely("Facts", lambda: _facts(data), []),
        settings=problems.safely("Configuration", lambda: settings(data), []),
        story=told,
        done=problems.safely("What was done", lambda: done(data), []),
        accounting=problems.safely("Where every record went", lambda: accounts.accounting(data), None),
        overview=problems.safely("The run over time", lambda: timeline.overview(data, told, places_of(groups)), None),
        findings=[row for group in groups for row in group.findings],
        groups=groups,
        findings_total=len(data.findings),
        explanations=problems.safely("What these are", lambda: explanations(kinds), []),
        coverage=[_coverage(row) for row in data.verdict.get("coverage", ())],
        proofs=problems.safely("Faults", lambda: _proofs(data), []),
        measures=problems.safely("What the faults did", lambda: _measures(data), []),
        steps=problems.safely("Steps", lambda: _steps(data), []),
        commands=_commands(data),
        environment=problems.safely("Environment", lambda: _environment(data), []),
        files=_files(data),
        terms=TERMS,
        problems=problems.found,
        footer=f"kafka-chaos {data.run.get('versions', {}).get('kafka-chaos', '')}, loss report of {data.run['id']}, "
        f"history schema {data.run.get('schema_version')}",
    )


def places_of(groups: Sequence[FindingGroup]) -> Callable[[Mapping[str, Any]], str]:
    """Where the mark of a finding leads: to its row, or to its group's where it has none."""
    listed = {row.id for group in groups for row in group.findings}
    anchors = {group.findings[0].fingerprint: group.anchor for group in groups}
    return lambda row: f"#{row['finding'] if row['finding'] in listed else anchors.get(row['fingerprint'], 'find')}"


def _aside(data: RunData) -> str:
    violations = data.verdict["counts"].get("violation", 0)
    expected = (
        "As expected by the scenario."
        if data.verdict.get("as_expected")
        else f"Not as expected by the scenario ({data.verdict.get('expected')})."
    )
    counted = "1 violation" if violations == 1 else f"{violations} violations"
    return f"{counted}. {expected} Exit code {data.verdict['exit_code']}."


def _facts(data: RunData) -> list[tuple[str, str]]:
    run = data.run
    cluster = data.scenario.cluster
    began = run["anchors"][0]["wall_ns"] // 1_000_000_000
    return [
        ("System", data.system),
        ("World", f"{cluster.world}, {len(cluster.brokers)} brokers"),
        ("Seed", str(run["seed"])),
        ("Duration", f"{data.end_s:.0f} s"),
        ("Started", utc(began)),
        ("Workload", data.scenario.workload.name),
    ]


def utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _coverage(row: Mapping[str, Any]) -> CoverageRow:
    name = f"{row['condition'].replace('_', ' ')}: {row.get('meaning', '')}".rstrip(": ")
    return CoverageRow(condition=name, required=str(row["required"]), seen=str(row["seen"]), met=bool(row["met"]))


def _proofs(data: RunData) -> list[ProofRow]:
    steps = {row["step"]: row["text"] for row in data.rows("steps")}
    rows = []
    for fault in data.rows("faults"):
        trigger = fault["trigger"] or (f"step {fault['step'] + 1}" if fault["step"] in steps else "")
        seen = fault["t_begin"] is not None
        rows.append(
            ProofRow(
                label=data.readable(fault["label"]),
                trigger=data.readable(trigger),
                begin=data.moment(fault["t_begin"]),
                proof=data.readable(fault["proof"] or ("no proof recorded" if seen else "planned, no effect seen")),
                end=data.moment(fault["t_end"]) if fault["t_end"] is not None else "never" if seen else "",
                healed=data.readable(fault["healed_proof"] or ("not healed while the run lasted" if seen else "")),
                seen=seen,
            )
        )
    return rows + [_skipped(data, fault) for fault in data.run.get("skipped_faults") or ()]


def _skipped(data: RunData, fault: Mapping[str, Any]) -> ProofRow:
    why = {
        "no-trigger": "what it waited for never came",
        "no-victim": "nobody it was to hit was there and up before the plan's end",
    }
    return ProofRow(
        label=data.readable(f"{fault['kind']} of {fault['target']}"),
        trigger=data.readable(fault["trigger"]),
        begin="",
        proof=f"skipped: {why[fault['why']]}",
        end="",
        healed="",
        seen=False,
    )


def _measures(data: RunData) -> list[MeasureRow]:
    def told(row: Mapping[str, Any], name: str) -> str:
        seconds, never = row[f"{name}_s"], row[f"{name}_never"]
        if seconds is None:
            return ""
        return f"not within {seconds:.3f} s" if never else f"{seconds:.3f} s"

    return [
        MeasureRow(
            label=data.readable(row["label"] or row["kind"]),
            begin=data.moment(row["begin_t"]),
            leader=told(row, "leader"),
            in_sync=told(row, "in_sync"),
            gap=told(row, "gap"),
        )
        for row in sorted(data.evidence("fault_measures"), key=lambda row: row["begin_t"])
    ]


def _steps(data: RunData) -> list[StepRow]:
    return [
        StepRow(
            number=row["step"] + 1,
            kind=row["kind"],
            text=data.readable(row["text"].removeprefix(f"{row['kind']} ")),
            time=data.moment(row["t0"]),
            outcome=row["outcome"],
            seen=data.readable(row["seen"] or ""),
            ok=row["outcome"] == "ok",
        )
        for row in sorted(data.rows("steps"), key=lambda row: row["step"])
    ]


def _commands(data: RunData) -> Sequence[tuple[str, str]]:
    name, seed, run = data.scenario.name, data.run["seed"], data.run["id"]
    return [
        ("The same scenario and seed", f"kafka-chaos run {name} --seed {seed}"),
        ("This run's own schedule", f"kafka-chaos run runs/{run}"),
        *_changes(data),
        ("Judge and render what was recorded", f"kafka-chaos check runs/{run} && kafka-chaos report runs/{run}"),
    ]


def _changes(data: RunData) -> list[tuple[str, str]]:
    """A command for each setting that would have prevented it, or for the one that is worth a try."""
    finding = worst(data)
    ways = preventing(evidence_of(finding)) if finding is not None else ()
    asked = [row["arguments"] for row in data.rows("steps") if row["kind"] == "act"]
    if None in asked:
        return []  # of runs stored before nobody knows what their steps set
    acts = {key for arguments in asked for key in _keys(json.loads(arguments))}
    # A step of the plan that sets the same key would undo the change.
    wanted = [f"{key}={value}" for key, value in ways if key != "acks" and key not in acts]
    if not any(key in acts for key, _ in ways):
        wanted = wanted or [_change(data)]
    names = ("One thing changed", "Another thing changed")
    return [
        (name, f"kafka-chaos run runs/{data.run['id']} --set {way}") for name, way in zip(names, wanted, strict=False)
    ]


def _keys(table: Any) -> Iterator[str]:
    """Of a step's arguments, the settings in them too."""
    if isinstance(table, Mapping):
        for key, value in table.items():
            yield key
            yield from _keys(value)


def _change(data: RunData) -> str:
    """The setting that "what would have prevented it" speaks of, so that its claim can be run."""
    finding = worst(data)
    cause = evidence_of(finding).get("cause") if finding is not None else None
    if cause == "unclean-election" and finding is not None and finding["classification"] == "permitted":
        return "unclean.leader.election.enable=false"
    if cause == "fail-over" and data.scenario.workload.name != "none":
        return "workload.acks=all"
    now = known_settings(data, finding)[MIN_INSYNC]
    return f"{MIN_INSYNC}={'1' if now == '2' else '2'}"


def _environment(data: RunData) -> list[tuple[str, str]]:
    told: dict[str, Any] = {**data.run.get("versions", {}), **data.run.get("environment", {})}
    rows = [(str(key), str(value)) for key, value in told.items()]
    for topic in data.scenario.topics:
        layout = topic.assignment or f"{topic.partitions} partitions, replication factor {topic.replication_factor}"
        rows.append((f"topic {topic.name}", str(layout).replace("(", "[").replace(")", "]")))
    return rows


def _files(data: RunData) -> list[tuple[str, str]]:
    """Relative links into the run folder, only to what is there."""
    wanted = [
        ("scenario as it ran", "scenario.toml"),
        ("verdict", "verdict.json"),
        ("records", "tables/records.parquet"),
        ("findings", "tables/findings.parquet"),
        ("lost records", "tables/evidence_lost_records.parquet"),
        ("replica logs", "tables/replica_log.parquet"),
        ("nodes: configuration, logs, data", "nodes"),
    ]
    return [(name, place) for name, place in wanted if (data.path / place).exists()]
