"""Finds, before a run begins, what old brokers cannot do, and which clients cannot use them."""

from collections.abc import Iterator

from harness.cluster.brokers.kafka_one_listener import NAMED_LISTENERS_SINCE
from harness.errors import Problem
from harness.scenario.model import Scenario
from harness.scenario.variants import Traits

ANSWER_THEIR_VERSION_SINCE = (0, 10)
_IDEMPOTENCE_SINCE = (0, 11)
_RESOLVE_IN_PYTHON = ("kafka-python", "aiokafka")
_CAN_BE_TOLD_THE_VERSION = ("kafka-python",)


def silent_version(traits: Traits) -> tuple[int, ...]:
    """The version of brokers that cannot be asked for it; empty if they can."""
    return traits.version if traits.version and traits.version < ANSWER_THEIR_VERSION_SINCE else ()


def problems(scenario: Scenario, traits: Traits) -> Iterator[Problem]:
    version, workload, places = traits.version, scenario.workload, scenario.places
    if not version:
        return
    kafka = f"Kafka {'.'.join(str(number) for number in version)}"
    of_client = places.key("workload", "client")
    if workload.workers:
        if version < ANSWER_THEIR_VERSION_SINCE and workload.client not in _CAN_BE_TOLD_THE_VERSION:
            asks = f"client {workload.client!r}: it asks brokers for their version, and {kafka} cannot answer that"
            yield Problem(place=of_client, what=asks, remedy=f"use {' or '.join(_CAN_BE_TOLD_THE_VERSION)}")
        elif version < NAMED_LISTENERS_SINCE and workload.client not in _RESOLVE_IN_PYTHON:
            named = f"client {workload.client!r}: {kafka} advertises itself by names, which this library cannot resolve"
            yield Problem(place=of_client, what=named, remedy=f"use {' or '.join(_RESOLVE_IN_PYTHON)}")
        if version < _IDEMPOTENCE_SINCE and workload.idempotent:
            yield Problem(
                place=places.key("workload", "idempotence"),
                what=f"scenario {scenario.name}: {kafka} has no idempotent producers, 0.11 is the first",
                remedy="--set workload.idempotence=false",
            )
    for number, step in enumerate(scenario.steps, 1):
        if version < NAMED_LISTENERS_SINCE and "read" in step.body and "from" in step.body:
            yield Problem(
                place=places.step(step.line, step.kind),
                what=f"step {number}, {step.said!r}: {kafka} advertises itself by names, and a probe knows only where "
                "they lead for the harness",
                remedy="leave 'from' out",
            )
