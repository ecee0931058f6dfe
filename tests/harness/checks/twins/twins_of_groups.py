"""Tiny histories of consumer groups: records 0 to 9 of one partition, read by members 1 and 2 (processes 21, 22)."""

from tests.harness.checks.histories.build import SECOND, History
from tests.harness.checks.twins.twins import acknowledged
from tests.harness.checks.twins.twins_of_clients import BAD, INCONCLUSIVE, LOG, NOTED, PASS, VIOLATION, expecting

ONE, TWO = 21, 22


def _group() -> History:
    history = acknowledged()
    for process in (ONE, TWO):
        history.client(process, group="g", offset_reset="earliest", isolation="read_committed")
    history.client(98, group="g", offset_reset="none")  # who asks for the group's offsets at the end
    return history


def _handed_over(*, committed: int | None = 5, from_offset: int = 5, status: int = 0) -> History:
    """Member 1 reads 0 to 4 and commits; member 2 takes over in the next generation and reads on from `from_offset`."""
    history = _group().group("assigned", at=2.5, process=ONE, generation=1)
    history.poll(LOG[:5], at=3, process=ONE)
    if committed is not None:
        history.group("committed", at=3.5, process=ONE, offset=committed, generation=1, status=status)
    history.group("revoked", at=4, process=ONE, generation=1)
    history.group("assigned", at=4.5, process=TWO, generation=2)
    history.poll(LOG[from_offset:], at=5, process=TWO)
    history.group("committed", at=5.5, process=TWO, offset=10, generation=2)
    return history.final(LOG)


@expecting(PASS, {})
def group_handed_over() -> History:
    return _handed_over()


@expecting(PASS, {("group-redelivery", "at-least-once", NOTED): 5})
def group_read_again_what_was_not_committed() -> History:
    return _handed_over(committed=None, from_offset=0)


@expecting(PASS, {("group-redelivery", "at-least-once", NOTED): 5})
def group_read_again_what_may_have_been_committed() -> History:
    return _handed_over(from_offset=0, status=2)


@expecting(VIOLATION, {("group-redelivery", "after-commit", BAD): 2, ("group-redelivery", "at-least-once", NOTED): 2})
def group_read_again_what_was_committed() -> History:
    return _handed_over(from_offset=3)


@expecting(PASS, {("group-redelivery", "at-least-once", NOTED): 2})
def group_read_again_what_a_member_sought() -> History:
    return _handed_over(from_offset=3).group("seek", at=4.7, process=TWO, offset=3, generation=2)


@expecting(PASS, {("group-redelivery", "at-least-once", NOTED): 10})
def group_read_on_under_an_assignment_from_before_the_commit() -> History:
    """Member 1 was deposed and does not know it: it reads 5 to 9 after member 2 has committed them."""
    history = _handed_over(committed=None, from_offset=0)
    history.rows["group_events"] = [row for row in history.rows["group_events"] if row["event"] != "revoked"]
    return history.poll(LOG[5:], at=6, process=ONE)


@expecting(VIOLATION, {("group-skip", "skipped", BAD): 2})
def group_skipped_what_nobody_read() -> History:
    """Member 1 commits 7 after reading 0 to 4; member 2 goes on at 7."""
    return _handed_over(committed=7, from_offset=7)


@expecting(VIOLATION, {("group-skip", "skipped", BAD): 2, ("head-skip", "first-poll", BAD): 2})
def group_skipped_after_its_commit() -> History:
    """What was committed is fine; the next member begins further on all the same, and commits beyond."""
    return _handed_over(committed=5, from_offset=7)


@expecting(VIOLATION, {("group-skip", "ahead", BAD): 2})
def group_committed_ahead_of_its_reading() -> History:
    """Member 1 commits 7 after reading 0 to 4, and reads 5 and 6 afterwards."""
    history = _group().group("assigned", at=2.5, process=ONE, generation=1)
    history.poll(LOG[:5], at=3, process=ONE)
    history.group("committed", at=3.5, process=ONE, offset=7, generation=1)
    history.poll(LOG[5:], at=5, process=ONE)
    history.group("committed", at=5.5, process=ONE, offset=10, generation=1)
    return history.final(LOG)


@expecting(PASS, {})
def group_committed_over_a_hole() -> History:
    """Offsets 5 and 6 hold no record, and a consumer's position passes them."""
    history = _group()
    history.rows["records"] = [row for row in history.rows["records"] if row["value"] not in (5, 6)]
    history.group("assigned", at=2.5, process=ONE, generation=1)
    history.poll(LOG[:5], at=3, process=ONE)
    history.group("committed", at=3.5, process=ONE, offset=7, generation=1)
    history.poll(LOG[7:], at=4, process=ONE)
    return history.final(LOG[:5] + LOG[7:])


# ---- what the coordinator answers -----------------------------------------------------------------------------------


def _answered(*answers: int | None, at: float = 6.0) -> History:
    """5 is committed at 3.5 s and 10 at 5.5 s."""
    history = _handed_over()
    for number, offset in enumerate(answers):
        history.group("fetched", at=at + number / 10, process=TWO, offset=offset)
    return history


@expecting(PASS, {})
def group_offset_told_as_committed() -> History:
    return _answered(10).group("fetched", at=4.6, process=TWO, offset=5)


@expecting(PASS, {})
def group_offset_told_while_it_was_committed() -> History:
    return _answered(5, at=5.505).group("fetched", at=5.505, process=ONE, offset=10)


@expecting(VIOLATION, {("lost-group-offset", "lost", BAD): 1})
def group_offset_lost() -> History:
    return _answered(None)


@expecting(VIOLATION, {("lost-group-offset", "regressed", BAD): 1})
def group_offset_regressed() -> History:
    return _answered(5)


@expecting(VIOLATION, {("lost-group-offset", "foreign", BAD): 1})
def group_offset_nobody_committed() -> History:
    return _answered(8, at=4.6)


@expecting(PASS, {})
def group_offset_none_before_any_commit() -> History:
    return _handed_over().group("fetched", at=2.6, process=ONE, offset=None)


def _told_of_unknown_outcome(*answers: int | None, committed: int | None = 5) -> History:
    """5 is committed at 3.5 s, and perhaps 7 at 4.2 s; two fetches follow."""
    history = _handed_over(committed=committed, from_offset=committed or 0)
    history.group("committed", at=4.2, process=ONE, offset=7, generation=1, status=2)
    for number, offset in enumerate(answers):
        history.group("fetched", at=4.6 + number / 10, process=TWO, offset=offset)
    return history


@expecting(PASS, {})
def group_offset_of_unknown_outcome_told_at_last() -> History:
    return _told_of_unknown_outcome(5, 7)


@expecting(VIOLATION, {("lost-group-offset", "regressed", BAD): 1})
def group_offset_of_unknown_outcome_told_and_taken_back() -> History:
    return _told_of_unknown_outcome(7, 5)


@expecting(PASS, {("group-redelivery", "at-least-once", NOTED): 5})
def group_offset_of_unknown_outcome_not_there() -> History:
    return _told_of_unknown_outcome(None, 7, committed=None)


@expecting(VIOLATION, {("lost-group-offset", "lost", BAD): 1, ("group-redelivery", "at-least-once", NOTED): 5})
def group_offset_of_unknown_outcome_told_and_lost() -> History:
    return _told_of_unknown_outcome(7, None, committed=None)


@expecting(INCONCLUSIVE, {("lost-group-offset", "lost", NOTED): 1})
def group_offset_lost_with_a_disk() -> History:
    return _answered(None).fault("wipe", [2], at=5.8, until=5.9)


def _offset_lost_with_the_tail_of(topic: str) -> History:
    history = _answered(None).fault("power-loss", [2], at=5.8, until=5.9)
    return history.disk_event(2, "tail", 1, 9, at=5.8, place=(topic, 3))


@expecting(INCONCLUSIVE, {("lost-group-offset", "lost", NOTED): 1})
def group_offset_lost_with_the_tail_of_a_log_of_offsets() -> History:
    return _offset_lost_with_the_tail_of("__consumer_offsets")


@expecting(VIOLATION, {("lost-group-offset", "lost", BAD): 1})
def group_offset_lost_beside_the_tail_of_another_log() -> History:
    return _offset_lost_with_the_tail_of("t")


# ---- owners ---------------------------------------------------------------------------------------------------------


@expecting(VIOLATION, {("two-owners", "same-generation", BAD): 1})
def two_owners_in_one_generation() -> History:
    return _handed_over().group("assigned", at=4.6, process=ONE, generation=2)


@expecting(PASS, {})
def two_owners_of_two_generations() -> History:
    """Member 1 does not know yet that it was deposed, and gives the partition up only later."""
    history = _handed_over()
    for row in history.rows["group_events"]:
        if row["event"] == "revoked":
            row |= {"event": "lost", "invoked_ns": 6 * 10**9, "completed_ns": 6 * 10**9}
    return history


@expecting(PASS, {})
def given_up_and_taken_under_one_number() -> History:
    """A client tells its generation late: what was given up first is no second owner."""
    history = _handed_over()
    for row in history.rows["group_events"]:
        row["generation"] = 2
    return history


def _committed_late(*, partition_id: int) -> History:
    """Member 1 commits in generation 1 after member 2 was told generation 2; later it is told the same number."""
    history = _handed_over()
    for row in history.rows["group_events"]:
        if row["event"] == "revoked":
            row |= {"event": "lost", "invoked_ns": 6 * SECOND, "completed_ns": 6 * SECOND}
    history.group("committed", at=5.2, process=ONE, offset=5, generation=1)
    history.second_partition()
    return history.group("assigned", at=7, process=ONE, generation=2, partition_id=partition_id)


@expecting(PASS, {})
def committed_late_by_one_that_was_in_the_later_generation() -> History:
    """It was told another partition of it, a little later."""
    return _committed_late(partition_id=1)


@expecting(VIOLATION, {("two-owners", "same-generation", BAD): 1, ("zombie-commit", "old-generation", BAD): 1})
def committed_late_by_one_that_was_told_the_number_when_it_came_again() -> History:
    """It was told the partition that another had in the generation of that number."""
    return _committed_late(partition_id=0)
