"""Ordered steps: act, wait, expect, one after the other. A wait that times out makes the run inconclusive and ends the
plan; an expectation that fails is recorded as failed, becomes a finding, and the plan goes on."""

import asyncio
from collections.abc import Mapping
from typing import Any

from harness.controller.context import PlanResult, RunContext
from harness.controller.probes import ProbeRead
from harness.controller.step_acts import Acts, elect, produce
from harness.controller.step_conditions import Answer, Condition, disks, holds, sentence_of
from harness.controller.step_questions import ASKED, expect_answer, expect_produce_to
from harness.errors import HarnessError
from harness.ports.capabilities import TakesItsTime
from harness.ports.cluster import ClientId, NodeId
from harness.scenario.model import Scenario, StepSpec
from harness.scenario.steps import values_of
from harness.values import seconds


class OrderedSteps:
    """The plan of a scenario with [[steps]]."""

    def __init__(self, *, scenario: Scenario) -> None:
        self._scenario = scenario

    async def run(self, context: RunContext) -> PlanResult:
        acts = Acts(context)
        try:
            for number, step in enumerate(self._scenario.steps):
                reason = await self._one(context, acts, number, step)
                if reason is not None:
                    sentence = f"step {number + 1} (line {step.line}): {reason}"
                    return PlanResult(inconclusive=(sentence,), ended_at=number)
            return PlanResult(inconclusive=tuple(await acts.finish()))
        finally:
            await acts.cancel()

    async def _one(self, context: RunContext, acts: Acts, number: int, step: StepSpec) -> str | None:
        """Why the plan cannot go on, or None."""
        recorder, cluster = context.recorder, context.cluster
        within_s = max(step.within_s, cluster.longest_act_s if isinstance(cluster, TakesItsTime) else 0.0)
        recorder.step_began(number, kind=step.kind, act=next(iter(step.body)), text=step.text, arguments=step.body)
        try:
            if step.kind == "act":
                async with asyncio.timeout(within_s):
                    seen = await acts.perform(step, number)
                recorder.step_ended(number, outcome="ok", seen=seen)
                return None
            if step.kind == "wait":
                ok, seen = await holds(Condition(step.body, context), within_s=step.within_s, throughout_s=_span(step))
                recorder.step_ended(number, outcome="ok" if ok else "timeout", seen=seen)
                return None if ok else f"{step.wording}: not within {step.within_s:g} s; last seen: {seen}"
            ok, seen = await _expect(step, context)
            recorder.step_ended(number, outcome="ok" if ok else "failed", seen=seen)
            return None
        except TimeoutError:
            recorder.step_ended(number, outcome="timeout", seen=f"not done within {within_s:g} s")
            return f"{step.wording}: not done within {within_s:g} s"
        except HarnessError as error:
            recorder.step_ended(number, outcome="timeout", seen=str(error))
            return str(error)


def _span(step: StepSpec) -> float:
    return seconds(step.body.get("throughout", 0))


async def _expect(step: StepSpec, context: RunContext) -> Answer:
    name = next(iter(step.body))
    if name == "produce" and "to" in step.body:
        return await expect_produce_to(step.body, context)
    if name in ASKED:
        return await expect_answer(step, context)
    if name == "produce":
        return await _expect_produce(step.body, context)
    if name == "read":
        return await _expect_read(step, context)
    if name == "elect":
        error = await elect(context, step.body)
        return error == step.body.get("error", 0), f"error {error}"
    return await holds(Condition(step.body, context), within_s=step.within_s, throughout_s=_span(step))


async def _expect_produce(body: Mapping[str, Any], context: RunContext) -> Answer:
    """Every record is answered with the stated error (0: acknowledged), and the named logs did not grow."""
    topic = context.topic_of(body)
    partition = int(body.get("partition", 0))
    still = body.get("log_end_unchanged_on")

    async def log_end() -> int | None:
        if still is None:
            return None
        return await asyncio.to_thread(disks(context).log_end, NodeId(int(still)), topic, partition)

    before = await log_end()
    outcomes = await produce(context, body)
    after = await log_end()
    wanted = int(body.get("error", 0))
    codes = [0 if outcome.status == "ok" else outcome.code for outcome in outcomes]
    seen = ", ".join(
        f"offset {outcome.offset}" if outcome.status == "ok" else f"{outcome.status}: {outcome.error}"
        for outcome in outcomes[:3]
    )
    if still is not None:
        seen += f"; log end of broker {still} {before} before, {after} after"
    return all(code == wanted for code in codes) and before == after, seen


async def _expect_read(step: StepSpec, context: RunContext) -> Answer:
    """Exactly these values, in this order, are readable from the beginning; reads again until the time is up."""
    body = step.body
    topic = context.topic_of(body)
    wanted = values_of(body["read"])
    link = ClientId(int(body["from"])) if "from" in body else None
    loop = asyncio.get_running_loop()
    deadline = loop.time() + step.within_s
    while True:
        read = await context.probes.read(topic, int(body.get("partition", 0)), timeout_s=4.0, link=link)
        if read.texts == wanted and _to_its_end(read):
            return True, f"read {sentence_of(wanted)}"
        if loop.time() >= deadline:
            why = f" ({read.error})" if read.error is not None else ""
            return False, f"read {sentence_of(read.texts)} instead of {sentence_of(wanted)}{why}"
        await asyncio.sleep(0.2)


def _to_its_end(read: ProbeRead) -> bool:
    """Whether the read reached the end. Without an end offset (a frozen high watermark) silence after a record counts;

    a read without any record then proves nothing: perhaps no broker answered.
    """
    return read.reached_end if read.end_offset is not None else bool(read.records)
