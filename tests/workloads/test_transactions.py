"""transactions: input, output and offsets in one transaction, which is aborted, lost or left open now and then."""

from typing import Any

import pytest

from harness.ports.clients import ClientUse
from tests.outputs import decode_output
from tests.workloads.members import BATCH, ORDERS, RESULTS, Script, in_transactions
from workloads.produce_and_poll import ProduceAndPoll
from workloads.transactions import ON_PURPOSE


async def process(script: Script, **changes: Any) -> None:
    workload = in_transactions(**changes).make_worker(role="processor", place=0, places=1, partitions=[ORDERS, RESULTS])
    await script.act(workload)


def inputs_of(script: Script) -> list[int]:
    """The input offsets that outputs were named after, in the order in which they were sent."""
    found = [decode_output(record.value.decode()) for _, record in script.notes.sent]
    assert all(each is not None and each[:2] == ("orders", 0) for each in found)
    return [each[2] for each in found if each is not None]


async def test_a_transaction_has_its_input_its_output_and_its_offsets() -> None:
    script = Script(polls=2)

    await process(script)

    assert script.notes.story[:8] == [
        "subscribe",
        "begin 1",
        *("poll in 1", "assigned", "read 3", "fetched", "send in 1", "committed in 1"),
    ]
    assert [end.outcome for end in script.notes.ends] == ["committed", "committed"]
    assert inputs_of(script) == list(range(2 * BATCH))
    assert {record.topic for _, record in script.notes.sent} == {"results"}
    assert script.uses == [
        ClientUse(
            role="both",
            group="readers",
            transactional_id="readers-1",
            isolation="read_committed",
            offset_reset="earliest",
        )
    ]


async def test_an_aborted_transaction_is_done_again_from_where_it_began_under_other_values() -> None:
    script = Script(polls=3)

    await process(script, abort_share=1.0)

    assert [end.error for end in script.notes.ends] == [ON_PURPOSE] * 3
    assert inputs_of(script) == [*range(BATCH)] * 3
    assert len({record.value for _, record in script.notes.sent}) == 3 * BATCH
    assert script.stored is None
    assert len(script.members) == 1


@pytest.mark.parametrize(
    ("what", "outcomes"),
    [
        ("send", ["aborted", "committed"]),
        ("offsets", ["aborted", "committed"]),
        ("end", ["unknown", "committed"]),
        ("begin", ["never_begun", "committed"]),
    ],
)
async def test_a_client_whose_transaction_went_wrong_is_replaced_under_the_same_transactional_id(
    what: str, outcomes: list[str]
) -> None:
    script = Script(polls=2 if what != "begin" else 1, fails=lambda asked, number: asked == what and number == 1)

    await process(script)

    assert [end.outcome for end in script.notes.ends][:2] == outcomes
    assert len(script.members) == 2
    assert len({use.transactional_id for use in script.uses if use is not None}) == 1


async def test_a_transaction_in_which_nothing_was_read_was_never_begun_at_a_broker() -> None:
    script = Script(polls=2, fails=lambda asked, number: asked == "poll" and number == 2)

    await process(script)

    assert [(end.outcome, end.error) for end in script.notes.ends] == [("committed", None), ("never_begun", None)]


async def test_a_processor_that_crashes_leaves_a_transaction_open() -> None:
    script = Script(polls=200)

    await process(script, stay_s=0.001, crash_share=1.0)

    begun = [line for line in script.notes.story if line.startswith("begin")]
    assert script.notes.story.count("crash") > 0
    assert len(begun) - len(script.notes.ends) == script.notes.story.count("crash")
    before = script.notes.story[script.notes.story.index("crash") - 1]
    assert before.startswith("send in")


@pytest.mark.parametrize(
    ("places", "isolations"),
    [(1, ["read_committed"]), (3, ["read_committed", "read_committed", "read_uncommitted"])],
)
def test_the_last_of_several_consumers_reads_what_is_uncommitted_too(places: int, isolations: list[str]) -> None:
    made = [
        in_transactions().make_worker(role="consumer", place=place, places=places, partitions=[ORDERS, RESULTS])
        for place in range(places)
    ]

    assert all(isinstance(each, ProduceAndPoll) for each in made)
    assert [each._use.isolation for each in made] == isolations  # type: ignore[attr-defined]
    assert [each._partitions for each in made] == [(RESULTS,)] * places  # type: ignore[attr-defined]


def test_producers_write_to_the_input_only() -> None:
    made = in_transactions().make_worker(role="producer", place=0, places=1, partitions=[ORDERS, RESULTS])

    assert made._partitions == (ORDERS,)  # type: ignore[attr-defined]
