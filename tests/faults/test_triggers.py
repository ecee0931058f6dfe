"""What the `when` of a fault may say."""

import pytest

from faults.triggers import Trigger, parse
from harness.errors import UsageError


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("acks >= 500", Trigger(kind="acks", count=500)),
        ("acks >= +5", Trigger(kind="more_acks", count=5)),
        ("elapsed >= 2.5 s", Trigger(kind="elapsed", after_s=2.5)),
        ("elapsed >= 300 ms", Trigger(kind="elapsed", after_s=0.3)),
        ("restarted", Trigger(kind="restarted")),
        ("request(AlterPartition)", Trigger(kind="request", request="AlterPartition")),
        ("request(Fetch, 3)", Trigger(kind="request", request="Fetch", count=3)),
        ("new_leader(orders/3)", Trigger(kind="new_leader", topic="orders", partition=3)),
        ("no_leader(orders/3)", Trigger(kind="no_leader", topic="orders", partition=3)),
        ("epoch_change(orders/3)", Trigger(kind="epoch_change", topic="orders", partition=3)),
        ("isr(orders/3) <= 1", Trigger(kind="isr_at_most", topic="orders", partition=3, count=1)),
        ("isr(orders/3) >= 2", Trigger(kind="isr_at_least", topic="orders", partition=3, count=2)),
        ("isr_shrinks(orders/3)", Trigger(kind="isr_shrinks", topic="orders", partition=3)),
        ("isr_grows(orders/3)", Trigger(kind="isr_grows", topic="orders", partition=3)),
        ("truncated(orders/3)", Trigger(kind="truncated", topic="orders", partition=3)),
    ],
)
def test_a_trigger_is_read_by_its_form(text: str, meant: Trigger) -> None:
    assert parse(text) == (meant,)


def test_triggers_one_after_the_other_are_read_in_their_order() -> None:
    assert [part.kind for part in parse("elapsed >= 4 s then new_leader(a/0) then acks >= +1")] == [
        "elapsed",
        "new_leader",
        "more_acks",
    ]


@pytest.mark.parametrize(
    "text", ["", "acks > 5", "elapsed >= soon", "new_leader(orders)", "restarted then", "isr(a/0)"]
)
def test_what_is_no_trigger_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(UsageError, match="then acks"):
        parse(text)


def test_a_request_that_is_none_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'AlterPartition'"):
        parse("request(AlterPartitions)")
