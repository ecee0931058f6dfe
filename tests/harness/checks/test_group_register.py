"""A group's committed offset as a register: what a fetch may answer, given who committed what when."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from harness.checks.families.groups.group_register import Commit, Fetch, Register
from harness.checks.families.groups.transactional_offsets import Sent

FAR = 2**62


def commit(offset: int, invoked_ns: int, completed_ns: int, *, certain: bool = True) -> Commit:
    return Commit(offset, invoked_ns, completed_ns if certain else FAR, certain, 1)


def offsets(register: Register, invoked_ns: int, completed_ns: int) -> list[int]:
    return sorted(each.offset for each in register.admissible(invoked_ns, completed_ns))


def test_only_the_last_of_commits_that_followed_each_other_may_be_answered() -> None:
    for order in permutations([commit(1, 0, 1), commit(5, 2, 3), commit(9, 4, 5)]):
        register = Register(order)
        assert offsets(register, 6, 7) == [9]
        assert offsets(register, 3, 3) == [1, 5]  # the second had not certainly ended
        assert register.least_at(6) == 9


def test_commits_at_the_same_time_may_each_be_the_last() -> None:
    register = Register([commit(1, 0, 1), commit(5, 2, 6), commit(9, 3, 4)])

    assert offsets(register, 7, 8) == [5, 9]
    assert register.least_at(7) == 5


def test_a_commit_of_unknown_outcome_may_take_effect_at_any_later_time() -> None:
    register = Register([commit(7, 0, 1, certain=False), commit(5, 2, 3)])

    assert offsets(register, 10, 11) == [5, 7]
    assert register.least_at(10) == 5


def test_a_commit_of_unknown_outcome_does_not_count_above_the_last_record_that_it_may_have() -> None:
    unknown = replace(commit(7, 0, 1, certain=False), place=3, last_place=5)

    assert offsets(Register([unknown, replace(commit(5, 2, 3), place=6)]), 10, 11) == [5]
    assert offsets(Register([unknown, replace(commit(5, 2, 3), place=4)]), 10, 11) == [5, 7]


def test_what_was_answered_by_the_first_of_several_records_is_not_above_what_stands_between() -> None:
    unknown = replace(commit(7, 0, 1, certain=False), place=3, last_place=5)
    between = replace(commit(5, 2, 9), place=4)

    assert Register([unknown, between], [Fetch(7, 3, 4)]).may_answer(Fetch(5, 6, 7)) == [7, 5]


def test_a_commit_of_unknown_outcome_does_not_count_when_no_log_has_it() -> None:
    register = Register([replace(commit(7, 0, 1, certain=False), gone_ns=20), commit(5, 2, 3)])

    assert offsets(register, 19, 25) == [5, 7]
    assert offsets(register, 21, 25) == [5]


def test_without_a_certain_commit_there_may_be_none() -> None:
    register = Register([commit(7, 0, 1, certain=False)])

    assert register.last_before(5) is None
    assert register.least_at(5) is None


def test_a_long_commit_is_not_hidden_by_short_ones_after_it() -> None:
    register = Register([commit(1, 0, 100), *(commit(n, 10 * n, 10 * n + 1) for n in range(2, 9))])

    assert offsets(register, 90, 95) == [1, 8]
    assert offsets(register, 101, 102) == [1, 8]


def test_the_steps_say_what_was_committed_at_every_moment() -> None:
    register = Register([commit(1, 0, 1), commit(7, 2, 2, certain=False), commit(5, 4, 5)])
    steps = register.steps()

    for t in range(9):
        _, least, most = [step for step in steps if step[0] <= t][-1]
        assert (least, most) == (register.least_at(t), max(each.offset for each in register.admissible(t, t)))


def test_what_a_fetch_returned_was_written_last_until_then() -> None:
    commits = [commit(5, 0, 1), commit(9, 2, 3, certain=False)]

    assert Register(commits, [Fetch(9, 4, 5)]).may_answer(Fetch(5, 6, 7)) == [9]
    assert Register(commits, [Fetch(5, 4, 5)]).may_answer(Fetch(9, 6, 7)) == [9, 5]
    assert Register(commits, [Fetch(9, 4, 6)]).may_answer(Fetch(5, 6, 7)) == [9, 5], "they overlap"
    assert Register(commits, [Fetch(7, 4, 5)]).may_answer(Fetch(5, 6, 7)) == [9, 5], "a wrong answer shows nothing"


def test_an_offset_that_a_fetch_returned_cannot_be_missing_later() -> None:
    unknown = [commit(9, 2, 3, certain=False)]

    assert None in Register(unknown).may_answer(Fetch(None, 6, 7))
    assert None not in Register(unknown, [Fetch(9, 4, 5)]).may_answer(Fetch(None, 6, 7))


def test_what_was_told_before_a_commit_had_to_be_seen_says_nothing_of_that_commit() -> None:
    """It is missed when the same is told again afterwards, and was not there when it was told before."""
    pending = replace(commit(9, 4, 5), sent=Sent(any_ns=20, stable_ns=20, late_ns=20))
    register = Register([commit(0, 0, 1), pending], [Fetch(0, 10, 11)])
    again = Fetch(0, 30, 31)

    assert register.may_answer(again) == [9]
    assert register.held_by(again) == pending
    assert register.still_shown(pending, again.invoked_ns) is None
    assert register.held_by(Fetch(None, 30, 31)) == Fetch(0, 10, 11), "what was told is missed, too"


def one_after_another(commits: Sequence[Commit], fetches: Sequence[Fetch]) -> bool:
    """Whether there is an order of all fetches and commits, some unknown ones left out, that explains every answer."""
    unknown = [each for each in commits if not each.certain]
    for left_out in (each for count in range(len(unknown) + 1) for each in combinations(unknown, count)):
        operations: list[Commit | Fetch] = [*(each for each in commits if each not in left_out), *fetches]
        for order in permutations(operations):
            if any(later.completed_ns < earlier.invoked_ns for earlier, later in combinations(order, 2)):
                continue
            stored, right = None, True
            for each in order:
                if isinstance(each, Commit):
                    stored = each.offset
                right = right and each.offset == stored
            if right:
                return True
    return False


TIMES = st.tuples(st.integers(0, 9), st.integers(0, 3)).map(lambda drawn: (drawn[0], sum(drawn)))
COMMITS = st.lists(st.tuples(st.integers(0, 2), TIMES, st.booleans()), max_size=3)
FETCHES = st.lists(st.tuples(st.none() | st.integers(0, 2), TIMES), max_size=3)


@given(COMMITS, FETCHES)
def test_a_fetch_is_wrong_only_where_no_order_of_commits_and_fetches_explains_it(
    drawn_commits: list[tuple[int, tuple[int, int], bool]], drawn_fetches: list[tuple[int | None, tuple[int, int]]]
) -> None:
    commits = [
        Commit(offset, *times if certain else (times[0], FAR), certain, number)
        for number, (offset, times, certain) in enumerate(drawn_commits)
    ]
    fetches = [Fetch(offset, *times) for offset, times in drawn_fetches]
    register = Register(commits, fetches)

    wrong = [fetch for fetch in fetches if fetch.offset not in register.may_answer(fetch)]
    assert not (wrong and one_after_another(commits, fetches))
    if len(fetches) == 1 and not wrong:
        assert one_after_another(commits, fetches)
