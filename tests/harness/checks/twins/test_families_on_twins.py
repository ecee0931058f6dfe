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
# Imported, so that their stories are among STORIES.
THEMES = (
    twins_of_flows,
    twins_of_groups,
    twins_of_outputs,
    twins_of_removal,
    twins_of_rules,
    twins_of_told_ends,
    twins_of_transactions,
)

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
    "lost_before_the_later_one_of_its_key_was_sent": (
        VIOLATION,
        {
            ("lost-write", "lost", BAD): 1,
            ("inconsistent-offsets", "two-values", BAD): 1,
            ("unclean-election", "election", BAD): 1,
        },
    ),
    "lost_when_the_later_one_of_its_key_was_on_its_way": (
        VIOLATION,
        {
            ("removed-by-configuration", "compaction", NOTED): 1,
            ("inconsistent-offsets", "two-values", BAD): 1,
            ("unclean-election", "election", BAD): 1,
        },
    ),
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
    **STORIES.expected,
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
