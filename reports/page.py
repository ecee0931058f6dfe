"""Pours a judged run folder into the page model. A section that fails shows its error in place; the verdict stays."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from reports import accounting as accounts
from reports import drill_down, timeline
from reports.done import done
from reports.headline import answers, badges, headline, lead, settings
from reports.model import CoverageRow, Finding, Page, ProofRow, StepRow
from reports.run_data import RunData, partition_name, span_of
from reports.settings import MIN_INSYNC, known_settings, preventing
from reports.story import TONES, evidence_of, rule_lines, story, worst
from reports.terms import TERMS

T = TypeVar("T")

_CAUSE_LENGTH_MAX = 60
_TITLES = {
    "lost-write": "Lost write",
    "unseen-tail": "Acknowledged, not read at the end",
    "unreadable": "Acknowledged, unreadable",
    "availability": "No write accepted",
    "expectation": "A stated expectation failed",
}


_FIRST_OF_RECORDS = "first acknowledged"
_FIRST = {
    "unclean-election": "elected",
    "availability": "last write before",
    "recovery": "fault began",
    "expectation": "step began",
    "phantom": "first read",
    "corrupt-record": "first read",
    "aborted-read": "first read",
    "client-stuck": "began",
}


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
        overview=problems.safely("The run over time", lambda: timeline.overview(data, told), None),
        findings=problems.safely("Findings", lambda: [_finding(data, row) for row in data.findings], []),
        coverage=[_coverage(row) for row in data.verdict.get("coverage", ())],
        proofs=problems.safely("Faults", lambda: _proofs(data), []),
        steps=problems.safely("Steps", lambda: _steps(data), []),
        commands=_commands(data),
        environment=problems.safely("Environment", lambda: _environment(data), []),
        files=_files(data),
        terms=TERMS,
        problems=problems.found,
        footer=f"kafka-chaos {data.run.get('versions', {}).get('kafka-chaos', '')}, loss report of {data.run['id']}, "
        f"history schema {data.run.get('schema_version')}",
    )


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


def _finding(data: RunData, row: Mapping[str, Any]) -> Finding:
    log = drill_down.log_table(data, row)
    values = drill_down.lost_values(data, row) if row["check"] == "lost-write" else ()
    shown = len(row["values"] or ())
    hidden = ""
    if row["count"] > shown > 0:
        hidden = (
            f"{row['count'] - shown} of {row['count']} are not listed here; all of them: "
            f"kafka-chaos show {data.run['id']} {row['finding']}"
        )
    return Finding(
        id=row["finding"],
        check=row["check"],
        title=_TITLES.get(row["check"], row["check"].replace("-", " ").capitalize()),
        tone=TONES.get(row["classification"], "neutral"),
        classification=row["classification"],
        partition=partition_name(row),
        offsets=span_of(row["offset_first"], row["offset_last"]),
        count=row["count"],
        first=data.moment(row["t_first"]) if row["t_first"] is not None else "",
        first_is=_FIRST.get(row["check"], _FIRST_OF_RECORDS if row["offset_first"] is not None else ""),
        cause=_cause(data, row),
        sentence=data.readable(row["sentence"]),
        fingerprint=row["fingerprint"],
        rules=rule_lines(data, evidence_of(row)),
        log=log,
        operations=drill_down.operations(data, row),
        lost_values=values,
        hidden=hidden,
    )


def _cause(data: RunData, row: Mapping[str, Any]) -> str:
    """A few words for the table; the sentence below says the rest."""
    evidence = evidence_of(row)
    if evidence.get("cause") and row["epoch"] is not None:
        return f"{str(evidence['cause']).replace('-', ' ').capitalize()}, epoch {row['epoch']}"
    cause = data.readable(row["cause"] or "")
    head = cause[:_CAUSE_LENGTH_MAX]
    return cause if head == cause else (head.rpartition(" ")[0] or head) + " …"


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
    return rows


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
    acts = " ".join(row["text"] for row in data.rows("steps") if row["kind"] == "act")
    # A step of the plan that sets the same key would undo the change.
    wanted = [f"{key}={value}" for key, value in ways if key != "acks" and key not in acts]
    if not any(key in acts for key, _ in ways):
        wanted = wanted or [_change(data)]
    names = ("One thing changed", "Another thing changed")
    return [
        (name, f"kafka-chaos run runs/{data.run['id']} --set {way}") for name, way in zip(names, wanted, strict=False)
    ]


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
