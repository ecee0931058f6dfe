"""What allows an unclean election reaches the topic, partition, broker and time that it concerns, and nothing else."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from harness.checks.model.settings import SettingsOverTime
from harness.checks.model.unclean_rules import UNCLEAN_KEY, UncleanRules
from harness.history.facts.step_facts import arguments_text
from harness.history.schema.cluster_rows import ConfigurationRow, ControllerRow, FaultRow, StepRow
from harness.scenario.model import FaultSpec, Scenario, StepSpec, TopicSpec
from tests.harness.checks.histories.build import SECOND, scenario
from tests.rows import row_of

MOMENT = 100


def step(
    outcome: str = "ok", *, begin_ns: int = 50, end_ns: int | None = 60, kind: str = "act", **arguments: Any
) -> StepRow:
    fields = {"elect": "unclean", "topic": "orders", "partition": 0} | arguments
    return row_of(
        StepRow,
        step=0,
        kind=kind,
        act="elect",
        begin_ns=begin_ns,
        end_ns=end_ns,
        outcome=outcome,
        step_text="",
        arguments=arguments_text(fields),
    )


def setting(
    value: str, *, time_ns: int = 0, scope: str = "topic", name: str = "orders", node: int = -1
) -> ConfigurationRow:
    return row_of(ConfigurationRow, time_ns=time_ns, scope=scope, name=name, node=node, key=UNCLEAN_KEY, value=value)


def unclean_rules(
    configuration: Sequence[ConfigurationRow],
    steps: Sequence[StepRow],
    plan: Scenario,
    controllers: Sequence[ControllerRow] = (),
    faults: Sequence[FaultRow] = (),
) -> UncleanRules:
    return UncleanRules(SettingsOverTime(configuration, plan), steps, plan, controllers, faults)


def allowed(
    rules: UncleanRules, *, topic: str = "orders", partition: int = 0, begin: int = 55, end: int = 55
) -> bool | None:
    return rules.at(topic, partition, begin=begin, end=end).allowed


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
        (step(begin_ns=200, end_ns=210), False),  # after the election
        (step(begin_ns=10, end_ns=20), False),  # granted and answered before: it asked for another one
        (step(elect="preferred"), False),
        (step(topic=None), None),  # nobody knows of which topic
        (step("timeout", topic=None), None),
        (step("timeout", end_ns=None), None),  # the run ended before the answer
        (step("timeout", begin_ns=10, end_ns=20), None),  # carried out after an answer that got lost
        (step("timeout", begin_ns=10 - 31 * SECOND, end_ns=20 - 31 * SECOND), False),  # not that long after it
    ],
)
def test_a_request_allows_the_election_that_it_asked_for(asked: StepRow, answer: bool | None) -> None:
    assert allowed(unclean_rules([], [asked], scenario())) is answer


def fault(*, asked_ns: int | None = 50, begin_ns: int | None = 60, scheduled: int | None = 0, **more: Any) -> FaultRow:
    fields: dict[str, Any] = {"kind": "unclean-election", "proved": begin_ns is not None, "step": None}
    return row_of(FaultRow, asked_ns=asked_ns, begin_ns=begin_ns, scheduled=scheduled, **{**fields, **more})


@pytest.mark.parametrize(
    ("row", "partition", "answer"),
    [
        (fault(), 2, True),
        (fault(), 0, False),  # the plan names partition 2
        (fault(asked_ns=200, begin_ns=210), 2, False),  # after the election
        (fault(asked_ns=10, begin_ns=20), 2, False),  # over before it
        (fault(begin_ns=None), 2, None),  # no answer: it may have been carried out
        (fault(begin_ns=None, asked_ns=50 - 31 * SECOND), 2, False),  # not that long after it
        (fault(asked_ns=None), 2, False),  # skipped before it was asked for
        (fault(scheduled=None), 2, None),  # of no plan: nobody knows which partition
        (fault(scheduled=None, step=0), 2, True),
        (fault(kind="election"), 2, False),
    ],
)
def test_an_unclean_election_asked_for_as_a_fault_allows_the_one_that_it_asked_for(
    row: FaultRow, partition: int, answer: bool | None
) -> None:
    plan = dataclasses.replace(
        scenario(topics=(TopicSpec(name="orders"),)),
        faults=(FaultSpec(kind="unclean-election", at_s=1.0, options={"partition": 2}),),
        steps=(StepSpec(kind="act", body={"unclean-election": "all", "partition": 2}, within_s=1.0, line=1, text=""),),
    )
    assert allowed(unclean_rules([], [], plan, faults=[row]), partition=partition) is answer


def test_a_step_whose_arguments_are_not_known_allows_nothing() -> None:
    unknown = step() | {"act": None, "arguments": None, "step_text": "elect unclean (topic orders, partition 0)"}
    assert allowed(unclean_rules([], [unknown], scenario())) is False


def test_a_setting_of_another_topic_neither_allows_it_nor_hides_the_scenarios_own() -> None:
    own = scenario(topics=[TopicSpec(name="orders", settings={UNCLEAN_KEY: "true"}), TopicSpec(name="other")])
    rules = unclean_rules([setting("false", name="other")], [], own)
    assert allowed(rules) is True
    assert allowed(rules, topic="other") is False
    assert allowed(unclean_rules([setting("true", name="other")], [], scenario())) is False


def test_an_override_that_was_taken_away_gives_way_to_the_brokers_setting() -> None:
    rows = [setting("true", time_ns=1), setting("", time_ns=20)]
    assert allowed(unclean_rules(rows, [], scenario()), begin=10, end=10) is True
    assert allowed(unclean_rules(rows, [], scenario()), begin=30, end=30) is False
    assert allowed(unclean_rules(rows, [], scenario(settings={UNCLEAN_KEY: "true"})), begin=30, end=30) is True
    planned = scenario(topics=[TopicSpec(name="orders", settings={UNCLEAN_KEY: "true"})])
    assert allowed(unclean_rules(rows, [], planned), begin=30, end=30) is False, (
        "the plan set it, and it was taken away"
    )
    assert allowed(unclean_rules(rows[1:], [], planned), begin=10, end=10) is True, "not yet"


def test_one_brokers_own_setting_counts_where_that_broker_is_controller() -> None:
    rows = [setting("true", scope="broker", name="2", node=2)]
    by_1 = [row_of(ControllerRow, time_ns=0, node=1), row_of(ControllerRow, time_ns=MOMENT, node=2)]
    rules = unclean_rules(rows, [], scenario(), by_1)
    assert allowed(rules) is False
    assert allowed(rules, begin=MOMENT + 1, end=MOMENT + 1) is True
    assert allowed(unclean_rules(rows, [], scenario())) is None, "nobody recorded who was controller"


@pytest.mark.parametrize("node", [None, -1])
def test_what_is_set_for_all_brokers_counts_where_none_has_its_own(node: int | None) -> None:
    common = setting("true", scope="broker", name="", node=-1) | {"node": node}
    assert allowed(unclean_rules([common], [], scenario())) is True
    every = [common, setting("false", scope="broker", name="2", node=2)]
    assert allowed(unclean_rules(every, [], scenario(), [row_of(ControllerRow, time_ns=0, node=2)])) is False
    assert allowed(unclean_rules(every, [], scenario(), [row_of(ControllerRow, time_ns=0, node=1)])) is True


def test_whether_it_was_ever_allowed_of_a_topic_is_asked_of_its_own_requests_and_settings() -> None:
    assert unclean_rules([], [], scenario()).ever("orders") is False
    assert unclean_rules([], [step()], scenario()).ever("orders") is None, "of one of its partitions at least"
    assert unclean_rules([], [step(topic=None)], scenario()).ever("orders") is None
    assert unclean_rules([], [step(topic="other")], scenario()).ever("orders") is False
    assert unclean_rules([], [step("ok", kind="expect", error=37)], scenario()).ever("orders") is False
    for_a_while = [setting("true", time_ns=10), setting("false", time_ns=20)]
    assert unclean_rules(for_a_while, [step()], scenario()).ever("orders") is True
    assert unclean_rules(for_a_while, [], scenario()).ever("other") is False
    assert unclean_rules(for_a_while, [], scenario()).ever("orders") is True


@pytest.mark.parametrize(
    ("before", "after", "answer"),
    [("true", "false", None), ("false", "true", True), ("false", "false", False), ("true", "true", True)],
)
def test_of_an_election_of_uncertain_time_a_setting_that_was_switched_off_meanwhile_decides_nothing(
    before: str, after: str, answer: bool | None
) -> None:
    rules = unclean_rules([setting(before), setting(after, time_ns=MOMENT)], [], scenario())
    assert allowed(rules, begin=MOMENT - 10, end=MOMENT + 10) is answer
    assert allowed(rules, begin=MOMENT + 1, end=MOMENT + 10) is (after == "true")
