"""A zombie's acknowledgement is told in order: the election first, then the end of its pause, then what it said."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from harness.checks.explaining.causes import cause_chain
from harness.checks.model.partition_history import Faults, PartitionHistory, Truncation
from harness.history.schema.cluster_rows import FaultRow
from tests.harness.checks.contract.test_causes import _row, _ruling, _story
from tests.rows import row_of

SECOND = 10**9


def _pause(begin: int, asked: int | None, end: int | None, nodes: Sequence[int] = (1,)) -> FaultRow:
    return row_of(
        FaultRow,
        fault=3,
        kind="pause",
        label_text="pause 1",
        nodes=list(nodes),
        links=[],
        begin_ns=begin,
        asked_ns=begin,
        end_asked_ns=asked,
        end_ns=end,
        proof_text="it stands still",
    )


def _history(*faults: FaultRow) -> PartitionHistory:
    cut = Truncation(node=1, time_ns=100, epoch=1, from_offset=8, to_offset=5, reason="")
    return replace(_story(), faults=Faults(faults), truncations=(cut,))


def events(history: PartitionHistory, *acknowledged_at: int) -> list[tuple[int, str, bool]]:
    chain = cause_chain(history, _ruling(), [_row(t) for t in acknowledged_at], history.truncations)
    return [(link.t_ns, link.event, link.decisive) for link in chain if link.event != "isr-shrink"]


def test_the_resume_stands_between_the_election_and_the_acknowledgement_and_decides() -> None:
    assert events(_history(_pause(50, 85, 88)), 90) == [
        (50, "fault", False),
        (60, "election", False),
        (85, "resume", True),
        (90, "acknowledged", False),
        (100, "truncation", False),
    ]


def test_an_answer_between_the_asking_for_a_resume_and_its_proof_comes_after_it() -> None:
    assert [event for _, event, _ in events(_history(_pause(50, 85, 95)), 90)] == [
        "fault",
        "election",
        "resume",
        "acknowledged",
        "truncation",
    ]


@pytest.mark.parametrize(
    "fault",
    [
        _pause(50, 85, 88, nodes=[2]),  # of another broker
        _pause(50, None, None),  # it never ended
        _pause(50, 91, 95),  # it ended after the answer
        cast(FaultRow, {**_pause(50, 85, 88), "kind": "cut"}),
    ],
)
def test_only_the_end_of_a_pause_of_who_answered_is_a_resume(fault: FaultRow) -> None:
    chain = events(_history(fault), 90)
    assert "resume" not in [event for _, event, _ in chain]
    assert [event for _, event, decisive in chain if decisive] == ["election"]


def test_what_was_acknowledged_before_and_after_the_election_is_told_apart() -> None:
    history = _history(_pause(50, 85, 88))
    chain = cause_chain(history, _ruling(), [_row(45), _row(90)], history.truncations)
    rows = [(link.t_ns, link.count, link.deposed, link.leader) for link in chain if link.event == "acknowledged"]
    assert rows == [(45, 1, False, 1), (90, 1, True, 1)]
    assert [link.event for link in chain if link.decisive] == ["election"]


def test_its_words_say_who_was_deposed_and_by_whom() -> None:
    history = _history(_pause(50, 50 + 6 * SECOND, 50 + 7 * SECOND))
    chain = cause_chain(history, _ruling(), [_row(60 + 7 * SECOND)], history.truncations)
    fields = {link.event: link.sentence for link in chain}
    assert fields["resume"] == (
        "Broker 1 was resumed after a pause of 6.0 s; it did not know yet that broker 2 led in epoch 1."
    )
    assert fields["acknowledged"].endswith(", by a leader that had been deposed already.")
