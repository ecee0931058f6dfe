"""What allows an unclean election reaches the topic, partition, broker and time that it concerns, and nothing else."""

from typing import Any

import pytest

from harness.checks.unclean_rules import UNCLEAN_KEY, UncleanRules
from harness.history.step_facts import arguments_text
from harness.scenario import TopicSpec
from tests.harness.checks.build import scenario

MOMENT = 100


def step(outcome: str = "ok", *, t0: int = 50, t1: int = 60, kind: str = "act", **arguments: Any) -> dict[str, Any]:
    told = {"elect": "unclean", "topic": "orders", "partition": 0} | arguments
    return {"kind": kind, "t0": t0, "t1": t1, "outcome": outcome, "text": "", "arguments": arguments_text(told)}


def setting(value: str, *, t: int = 0, scope: str = "topic", name: str = "orders", node: int = -1) -> dict[str, Any]:
    return {"t": t, "scope": scope, "name": name, "node": node, "key": UNCLEAN_KEY, "value": value}


def allowed(
    rules: UncleanRules, *, topic: str = "orders", part: int = 0, begin: int = 55, end: int = 55
) -> bool | None:
    return rules.at(topic, part, begin=begin, end=end).allowed


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (step(), True),
        (step(kind="expect"), True),
        (step(partition=1), False),
        (step(topic="other"), False),
        (step("failed", kind="expect", error=37), None),  # it was not answered as it should have been
        (step("ok", kind="expect", error=37), False),  # refused, as expected
        (step("timeout"), None),  # nobody knows whether it was granted
        (step(t0=200, t1=210), False),  # after the election
        (step(t0=10, t1=20), False),  # granted and answered before: it asked for another one
        (step(elect="preferred"), False),
    ],
)
def test_a_request_allows_the_election_that_it_asked_for(asked: dict[str, Any], answer: bool | None) -> None:
    assert allowed(UncleanRules([], [asked], scenario())) is answer


def test_a_request_of_before_its_arguments_were_stored_is_read_from_its_words() -> None:
    words = {"kind": "act", "t0": 50, "t1": 60, "outcome": "ok", "arguments": None}
    of_another = words | {"text": "elect unclean (topic other)"}
    assert allowed(UncleanRules([], [of_another], scenario())) is False
    of_this = words | {"text": "elect unclean (topic orders, partition 0)"}
    assert allowed(UncleanRules([], [of_this], scenario())) is True


def test_a_setting_of_another_topic_neither_allows_it_nor_hides_the_scenarios_own() -> None:
    own = scenario(topics=[TopicSpec(name="orders", settings={UNCLEAN_KEY: "true"}), TopicSpec(name="other")])
    rules = UncleanRules([setting("false", name="other")], [], own)
    assert allowed(rules) is True
    assert allowed(rules, topic="other") is False
    assert allowed(UncleanRules([setting("true", name="other")], [], scenario())) is False


def test_an_override_that_was_taken_away_gives_way_to_the_brokers_setting() -> None:
    rows = [setting("true", t=1), setting("", t=20)]
    assert allowed(UncleanRules(rows, [], scenario()), begin=10, end=10) is True
    assert allowed(UncleanRules(rows, [], scenario()), begin=30, end=30) is False
    assert allowed(UncleanRules(rows, [], scenario(settings={UNCLEAN_KEY: "true"})), begin=30, end=30) is True


def test_one_brokers_own_setting_counts_where_that_broker_is_controller() -> None:
    rows = [setting("true", scope="broker", name="2", node=2)]
    by_1 = [{"t": 0, "node": 1}, {"t": MOMENT, "node": 2}]
    rules = UncleanRules(rows, [], scenario(), by_1)
    assert allowed(rules) is False
    assert allowed(rules, begin=MOMENT + 1, end=MOMENT + 1) is True
    assert allowed(UncleanRules(rows, [], scenario())) is None, "nobody recorded who was controller"
