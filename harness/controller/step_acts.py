"""The acts of an ordered plan: kill, start, pause, cut, heal, produce, configure, elect. Each returns what was seen."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol, cast

from harness.controller import topic_acts
from harness.controller.context import RunContext
from harness.controller.disturbance import broker_ids, called
from harness.controller.in_force import Deed, FaultInForce, FaultsInForce
from harness.durations import seconds
from harness.errors import HarnessError
from harness.harms import CanDamageDisks, CanFillDisks, CanImpairPackets, Impairment
from harness.interfaces import (
    CanCrash,
    CanCutLinks,
    CanLosePower,
    CanPause,
    CanReconfigure,
    CanSlowLinks,
    CanStop,
    CanWipe,
    Evidence,
    Link,
    NodeId,
    SendOutcome,
)
from harness.percentages import percent
from harness.scenario import StepSpec
from harness.scenario_steps import values_of

Act = Callable[[Mapping[str, Any], str, int], Awaitable[str]]  # a step's body, its text, its number; what was seen


class LinkNames(Protocol):
    """How a scenario's link names become links; faults/links.py has them, compose hands them in."""

    def named(self, links: Sequence[Link], names: Sequence[str]) -> list[Link]: ...

    def isolating(self, links: Sequence[Link], victims: Sequence[int], origin: str) -> list[Link]: ...


class Acts:
    """Performs acts and keeps what they leave in force."""

    def __init__(self, context: RunContext, *, resolve: Callable[..., list[NodeId]], links: LinkNames) -> None:
        self._context = context
        self._resolve = resolve
        self._links = links
        self._in_force = FaultsInForce(context)
        self._later: list[asyncio.Task[None]] = []
        self._acts: Mapping[str, Act] = {
            "produce": self._produce,
            "kill": self._kill,
            "stop": self._stop,
            "start": self._start,
            "restart": self._restart,
            "pause": self._pause,
            "resume": self._resume,
            "wipe": self._wipe,
            "lose_tail": self._lose_tail,
            "damage": self._damage,
            "fill": self._fill,
            "free": self._free,
            "cut": self._cut,
            "isolate": self._isolate,
            "heal": self._heal,
            "slow": self._slow,
            "impair": self._impair,
            "configure": self._configure,
            "elect": self._elect,
            "delete_topic": self._delete_topic,
            "create_topic": self._create_topic,
        }

    async def perform(self, step: StepSpec, number: int) -> str:
        """Does the act and returns what was seen. Raises HarnessError when it could not be done."""
        return await self._acts[next(iter(step.body))](step.body, step.text, number)

    async def finish(self) -> list[str]:
        """Waits for what was to be healed after a while, so that its end is recorded; a sentence for each failure."""
        failures = []
        for task in self._later:
            try:
                await task
            except HarnessError as error:
                failures.append(str(error))
        return failures

    async def cancel(self) -> None:
        """Leaves to the run what was to be healed after a while and has not been."""
        for task in self._later:
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)

    def _victims(self, target: Any) -> list[NodeId]:
        chance = self._context.chance("steps")
        cluster = self._context.cluster
        apart = [node.node for node in cluster.nodes if node.role != "broker"]
        brokers = broker_ids(cluster)
        return self._resolve(target, view=self._context.observer, brokers=brokers, apart=apart, chance=chance)

    def _called(self, node: NodeId) -> str:
        return called(self._context.cluster, node)

    def _capable(self, capability: type, what: str) -> Any:
        if not isinstance(self._context.cluster, capability):
            raise HarnessError(f"this cluster cannot {what}")
        return self._context.cluster

    async def _begin(
        self, kind: str, text: str, number: int, nodes: Sequence[NodeId], begin: Deed, end: Deed, links: str = ""
    ) -> str:
        fault = await self._in_force.begin(
            kind=kind, label=text, nodes=nodes, begin=begin, end=end, links=lambda: links, step=number
        )
        return f"{kind} in force on {', '.join(self._called(node) for node in fault.nodes)}"

    # -- processes --------------------------------------------------------------------------------------------------

    async def _kill(self, body: Mapping[str, Any], text: str, number: int) -> str:
        return await self._kill_all(self._victims(body["kill"]), number)

    async def _kill_all(self, victims: Sequence[NodeId], number: int) -> str:
        cluster: CanCrash = self._capable(CanCrash, "kill a node")
        # Together, not one after the other: "both at once" is a different story from "first one, then the other".
        seen = await asyncio.gather(
            *(self._take_down("kill", node, number, partial(cluster.kill, node)) for node in victims),
            return_exceptions=True,
        )
        for each in seen:
            if isinstance(each, BaseException):
                raise each
        return "; ".join(str(each) for each in seen)

    async def _stop(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cluster: CanStop = self._capable(CanStop, "stop a node")
        for node in self._victims(body["stop"]):
            await self._take_down("stop", node, number, partial(cluster.shut_down, node))
        return text

    async def _take_down(self, kind: str, node: NodeId, number: int, deed: Deed) -> str:
        return await self._begin(kind, f"{kind} {self._called(node)}", number, [node], deed, self._starting(node))

    def _starting(self, node: NodeId) -> Deed:
        kind = CanCrash if isinstance(self._context.cluster, CanCrash) else CanStop
        cluster: CanCrash | CanStop = self._capable(kind, "start a node")
        return lambda: cluster.start_node(node)

    async def _start(self, body: Mapping[str, Any], text: str, number: int) -> str:
        return await self._start_all(self._victims(body["start"]))

    async def _start_all(self, nodes: Sequence[NodeId]) -> str:
        seen = []
        for node in nodes:
            down = self._in_force.of_node(node, ("kill", "stop", "wipe", "power-loss", "damage"))
            for fault in down:
                self._context.recorder.fault_end_asked(fault.number)
            evidence = await self._starting(node)()
            for fault in down:
                self._in_force.ended(fault, evidence)
            seen.append(evidence.sentence)
        return "; ".join(seen)

    async def _restart(self, body: Mapping[str, Any], text: str, number: int) -> str:
        victims = self._victims(body["restart"])  # once: a role has moved by the time its holder is down
        seen = await self._kill_all(victims, number)
        await asyncio.sleep(seconds(body.get("down", 0)))
        return f"{seen}; {await self._start_all(victims)}"

    async def _pause(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cluster: CanPause = self._capable(CanPause, "pause a node")
        for node in self._victims(body["pause"]):
            fault = await self._in_force.begin(
                kind="pause",
                label=f"pause {self._called(node)}",
                nodes=[node],
                begin=partial(cluster.pause, node),
                end=partial(cluster.resume, node),
                step=number,
            )
            self._after(body, fault)
        return text

    async def _resume(self, body: Mapping[str, Any], text: str, number: int) -> str:
        for node in self._victims(body["resume"]):
            await self._in_force.end(self._in_force.one(node, "pause"))
        return text

    async def _wipe(self, body: Mapping[str, Any], text: str, number: int) -> str:
        disks: CanWipe = self._capable(CanWipe, "wipe a disk")
        for node in self._victims(body["wipe"]):
            # Its end is the node's next start.
            await self._begin(
                "wipe",
                f"disk of broker {node} lost",
                number,
                [node],
                partial(disks.wipe, node),
                self._starting(node),
            )
        return text

    async def _lose_tail(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cluster: CanLosePower = self._capable(CanLosePower, "lose what a replica never flushed")
        topic = str(body.get("topic", self._context.scenario.topics[0].name))
        lose = partial(
            cluster.lose_tail,
            topic=topic,
            partition=int(body.get("partition", 0)),
            records=int(body.get("records", 1)),
        )
        for node in self._victims(body["lose_tail"]):
            # Its end is the node's next start, as a wiped disk's is.
            label = f"unflushed records of broker {node} lost"
            await self._begin("power-loss", label, number, [node], partial(lose, node), self._starting(node))
        return text

    async def _damage(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cluster: CanDamageDisks = self._capable(CanDamageDisks, "damage a disk")
        topic, partition = str(body.get("topic", self._context.scenario.topics[0].name)), int(body.get("partition", 0))
        damage = partial(cluster.damage, topic=topic, partition=partition, at=body.get("at", "last"))
        for node in self._victims(body["damage"]):
            # Nothing mends it but the broker itself, at its next start.
            label = f"log of {topic}-{partition} on {self._called(node)} damaged"
            await self._begin("damage", label, number, [node], partial(damage, node), self._starting(node))
        return text

    async def _fill(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cluster: CanFillDisks = self._capable(CanFillDisks, "fill a disk")
        for node in self._victims(body["fill"]):
            label = f"disk of {self._called(node)} filled"
            await self._begin("full", label, number, [node], partial(cluster.fill_disk, node), self._freeing(node))
        return text

    def _freeing(self, node: NodeId) -> Deed:
        cluster: CanFillDisks = self._capable(CanFillDisks, "free a disk")

        async def free() -> Evidence:
            freed, started = await cluster.free_disk(node), await self._starting(node)()
            return Evidence(t_ns=started.t_ns, sentence=f"{freed.sentence}; {started.sentence}")

        return free

    async def _free(self, body: Mapping[str, Any], text: str, number: int) -> str:
        for node in self._victims(body["free"]):
            await self._in_force.end(self._in_force.one(node, "full"))
        return text

    # -- links ------------------------------------------------------------------------------------------------------

    async def _cut(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cluster: CanCutLinks = self._capable(CanCutLinks, "cut links")
        return await self._cut_links(self._links.named(cluster.links(), body["cut"]), body, text, number)

    async def _isolate(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cluster: CanCutLinks = self._capable(CanCutLinks, "cut links")
        victims = self._victims(body["isolate"])
        links = self._links.isolating(cluster.links(), victims, str(body.get("from", "peers")))
        return await self._cut_links(links, body, text, number)

    async def _cut_links(self, links: Sequence[Link], body: Mapping[str, Any], text: str, number: int) -> str:
        cluster: CanCutLinks = self._capable(CanCutLinks, "cut links")
        mode: Literal["hang", "reset"] = body.get("mode", "hang")
        fault = await self._in_force.begin(
            kind="cut",
            label=text,
            nodes=nodes_of(links, broker_ids(self._context.cluster)),
            begin=lambda: cluster.cut(links, mode=mode),
            end=lambda: cluster.heal(links, mode="resume" if mode == "hang" else "reset"),
            links=lambda: " ".join(str(link) for link in links),
            step=number,
        )
        self._after(body, fault)
        return f"cut {fault.links}"

    async def _slow(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cuts: CanCutLinks = self._capable(CanCutLinks, "name links")
        cluster: CanSlowLinks = self._capable(CanSlowLinks, "slow links")
        links = self._links.named(cuts.links(), body["slow"])
        delay_ms = 1000 * seconds(body.get("delay", "500 ms"))
        fault = await self._in_force.begin(
            kind="slow",
            label=text,
            nodes=nodes_of(links, broker_ids(self._context.cluster)),
            begin=lambda: cluster.slow(links, delay_ms=delay_ms),
            end=lambda: cluster.slow(links, delay_ms=0),
            links=lambda: " ".join(str(link) for link in links),
            step=number,
        )
        self._after(body, fault)
        return f"{fault.links} slowed by {delay_ms:g} ms"

    async def _impair(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cuts: CanCutLinks = self._capable(CanCutLinks, "name links")
        cluster: CanImpairPackets = self._capable(CanImpairPackets, "impair packets")
        links = self._links.named(cuts.links(), body["impair"])
        shares = {f"{share}_percent": percent(body.get(share, 0)) for share in ("loss", "duplicate", "reorder")}
        impairment = Impairment(delay_ms=1000 * seconds(body.get("delay", 0)), **shares)
        fault = await self._in_force.begin(
            kind="impair",
            label=text,
            nodes=nodes_of(links, broker_ids(self._context.cluster)),
            begin=lambda: cluster.impair(links, impairment),
            end=lambda: cluster.impair(links, Impairment()),
            links=lambda: " ".join(str(link) for link in links),
            step=number,
        )
        self._after(body, fault)
        return f"{fault.links} {impairment.described()}"

    async def _heal(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cuts: CanCutLinks = self._capable(CanCutLinks, "name links")
        every = body["heal"] == "all"
        wanted = set() if every else {str(link) for link in self._links.named(cuts.links(), body["heal"])}
        healed = []
        for fault in self._in_force.all():
            if fault.kind in ("cut", "slow", "impair") and (every or set(fault.links.split()) == wanted):
                await self._in_force.end(fault)
                healed.append(fault.links)
        if not healed:
            raise HarnessError(f"{text}: no cut, slow or impaired link of that name is in force")
        return f"healed {' '.join(healed)}"

    def _after(self, body: Mapping[str, Any], fault: FaultInForce) -> None:
        """`for = "1 s"`: the harm is undone by itself while the plan goes on, unless a step undoes it before."""
        if "for" not in body:
            return

        async def later() -> None:
            try:
                async with asyncio.timeout(seconds(body["for"])):
                    await fault.over.wait()
            except TimeoutError:
                await self._in_force.end(fault)

        self._later.append(asyncio.create_task(later()))

    # -- probes and administration ----------------------------------------------------------------------------------

    async def _produce(self, body: Mapping[str, Any], text: str, number: int) -> str:
        outcomes = await produce(self._context, body)
        refused = [outcome for outcome in outcomes if outcome.status != "ok"]
        if refused and str(body.get("acks", "all")) != "0":
            raise HarnessError(
                f"{text}: {len(refused)} of {len(outcomes)} were not acknowledged ({refused[0].error}); "
                "the story cannot go on without them"
            )
        return f"{len(outcomes)} acknowledged, offsets {outcomes[0].offset} to {outcomes[-1].offset}"

    async def _configure(self, body: Mapping[str, Any], text: str, number: int) -> str:
        cluster: CanReconfigure = self._capable(CanReconfigure, "change a topic's configuration")
        settings = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in body["configure"].items()
        }
        await cluster.set_topic_config(str(body.get("topic", self._context.scenario.topics[0].name)), settings)
        return ", ".join(f"{key}={value}" for key, value in settings.items())

    async def _elect(self, body: Mapping[str, Any], text: str, number: int) -> str:
        error = await elect(self._context, body)
        if error:
            raise HarnessError(f"{text}: answered with error {error}")
        return "elected"

    async def _delete_topic(self, body: Mapping[str, Any], text: str, number: int) -> str:
        return await topic_acts.delete(self._context, body)

    async def _create_topic(self, body: Mapping[str, Any], text: str, number: int) -> str:
        return await topic_acts.create(self._context, body)


def nodes_of(links: Sequence[Link], brokers: Sequence[NodeId]) -> list[NodeId]:
    """The brokers at either end, each once: the disks worth reading before the links are healed."""
    ends = {end for link in links for end in (link.source, link.target)}
    return [node for node in brokers if f"n{node}" in ends]


async def produce(context: RunContext, body: Mapping[str, Any]) -> Sequence[SendOutcome]:
    return await context.probe_produce(
        str(body.get("topic", context.scenario.topics[0].name)),
        int(body.get("partition", 0)),
        values_of(body["produce"]),
        acks=cast(Literal["0", "1", "all"], str(body.get("acks", "all"))),
        timeout_s=seconds(body.get("timeout", "5 s")),
    )


async def elect(context: RunContext, body: Mapping[str, Any]) -> int:
    cluster = context.cluster
    if not isinstance(cluster, CanReconfigure):
        raise HarnessError("this cluster cannot be asked for an election")
    topic = str(body.get("topic", context.scenario.topics[0].name))
    return await cluster.elect(topic, int(body.get("partition", 0)), kind=body["elect"])
