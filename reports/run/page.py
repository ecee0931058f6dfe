"""Pours a judged run folder into the page model. A section that fails shows its error in place; the verdict stays."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.history.facts.fault_facts import WHY_SKIPPED, late_words
from harness.history.schema.cluster_rows import FAULTS, NODE_ENDS, STEPS, FaultRow, NodeEndRow
from harness.history.schema.evidence_rows import FAULT_MEASURES, FindingRow
from harness.host import memory
from harness.trends.on_pages import nights_of
from harness.trends.store import SeenLately
from reports.explanations import explanations
from reports.model import CoverageRow, FindingGroup, MeasureRow, OtherRuns, Page, ProofRow, StepRow
from reports.run import accounting as accounts
from reports.run import findings, timeline
from reports.run.done import done
from reports.run.headline import answers, badges, headline, lead, settings
from reports.run.life.drawing import life
from reports.run.replay.commands import commands
from reports.run.replay.issue import IssueTexts
from reports.run.replay.made_of import layouts, made_of
from reports.run.replay.other_runs import other_runs
from reports.run.story import story, worst
from reports.run_data import RunData, utc
from reports.terms import TERMS

T = TypeVar("T")

_NAMES_SHOWN = 6


class Problems:
    """Runs a section's builder; what goes wrong in it is a line on the page."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def safely(self, section: str, build: Callable[[], T], otherwise: T) -> T:
        try:
            return build()
        except memory.TooLarge:
            raise  # more memory is the user's to give
        except Exception as error:  # noqa: BLE001  # a page with a hole beats no page; the hole is named
            self.found.append((section, f"{type(error).__name__}: {error}"))
            return otherwise


def build(path: Path) -> Page:
    """The page of one run. Raises UsageError when the folder is none or was not judged."""
    data = RunData(path)
    problems = Problems()
    what_happened = problems.safely("What happened", lambda: story(data), None)
    empty: Sequence[FindingGroup] = ()
    issues = problems.safely("Findings", lambda: IssueTexts(data).of, lambda row: "")
    unknown: Mapping[str, SeenLately] = {}
    nights = problems.safely("Findings", lambda: nights_of(data.folder), unknown)
    groups = problems.safely("Findings", lambda: findings.groups(data, issues, nights), empty)
    anomalies = [data.anomaly(row) for row in data.findings]
    return Page(
        title=f"{data.verdict['verdict']}: {data.scenario.name}, seed {data.run['seed']} (kafka-chaos loss report)",
        scenario=data.scenario.name,
        seed=str(data.run["seed"]),
        badges=badges(data),
        aside=_aside(data),
        headline=headline(data),
        concluded=data.verdict["verdict"] in ("pass", "violation"),
        permitted=bool(data.verdict["counts"].get("permitted")),
        broken=bool(data.verdict["counts"].get("violation")),
        lead=lead(data),
        answers=problems.safely("Answers", lambda: answers(data), []),
        facts=problems.safely("Facts", lambda: _facts(data), []),
        settings=problems.safely("Configuration", lambda: settings(data), []),
        story=what_happened,
        life=problems.safely(
            "One record followed", lambda: life(data, worst(data), what_happened.steps if what_happened else ()), None
        ),
        done=problems.safely("What was done", lambda: done(data), []),
        accounting=problems.safely("Where every record went", lambda: accounts.accounting(data), None),
        overview=problems.safely(
            "The run over time", lambda: timeline.overview(data, what_happened, places_of(groups)), None
        ),
        findings=[row for group in groups for row in group.findings],
        groups=groups,
        findings_total=len(data.findings),
        explanations=problems.safely("What these are", lambda: explanations(anomalies), []),
        coverage=[_coverage(row) for row in data.verdict.get("coverage", ())],
        proofs=problems.safely("Faults", lambda: _proofs(data), []),
        measures=problems.safely("What the faults did", lambda: _measures(data), []),
        steps=problems.safely("Steps", lambda: _steps(data), []),
        commands=problems.safely("Replay", lambda: commands(data), []),
        environment=problems.safely("Environment", lambda: [*made_of(data), *layouts(data)], []),
        files=_files(data),
        other_runs=problems.safely("Other runs", lambda: other_runs(data), OtherRuns(earlier=(), later=())),
        terms=TERMS,
        problems=problems.found,
        footer=f"kafka-chaos {data.run.get('versions', {}).get('kafka-chaos', '')}, loss report of {data.run['id']}, "
        f"history schema {data.run.get('schema_version')}",
    )


def places_of(groups: Sequence[FindingGroup]) -> Callable[[FindingRow], str]:
    """Where the mark of a finding leads: to its row, or to its group's where it has none."""
    listed = {row.id for group in groups for row in group.findings}
    anchors = {group.findings[0].fingerprint: group.anchor for group in groups}
    return lambda row: f"#{row['finding'] if row['finding'] in listed else anchors.get(row['fingerprint'], 'find')}"


def _aside(data: RunData) -> str:
    known = len(data.verdict.get("set_aside") or ())
    violations = data.verdict["counts"].get("violation", 0) - known
    expected = (
        "As expected by the scenario."
        if data.verdict.get("as_expected")
        else f"Not as expected by the scenario ({data.verdict.get('expected')})."
    )
    counted = "1 violation" if violations == 1 else f"{violations} violations"
    counted += f", {known} known and set aside" if known else ""
    return f"{counted}. {expected} Exit code {data.verdict['exit_code']}."


def _facts(data: RunData) -> list[tuple[str, str]]:
    run = data.run
    cluster = data.scenario.cluster
    began = run["anchors"][0]["wall_ns"] // 1_000_000_000
    return [
        ("System", data.system),
        ("World", f"{cluster.where}, {data.nodes_counted}"),
        *([("Brokers there", there)] if (there := _names_there(run, "brokers_there")) else []),
        *([("Names there", there)] if (there := _names_there(run, "names_there")) else []),
        ("Seed", str(run["seed"])),
        ("Duration", f"{data.end_s:.0f} s"),
        ("Started", utc(began)),
        ("Workload", data.scenario.workload.name),
    ]


def _names_there(run: Mapping[str, Any], what: str) -> str:
    """What the user's own names, or the brokers of his file, are on a cluster that others use: told once."""
    marked = [f"{here} is {there}" for here, there in (run.get(what) or {}).items() if here != there]
    return ", ".join(marked[:_NAMES_SHOWN]) + (f" and {len(marked) - _NAMES_SHOWN} more" * (len(marked) > _NAMES_SHOWN))


def _coverage(row: Mapping[str, Any]) -> CoverageRow:
    name = f"{row['condition'].replace('_', ' ')}: {row.get('meaning', '')}".rstrip(": ")
    return CoverageRow(condition=name, required=str(row["required"]), seen=str(row["seen"]), met=bool(row["met"]))


def _proofs(data: RunData) -> list[ProofRow]:
    steps = {row["step"]: row["step_text"] for row in data.rows(STEPS)}
    rows = []
    for fault in data.rows(FAULTS):
        step = fault["step"]
        trigger = fault["trigger_text"] or (f"step {step + 1}" if step is not None and step in steps else "")
        seen = fault["begin_ns"] is not None
        rows.append(
            ProofRow(
                label=data.readable(fault["label_text"] or fault["kind"]),
                trigger=data.readable(trigger),
                begin=_began(data, fault),
                proof=data.readable(
                    fault["proof_text"] or ("no proof recorded" if seen else "planned, no effect seen")
                ),
                end=data.moment(fault["end_ns"]) if fault["end_ns"] is not None else "never" if seen else "",
                healed=data.readable(fault["healed_proof_text"] or ("not healed while the run lasted" if seen else "")),
                seen=seen,
            )
        )
    rows += [_skipped(data, fault) for fault in data.run.get("skipped_faults") or ()]
    return rows + [_ended(data, end) for end in data.rows(NODE_ENDS)]


def _ended(data: RunData, end: NodeEndRow) -> ProofRow:
    """Not a fault of the plan, and there among them, since a node was down as by one."""
    return ProofRow(
        label=data.ended_words(end),
        trigger="nobody of the plan",
        begin=data.moment(end["time_ns"]),
        proof=data.readable(end["line_text"] or "it logged no error"),
        end=data.moment(end["back_ns"]) if end["back_ns"] is not None else "never",
        healed="it ran again" if end["back_ns"] is not None else "it did not run again",
        seen=True,
    )


def _began(data: RunData, fault: FaultRow) -> str:
    """When its effect was seen, and when it was planned for, as far as that is known."""
    planned = "" if fault["planned_ns"] is None else f"planned for {data.moment(fault['planned_ns'])}"
    words = ", ".join(part for part in (planned, late_words(fault)) if part)
    return data.moment(fault["begin_ns"]) + (f" ({words})" if words else "")


def _skipped(data: RunData, fault: Mapping[str, str]) -> ProofRow:
    return ProofRow(
        label=data.readable(f"{fault['kind']} of {fault['target']}"),
        trigger=data.readable(fault["trigger"]),
        begin="",
        proof=f"skipped: {WHY_SKIPPED[fault['why']]}",
        end="",
        healed="",
        seen=False,
    )


def _measures(data: RunData) -> list[MeasureRow]:
    def duration(seconds: float | None, never: bool | None) -> str:
        if seconds is None:
            return ""
        return f"not within {seconds:.3f} s" if never else f"{seconds:.3f} s"

    return [
        MeasureRow(
            label=data.readable(row["label_text"] or row["kind"]),
            begin=data.moment(row["begin_ns"]),
            leader=duration(row["leader_s"], row["leader_never"]),
            in_sync=duration(row["in_sync_s"], row["in_sync_never"]),
            gap=duration(row["gap_s"], row["gap_never"]),
        )
        for row in sorted(data.evidence(FAULT_MEASURES), key=lambda row: row["begin_ns"])
    ]


def _steps(data: RunData) -> list[StepRow]:
    return [
        StepRow(
            number=row["step"] + 1,
            kind=row["kind"],
            text=data.readable(row["step_text"]),
            time=data.moment(row["begin_ns"]),
            outcome=row["outcome"],
            seen=data.readable(row["seen_text"] or ""),
            ok=row["outcome"] == "ok",
        )
        for row in sorted(data.rows(STEPS), key=lambda row: row["step"])
    ]


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
