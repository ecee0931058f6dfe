"""What brokers of old cannot do, said before a run begins: whom they cannot serve, and who cannot serve them."""

from harness.cluster.brokers.kafka_one_listener import NAMED_LISTENERS_SINCE
from harness.errors import UsageError
from harness.scenario import Scenario
from harness.scenario_variants import Traits

ANSWER_THEIR_VERSION_SINCE = (0, 10)
_IDEMPOTENCE_SINCE = (0, 11)
_RESOLVE_IN_PYTHON = ("kafka-python", "aiokafka")
_CAN_BE_TOLD_THE_VERSION = ("kafka-python",)


def silent_version(traits: Traits) -> tuple[int, ...]:
    """The version of brokers that cannot be asked for it; empty where they can."""
    return traits.version if traits.version and traits.version < ANSWER_THEIR_VERSION_SINCE else ()


def check_age(scenario: Scenario, traits: Traits) -> None:
    """Raises UsageError with the remedy."""
    version, workload = traits.version, scenario.workload
    if not version:
        return
    kafka = f"Kafka {'.'.join(str(number) for number in version)}"
    if workload.name != "none":
        if version < ANSWER_THEIR_VERSION_SINCE and workload.client not in _CAN_BE_TOLD_THE_VERSION:
            raise UsageError(
                f"client {workload.client!r}: it asks brokers for their version, and {kafka} knows no answer; "
                f"use {' or '.join(_CAN_BE_TOLD_THE_VERSION)}"
            )
        if version < NAMED_LISTENERS_SINCE and workload.client not in _RESOLVE_IN_PYTHON:
            raise UsageError(
                f"client {workload.client!r}: {kafka} advertises itself by names, which this library cannot be told; "
                f"use {' or '.join(_RESOLVE_IN_PYTHON)}"
            )
        if version < _IDEMPOTENCE_SINCE and workload.idempotence and workload.acks == "all" and workload.retries != 0:
            raise UsageError(
                f"scenario {scenario.name}: {kafka} has no idempotent producers, 0.11 is the first; "
                "--set workload.idempotence=false"
            )
    for number, step in enumerate(scenario.steps, 1):
        if version < NAMED_LISTENERS_SINCE and "read" in step.body and "from" in step.body:
            raise UsageError(
                f"step {number} (line {step.line}), {step.text!r}: {kafka} advertises itself by names, and a "
                "probe knows only where they lead for the harness; leave 'from' out"
            )
