"""Each verdict beside its twin's: what changes it is the evidence on the partition, never the configuration alone."""

import json

import pyarrow as pa
import pytest

from harness.checks.judge import Judgement
from harness.history.facts.finding_facts import chain_of, remedies_of
from harness.history.schema.schemas import FINDINGS
from harness.verdict import Verdict
from tests.harness.checks.twins import twins_of_copies, twins_of_scenarios

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
        ("nothing_happened", PASS, {}),
        ("unclean_election_lost_three", PASS, {("lost-write", "permitted"): 3, ("unclean-election", "permitted"): 3}),
        (
            "unclean_election_told_only_by_its_states",
            PASS,
            {("lost-write", "permitted"): 3, ("unclean-election", "permitted"): 3},
        ),
        ("death_and_birth_seen_as_one_change", PASS, {}),
        ("death_seen_before_the_birth", Verdict.VACUOUS, {}),
        ("unclean_allowed_but_the_election_was_clean", VIOLATION, {("lost-write", "violation"): 3}),
        (
            "unclean_election_although_forbidden",
            VIOLATION,
            {("lost-write", "violation"): 3, ("unclean-election", "violation"): 3},
        ),
        (
            "unclean_election_above_the_lost_record",
            VIOLATION,
            {("lost-write", "violation"): 1, ("lost-write", "permitted"): 3, ("unclean-election", "permitted"): 3},
        ),
        ("acks_1_lost_by_fail_over", PASS, {("lost-write", "permitted"): 3}),
        ("acks_all_lost_by_clean_fail_over", VIOLATION, {("lost-write", "violation"): 3}),
        ("acks_1_lost_by_restart_of_the_same_leader", VIOLATION, {("lost-write", "violation"): 3}),
        ("acks_1_lost_without_any_election", VIOLATION, {("lost-write", "violation"): 1}),
        (
            "acks_1_lost_although_a_consumer_had_read_it",
            VIOLATION,
            {("lost-write", "violation"): 3, ("dirty-read", "violation"): 3},
        ),
        ("every_in_sync_disk_lost", PASS, {("lost-write", "permitted"): 10}),
        ("one_of_two_in_sync_disks_lost", VIOLATION, {("lost-write", "violation"): 10}),
        ("disks_lost_one_after_the_other_with_a_rejoin_between", VIOLATION, {("lost-write", "violation"): 10}),
        ("unreadable_above_a_frozen_high_watermark", PASS, {("unreadable", "observation"): 4}),
        ("unread_and_gone_from_the_in_sync_log", VIOLATION, {("lost-write", "violation"): 4}),
        ("not_read_to_the_end", Verdict.INCONCLUSIVE, {("unseen-tail", "observation"): 4}),
        ("not_read_to_the_end_as_expected", PASS, {("unseen-tail", "observation"): 4}),
        ("in_no_log_and_a_fail_over_after_the_acknowledgement", OPEN, {("lost-write", "observation"): 1}),
        ("in_no_log_and_a_fail_over_before_the_acknowledgement", VIOLATION, {("lost-write", "violation"): 1}),
        ("zombie_leader_acknowledged_alone", PASS, {("lost-write", "permitted"): 1}),
        (
            "zombie_leader_acknowledged_below_its_successor",
            PASS,
            {
                ("lost-write", "permitted"): 1,
                ("inconsistent-offsets", "permitted"): 1,
                ("acknowledged-regression", "permitted"): 1,
            },
        ),
        (
            "acknowledged_below_by_the_only_leader_there_was_and_lost_later",
            VIOLATION,
            {
                ("lost-write", "permitted"): 1,
                ("inconsistent-offsets", "permitted"): 1,
                ("acknowledged-regression", "violation"): 1,
            },
        ),
        (
            "zombie_leader_acknowledged_what_nobody_read_before_it_was_cut",
            PASS,
            {
                ("lost-write", "permitted"): 1,
                ("inconsistent-offsets", "permitted"): 1,
                ("acknowledged-regression", "permitted"): 2,
            },
        ),
        (
            "zombie_leader_or_its_successor_acknowledged_what_nobody_read",
            Verdict.INCONCLUSIVE,
            {("lost-write", "observation"): 1},
        ),
        ("zombie_leader_acknowledged_what_a_producer_sent_that_knew_only_it", PASS, {("lost-write", "permitted"): 1}),
        (
            "zombie_leader_acknowledged_with_acks_all_what_a_producer_sent_that_knew_only_it",
            VIOLATION,
            {("lost-write", "violation"): 1},
        ),
        *(
            (
                f"zombie_leader_or_its_successor_acknowledged_to_a_producer_that_{known}",
                Verdict.INCONCLUSIVE,
                {("lost-write", "observation"): 1},
            )
            for known in ("learned_meanwhile", "learned_at_the_answer", "knew_no_leader_yet", "says_it_late")
        ),
        (
            "acknowledged_to_a_producer_that_knew_only_the_successor",
            Verdict.INCONCLUSIVE,
            {("lost-write", "observation"): 1},
        ),
        (
            "zombie_leader_acknowledged_with_acks_all_what_it_cut",
            VIOLATION,
            {
                ("lost-write", "violation"): 1,
                ("inconsistent-offsets", "violation"): 1,
                ("acknowledged-regression", "violation"): 2,
            },
        ),
        ("cut_by_a_broker_that_never_led_and_acknowledged_by_the_leader", VIOLATION, {("lost-write", "violation"): 1}),
        ("read_by_a_consumer_and_then_gone", VIOLATION, {("dirty-read", "violation"): 1}),
        ("refused_and_then_read", VIOLATION, {("aborted-read", "violation"): 1}),
        ("unknown_and_then_read", PASS, {}),
        ("read_and_never_sent", VIOLATION, {("phantom", "violation"): 1}),
        ("read_before_it_was_sent", VIOLATION, {("phantom", "violation"): 1}),
        ("twice_in_the_log_of_an_idempotent_producer", VIOLATION, {("duplicate", "violation"): 1}),
        ("twice_in_the_log_after_a_retry_under_a_fault", PASS, {("duplicate", "permitted"): 1}),
        (
            "twice_in_the_log_without_a_reason_to_retry_of_a_client_that_tells_nothing",
            Verdict.INCONCLUSIVE,
            {("duplicate", "observation"): 1},
        ),
        (
            "moved_by_a_loss_of_which_nobody_knows_whether_it_was_permitted",
            Verdict.INCONCLUSIVE,
            {
                ("lost-write", "observation"): 2,
                ("duplicate", "observation"): 1,
                ("inconsistent-offsets", "observation"): 1,
            },
        ),
        (
            "moved_by_a_loss_that_nothing_unseen_could_have_permitted",
            VIOLATION,
            {("lost-write", "violation"): 2, ("duplicate", "violation"): 1, ("inconsistent-offsets", "violation"): 1},
        ),
        (
            "moved_by_a_permitted_loss_and_read_where_it_went",
            PASS,
            {("lost-write", "permitted"): 2, ("duplicate", "permitted"): 1, ("inconsistent-offsets", "permitted"): 1},
        ),
        (
            "moved_by_a_fail_over_though_it_had_been_read_where_it_was",
            VIOLATION,
            {("lost-write", "permitted"): 2, ("duplicate", "violation"): 1, ("inconsistent-offsets", "permitted"): 1},
        ),
        (
            "repeated_by_a_retry_and_its_first_copy_removed_by_retention",
            PASS,
            {("removed-by-configuration", "observation"): 2, ("duplicate", "permitted"): 1},
        ),
        (
            "repeated_by_an_idempotent_producer_and_its_first_copy_removed_by_retention",
            VIOLATION,
            {("removed-by-configuration", "observation"): 2, ("duplicate", "violation"): 1},
        ),
        (
            "two_values_at_one_offset",
            VIOLATION,
            {("inconsistent-offsets", "violation"): 1, ("lost-write", "violation"): 1, ("reordering", "violation"): 1},
        ),
        (
            "two_orders_against_time_of_which_one_is_told_by_its_acknowledgements",
            VIOLATION,
            {("acknowledged-regression", "violation"): 1, ("cycle", "violation"): 1},
        ),
        (
            "a_poll_went_back_to_the_head_after_the_log_had_been_cut_below_its_position",
            PASS,
            {
                ("lost-write", "permitted"): 3,
                ("unclean-election", "permitted"): 3,
                ("dirty-read", "permitted"): 3,
                ("nonmonotonic-read", "permitted"): 1,
            },
        ),
        (
            "a_poll_went_back_to_the_head_though_its_consumer_never_resets_its_position",
            VIOLATION,
            {
                ("lost-write", "permitted"): 3,
                ("unclean-election", "permitted"): 3,
                ("dirty-read", "permitted"): 3,
                ("nonmonotonic-read", "violation"): 1,
            },
        ),
        ("a_poll_went_back", VIOLATION, {("nonmonotonic-read", "violation"): 1}),
        ("a_new_assignment_starts_over", PASS, {}),
        ("a_poll_skipped", VIOLATION, {("skipped-read", "violation"): 1}),
        ("a_poll_stepped_over_a_hole_in_the_log", PASS, {}),
        ("replicas_of_the_isr_disagree", VIOLATION, {("replica-divergence", "violation"): 1}),
        (
            "replicas_of_the_isr_disagree_and_one_outside_it_does_too",
            VIOLATION,
            {
                ("lost-write", "permitted"): 3,
                ("unclean-election", "permitted"): 3,
                ("replica-divergence", "violation"): 1,
            },
        ),
        ("a_replica_of_the_isr_lacks_a_record", VIOLATION, {("replica-divergence", "violation"): 1}),
        ("a_replica_of_the_isr_has_compacted_further_than_another", PASS, {("replica-divergence", "observation"): 1}),
        ("a_replica_of_the_isr_has_compacted_what_was_overwritten", PASS, {("replica-divergence", "observation"): 1}),
        (
            "a_damaged_replica_of_the_isr_has_compacted_what_was_overwritten",
            PASS,
            {("replica-divergence", "observation"): 1},
        ),
        (
            "a_damaged_replica_of_the_isr_lacks_the_last_record_of_a_key",
            VIOLATION,
            {("replica-divergence", "violation"): 1},
        ),
        ("a_replica_of_the_isr_lacks_the_last_record_of_a_key", VIOLATION, {("replica-divergence", "violation"): 1}),
        (
            "a_replica_of_the_isr_lacks_the_last_record_of_a_key_and_overwritten_ones",
            VIOLATION,
            {("replica-divergence", "violation"): 1, ("replica-divergence", "observation"): 2},
        ),
        ("a_replica_of_the_isr_lacks_a_record_that_was_aborted", PASS, {("replica-divergence", "observation"): 1}),
        (
            "a_replica_of_the_isr_lacks_a_record_that_was_aborted_and_read",
            PASS,
            {("replica-divergence", "observation"): 1},
        ),
        (
            "a_replica_of_the_isr_lacks_the_last_record_of_a_key_but_for_an_aborted_one",
            VIOLATION,
            {("replica-divergence", "violation"): 1},
        ),
        ("a_replica_of_the_isr_has_no_tombstone_any_more", PASS, {("replica-divergence", "observation"): 1}),
        ("replicas_differ_above_their_high_watermarks", PASS, {}),
        ("an_expectation_failed", VIOLATION, {("expectation", "violation"): 1}),
        ("a_wait_ran_out", Verdict.INCONCLUSIVE, {}),
        ("coverage_was_not_met", Verdict.VACUOUS, {}),
        ("silent_for_five_seconds", PASS, {("availability", "observation"): 1, ("recovery", "observation"): 1}),
        (
            "silent_for_longer_than_the_bound",
            VIOLATION,
            {("availability", "violation"): 1, ("recovery", "observation"): 1},
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
