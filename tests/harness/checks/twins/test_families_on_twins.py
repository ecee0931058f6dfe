"""What native runs add: where clients begin, groups, transactions, timestamps, what configuration removes.

Each bad history beside a good one that differs in the one thing that counts, all judged as one job.
"""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.history.schema.schemas import FINDINGS
from harness.verdict import Verdict
from tests.harness.checks.histories.build import judge_stories
from tests.harness.checks.twins import (
    twins_of_flows,
    twins_of_groups,
    twins_of_outputs,
    twins_of_removal,
    twins_of_rules,
    twins_of_told_ends,
    twins_of_transactions,
)
from tests.harness.checks.twins.twins_of_clients import STORIES

Judged = dict[str, Judgement]
Expected = dict[tuple[str, str, str], int]
assert twins_of_groups.__doc__, "imported, so that its stories are among STORIES"
assert twins_of_removal.__doc__, "imported, so that its stories are among STORIES"
assert twins_of_transactions.__doc__, "imported, so that its stories are among STORIES"

pytestmark = pytest.mark.timeout(900)  # the whole job is the first test's
VIOLATION, PASS = Verdict.VIOLATION, Verdict.PASS
INCONCLUSIVE, VACUOUS = Verdict.INCONCLUSIVE, Verdict.VACUOUS
BAD, LAWFUL, NOTED = "violation", "permitted", "observation"


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return judge_stories(spark, tmp_path_factory.mktemp("families"), STORIES)


def found(judgement: Judgement) -> Expected:
    """(check, kind, class) -> records."""
    sums: Expected = {}
    for _, finding in judgement.findings:
        key = (finding.check, finding.kind, finding.classification)
        sums[key] = sums.get(key, 0) + finding.count
    return sums


OUTCOMES: dict[str, tuple[Verdict, Expected]] = {
    # where a consumer begins
    "first_poll_skips_the_head": (VIOLATION, {("head-skip", "first-poll", BAD): 2}),
    "first_poll_skips_the_head_after_an_assignment_from_the_beginning": (
        VIOLATION,
        {("head-skip", "first-poll", BAD): 2},
    ),
    "first_poll_begins_at_the_head": (PASS, {}),
    "first_poll_of_a_consumer_that_starts_at_the_end": (PASS, {}),
    "first_poll_begins_above_a_hole": (PASS, {}),
    "first_poll_where_it_had_sought_to": (PASS, {}),
    "first_poll_beyond_where_it_had_sought_to": (VIOLATION, {("head-skip", "first-poll", BAD): 2}),
    "read_again_after_a_seek": (PASS, {}),
    "skipped_after_a_rebalance": (PASS, {}),
    "skipped_without_a_rebalance": (VIOLATION, {("skipped-read", "external", BAD): 1}),
    # what there is to judge
    "nothing_at_all": (VACUOUS, {}),
    "all_sends_failed": (VACUOUS, {}),
    "nothing_was_read": (INCONCLUSIVE, {("unseen-tail", "unseen", NOTED): 2}),
    "an_empty_poll_says_nothing": (PASS, {}),
    "only_the_last_read_saw_an_unknown_send": (PASS, {}),
    "acknowledged_without_an_offset_and_read": (PASS, {}),
    "acknowledged_without_an_offset_and_gone": (VIOLATION, {("lost-write", "lost", BAD): 1}),
    "the_tail_is_gone_though_the_log_was_read_to_its_end": (VIOLATION, {("lost-write", "lost", BAD): 2}),
    "seen_only_by_a_poll_that_failed": (
        VIOLATION,
        {("lost-write", "lost", BAD): 1, ("dirty-read", "vanished", BAD): 1},
    ),
    "read_by_a_poll_that_failed_and_there": (PASS, {}),
    "refused_and_read_by_a_poll_that_failed": (
        VIOLATION,
        {("aborted-read", "failed-send", BAD): 1, ("dirty-read", "vanished", BAD): 1},
    ),
    "offsets_far_apart": (PASS, {}),
    # timestamps
    "stamped_as_it_was_sent": (PASS, {}),
    "stamped_otherwise_than_it_was_sent": (VIOLATION, {("timestamps", "changed", BAD): 1}),
    "stamped_by_the_broker_in_order": (PASS, {}),
    "stamped_by_one_leader_backwards": (VIOLATION, {("timestamps", "backwards", BAD): 1}),
    "stamped_backwards_by_the_next_leader": (PASS, {("timestamps", "backwards-across-leaders", NOTED): 1}),
    "answered_with_the_last_timestamp_of_its_batch": (PASS, {}),
    "answered_in_nanoseconds": (VIOLATION, {("timestamps", "answered", BAD): 1}),
    "answered_a_little_before_its_send": (VIOLATION, {("timestamps", "answered", BAD): 1}),
    "stamped_before_its_send": (VIOLATION, {("timestamps", "changed", BAD): 1}),
    "stamped_by_the_broker_while_it_was_sent": (PASS, {}),
    "stamped_by_the_broker_out_of_time": (VIOLATION, {("timestamps", "out-of-time", BAD): 1}),
    # retention and compaction
    "removed_by_retention_time": (PASS, {("removed-by-configuration", "retention", NOTED): 4}),
    "removed_before_its_retention_time": (VIOLATION, {("lost-write", "lost", BAD): 4}),
    "removed_above_the_log_start": (
        VIOLATION,
        {("removed-by-configuration", "retention", NOTED): 4, ("lost-write", "lost", BAD): 1},
    ),
    "removed_by_retention_size": (PASS, {("removed-by-configuration", "retention", NOTED): 4}),
    "removed_beyond_its_retention_size": (VIOLATION, {("lost-write", "lost", BAD): 4}),
    "removed_by_nobody_knows_whom_in_somebody_elses_cluster": (
        INCONCLUSIVE,
        {("lost-write", "undecided", NOTED): 4},
    ),
    "removed_and_read_before_by_nobody_knows_whom": (
        INCONCLUSIVE,
        {("lost-write", "undecided", NOTED): 4, ("dirty-read", "vanished", NOTED): 4},
    ),
    "removed_by_nobody_knows_whom_and_one_more_above_the_start": (
        VIOLATION,
        {("lost-write", "undecided", NOTED): 4, ("lost-write", "lost", BAD): 1},
    ),
    "removed_in_a_cluster_where_only_the_harness_could_have_asked_for_it": (
        VIOLATION,
        {("lost-write", "lost", BAD): 4},
    ),
    "removed_where_brokers_refuse_to_remove_anything": (VIOLATION, {("compacted-away", "last-of-its-key", BAD): 4}),
    "removed_by_retention_in_somebody_elses_cluster": (PASS, {("removed-by-configuration", "retention", NOTED): 4}),
    "passed_over_long_before_its_retention_time": (
        VIOLATION,
        {("removed-by-configuration", "retention", NOTED): 3, ("lost-write", "lost", BAD): 1},
    ),
    "passed_over_after_its_retention_time": (PASS, {("removed-by-configuration", "retention", NOTED): 4}),
    "passed_over_by_a_consumer_that_starts_anew_at_the_end": (
        PASS,
        {("removed-by-configuration", "retention", NOTED): 4},
    ),
    "passed_over_before_its_producer_got_an_answer": (
        PASS,
        {("removed-by-configuration", "retention", NOTED): 4, ("availability", "gap", NOTED): 1},
    ),
    "passed_over_before_its_key_had_a_later_record": (VIOLATION, {("compacted-away", "last-of-its-key", BAD): 1}),
    "lost_with_a_copy_of_the_later_one_of_its_key_and_still_there_when_another_was_elected": (
        VIOLATION,
        {
            ("lost-write", "lost", BAD): 1,
            ("duplicate", "moved", BAD): 1,
            ("unclean-election", "election", BAD): 1,
        },
    ),
    "lost_with_a_copy_of_the_later_one_of_its_key_and_never_seen_again": (
        VIOLATION,
        {
            ("removed-by-configuration", "compaction", NOTED): 1,
            ("duplicate", "moved", BAD): 1,
            ("unclean-election", "election", BAD): 1,
        },
    ),
    "lost_with_the_later_one_of_its_key_and_still_there_when_another_was_elected": (
        VIOLATION,
        {
            ("lost-write", "lost", BAD): 1,
            ("lost-write", "lost", LAWFUL): 1,
            ("unclean-election", "election", BAD): 2,
        },
    ),
    "lost_with_the_later_one_of_its_key_and_never_seen_again": (
        VIOLATION,
        {
            ("removed-by-configuration", "compaction", NOTED): 1,
            ("lost-write", "lost", LAWFUL): 1,
            ("unclean-election", "election", BAD): 1,
        },
    ),
    "lost_with_the_later_one_of_its_key_by_one_that_may_have_compacted_it": (
        VIOLATION,
        {
            ("removed-by-configuration", "compaction", NOTED): 1,
            ("lost-write", "lost", LAWFUL): 1,
            ("unclean-election", "election", BAD): 1,
        },
    ),
    "passed_over_after_its_key_had_a_later_record": (PASS, {("removed-by-configuration", "compaction", NOTED): 1}),
    "tombstone_removed_in_its_time": (PASS, {("removed-by-configuration", "compaction", NOTED): 8}),
    "tombstone_removed_before_its_time": (
        VIOLATION,
        {("removed-by-configuration", "compaction", NOTED): 7, ("compacted-away", "last-of-its-key", BAD): 1},
    ),
    "tombstone_removed_before_what_it_deletes": (
        VIOLATION,
        {("removed-by-configuration", "compaction", NOTED): 6, ("compacted-away", "last-of-its-key", BAD): 1},
    ),
    "stamped_out_of_time_by_a_machine_whose_clock_nobody_knows": (PASS, {}),
    "removed_by_compaction": (PASS, {("removed-by-configuration", "compaction", NOTED): 6}),
    "the_last_of_a_key_was_compacted_away": (
        VIOLATION,
        {("removed-by-configuration", "compaction", NOTED): 6, ("compacted-away", "last-of-its-key", BAD): 1},
    ),
    "the_last_of_a_key_was_compacted_away_for_an_aborted_one": (
        VIOLATION,
        {("removed-by-configuration", "compaction", NOTED): 6, ("compacted-away", "last-of-its-key", BAD): 1},
    ),
    "polled_over_what_was_compacted": (PASS, {("removed-by-configuration", "compaction", NOTED): 6}),
    # groups
    "group_handed_over": (PASS, {}),
    "group_read_again_what_was_not_committed": (PASS, {("group-redelivery", "at-least-once", NOTED): 5}),
    "group_read_again_what_may_have_been_committed": (PASS, {("group-redelivery", "at-least-once", NOTED): 5}),
    "group_read_again_what_was_committed": (
        VIOLATION,
        {("group-redelivery", "after-commit", BAD): 2, ("group-redelivery", "at-least-once", NOTED): 2},
    ),
    "group_read_again_what_a_member_sought": (PASS, {("group-redelivery", "at-least-once", NOTED): 2}),
    "group_read_on_under_an_assignment_from_before_the_commit": (
        PASS,
        {("group-redelivery", "at-least-once", NOTED): 10},
    ),
    "group_skipped_what_nobody_read": (VIOLATION, {("group-skip", "skipped", BAD): 2}),
    "group_skipped_after_its_commit": (
        VIOLATION,
        {("group-skip", "skipped", BAD): 2, ("head-skip", "first-poll", BAD): 2},
    ),
    "group_committed_ahead_of_its_reading": (VIOLATION, {("group-skip", "ahead", BAD): 2}),
    "group_committed_over_a_hole": (PASS, {}),
    "group_offset_told_as_committed": (PASS, {}),
    "group_offset_told_while_it_was_committed": (PASS, {}),
    "group_offset_lost": (VIOLATION, {("lost-group-offset", "lost", BAD): 1}),
    "group_offset_regressed": (VIOLATION, {("lost-group-offset", "regressed", BAD): 1}),
    "group_offset_nobody_committed": (VIOLATION, {("lost-group-offset", "foreign", BAD): 1}),
    "group_offset_none_before_any_commit": (PASS, {}),
    "group_offset_of_unknown_outcome_told_at_last": (PASS, {}),
    "group_offset_of_unknown_outcome_told_and_taken_back": (VIOLATION, {("lost-group-offset", "regressed", BAD): 1}),
    "group_offset_of_unknown_outcome_not_there": (PASS, {("group-redelivery", "at-least-once", NOTED): 5}),
    "group_offset_of_unknown_outcome_told_and_lost": (
        VIOLATION,
        {("lost-group-offset", "lost", BAD): 1, ("group-redelivery", "at-least-once", NOTED): 5},
    ),
    "group_offset_lost_with_a_disk": (INCONCLUSIVE, {("lost-group-offset", "lost", NOTED): 1}),
    "two_owners_in_one_generation": (VIOLATION, {("two-owners", "same-generation", BAD): 1}),
    "group_offset_lost_with_the_tail_of_a_log_of_offsets": (INCONCLUSIVE, {("lost-group-offset", "lost", NOTED): 1}),
    "group_offset_lost_beside_the_tail_of_another_log": (VIOLATION, {("lost-group-offset", "lost", BAD): 1}),
    "committed_late_by_one_that_was_in_the_later_generation": (PASS, {}),
    "committed_late_by_one_that_was_told_the_number_when_it_came_again": (
        VIOLATION,
        {("two-owners", "same-generation", BAD): 1, ("zombie-commit", "old-generation", BAD): 1},
    ),
    "two_owners_of_two_generations": (PASS, {}),
    "given_up_and_taken_under_one_number": (PASS, {}),
    # transactions
    "transaction_committed_as_a_whole": (PASS, {}),
    "transaction_aborted_as_a_whole": (PASS, {}),
    "offset_of_an_aborted_record_given_anew_after_every_disk_in_sync_was_lost": (
        PASS,
        {("inconsistent-offsets", "two-values", LAWFUL): 1},
    ),
    "offset_of_an_aborted_record_given_anew_though_a_disk_in_sync_had_it": (
        VIOLATION,
        {("inconsistent-offsets", "two-values", BAD): 1},
    ),
    "aborted_record_that_was_written_again_after_a_permitted_loss": (
        PASS,
        {("unclean-election", "election", "observation"): 1, ("duplicate", "moved", LAWFUL): 1},
    ),
    "each_transactional_id_has_a_producer_id_of_its_own": (PASS, {}),
    "a_transactional_id_goes_on_with_the_next_producer_id": (PASS, {}),
    "two_transactional_ids_have_one_producer_id": (
        VIOLATION,
        {("shared-producer-id", "two-transactional-ids", BAD): 2},
    ),
    "two_transactional_ids_have_one_producer_id_after_a_broker_was_wiped": (
        VIOLATION,
        {("shared-producer-id", "two-transactional-ids", BAD): 2},
    ),
    "two_transactional_ids_have_one_producer_id_after_a_controller_was_wiped": (
        INCONCLUSIVE,
        {("shared-producer-id", "two-transactional-ids", NOTED): 2},
    ),
    "transactions_interleaved_in_two_partitions": (PASS, {("cycle", "G0", LAWFUL): 1}),
    "transaction_of_unknown_outcome_as_a_whole": (PASS, {}),
    "transaction_of_unknown_outcome_not_at_all": (PASS, {}),
    "transaction_of_unknown_outcome_torn": (VIOLATION, {("torn-transaction", "torn", BAD): 1}),
    "transaction_of_unknown_outcome_seen_in_part_by_a_read_uncommitted_reader": (PASS, {}),
    "transaction_committed_and_torn": (
        VIOLATION,
        {("torn-transaction", "torn", BAD): 1, ("lost-write", "lost", BAD): 1},
    ),
    "transaction_of_unknown_outcome_and_a_partition_not_read": (
        INCONCLUSIVE,
        {("torn-transaction", "candidate", NOTED): 1},
    ),
    "aborted_record_read_by_a_read_committed_reader": (
        VIOLATION,
        {("aborted-read", "aborted-transaction", BAD): 1},
    ),
    "aborted_record_read_by_a_read_uncommitted_reader": (PASS, {}),
    "unknown_record_read_by_a_read_uncommitted_reader_and_gone": (PASS, {}),
    "unknown_record_read_by_a_read_committed_reader_and_gone": (VIOLATION, {("dirty-read", "vanished", BAD): 1}),
    "stable_offset_passed": (VIOLATION, {("last-stable-offset", "passed", BAD): 1}),
    "stable_offset_passed_by_a_read_uncommitted_reader": (PASS, {}),
    "stable_offset_reached_after_the_end": (PASS, {}),
    "stable_offset_passed_where_a_coordinator_may_have_ended_the_transaction_already": (PASS, {}),
    "stable_offset_passed_where_a_fenced_producer_wrote_on": (VIOLATION, {("last-stable-offset", "passed", BAD): 1}),
    "open_transaction_read_by_a_read_committed_reader": (VIOLATION, {("last-stable-offset", "passed", BAD): 1}),
    "fenced_producer_committed": (VIOLATION, {("zombie-transaction", "fenced", BAD): 1}),
    "fenced_producer_was_refused": (PASS, {}),
    "processed_exactly_once": (PASS, {}),
    "processed_in_two_sends": (PASS, {}),
    "transactions_refused_for_four_seconds": (PASS, {("availability", "gap", NOTED): 1}),
    "transactions_aborted_for_four_seconds": (PASS, {}),
    "processed_twice": (VIOLATION, {("read-process-write", "twice", BAD): 1}),
    "processed_and_no_output": (VIOLATION, {("read-process-write", "missing", BAD): 1}),
    "processed_without_its_offset": (VIOLATION, {("read-process-write", "uncommitted", BAD): 1}),
    "processed_in_a_transaction_of_unknown_outcome": (PASS, {}),
    **twins_of_rules.OUTCOMES,
    **twins_of_outputs.OUTCOMES,
    **twins_of_flows.OUTCOMES,
    **twins_of_told_ends.OUTCOMES,
}


def test_every_story_has_an_outcome() -> None:
    assert OUTCOMES.keys() == STORIES.keys()


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_family_finds_its_own_and_nothing_else(judged: Judged, name: str) -> None:
    verdict, expected = OUTCOMES[name]
    judgement = judged[name]
    assert found(judgement) == expected, [finding.sentence for _, finding in judgement.findings]
    assert judgement.verdict is verdict, judgement.sentence


def test_every_finding_can_be_stored(judged: Judged) -> None:
    rows = [finding.as_row(name) for judgement in judged.values() for name, finding in judgement.findings]
    assert pa.Table.from_pylist(rows, schema=FINDINGS).num_rows == len(rows) > 0


def test_every_accounting_adds_up(judged: Judged) -> None:
    assert [name for name, judgement in judged.items() if not judgement.accounting["adds_up"]] == []


@pytest.mark.parametrize(
    ("name", "causes"),
    [
        ("group_read_again_what_was_not_committed", {"redelivered-uncommitted": 5}),
        ("group_read_again_what_may_have_been_committed", {"redelivered-unknown": 5}),
        ("group_read_again_what_was_committed", {"redelivered-after-commit": 2}),
        ("group_read_again_what_a_member_sought", {"redelivered-sought": 2}),
        (
            "group_read_on_under_an_assignment_from_before_the_commit",
            {"redelivered-uncommitted": 5, "redelivered-held-on": 5},
        ),
    ],
)
def test_a_second_delivery_is_reported_by_what_had_been_committed(
    judged: Judged, name: str, causes: dict[str, int]
) -> None:
    again = [finding for _, finding in judged[name].findings if finding.kind == "at-least-once"]
    assert {finding.cause.code: finding.count for finding in again if finding.cause is not None} == causes


def test_the_steps_of_a_cycle_are_reported_by_their_names(judged: Judged) -> None:
    ((_, finding),) = judged["transactions_interleaved_in_two_partitions"].findings
    one, other = "transaction 7 of id", "transaction 8 of other"
    steps = {(step["source"], step["target"]): step for step in finding.evidence["steps"]}
    assert steps[one, other]["partition"] == "t-0"
    assert (steps[one, other]["value"], steps[one, other]["next_value"]) == (10, 20)  # reports write them as text
    assert steps[other, one]["partition"] == "t-1"
    assert {step["relation"] for step in steps.values()} == {"write-write"}
    assert f"T1 is {one}; T2 is {other}" in finding.sentence or f"T1 is {other}; T2 is {one}" in finding.sentence


def test_no_record_is_said_to_be_above_a_high_watermark_that_is_above_it_on_disk(judged: Judged) -> None:
    def unreadable(name: str) -> tuple[str, str]:
        (finding,) = [each for _, each in judged[name].findings if each.check == "unreadable"]
        assert finding.cause is not None
        return finding.sentence, finding.cause.codes[0]

    below, why = unreadable("end_below_what_acks_all_was_answered_for")
    assert ("although a high watermark on the disks" in below, "above the high watermark" in below) == (True, False)
    assert why == "end-below-the-marks"
    above, why = unreadable("end_below_what_acks_1_was_answered_for_and_no_mark_above")
    assert "above the high watermark, which no reader passes" in above
    assert why == "frozen-high-watermark"


def test_what_nobody_asked_for_is_reported_by_the_start_of_the_log(judged: Judged) -> None:
    ((_, unknown),) = judged["removed_by_nobody_knows_whom_in_somebody_elses_cluster"].findings
    assert "the log's start was moved to 4, beyond them, by an unknown hand" in unknown.sentence
    assert "DeleteRecords" in " ".join(judged["removed_by_nobody_knows_whom_in_somebody_elses_cluster"].reasons)
    ((_, ours),) = judged["removed_in_a_cluster_where_only_the_harness_could_have_asked_for_it"].findings
    assert "the log's start was moved to 4, beyond them, and no setting asks for that" in ours.sentence


def test_a_verdict_says_which_of_an_applications_flows_came_out(judged: Judged) -> None:
    said = "What group g had committed of in came out in t."
    assert judged["every_committed_input_came_out"].sentence.endswith(said)
    for name in ("committed_before_an_output_was_sent", "nobody_committed_anything", "sent_twice_exactly_once"):
        assert said not in judged[name].sentence
