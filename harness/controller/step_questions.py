"""Expectations about the answer of one named broker: a fetch, the end of an epoch, a default, a refusal.

Client libraries ask the leader, and hide what another broker would answer. These requests go to exactly one broker,
over an address that is never cut. What a request appends to a log is journalled like any other operation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from harness.controller.context import RunContext
from harness.controller.step_conditions import Answer, questions, sentence_of
from harness.errors import HarnessError
from harness.ports.cluster import NodeId, Send, SendOutcome, TopicDefinition, TopicPartition
from harness.scenario.model import StepSpec
from harness.scenario.steps import values_of
from harness.values import seconds

Ask = Callable[[Mapping[str, Any], RunContext], Awaitable[Answer]]
_POLL_S = 0.1
_FETCH_VERSION = 11  # the first version in which a follower answers consumers (KIP-392)
# Errors with which a leader says that it appended nothing; after time-outs (7) and "after append" (20) it is unknown.
_NOT_APPENDED = (3, 6, 9, 19, 21, 56, 74, 75, 87)


async def expect_answer(step: StepSpec, context: RunContext) -> Answer:
    """Asks until the answer is as expected or the time is up; asks again too if the broker does not answer at all."""
    ask = _ASKS[next(iter(step.body))]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + step.within_s
    while True:
        try:
            ok, seen = await ask(step.body, context)
        except (OSError, TimeoutError) as error:
            ok, seen = False, f"no answer: {type(error).__name__} {error}".rstrip()
        if ok or loop.time() >= deadline:
            return ok, seen
        await asyncio.sleep(_POLL_S)


def _partition(body: Mapping[str, Any], context: RunContext) -> TopicPartition:
    topic = context.topic_of(body)
    return TopicPartition(topic=topic, partition=int(body.get("partition", 0)))


def _broker(body: Mapping[str, Any], context: RunContext) -> NodeId:
    """The named broker, or the partition's leader."""
    if "broker" in body:
        return NodeId(int(body["broker"]))
    partition = _partition(body, context)
    leader = context.observer.leader(partition.topic, partition.partition)
    if leader < 0:
        raise HarnessError(f"{partition.topic}-{partition.partition} has no leader that could be asked; name a broker")
    return NodeId(leader)


async def _fetch(body: Mapping[str, Any], context: RunContext) -> Answer:
    fetched = await questions(context).fetch(
        _broker(body, context),
        _partition(body, context),
        int(body["fetch"]),
        epoch=int(body.get("epoch", -1)),
        version=int(body.get("version", _FETCH_VERSION)),
    )
    wanted = values_of(body["values"]) if "values" in body else None
    ok = fetched.error == int(body.get("error", 0)) and (wanted is None or list(fetched.values) == wanted)
    return ok, f"error {fetched.error}" if fetched.error else sentence_of(fetched.values)


async def _epoch_end(body: Mapping[str, Any], context: RunContext) -> Answer:
    broker, partition = _broker(body, context), _partition(body, context)
    seen = {
        int(epoch): await questions(context).epoch_end(broker, partition, int(epoch)) for epoch in body["epoch_end"]
    }
    error = int(body.get("error", 0))
    wanted = {int(epoch): (error, offset) for epoch, offset in body["epoch_end"].items()}
    ok = seen == wanted if not error else all(code == error for code, _ in seen.values())
    answers = (f"error {code}" if code else f"epoch {epoch} ends at {offset}" for epoch, (code, offset) in seen.items())
    return ok, ", ".join(answers)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _config_default(body: Mapping[str, Any], context: RunContext) -> Answer:
    wanted = {key: _text(value) for key, value in body["config_default"].items()}
    broker = NodeId(int(body.get("broker", context.scenario.cluster.brokers[0])))
    seen = await questions(context).config_defaults(broker, list(wanted))
    ok = {key: value or "" for key, value in seen.items()} == wanted
    return ok, ", ".join(f"{key}={value}" for key, value in seen.items())


async def _configure(body: Mapping[str, Any], context: RunContext) -> Answer:
    settings = {key: _text(value) for key, value in body["configure"].items()}
    broker = NodeId(int(body.get("broker", context.scenario.cluster.brokers[0])))
    error = await questions(context).configure_broker(broker, settings)
    return error == int(body.get("error", 0)), f"error {error}"


async def _create_topic(body: Mapping[str, Any], context: RunContext) -> Answer:
    assignment = body.get("assignment")
    topic = TopicDefinition(
        name=str(body["create_topic"]),
        partitions=int(body.get("partitions", 1)),
        replication_factor=int(body.get("replication_factor", 1)),
        assignment=tuple(tuple(replicas) for replicas in assignment) if assignment is not None else None,
    )
    error = await questions(context).create_topic(topic)
    return error == int(body.get("error", 0)), f"error {error}"


_ASKS: Mapping[str, Ask] = {
    "fetch": _fetch,
    "epoch_end": _epoch_end,
    "config_default": _config_default,
    "configure": _configure,
    "create_topic": _create_topic,
}
ASKED = frozenset(_ASKS)


async def expect_produce_to(body: Mapping[str, Any], context: RunContext) -> Answer:
    """Sends one request with all values to one broker, leader or not; only once, since the broker may append them."""
    broker, partition = NodeId(int(body["to"])), _partition(body, context)
    acks, timeout_s = str(body.get("acks", "all")), seconds(body.get("timeout", "5 s"))
    answers: list[tuple[int | None, str]] = []

    async def ask(records: Sequence[Send]) -> Sequence[SendOutcome]:
        brokers = questions(context)
        offset = -1
        try:
            code, offset = await brokers.produce(broker, records, acks=acks, timeout_s=timeout_s)
            answers.append((code, f"offset {offset}" if code == 0 else f"error {code}"))
        except ConnectionError:
            answers.append((None, "the broker closed the connection"))
        except TimeoutError:
            answers.append((None, "no answer"))
        code_seen, words = answers[0]
        status = "ok" if code_seen == 0 else "fail" if code_seen in _NOT_APPENDED else "info"
        now = context.clock.monotonic_ns()
        return [
            SendOutcome(
                status=status,  # type: ignore[arg-type]
                offset=offset + number if code_seen == 0 else None,
                error=None if code_seen == 0 else words,
                code=code_seen,
                end_ns=now,
            )
            for number in range(len(records))
        ]

    await context.probes.produce_by(ask, partition.topic, partition.partition, values_of(body["produce"]), acks=acks)
    code, words = answers[0]
    if "closed" in body:
        return (words == "the broker closed the connection") == bool(body["closed"]), words
    return code == int(body.get("error", 0)), words
