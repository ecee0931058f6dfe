"""The rules one by one; each is a sentence of docs/replication.md."""

import pytest

from reference_impl.core.flaws import FLAWS, with_flaws
from reference_impl.core.rules import Candidate, FollowerView, sound

RULES = sound()


def follower(end: int, *, maximal: bool = False, caught_up: bool = False, eligible: bool = False) -> FollowerView:
    return FollowerView(
        log_end_offset=end, in_maximal_isr=maximal, in_committed_isr=maximal, caught_up=caught_up, eligible=eligible
    )


def candidate(end: int, *, eligible: bool = True) -> Candidate:
    return Candidate(log_end_offset=end, high_watermark=5, leader_epoch_start_offset=8, eligible=eligible)


@pytest.mark.parametrize(
    ("followers", "high_watermark"),
    [
        ([], 10),
        ([follower(7, maximal=True), follower(9, maximal=True)], 7),
        ([follower(9, maximal=True), follower(3)], 9),
        ([follower(9, maximal=True), follower(3, caught_up=True, eligible=True)], 3),
        ([follower(9, maximal=True), follower(3, caught_up=True)], 9),  # KAFKA-15021
        ([follower(-1, maximal=True)], -1),
    ],
)
def test_the_high_watermark_is_the_lowest_end_of_members_and_joiners(
    followers: list[FollowerView], high_watermark: int
) -> None:
    assert RULES.high_watermark(10, followers) == high_watermark


def test_a_joiner_must_have_reached_the_start_of_the_leader_epoch() -> None:
    """KAFKA-7128: the new leader's own high watermark may lag behind what is committed."""
    assert not RULES.may_expand(candidate(6))
    assert RULES.may_expand(candidate(8))
    assert not RULES.may_expand(candidate(8, eligible=False))


def test_only_a_different_log_end_for_too_long_leaves_the_isr() -> None:
    assert RULES.must_shrink(9, 10, 1001, 1000)
    assert not RULES.must_shrink(9, 10, 1000, 1000)
    assert not RULES.must_shrink(10, 10, 10**9, 1000)


def test_min_isr_is_at_least_and_at_most_the_assignment() -> None:
    assert RULES.effective_min_isr(3, 2) == 2
    assert RULES.admits_append(2, 2)
    assert not RULES.raises_high_watermark(1, 2)


def test_a_log_is_cut_neither_at_start_nor_on_follow_unless_it_knows_no_epochs() -> None:
    assert RULES.startup_truncation(10, 4) == 10
    assert RULES.follow_truncation(10, 4, True) == 10
    assert RULES.follow_truncation(10, 4, False) == 4


def test_latest_is_known_once_the_leaders_own_epoch_start_is_committed() -> None:
    assert RULES.latest_is_known(8, 8)
    assert not RULES.latest_is_known(7, 8)


def test_the_latest_offset_is_where_readers_end_however_long_ago_the_leader_was_elected() -> None:
    assert RULES.latest(12, 5) == 12
    assert with_flaws(["answer-end-as-of-election"]).latest(12, 5) == 5


def changed(flaw: str) -> set[str]:
    """The rules that it replaces; those of a part of the system with the part's name."""
    flawed = with_flaws([flaw])
    found = {name for name, rule in vars(RULES).items() if getattr(flawed, name) is not rule}
    for part in found & {"cleaning", "controller", "groups", "producers", "storage", "transactions"}:
        sound, of_part = getattr(RULES, part), getattr(flawed, part)
        found |= {name for name, rule in vars(sound).items() if getattr(of_part, name) is not rule}
    return found


def test_each_flaw_replaces_only_its_own_rules() -> None:
    assert {name: changed(name) for name in FLAWS} == {
        "acknowledge-before-replication": {"acknowledges"},
        "truncate-to-high-watermark-on-follow": {"follow_truncation", "fetch_epoch"},
        "truncate-to-high-watermark-at-start": {"startup_truncation"},
        "answer-end-as-of-election": {"latest"},
        "read-to-log-end": {"readable_end"},
        "acknowledge-after-term": {"after_term"},
        "acknowledge-after-timeout": {"after_timeout"},
        "truncate-to-high-watermark-on-lead": {"lead_truncation"},
        "end-of-another-epoch": {"found_epoch"},
        "fetches-of-any-epoch": {"fences_leader_epoch", "takes_answer"},
        "answers-of-another-term": {"takes_answer"},
        "epoch-with-first-record": {"notes_epoch"},
        "no-reconciling-with-same-leader": {"reconciles"},
        "diverging-fetch-is-progress": {"is_progress"},
        "high-watermark-before-truncation": {"ignores_high_watermark"},
        "records-of-unknown-epochs": {"refuses_epoch"},
        "high-watermark-beyond-cut": {"lowers_high_watermark"},
        "wipe-when-out-of-range": {"out_of_range"},
        "delete-beyond-high-watermark": {"deletable_end"},
        "commit-by-majority": {"high_watermark"},
        "commit-without-who-joins": {"high_watermark"},
        "shrink-before-it-is-committed": {"isr_in_force"},
        "join-at-high-watermark": {"may_expand"},
        "fetches-of-older-incarnations": {"fences_incarnation"},
        "commit-below-min-isr": {"raises_high_watermark"},
        "no-min-isr": {"admits_append", "raises_high_watermark"},
        "no-look-at-new-isr": {"looks_again"},
        "ineligible-hold-high-watermark": {"high_watermark"},
        "isr-never-shrinks": {"must_shrink"},
        "isr-by-records": {"must_shrink"},
        "isr-of-any-epoch": {"controller", "is_current"},
        "any-incarnation-joins": {"controller", "may_join"},
        "restarts-unnoticed": {"controller", "is_renewed"},
        "always-unclean": {"controller", "elects_unclean"},
        "obey-deposed-controllers": {"fences_controller"},
        "leaders-keep-the-epoch": {"controller", "next_epoch"},
        "preferred-out-of-sync": {"controller", "may_be_preferred"},
        "leaders-that-are-gone": {"controller", "may_lead"},
        "no-duplicate-detection": {"producers", "looks_for_repeated", "follows"},
        "new-leaders-know-no-producers": {"producers", "inherits"},
        "one-batch-remembered": {"producers", "looks_for_repeated", "follows"},
        "gaps-in-sequence": {"producers", "follows"},
        "producers-outlive-their-cut": {"producers", "forgets_what_was_cut"},
        "repeated-acknowledged-at-once": {"producers", "repeated_waits_for"},
        "producers-expire-at-once": {"producers", "is_idle"},
        "no-verification": {"producers", "verifies"},
        "ends-of-any-epoch": {"transactions", "is_current"},
        "read-committed-to-high-watermark": {"stable_end"},
        "commit-before-replication": {"groups", "answers_commit"},
        "commit-of-anybody": {"groups", "admits_commit"},
        "load-last-segment-of-offsets": {"groups", "loads_from"},
        "no-offsets-while-loading": {"groups", "while_loading"},
        "offsets-before-their-marker": {"groups", "counts_in_transaction"},
        "expire-offsets-at-once": {"groups", "is_expired"},
        "no-list-of-aborted": {"producers", "lists_aborted"},
        "old-epochs-go-on": {"producers", "fences_producer", "transactions", "is_current"},
        "late-transactions-keep-their-epoch": {"transactions", "fences_late"},
        "end-before-replication": {"transactions", "answers_end"},
        "forget-prepared-transactions": {"transactions", "resumes_markers"},
        "other-marker-in-last-partition": {"transactions", "result_in"},
        "markers-of-old-coordinators": {"producers", "fences_coordinator"},
        "clean-beyond-stable": {"cleaning", "cleans_to"},
        "tombstones-gone-at-once": {"cleaning", "outlives_horizon"},
        "keep-first-of-a-key": {"cleaning", "notes", "is_latest"},
        "compaction-renumbers": {"cleaning", "offset_of"},
        "forget-producers-in-compaction": {"cleaning", "keeps_for_producer"},
        "sync-of-any-generation": {"groups", "takes_sync"},
        "every-stop-is-clean": {"storage", "is_clean"},
        "recovery-point-with-append": {"storage", "recovery_point_after_append"},
        "damaged-batches-taken": {"storage", "verifies", "verifies_fetched"},
        "flush-without-sync": {"storage", "syncs"},
    }
    assert with_flaws([]) == RULES


def test_an_unknown_flaw_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown flaw 'nonsense'; known: acknowledge-after-term, "):
        with_flaws(["nonsense"])
