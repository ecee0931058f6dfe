"""Each verdict beside its twin's: what changes it is the evidence on the partition, never the configuration alone."""

import json

import pyarrow as pa
import pytest

from harness.checks.judge import Judgement
from harness.history.facts.finding_facts import chain_of, remedies_of
from harness.history.schema.schemas import FINDINGS
from harness.verdict import Verdict
from tests.harness.checks.twins import twins_of_copies, twins_of_scenarios
from tests.harness.checks.twins.twins import STORIES

Judged = dict[str, Judgement]


def found(judgement: Judgement) -> dict[tuple[str, str], int]:
    """(check, class) -> records."""
    sums: dict[tuple[str, str], int] = {}
    for _, finding in judgement.findings:
        key = (finding.check, finding.classification)
        sums[key] = sums.get(key, 0) + finding.count
    return sums


assert twins_of_copies.__doc__, "imported, so that its stories are among STORIES"
assert twins_of_scenarios.__doc__, "imported, so that its stories are among STORIES"

VIOLATION, PASS, OPEN = Verdict.VIOLATION, Verdict.PASS, Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("name", "verdict", "expected"),
    [
        *STORIES.cases(),
        *(
            (
                f"zombie_leader_or_its_successor_acknowledged_to_a_producer_that_{known}",
                Verdict.INCONCLUSIVE,
                {("lost-write", "observation"): 1},
            )
            for known in ("learned_meanwhile", "learned_at_the_answer", "knew_no_leader_yet", "says_it_late")
        ),
    ],
)
def test_the_verdict_follows_the_evidence(
    judged_twins: Judged, name: str, verdict: Verdict, expected: dict[tuple[str, str], int]
) -> None:
    judgement = judged_twins[name]
    assert found(judgement) == expected, [finding.sentence for _, finding in judgement.findings]
    assert judgement.verdict is verdict, judgement.sentence


@pytest.mark.parametrize(
    ("name", "verdict", "classification"),
    [
        (
            "read_above_a_loss_of_which_nobody_knows_whether_it_was_permitted",
            Verdict.INCONCLUSIVE,
            "observation",
        ),
        ("read_above_a_loss_that_nothing_unseen_could_have_permitted", VIOLATION, "violation"),
    ],
)
def test_a_cycle_is_not_judged_more_strictly_than_the_loss_that_moved_its_log(
    judged_twins: Judged, name: str, verdict: Verdict, classification: str
) -> None:
    judgement = judged_twins[name]
    cycles = [finding.classification for _, finding in judgement.findings if finding.check == "cycle"]
    assert (cycles, judgement.verdict) == ([classification], verdict)


def test_every_finding_can_be_stored(judged_twins: Judged) -> None:
    rows = [finding.as_row(name) for judgement in judged_twins.values() for name, finding in judgement.findings]
    assert pa.Table.from_pylist(rows, schema=FINDINGS).num_rows == len(rows) > 0


def test_every_accounting_adds_up(judged_twins: Judged) -> None:
    assert [name for name, judgement in judged_twins.items() if not judgement.accounting["adds_up"]] == []


def test_a_loss_is_reported_with_its_records_its_election_and_its_reason(judged_twins: Judged) -> None:
    name, finding = judged_twins["unclean_election_lost_three"].findings[0]
    assert name == "F1"
    assert finding.sentence == (
        "3 records acknowledged with acks=all in epoch 0 at offsets 7-9 of t-0 are in no replica's final log: "
        "broker 2, elected uncleanly in epoch 1 with log end 7, never had them."
    )
    evidence = json.loads(finding.as_row(name)["evidence"] or "")
    assert [rule["holds"] for rule in evidence["rules"]] == [True, False, False]
    assert [link["event"] for link in evidence["cause_chain"]] == [
        "acknowledged",
        "isr-shrink",
        "fault",
        "election",
        "truncation",
    ]
    assert [link["event"] for link in evidence["cause_chain"] if link["decisive"]] == ["election"]
    assert evidence["elected"] == 2
    assert evidence["isr_before"] == [1]
    assert evidence["truncation"]["from_offset"] == 10
    assert {end["replica"]: end["log_end_offset"] for end in evidence["log_ends"]} == {1: 10, 2: 7, 3: None}
    assert "unclean.leader.election.enable=false" in evidence["prevention"][0]
    assert evidence["isr_at_acknowledgement"] == [1, 2, 3]  # all of them held some, so no further copy was missing
    assert len(evidence["prevention"]) == 1
    assert finding.faults == [0]


def test_a_loss_is_stored_with_what_its_sentences_say_as_facts(judged_twins: Judged) -> None:
    name, finding = judged_twins["unclean_election_lost_three"].findings[0]
    evidence = json.loads(finding.as_row(name)["evidence"] or "")
    unclean = {"key": "unclean.leader.election.enable", "value": "true", "scope": "topic", "of_scenario": False}
    assert evidence["facts"] == {"cause": {"code": "unclean-election"}, "fault_kinds": ["kill"], "settings": [unclean]}
    assert [(rule["name"], rule["setting"]) for rule in evidence["rules"]] == [
        ("unclean-election", unclean),
        ("fail-over", None),
        ("destruction", None),
    ]
    links = {link.event: link for link in chain_of(evidence)}
    assert (links["acknowledged"].count, links["acknowledged"].acks) == (3, (-1,))
    assert links["isr-shrink"].isr_after == (1,)
    assert links["election"].unclean
    assert [(one.code, one.key, one.value, one.nodes) for one in remedies_of(evidence)] == [
        ("no-unclean-election", "unclean.leader.election.enable", "false", (1,))
    ]


def test_a_violation_lists_every_exception_that_was_tried(judged_twins: Judged) -> None:
    _, finding = judged_twins["acks_all_lost_by_clean_fail_over"].findings[0]
    assert [rule["holds"] for rule in finding.evidence["rules"]] == [False, False, False]
    assert finding.evidence["prevention"] == []


def test_the_stated_outcome_is_held_against_the_findings(judged_twins: Judged) -> None:
    assert judged_twins["permitted_loss_as_the_scenario_states"].as_expected
    assert not judged_twins["fewer_losses_than_the_scenario_states"].as_expected
    assert not judged_twins["coverage_was_not_met"].as_expected


def test_coverage_says_what_was_required_and_what_was_seen(judged_twins: Judged) -> None:
    rows = {row["condition"]: (row["seen"], row["met"]) for row in judged_twins["coverage_was_not_met"].coverage}
    assert rows == {"elections": (0, False), "acks": (10, True), "isr_changes": (0, True)}
    zombie = {row["condition"]: row["seen"] for row in judged_twins["zombie_leader_acknowledged_alone"].coverage}
    assert zombie == {"zombie_acks": 1, "elections": 1}


def test_a_fingerprint_names_the_kind_of_thing_and_not_its_numbers(judged_twins: Judged) -> None:
    one = judged_twins["unclean_election_lost_three"].findings[0][1]
    same = judged_twins["permitted_loss_as_the_scenario_states"].findings[0][1]
    other = judged_twins["acks_1_lost_by_fail_over"].findings[0][1]
    assert one.fingerprint == same.fingerprint != other.fingerprint
