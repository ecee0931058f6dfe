"""A node that ends while no fault had it down: each history beside a twin that differs in the one thing that decides
what is said of the system; then the ruling beside a slow model over random faults and ends."""

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from harness.checks.families.cluster import node_ended
from harness.checks.findings import Finding, RunContext
from harness.checks.judge import Judgement
from harness.checks.model.partition_history import Faults, RunHistory
from harness.checks.model.settings import SettingsOverTime
from harness.history.schema.cluster_rows import EndReason, FaultRow, NodeEndRow
from harness.history.schema.typed_rows import TypedRows
from harness.scenario.model import Scenario
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, SECOND, History, Stories, judge_stories, scenario
from workloads.produce_and_poll import ProduceAndPollSettings

KAFKA = "kafka:4.3.1"
REFUSES = "kafka:2.0.1"  # the last line whose followers may halt rather than cut their log
KILL = 9
SEEN, BAD, LAWFUL = "observation", "violation", "permitted"
TWINS = Stories()
twin, expecting = TWINS.story, TWINS.expecting


def of_system(system: str, **more: Any) -> Scenario:
    plain = scenario(**more)
    return dataclasses.replace(plain, cluster=dataclasses.replace(plain.cluster, system=system))


def ended(
    *,
    node: int = 1,
    at: float = 5,
    system: str = KAFKA,
    back: float | None = None,
    status: int | None = 1,
    signal: int | None = None,
    reason: str | None = "exception",
    line: str = "boom",
    fresh: bool | None = True,
    **more: Any,
) -> History:
    """Broker 1 leads and ends at 5 s; broker 2 leads from 8 s on."""
    history = History(scenario_=of_system(system, **more)).state(1, 0, ISR, at=0, start=0)
    history.send(0, 0, at=1)
    history._add(
        "node_ends",
        node=node,
        time_ns=int(at * SECOND),
        uncertainty_ns=0,
        exit_status=status,
        signal=signal,
        reason=reason,
        line_text=line,
        back_ns=None if back is None else int(back * SECOND),
        fresh=fresh,
    )
    history.state(2, 1, (2, 3), at=8, start=1)
    history.send(1, 1, at=9)
    return history.final([(0, 0), (1, 1)])


def struck(history: History, kind: str, nodes: Sequence[int], *, at: float, until: float | None = None) -> History:
    history.fault(kind, nodes, at=at, until=until)
    history.rows["faults"][-1]["links"] = []
    return history


@expecting(Verdict.INCONCLUSIVE, SEEN, "ended-by-a-signal")
def by_a_signal_of_somebody() -> History:
    return ended(status=None, signal=KILL, reason="none", line="")


@expecting(Verdict.VIOLATION, BAD, "ended-untouched")
def by_an_error_of_its_own() -> History:
    return ended()


@expecting(Verdict.VIOLATION, BAD, "ended-untouched")
def by_an_error_after_a_fault_elsewhere() -> History:
    return struck(ended(), "kill", [3], at=2, until=3)


@expecting(Verdict.INCONCLUSIVE, SEEN, "ended-in-doubt")
def by_an_error_after_a_fault_of_its_own() -> History:
    return struck(ended(), "pause", [1], at=2, until=3)


@expecting(Verdict.INCONCLUSIVE, SEEN, "ended-in-doubt")
def by_an_error_after_a_fault_of_the_controller() -> History:
    return struck(ended(), "pause", [100], at=2, until=3)


@expecting(Verdict.VIOLATION, BAD, "ended-untouched")
def by_an_error_before_a_fault_of_its_own() -> History:
    return struck(ended(), "pause", [1], at=6, until=7)


@expecting(Verdict.PASS, LAWFUL, "ended-by-a-fault")
def for_a_full_disk_that_was_filled() -> History:
    return struck(ended(reason="disk-full"), "full", [1], at=4, until=6)


@expecting(Verdict.INCONCLUSIVE, SEEN, "ended-in-doubt")
def for_a_full_disk_that_nobody_filled() -> History:
    return ended(reason="disk-full")


@expecting(Verdict.INCONCLUSIVE, SEEN, "ended-in-doubt")
def for_a_full_disk_while_another_was_filled() -> History:
    return struck(ended(reason="disk-full"), "full", [2], at=4, until=6)


@expecting(Verdict.PASS, LAWFUL, "ended-by-a-fault")
def for_a_wiped_controller() -> History:
    return struck(ended(reason="metadata-truncation-refused"), "wipe", [100], at=2, until=3)


@expecting(Verdict.INCONCLUSIVE, SEEN, "ended-by-a-signal")
def for_a_wiped_controller_on_a_signal() -> History:
    wiped = ended(reason="metadata-truncation-refused", status=137, signal=KILL)
    return struck(wiped, "wipe", [100], at=2, until=3)


@expecting(Verdict.VIOLATION, BAD, "ended-untouched")
def for_metadata_that_nobody_harmed() -> History:
    return ended(reason="metadata-truncation-refused")


@expecting(Verdict.INCONCLUSIVE, SEEN, "ended-in-doubt")
def in_order_as_who_is_told_to_stop() -> History:
    return ended(status=0, reason="none", line="")


@expecting(Verdict.INCONCLUSIVE, SEEN, "ended-in-doubt")
def in_a_way_that_nobody_saw() -> History:
    return ended(status=None, reason=None, line="", fresh=False)


@expecting(Verdict.INCONCLUSIVE, SEEN, "ended-in-doubt")
def on_a_cluster_that_ran_before() -> History:
    return ended(fresh=False)


@expecting(Verdict.ERROR, SEEN, "ended-by-an-error-of-ours")
def by_an_error_of_the_reference() -> History:
    return ended(system="reference")


@expecting(Verdict.PASS, LAWFUL, "ended-by-a-fault")
def by_a_full_disk_of_the_reference() -> History:
    return struck(ended(system="reference", reason="disk-full"), "full", [1], at=4, until=6)


STUCK = ProduceAndPollSettings(stuck_after_s=10.0)


@twin
def nothing_acknowledged_while_a_node_is_down_by_itself() -> History:
    """What healthy books would call a stuck client: every 3 s one more send that ends unknown."""
    history = ended(status=None, signal=KILL, workload=STUCK, at=9.5, back=40)
    for number in range(8):
        history.send(10 + number, None, at=10 + 3 * number, elapsed_s=3, status=2)
    return history


@twin
def nothing_acknowledged_after_it_ran_again() -> History:
    history = ended(status=None, signal=KILL, workload=STUCK, at=9.5, back=9.8)
    for number in range(8):
        history.send(10 + number, None, at=10 + 3 * number, elapsed_s=3, status=2)
    return history


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    return judge_stories(spark, tmp_path_factory.mktemp("node-ended"), TWINS)


def own(judgement: Judgement, check: str = node_ended.CHECK) -> list[Finding]:
    return [finding for _, finding in judgement.findings if finding.check == check]


@pytest.mark.parametrize(("name", "verdict", "classification", "code"), TWINS.cases())
def test_what_decides_is_what_was_done_before_and_how_it_ended(
    judged: dict[str, Judgement], name: str, verdict: Verdict, classification: str, code: str
) -> None:
    [finding] = own(judged[name])
    assert finding.cause is not None
    assert (judged[name].verdict, finding.classification, finding.cause.codes[0]) == (verdict, classification, code)


@pytest.mark.parametrize("name", TWINS.expected)
def test_every_verdict_is_stated_with_it(judged: dict[str, Judgement], name: str) -> None:
    assert "roker 1 " in judged[name].sentence
    assert "at 5.000 s" in judged[name].sentence


def test_a_client_is_not_called_stuck_while_a_node_is_down_by_itself(judged: dict[str, Judgement]) -> None:
    assert own(judged["nothing_acknowledged_while_a_node_is_down_by_itself"], "client-stuck") == []
    assert len(own(judged["nothing_acknowledged_after_it_ran_again"], "client-stuck")) == 1


def test_a_gap_names_the_node_that_was_down(judged: dict[str, Judgement]) -> None:
    name = "nothing_acknowledged_while_a_node_is_down_by_itself"
    [gap] = own(judged[name], "availability")
    assert gap.evidence["ended_nodes"] == [1]
    assert "broker 1 had ended by SIGKILL at 9.500 s" in gap.sentence


# ---- beside a slow model --------------------------------------------------------------------------------------------

NODES = (1, 2, 100)
KINDS = ("kill", "pause", "full", "wipe", "damage", "cut")


@st.composite
def faults_and_end(draw: st.DrawFn) -> tuple[list[FaultRow], NodeEndRow]:
    faults: list[FaultRow] = []
    for number in range(draw(st.integers(0, 3))):
        kind, node, at = draw(st.sampled_from(KINDS)), draw(st.sampled_from(NODES)), draw(st.integers(1, 9))
        other = draw(st.sampled_from([each for each in NODES if each != node]))
        row: dict[str, Any] = dict.fromkeys(FaultRow.__annotations__)
        links = [{"source": node, "client": None, "target": other}] if kind == "cut" else []
        row |= {"run": 0, "fault": number, "kind": kind, "nodes": [] if links else [node], "links": links}
        row |= {"proved": draw(st.booleans()), "asked_ns": at, "begin_ns": at, "label_text": kind}
        faults.append(row)  # type: ignore[arg-type]
    signal = draw(st.sampled_from([None, None, KILL]))
    end: NodeEndRow = {
        "run": 0,
        "node": draw(st.sampled_from(NODES)),
        "time_ns": 5,
        "uncertainty_ns": 0,
        "line_text": "",
        "exit_status": draw(st.sampled_from([None, 0, 1])),
        "signal": signal,
        "back_ns": None,
        "reason": draw(st.sampled_from([None, *get_args(EndReason)])),
        "fresh": draw(st.sampled_from([None, True])),
    }
    return faults, end


def touched(fault: FaultRow) -> set[int | None]:
    links = fault["links"] or []
    return {*fault["nodes"], *(link["source"] for link in links), *(link["target"] for link in links)}


def expected(faults: Sequence[FaultRow], end: NodeEndRow, system: str) -> str:
    """The page's rule, sentence by sentence, where node 100 alone decides over the metadata."""
    earlier = [fault for fault in faults if (fault["asked_ns"] or 0) <= end["time_ns"]]
    seen = [fault for fault in earlier if fault["proved"]]
    harm = [fault for fault in seen if fault["kind"] in ("wipe", "damage")]
    mine, controllers = end["node"], 100
    if end["signal"] is not None:
        return "ended-by-a-signal"
    explains = {
        "disk-full": [f for f in seen if f["kind"] == "full" and mine in f["nodes"]],
        "log-directory-failed": [f for f in seen if f["kind"] in ("full", "damage") and mine in f["nodes"]],
        "metadata-truncation-refused": [f for f in harm if controllers in f["nodes"]],
        "other-cluster": [f for f in harm if controllers in f["nodes"]],
        "truncation-refused": [f for f in harm if mine not in f["nodes"] and system == REFUSES],
        "registration-failed": [f for f in seen if touched(f) & {mine, controllers}],
    }
    if end["reason"] is not None and explains.get(end["reason"]):
        return "ended-by-a-fault"
    machine = ("disk-full", "log-directory-failed", "out-of-resources", "registration-failed", None)
    is_orderly = end["exit_status"] == 0 and end["reason"] == "none"
    alone = not any(touched(fault) & {mine, controllers} for fault in earlier)
    by_itself = end["exit_status"] is not None and end["reason"] not in machine and not is_orderly
    return "ended-untouched" if alone and by_itself and end["fresh"] else "ended-in-doubt"


def wiped_before_another_refused() -> tuple[list[FaultRow], NodeEndRow]:
    row: dict[str, Any] = dict.fromkeys(FaultRow.__annotations__)
    row |= {"run": 0, "fault": 0, "kind": "wipe", "nodes": [1], "links": [], "proved": True}
    row |= {"asked_ns": 1, "begin_ns": 1, "label_text": "wipe"}
    end: dict[str, Any] = dict.fromkeys(NodeEndRow.__annotations__)
    end |= {"run": 0, "node": 2, "time_ns": 5, "uncertainty_ns": 0, "line_text": "", "reason": "truncation-refused"}
    return [row], end  # type: ignore[list-item, return-value]


@example(wiped_before_another_refused(), REFUSES)
@given(faults_and_end(), st.sampled_from([REFUSES, KAFKA]))
def test_the_ruling_is_that_of_a_slow_model(drawn: tuple[list[FaultRow], NodeEndRow], system: str) -> None:
    faults, end = drawn
    named = of_system(system)
    history = RunHistory(
        run=0,
        scenario=named,
        partitions={},
        faults=Faults(faults),
        steps=(),
        origin=0,
        ends=(end,),
        settings=SettingsOverTime(scenario=named),
    )
    [finding] = node_ended.find(RunContext(history=history, flagged=(), counts={}, tables=TypedRows()))
    assert finding.cause is not None
    assert finding.cause.codes[0] == expected(faults, end, system)
    assert finding.is_open == (finding.cause.codes[0] in ("ended-by-a-signal", "ended-in-doubt"))
