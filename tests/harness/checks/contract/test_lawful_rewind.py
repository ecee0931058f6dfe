"""Which election may have moved a log's end back, so that a later record lawfully got a lower offset."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.checks.contract.rewind import lawful_rewind
from harness.checks.contract.rulings import CauseCode
from harness.checks.explaining.rewinds import Rewinds, under_a_reader
from harness.checks.model.elections import NOWHERE, Election
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.model.settings import SettingsOverTime
from harness.checks.model.unclean_rules import Permission, UncleanRules
from harness.checks.spark.detection import Flagged
from harness.history.schema.cluster_rows import PartitionStateRow
from tests.rows import row_of

BY_DEFAULT = UncleanRules(SettingsOverTime(), [], None).at("t", 0, begin=0, end=0)

OFFSET = 5


def election(epoch: int, leader: int, *, start: int, leader_before: int = -1) -> Election:
    return Election(
        time_ns=epoch,
        uncertainty_ns=0,
        epoch=epoch,
        leader=leader,
        leader_before=leader_before,
        unclean=False,
        isr=(1, 2),
        isr_before=(1, 2),
        elr_before=(),
        start=start,
        start_from=NOWHERE,
        permission=BY_DEFAULT,
    )


def story(*elections: Election) -> PartitionHistory:
    states = tuple(
        row_of(
            PartitionStateRow,
            time_ns=each.time_ns,
            leader=each.leader,
            leader_epoch=each.epoch,
            isr=[1, 2],
            elr=None,
            exact=True,
        )
        for each in elections
    )
    return PartitionHistory(
        run=0,
        partition_id=0,
        topic="orders",
        partition=0,
        replicas=(1, 2),
        read_to_end=True,
        end_offset=9,
        states=states,
        elections=elections,
    )


FIRST = election(0, 1, start=0)


def test_the_first_leader_rewound_nothing_however_low_its_log_began() -> None:
    for strict in (False, True):
        assert lawful_rewind(story(FIRST), offset=OFFSET, epoch=0, time_ns=9, strict=strict) is None


def test_a_fail_over_to_a_shorter_log_explains_what_acks_1_left_and_nothing_that_was_committed() -> None:
    second = election(1, 2, start=3, leader_before=1)
    assert lawful_rewind(story(FIRST, second), offset=OFFSET, epoch=1, time_ns=9, strict=False) == second
    assert lawful_rewind(story(FIRST, second), offset=OFFSET, epoch=1, time_ns=9, strict=True) is None


def test_a_fail_over_to_a_log_that_went_on_beyond_the_offset_explains_nothing() -> None:
    second = election(1, 2, start=OFFSET + 1, leader_before=1)
    assert lawful_rewind(story(FIRST, second), offset=OFFSET, epoch=1, time_ns=9, strict=False) is None


def test_of_a_record_that_came_before_an_election_it_explains_nothing() -> None:
    second = election(1, 2, start=3, leader_before=1)
    partition_history = story(FIRST, replace(second, time_ns=20))
    assert lawful_rewind(partition_history, offset=OFFSET, epoch=None, time_ns=9, strict=False) is None
    assert lawful_rewind(partition_history, offset=OFFSET, epoch=None, time_ns=None, strict=False) is not None, (
        "nobody knows when"
    )


def flagged(offset: int, *flags: str, invoked_ns: int, value: int = 0) -> Flagged:
    return Flagged(
        run=0,
        partition_id=0,
        value=value,
        offset=offset,
        status=0,
        acks=-1,
        acknowledged=offset,
        process=1,
        operation=value,
        invoked_ns=invoked_ns,
        completed_ns=invoked_ns + 1,
        seen=0,
        seen_any=0,
        final_offsets=0,
        read_epoch=None,
        read_first=None,
        read_last=None,
        step=None,
        flags=frozenset(flags),
        held=frozenset(),
        held_at_end=frozenset(),
        copies=frozenset(),
        others=frozenset(),
        below_acks_all=True,
    )


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({}, None),
        ({OFFSET + 2: "permitted"}, "permitted"),
        ({OFFSET: "permitted"}, "permitted"),  # its own place, too, was another's
        ({OFFSET - 1: "permitted"}, None),  # what lay below it moved no end to below it
        ({OFFSET + 2: "permitted", OFFSET - 1: "violation"}, "permitted"),
        ({OFFSET + 2: "permitted", OFFSET + 1: "violation"}, None),
        ({OFFSET + 2: "permitted", OFFSET + 1: "observation"}, "observation"),
        ({OFFSET + 2: "permitted", OFFSET - 1: "observation"}, "permitted"),
    ],
)
def test_losses_at_or_above_an_offset_tell_whether_the_end_moved_lawfully(
    losses: dict[int, str], expected: str | None
) -> None:
    rows = [flagged(offset, "lost", invoked_ns=1, value=offset) for offset in losses]
    rulings = {
        offset: SimpleNamespace(classification=each, undecided=None, cause="unclean-election")
        for offset, each in losses.items()
    }
    context = SimpleNamespace(flagged=rows, ruling=lambda _, row: rulings[row.offset])
    late = flagged(OFFSET, "regression", invoked_ns=9, value=99)
    found = Rewinds(context).of(story(FIRST), late)  # type: ignore[arg-type]
    assert (found.classification if found else None) == expected


def test_a_loss_that_was_acknowledged_only_after_the_record_was_sent_explains_nothing() -> None:
    row = flagged(OFFSET + 2, "lost", invoked_ns=20)
    lost = SimpleNamespace(classification="permitted", undecided=None, cause="unclean-election")
    context = SimpleNamespace(flagged=[row], ruling=lambda _, __: lost)
    late = flagged(OFFSET, "regression", invoked_ns=9, value=99)
    assert Rewinds(context).of(story(FIRST), late) is None  # type: ignore[arg-type]
    at_once = flagged(OFFSET, "regression", invoked_ns=21, value=99)
    assert Rewinds(context).of(story(FIRST), at_once) is None  # type: ignore[arg-type]
    later = flagged(OFFSET, "regression", invoked_ns=30, value=99)
    assert Rewinds(context).of(story(FIRST), later) is not None  # type: ignore[arg-type]


def polled(*elections: Election, epochs: bool = True, unclean: bool | None = False) -> PartitionHistory:
    whole = story(*elections)
    states = [
        row_of(PartitionStateRow, **{**row, "exact": False} | ({} if epochs else {"leader_epoch": -1}))
        for row in whole.states
    ]
    return replace(whole, states=tuple(states), exact=False, unclean_ever=unclean)


SECOND = election(1, 2, start=OFFSET + 4, leader_before=1)
AFTERWARDS = election(20, 2, start=OFFSET + 4, leader_before=1)


@pytest.mark.parametrize(
    ("history", "strict", "in_doubt"),
    [
        (story(FIRST, SECOND), False, False),  # the books tell every election
        (polled(FIRST, epochs=False), False, True),
        (polled(epochs=False), False, True),
        (polled(FIRST, epochs=False), True, False),
        (polled(FIRST, epochs=False, unclean=True), True, True),
        (polled(FIRST, epochs=False, unclean=None), True, True),
        (polled(FIRST), False, False),  # one leader all the time
        (polled(FIRST, AFTERWARDS), False, False),
        (polled(FIRST, SECOND), False, True),
        (polled(FIRST, SECOND), True, False),
    ],
)
def test_a_rewind_that_may_have_been_lawful_and_unseen_is_a_doubt(
    history: PartitionHistory, strict: bool, in_doubt: bool
) -> None:
    context = SimpleNamespace(flagged=[], ruling=None)
    late = replace(flagged(OFFSET, "regression", invoked_ns=9, value=99), below_acks_all=strict)
    found = Rewinds(context).unseen(history, late)  # type: ignore[arg-type]
    assert (found is not None) == in_doubt
    assert found is None or (found.classification, found.open_question) == ("observation", True)
    kept = replace(late, above_kept=True)
    assert Rewinds(context).unseen(history, kept) is None  # type: ignore[arg-type]


def test_what_may_be_unseen_excuses_no_rewind_below_a_violation() -> None:
    above = flagged(OFFSET + 2, "lost", invoked_ns=1)
    ruling = SimpleNamespace(classification="violation", undecided=None, cause="clean-election")
    context = SimpleNamespace(flagged=[above], ruling=lambda _, __: ruling)
    late = replace(flagged(OFFSET, "regression", invoked_ns=9, value=99), below_acks_all=False)
    assert Rewinds(context).unseen(polled(FIRST, SECOND), late) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (story(FIRST, SECOND), "violation"),  # every election is known, and none was unclean
        (polled(FIRST, epochs=False), "violation"),  # nothing permits unclean elections
        (polled(FIRST, epochs=False, unclean=True), "observation"),
        (polled(FIRST, epochs=False, unclean=None), "observation"),
        (polled(FIRST), "violation"),
    ],
)
def test_what_a_reader_met_is_in_doubt_where_a_lawful_rewind_may_have_been_unseen(
    history: PartitionHistory, expected: str
) -> None:
    code: CauseCode = "rewound-under-the-consumer"
    found = under_a_reader(history, offset=OFFSET, epoch=None, time_ns=9, since_ns=0, code=code)
    assert (found.classification, found.open_question) == (expected, expected == "observation")


@pytest.mark.parametrize(("time_ns", "expected"), [(2, "violation"), (5, "observation"), (9, "violation")])
def test_an_unseen_rewind_under_a_reader_lies_between_its_two_polls(time_ns: int, expected: str) -> None:
    maybe = replace(SECOND, time_ns=time_ns, permission=Permission(allowed=None, source="operator-perhaps"))
    found = under_a_reader(
        polled(FIRST, maybe), offset=OFFSET, epoch=None, time_ns=7, since_ns=3, code="rewound-under-the-consumer"
    )
    assert found.classification == expected
