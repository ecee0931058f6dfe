"""The conditions of `wait` and `expect`: each returns whether it holds, and what was seen.

Leaders and ISRs come from the observer; log ends and high watermarks from the replicas' own files, since a broker that
is cut off or dead answers no request.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from harness.controller.context import RunContext
from harness.errors import HarnessError
from harness.ports.capabilities import AnswersQuestions, Questions
from harness.ports.cluster import CanCrash, NodeId, ShowsLogs
from harness.scenario.steps import CONDITIONS
from harness.values import seconds

_FROM_BROKERS = ("isr", "isr_order", "leader", "leader_epoch", "leaders", "recovered")
Answer = tuple[bool, str]
Question = Callable[[], Awaitable[Answer]]


class Condition:
    """One condition of a step, tested repeatedly; "+50" acks counts from the step's begin."""

    def __init__(self, body: Mapping[str, Any], context: RunContext) -> None:
        self.name, self.wanted = next(iter(body.items()))
        self._context = context
        of_topic = "topic" in CONDITIONS.get(self.name, ("topic",))
        self._topic = context.topic_of(body) if of_topic else ""
        self._partition = int(body.get("partition", 0))
        self._base_acks = context.acks.ok
        self._began = asyncio.get_running_loop().time()
        self._question = self._questions()[self.name]

    def _questions(self) -> Mapping[str, Question]:
        """Every word of CONDITIONS (harness/scenario/steps.py), and `epoch_file`, which only `expect` may use."""
        return {
            "isr": self._isr,
            "isr_order": self._isr_order,
            "leader": self._leader,
            "leader_epoch": self._leader_epoch,
            "leaders": self._leaders,
            "leaders_each": self._leaders_each,
            "leader_seen_by": self._leader_seen_by,
            "agreed": self._agreed,
            "registered": self._registered,
            "controller": self._controller,
            "controller_epoch": self._controller_epoch,
            "acks": self._acks,
            "elapsed": self._elapsed,
            "recovered": self._recovered,
            "log_end": self._log_end,
            "high_watermark": self._high_watermark,
            "epoch_file": self._epoch_file,
        }

    async def ask(self) -> Answer:
        if self.name in _FROM_BROKERS and self._context.observer.nobody_answers:
            return False, "no broker answers"
        return await self._question()

    # -- roles, from the observer -----------------------------------------------------------------------------------

    async def _isr(self) -> Answer:
        seen = self._context.observer.isr(self._topic, self._partition)
        return sorted(seen) == sorted(self.wanted), f"ISR {list(seen)}"

    async def _isr_order(self) -> Answer:
        seen = self._context.observer.isr(self._topic, self._partition)
        return list(seen) == list(self.wanted), f"ISR {list(seen)}"

    async def _leader(self) -> Answer:
        state = self._context.observer.state(self._topic, self._partition)
        seen = state.leader if state is not None else None
        return seen == self.wanted, f"leader {seen}"

    async def _leader_epoch(self) -> Answer:
        state = self._context.observer.state(self._topic, self._partition)
        seen = state.leader_epoch if state is not None else None
        return seen == self.wanted, f"leader epoch {seen}"

    async def _leaders(self) -> Answer:
        seen = [self._context.observer.leader(self._topic, number) for number in range(len(self.wanted))]
        return seen == list(self.wanted), f"leaders {seen}"

    async def _leaders_each(self) -> Answer:
        counts = Counter(state.leader for state in self._context.observer.states() if state.topic == self._topic)
        seen = {int(node): counts[int(node)] for node in self.wanted}
        wanted = {int(node): count for node, count in self.wanted.items()}
        return seen == wanted, ", ".join(f"broker {node} leads {count}" for node, count in seen.items())

    async def _leader_seen_by(self) -> Answer:
        views = {
            int(node): self._context.observer.view_of(int(node), self._topic, self._partition) for node in self.wanted
        }
        seen = {node: view.leader if view is not None else None for node, view in views.items()}
        wanted = {int(node): leader for node, leader in self.wanted.items()}
        return seen == wanted, ", ".join(f"broker {node} says {leader}" for node, leader in seen.items())

    async def _agreed(self) -> Answer:
        """Every running broker reports the same leader, epoch and ISR for every partition."""
        odd = []
        for state in self._context.observer.states():
            views = {
                node: self._context.observer.view_of(node, state.topic, state.partition)
                for node in _running(self._context)
            }
            reported = {
                node: (view.leader, view.leader_epoch, sorted(view.isr)) if view else None
                for node, view in views.items()
            }
            if len({str(each) for each in reported.values()}) > 1:
                odd.append(f"{state.topic}-{state.partition}: {reported}")
        agree = not odd and bool(self._context.observer.states())
        return agree == bool(self.wanted), "; ".join(odd[:3]) or "every broker reports the same"

    async def _registered(self) -> Answer:
        try:
            seen = list(await questions(self._context).registered())
        except (OSError, TimeoutError):
            seen = []
        return seen == sorted(self.wanted), f"registered {seen}"

    async def _controller(self) -> Answer:
        seen = self._context.observer.controller
        return seen == self.wanted, f"controller {seen}"

    async def _controller_epoch(self) -> Answer:
        history = await asyncio.to_thread(self._context.cluster.collect)
        epochs = [state.controller_epoch for state in history.controllers if state.controller_epoch is not None]
        seen = max(epochs, default=0)
        return seen == self.wanted, f"controller epoch {seen}"

    # -- the load ---------------------------------------------------------------------------------------------------

    async def _acks(self) -> Answer:
        text = str(self.wanted)
        target = self._base_acks + int(text[1:]) if text.startswith("+") else int(text)
        seen = self._context.acks.ok
        return seen >= target, f"{seen} records acknowledged of {target} awaited"

    async def _elapsed(self) -> Answer:
        passed_s = asyncio.get_running_loop().time() - self._began
        return passed_s >= seconds(self.wanted), f"{passed_s:.1f} s passed"

    async def _recovered(self) -> Answer:
        missing = unrecovered(self._context)
        return not missing, "; ".join(missing[:5]) or "every partition has a leader and its full ISR"

    # -- the replicas' files ----------------------------------------------------------------------------------------

    async def _log_end(self) -> Answer:
        return await self._by_node(disks(self._context).log_end, "log end")

    async def _high_watermark(self) -> Answer:
        return await self._by_node(disks(self._context).high_watermark, "checkpointed high watermark")

    async def _by_node(self, read: Callable[[NodeId, str, int], int | None], name: str) -> Answer:
        seen = {
            int(node): await asyncio.to_thread(read, NodeId(int(node)), self._topic, self._partition)
            for node in self.wanted
        }
        wanted = {int(node): offset for node, offset in self.wanted.items()}
        return seen == wanted, ", ".join(f"{name} {offset} on broker {node}" for node, offset in seen.items())

    async def _epoch_file(self) -> Answer:
        seen: dict[int, list[list[int]]] = {}
        for node in self.wanted:
            logs = await asyncio.to_thread(disks(self._context).read_replicas, NodeId(int(node)))
            seen[int(node)] = [
                list(entry)
                for log in logs
                if (log.topic, log.partition) == (self._topic, self._partition)
                for entry in log.epochs
            ]
        wanted = {int(node): [list(entry) for entry in entries] for node, entries in self.wanted.items()}
        return seen == wanted, ", ".join(f"epochs {entries} on broker {node}" for node, entries in seen.items())


def disks(context: RunContext) -> ShowsLogs:
    if not isinstance(context.cluster, ShowsLogs):
        raise HarnessError("this cluster does not show its disks: log ends and epoch files cannot be read")
    return context.cluster


def questions(context: RunContext) -> Questions:
    if not isinstance(context.cluster, AnswersQuestions):
        raise HarnessError("this cluster's brokers cannot be asked one by one")
    return context.cluster.questions()


def _running(context: RunContext) -> list[int]:
    cluster = context.cluster
    nodes = [int(node.node) for node in cluster.nodes if node.role == "broker"]
    return [node for node in nodes if not isinstance(cluster, CanCrash) or cluster.is_running(NodeId(node))]


def unrecovered(context: RunContext) -> list[str]:
    """Partitions without a leader, or whose ISR lacks a replica on a running broker; one sentence each."""
    cluster = context.cluster
    missing = []
    for state in context.observer.states():
        name = f"{state.topic}-{state.partition}"
        running = [
            node for node in state.replicas if not isinstance(cluster, CanCrash) or cluster.is_running(NodeId(node))
        ]
        absent = [node for node in running if node not in state.isr]
        if state.leader < 0:
            missing.append(f"{name} has no leader")
        elif absent:
            missing.append(f"{name}: {absent} not in the ISR {list(state.isr)}")
    return missing


async def holds(condition: Condition, *, within_s: float, throughout_s: float) -> Answer:
    """Whether the condition held within `within_s` seconds, and then for `throughout_s` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    ok, seen = await condition.ask()
    while not ok and loop.time() < deadline:
        await _soon(condition)
        ok, seen = await condition.ask()
    until = loop.time() + throughout_s
    while ok and loop.time() < until:
        await _soon(condition)
        ok, seen = await condition.ask()
        if not ok:
            seen += f", {until - loop.time():.1f} s before the end of the {throughout_s:g} s it had to hold"
    return ok, seen


async def _soon(condition: Condition) -> None:
    # A tenth of a second, or less for acknowledgements: plans act within a fetch round trip of an ack.
    await asyncio.sleep(0.01 if condition.name == "acks" else 0.1)


def sentence_of(values: Sequence[str]) -> str:
    """Values for people: their number, and at most eight of them."""
    shown = ", ".join(values[:8])
    return f"{len(values)} values ({shown}{', …' if len(values) > 8 else ''})" if values else "no value"
