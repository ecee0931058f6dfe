"""A group's committed offset as a register: what a fetch may answer, given who committed what when."""

from itertools import permutations

from harness.checks.families.groups.group_register import Commit, Register

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
