"""Histories of the world before the checks: judged as one Spark job, and each lost record's class beside the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.checks.findings import Finding
from harness.checks.judge import Judgement, RunInput, judge_tables
from harness.checks.spark.tables import tables_of
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.ports.load import WorkloadSpec
from harness.scenario.model import ClusterSpec, ExpectSpec, Scenario, TopicSpec
from harness.verdict import Verdict as RunVerdict
from tests.world.broken import Broken
from tests.world.chronicle import Led
from tests.world.clients import DELIVERY_NS, OK, REQUEST_NS
from tests.world.evidence import run_facts, tables
from tests.world.group_coordinator import GROUP
from tests.world.histories import History
from tests.world.processing import OUTPUT
from tests.world.promises import broken_promises
from tests.world.truth import Lost, Verdict, lost_before_removal, lost_records
from tests.world.visibility import BLUR_NS, Visibility
from tests.world.world import MS, Setup, Topic
from workloads.consumer_groups import ConsumerGroupsSettings
from workloads.produce_and_poll import ProduceAndPollSettings
from workloads.transactions import TransactionsSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSED_OVER = "passed over"
# Checks of promises beyond lost records, and those of them that a loss may be the cause of.
OF_PROMISES = frozenset(
    {
        "aborted-read",
        "torn-transaction",
        "zombie-transaction",
        "last-stable-offset",
        "lost-group-offset",
        "group-redelivery",
        "group-skip",
        "two-owners",
        "zombie-commit",
        "read-process-write",
        "node-ended",
        "reordering",
    }
)
_TOLD_OF_LOSSES = frozenset(
    {"torn-transaction", "last-stable-offset", "group-redelivery", "group-skip", "read-process-write", "reordering"}
)
UNDECIDED = "undecided"
Reason = tuple[str, ...]  # why something is: codes


@dataclass(frozen=True, kw_only=True)
class Judged:
    """`said`: (topic, partition, value) -> violation | permitted | undecided, of what was reported lost."""

    history: History
    visibility: Visibility
    lost: Sequence[Lost]  # on which the promise says something, as far as it was seen
    judgement: Judgement
    said: Mapping[tuple[str, int, int], str]
    by: Mapping[tuple[str, int, int], Finding]  # which said so
    broken: Sequence[Broken] = ()  # beyond lost records
    lost_before: Sequence[Lost] = ()  # what retention or a request removed in the end, and would be missed otherwise

    def of(self, lost: Lost) -> str:
        return self.said.get((*lost.partition, lost.value), PASSED_OVER)

    @property
    def violations(self) -> list[str]:
        found = [finding for _, finding in self.judgement.findings if finding.classification == "violation"]
        return [f"{finding.check}: {finding.sentence}" for finding in found]


def judged(spark: "SparkSession", folder: Path, cases: Sequence[tuple[History, Visibility]]) -> list[Judged]:
    opened = tables_of(spark, folder, tables(cases), len(cases))
    inputs = [RunInput(scenario=_scenario(history), run=run_facts(history)) for history, _ in cases]
    answers = judge_tables(spark, opened, inputs)
    return [
        Judged(
            history=history,
            visibility=visibility,
            judgement=judgement,
            lost=[_seen(lost, visibility) for lost in lost_records(history.chronicle)],
            broken=broken_promises(history),
            lost_before=lost_before_removal(history.chronicle),
            **_said(judgement),
        )
        for (history, visibility), (judgement, _) in zip(cases, answers, strict=True)
    ]


def _seen(lost: Lost, visibility: Visibility) -> Lost:
    """Whether acks=1 promised anything depends on who was told, and what a disk or a journal alone shows on who looked:
    who withholds that may not ask for a violation."""
    shows = {"journals": visibility.truncations, "disks": visibility.snapshots > {"end"}}
    if lost.verdict is Verdict.VIOLATION and lost.shown_by and not any(shows[each] for each in lost.shown_by):
        return replace(lost, verdict=Verdict.UNSAID)
    logs = visibility.epochs and visibility.reads and visibility.snapshots > {"end"}
    if lost.in_no_log_with_a_later_one and not (logs and visibility.books and visibility.blur_ns <= BLUR_NS):
        return replace(lost, verdict=Verdict.UNSAID)
    known = (lost.was_answered and visibility.journals) or (lost.read and visibility.reads)
    untold = (lost.was_answered or lost.read) and not known
    return replace(lost, verdict=Verdict.UNSAID) if untold and lost.verdict is Verdict.VIOLATION else lost


def _scenario(history: History) -> Scenario:
    setup = history.setup
    topics = tuple(
        TopicSpec(
            name=topic.name,
            partitions=len(topic.layout),
            assignment=topic.layout,
            settings={"min.insync.replicas": str(topic.min_in_sync)} | _stated(topic),
        )
        for topic in setup.topics
        if not topic.internal
    )
    if setup.transactional_ids and setup.processing is None:
        return _scenario_with_transactions(setup, topics)
    if setup.members:
        return _scenario_with_a_group(setup, topics)
    return Scenario(
        name=setup.storyline,
        story="",
        source="",
        topics=topics,
        cluster=ClusterSpec(
            brokers=setup.brokers,
            system=f"kafka:{setup.release}" if setup.release else "reference",
            settings=_of_coordinators(setup),
        ),
        workload=_load(setup),
        faults=(),
        steps=(),
        expect=ExpectSpec(),
        coverage={},
        seed=setup.seed,
    )


def _load(setup: Setup) -> WorkloadSpec:
    """Producers and consumers of the harness, or of an application that it recorded."""
    application = setup.in_flight is not None and setup.in_flight.tasks > 0
    application |= setup.processing is not None and setup.processing.plain
    load: WorkloadSpec = WorkloadSpec() if application else ProduceAndPollSettings(producers=len(setup.acks))
    if setup.processing is not None and not application:
        load = TransactionsSettings(
            producers=len(setup.acks),
            consumers=len(setup.consumers or ()),
            processors=len(setup.transactional_ids),
            output=OUTPUT,
            group=GROUP,
        )
    return replace(
        load,
        idempotence=setup.idempotent,
        retries=None if setup.retries else 0,
        request_timeout_ms=REQUEST_NS // MS,
        delivery_timeout_ms=DELIVERY_NS // MS,
    )


def _of_coordinators(setup: Setup) -> dict[str, str]:
    """Their topics have one partition each."""
    settings: dict[str, str] = {}
    for topic in setup.topics:
        if topic.name == TRANSACTIONS_TOPIC:
            settings |= {
                "transaction.state.log.min.isr": str(topic.min_in_sync),
                "transaction.state.log.num.partitions": "1",
            }
        elif topic.name == GROUP_OFFSETS_TOPIC:
            settings["offsets.topic.num.partitions"] = "1"
    return settings


def _stated(topic: Topic) -> dict[str, str]:
    stated = topic.unclean_allowed if topic.unclean_stated is None else topic.unclean_stated
    return {"unclean.leader.election.enable": str(topic.unclean_allowed).lower()} if stated else {}


def _scenario_with_transactions(setup: Setup, topics: tuple[TopicSpec, ...]) -> Scenario:
    workload = TransactionsSettings(
        producers=len(setup.acks),
        consumers=len(setup.consumers or ()),
        processors=len(setup.transactional_ids),
        output=topics[0].name,
        request_timeout_ms=REQUEST_NS // MS,
        delivery_timeout_ms=DELIVERY_NS // MS,
    )
    return Scenario(
        name=setup.storyline,
        story="",
        source="",
        cluster=ClusterSpec(brokers=setup.brokers, settings=_of_coordinators(setup)),
        topics=topics,
        workload=workload,
        faults=(),
        steps=(),
        expect=ExpectSpec(),
        coverage={},
        seed=setup.seed,
    )


def _scenario_with_a_group(setup: Setup, topics: tuple[TopicSpec, ...]) -> Scenario:
    workload = ConsumerGroupsSettings(
        producers=len(setup.acks),
        consumers=setup.members,
        group=GROUP,
        idempotence=setup.idempotent,
        request_timeout_ms=REQUEST_NS // MS,
        delivery_timeout_ms=DELIVERY_NS // MS,
    )
    return Scenario(
        name=setup.storyline,
        story="",
        source="",
        cluster=ClusterSpec(brokers=setup.brokers, settings=_of_coordinators(setup)),
        topics=topics,
        workload=workload,
        faults=(),
        steps=(),
        expect=ExpectSpec(),
        coverage={},
        seed=setup.seed,
    )


def _said(judgement: Judgement) -> dict[str, Any]:
    """An observation on a lost record is an open question. The worst that is said of a record counts.

    Of what a topic that compacts lost, the checks may say that the last one of a key was compacted away, or that nobody
    knows whether a later one replaced it.
    """
    order = {"violation": 0, UNDECIDED: 1, "permitted": 2}
    said: dict[tuple[str, int, int], str] = {}
    by: dict[tuple[str, int, int], Finding] = {}
    for _, finding in judgement.findings:
        if finding.check not in ("lost-write", "compacted-away") and not _is_open_removal(finding):
            continue
        word = UNDECIDED if finding.classification == "observation" else finding.classification
        for row in finding.rows:
            key = (finding.topic or "", finding.partition or 0, row.value)
            if key not in said or order[word] < order[said[key]]:
                said[key], by[key] = word, finding
    return {"said": said, "by": by}


def _is_open_removal(finding: Finding) -> bool:
    return finding.check == "removed-by-configuration" and finding.open_question


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """`wrong`: what may never be said of such a record; `open`: undecided, which is only counted."""

    judged: Judged
    lost: Lost
    said: str

    @property
    def text(self) -> str:
        setup, lost = self.judged.history.setup, self.lost
        said_by = self.judged.by.get((*lost.partition, lost.value))
        flaws = ", ".join(sorted(self.judged.history.chronicle.flaws_acted)) or "sound"
        return (
            f"seed {setup.seed} ({setup.storyline}; {flaws}; sight: {self.judged.visibility.name}), "
            f"{lost.partition[0]}-{lost.partition[1]} offset {lost.offset} value {lost.value} acks {lost.acks}: "
            "in truth "
            f"{lost.verdict.value} ({lost.fate}: {lost.story}), said: {self.said}: "
            f"{said_by.sentence if said_by else ''}"
        )


def wrong(judged: Judged) -> list[Disagreement]:
    """Lost records of which the checks said what they may never say."""
    never = {Verdict.VIOLATION: ("permitted", PASSED_OVER), Verdict.PERMITTED: ("violation",), Verdict.UNSAID: ()}
    return [
        Disagreement(judged=judged, lost=lost, said=judged.of(lost))
        for lost in judged.lost
        if judged.of(lost) in never[lost.verdict]
    ]


def undecided(judged: Judged) -> list[Disagreement]:
    return [
        Disagreement(judged=judged, lost=lost, said=UNDECIDED)
        for lost in judged.lost
        if lost.verdict is not Verdict.UNSAID and judged.of(lost) == UNDECIDED
    ]


def kept_silent(judged: Judged) -> list[str]:
    """Promises that were broken whether or not a record was lost by it, where no violation of any kind is reported.

    A leader that acknowledged with acks=all what was sent after it knew that fewer than min.insync.replicas were in
    sync; two brokers that led one partition in one epoch.
    """
    if judged.judgement.verdict.exit_code:  # a violation, or the question is open: nothing was passed over
        return []
    chronicle, setup = judged.history.chronicle, judged.history.setup
    place = f"seed {setup.seed} ({setup.storyline})"
    below = [send for send in chronicle.sends if send.status == OK and send.below_minimum]
    rows = [f"{place}: {len(below)} sends acknowledged below min.insync.replicas"] if below else []
    terms: dict[tuple[object, int], set[int]] = {}
    for each in chronicle.happenings:
        if isinstance(each, Led):
            terms.setdefault((each.partition, each.epoch), set()).add(each.node)
    rows += [f"{place}: {who} led {at} in epoch {epoch}" for (at, epoch), who in terms.items() if len(who) > 1]
    return rows


# ---- promises beyond lost records -----------------------------------------------------------------------------------


def _may_tell(finding: Finding, broken: Broken) -> bool:
    """Whether that is what the finding tells: by its check, its partition and its records, where both name them."""
    return (
        finding.check in broken.checks
        and (
            broken.partition is None
            or finding.topic is None
            or finding.partition is None
            or (finding.topic, finding.partition) == broken.partition
        )
        and (broken.value is None or not finding.values or broken.value in finding.values)
        and (broken.offset is None or not finding.offsets or broken.offset in finding.offsets)
    )


def _is_of_worse(judged: Judged, finding: Finding, broken: Broken) -> bool:
    """Whether it is a violation for another of its records: a transaction is torn by the worst that befell one."""
    lost = {record.value for record in judged.lost if record.verdict is not Verdict.PERMITTED}
    return finding.classification == "violation" and bool(lost & ({*finding.values} - {broken.value}))


def said_of(judged: Judged, broken: Broken) -> str:
    """The worst that a check which may tell it says of that record, or where no record is meant, of the partition."""
    said = [finding for _, finding in judged.judgement.findings if _may_tell(finding, broken)]
    if broken.verdict is Verdict.PERMITTED:
        said = [finding for finding in said if not _is_of_worse(judged, finding, broken)]
    if any(finding.classification == "violation" for finding in said):
        return "violation"
    if any(map(_is_open, said)):
        return UNDECIDED
    if any(finding.classification == "permitted" for finding in said):
        return "permitted"  # whatever else is open in the run
    return UNDECIDED if judged.judgement.verdict is RunVerdict.INCONCLUSIVE else PASSED_OVER


def _is_open(finding: Finding) -> bool:
    """ "Unseen" says of a record that nobody knows whether it is lost."""
    return finding.is_open or finding.check == "unseen-tail"


def wrong_of_promises(judged: Judged) -> list[tuple[str, str]]:
    """(passed over | invented, text): what may never be said of a broken promise, nor of one that was kept."""
    found = []
    for broken in judged.broken:
        said = said_of(judged, broken)
        accused = judged.judgement.verdict is RunVerdict.VIOLATION
        if broken.verdict is Verdict.VIOLATION and said in (PASSED_OVER, "permitted"):
            if broken.checks or not accused:
                found.append(("passed over", _of_promise(judged, broken, said)))
        elif broken.verdict is Verdict.OPEN and judged.judgement.verdict is RunVerdict.PASS:
            found.append(("passed over", _of_promise(judged, broken, said)))
        elif broken.verdict in (Verdict.PERMITTED, Verdict.OPEN) and said == "violation":
            found.append(("invented", _of_promise(judged, broken, said)))
    found += [("invented", text) for text in _without_a_cause(judged)]
    return found


def _without_a_cause(judged: Judged) -> list[str]:
    """Violations of checks that tell broken promises, where none was broken there that they may tell."""
    setup = judged.history.setup
    may = [
        broken
        if broken.value is not None
        else replace(broken, offset=None)  # after a wrong answer a right one looks odd
        for broken in judged.broken
        if broken.verdict in (Verdict.VIOLATION, Verdict.UNSAID)
    ]
    of_losses = any(lost.verdict is not Verdict.PERMITTED for lost in (*judged.lost, *judged.lost_before))
    of_losses |= any(broken.kind == "hidden" for broken in may)  # who has to see it does not: as good as lost
    return [
        f"seed {setup.seed} ({setup.storyline}; {', '.join(sorted(judged.history.chronicle.flaws_acted)) or 'sound'}; "
        f"sight: {judged.visibility.name}): {finding.check}: {finding.sentence}"
        for _, finding in judged.judgement.findings
        if finding.classification == "violation"
        and finding.check in OF_PROMISES
        and not (of_losses and finding.check in _TOLD_OF_LOSSES)
        and not any(_may_tell(finding, broken) for broken in may)
    ]


def _of_promise(judged: Judged, broken: Broken, said: str) -> str:
    setup = judged.history.setup
    flaws = ", ".join(sorted(judged.history.chronicle.flaws_acted)) or "sound"
    why = "; ".join(each.sentence for _, each in judged.judgement.findings if each.check in broken.checks)
    return (
        f"seed {setup.seed} ({setup.storyline}; {flaws}; sight: {judged.visibility.name}) {broken.partition}: in truth "
        f"{broken.verdict.value} ({broken.kind}: {broken.story}), said: {said}: {why}"
    )


# ---- what stays open, and why ---------------------------------------------------------------------------------------


def why_undecided(judged: Judged) -> list[Reason]:
    """For each lost record and each broken promise of which nobody knows what it is."""
    lost = [judged.by[*each.lost.partition, each.lost.value] for each in undecided(judged)]
    return [_reason(finding) for finding in lost] + [
        _reason_of_promise(judged, broken)
        for broken in judged.broken
        if broken.verdict in (Verdict.VIOLATION, Verdict.PERMITTED)
        and broken.checks
        and said_of(judged, broken) == UNDECIDED
    ]


def _reason_of_promise(judged: Judged, broken: Broken) -> Reason:
    """What is open of it; where nothing is, what else in the run is."""
    still = [finding for _, finding in judged.judgement.findings if _is_open(finding)]
    own = [finding for finding in still if _may_tell(finding, broken)]
    return (broken.kind, *_reason(own[0])) if own else (broken.kind, "beside", *(_reason(still[0]) if still else ()))


def _reason(finding: Finding) -> Reason:
    """By its facts: the check, the cause, and the doubt."""
    return (finding.check, *(code for code in (finding.cause.codes if finding.cause else ()) if code))
