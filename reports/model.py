"""The page as frozen data: what a report says, decided before a line of HTML is written.

Times are seconds since the load began. Texts are plain; the template escapes them. The same run folder gives the same
page, byte for byte: nothing here knows the hour or a random number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from reports.evidence_model import FactTable, LogTable, OperationRow
from reports.run.life.model import Life

Tone = Literal["pass", "perm", "viol", "neutral"]


@dataclass(frozen=True, kw_only=True)
class Badge:
    tone: Tone
    text: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    question: str
    short: str
    more: str
    link: str = ""


Role = Literal["why", "held", ""]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """role: "why" made a loss possible (dashed), "held" was a promise that was broken, "" is plain."""

    text: str
    role: Role


@dataclass(frozen=True, kw_only=True)
class CauseStep:
    """turns: the leader changes in it."""

    number: int
    time: str
    at: float | None
    event: str
    sentence: str
    decisive: bool
    turns: bool = False


@dataclass(frozen=True, kw_only=True)
class RuleLine:
    rule: str
    holds: bool | None  # None: unknown
    evidence: str


@dataclass(frozen=True, kw_only=True)
class LogEnd:
    """One replica in the picture of the deciding moment; shares are percent of the drawn width.

    kept: below the boundary; lost: the range of the lost records; rest: what it had beyond that. No log end: unknown.
    """

    node: int
    colour: int
    log_end: int | None
    state: str
    kept_share: float
    lost_share: float
    rest_share: float


@dataclass(frozen=True, kw_only=True)
class Picture:
    title: str
    caption: str
    boundary: int
    boundary_share: float
    first: int  # the offset at the left edge
    end: int  # the log end at the right edge
    replicas: Sequence[LogEnd]
    lost_text: str
    rest_text: str  # what the offsets after the lost ones are, or ""


@dataclass(frozen=True, kw_only=True)
class Story:
    finding: str
    steps: Sequence[CauseStep]
    picture: Picture | None
    judgement: str
    tone: Tone
    rules: Sequence[RuleLine]
    also: str  # what made the acknowledgement itself possible, or ""
    prevention: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class DoneRow:
    """Something that was done to the cluster: a fault, or a step of the plan."""

    at: str
    until: str
    what: str
    seen: str
    ok: bool


@dataclass(frozen=True, kw_only=True)
class OutcomeRow:
    name: str
    in_final_log: int
    not_in_it: int
    lost: int  # of those not in it: acknowledged

    @property
    def sent(self) -> int:
        return self.in_final_log + self.not_in_it


@dataclass(frozen=True, kw_only=True)
class PartitionRow:
    name: str
    sent: int
    acknowledged: int
    indeterminate: int
    refused: int
    lost: int
    log_end: int | None


@dataclass(frozen=True, kw_only=True)
class Accounting:
    outcomes: Sequence[OutcomeRow]
    partitions: Sequence[PartitionRow]
    read: int
    lost_permitted: int
    lost_violation: int
    lost_undecided: int  # unknown whether that was permitted
    unreadable: int
    indeterminate: int
    refused: int
    sent: int
    problem: str  # empty when the sums agree
    answers: Sequence[str] = ()  # the errors that brokers answered, each with what it means


@dataclass(frozen=True, kw_only=True)
class Span:
    """An interval on a lane."""

    at: float
    length: float
    style: str
    text: str
    short: str
    title: str
    epoch: int | None = None  # of the leader whose time it is


@dataclass(frozen=True, kw_only=True)
class Mark:
    at: float
    text: str
    title: str
    href: str
    tone: Tone
    row: int = 0
    flips: bool = False  # its label stands before the mark, at the right edge


@dataclass(frozen=True, kw_only=True)
class Lane:
    label: str
    kind: Literal["fault", "role", "isr", "gap", "step"]
    spans: Sequence[Span]
    first: bool = False  # begins a group
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Bar:
    x: float
    width: float
    ok: float
    info: float
    fail: float
    title: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Throughput bars and latency lines over the whole run; heights are percent of the largest."""

    bars: Sequence[Bar]
    p50: Sequence[str]  # one polyline per stretch without a gap
    p99: Sequence[str]
    records_max: str
    latency_max: str
    latency_ticks: Sequence[tuple[str, float]]  # (label, percent from above)


@dataclass(frozen=True, kw_only=True)
class LegendEntry:
    style: str
    text: str
    icon: bool = False  # of a finding's class; else a swatch


@dataclass(frozen=True, kw_only=True)
class Overview:
    duration: float
    marks: Sequence[Mark]
    finding_marks: Sequence[Mark]
    observation_marks: Sequence[Mark]
    lanes: Sequence[Lane]
    folded: Sequence[Lane]
    chart: Chart
    ticks: Sequence[float]
    zooms: Sequence[tuple[str, float, float]]
    legend: Sequence[LegendEntry]
    notes: Sequence[str]  # what the lanes cannot say by themselves


@dataclass(frozen=True, kw_only=True)
class Finding:
    id: str
    check: str
    title: str
    tone: Tone
    classification: str
    partition: str
    offsets: str
    count: int
    first: str
    first_is: str  # what happened at `first`
    cause: str
    sentence: str
    fingerprint: str
    rules: Sequence[RuleLine]
    log: LogTable | None
    operations: Sequence[OperationRow]
    lost_values: Sequence[str]
    hidden: str  # what was left out, and where it is
    explained: str = ""  # the anchor of what this anomaly is
    facts: Sequence[FactTable] = ()  # the rest of its evidence
    issue: str = ""  # all of it as Markdown
    nights: str = ""  # in how many nights it was seen, where that is known
    drilled: bool = True  # False: its row has no evidence below it on this page


@dataclass(frozen=True, kw_only=True)
class FindingGroup:
    """Findings of one kind, by fingerprint. All are counted; `findings`: those that have a row on the page.

    A group of one is its finding's row and nothing more.
    """

    anchor: str
    title: str
    tone: Tone
    classification: str
    partitions: str
    total: int  # findings
    records: int  # what they count together
    first: str
    last: str
    cause: str
    findings: Sequence[Finding]
    hidden: str  # how many have no row here, and where they are


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What an anomaly is, from its page in docs/anomalies; `parts`: (heading, text as markup of our own)."""

    anchor: str
    title: str
    sentence: str
    source: str
    parts: Sequence[tuple[str, Markup]]


@dataclass(frozen=True, kw_only=True)
class CoverageRow:
    condition: str
    required: str
    seen: str
    met: bool | None  # None: not asked for


@dataclass(frozen=True, kw_only=True)
class ProofRow:
    label: str
    trigger: str
    begin: str
    proof: str
    end: str
    healed: str
    seen: bool


@dataclass(frozen=True, kw_only=True)
class MeasureRow:
    """What a fault did to availability, each from the moment its effect was seen; "" where there was no such thing."""

    label: str
    begin: str
    leader: str
    in_sync: str
    gap: str


@dataclass(frozen=True, kw_only=True)
class StepRow:
    number: int
    kind: str
    text: str
    time: str
    outcome: str
    seen: str
    ok: bool


@dataclass(frozen=True, kw_only=True)
class OtherRun:
    """href: relative to this run's page; empty: it has no page."""

    name: str
    href: str
    began: str
    seed: str
    system: str
    verdict: str
    tone: Tone


@dataclass(frozen=True, kw_only=True)
class OtherRuns:
    """Of the same scenario, in order of time: some before this one, and some after it."""

    earlier: Sequence[OtherRun]
    later: Sequence[OtherRun]


@dataclass(frozen=True, kw_only=True)
class Page:
    title: str
    scenario: str
    seed: str
    badges: Sequence[Badge]
    aside: str
    headline: str
    permitted: bool
    broken: bool  # something was, as the findings tell
    concluded: bool  # pass or violation: the absence of a finding means something
    lead: str
    answers: Sequence[Answer]
    facts: Sequence[tuple[str, str]]
    settings: Sequence[Setting]
    story: Story | None
    life: Life | None
    done: Sequence[DoneRow]
    accounting: Accounting | None
    overview: Overview | None
    findings: Sequence[Finding]  # those with a row of their own, in the order of the groups
    groups: Sequence[FindingGroup]
    findings_total: int
    explanations: Sequence[Explanation]
    coverage: Sequence[CoverageRow]
    proofs: Sequence[ProofRow]
    measures: Sequence[MeasureRow]
    steps: Sequence[StepRow]
    commands: Sequence[tuple[str, str]]
    environment: Sequence[tuple[str, str]]
    files: Sequence[tuple[str, str]]
    other_runs: OtherRuns
    terms: Sequence[tuple[str, str, str]]
    problems: Sequence[tuple[str, str]]  # (section, what went wrong in it)
    footer: str
