"""What the requests do. Faults go through the one engine, acts and conditions are those of a scenario's steps.

A fault is in force until it is healed, whoever asked for it and whether or not he is still connected: it belongs to the
cluster. Each has a number of its own for as long as the cluster lives.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from faults.catalogue import is_fault
from faults.planned import PlannedFault
from harness.controller import step_acts
from harness.controller.context import RunContext
from harness.controller.control.flows import flows_of
from harness.controller.control.recording import FaultContext, Recording
from harness.controller.control.requests import Refused, Request, fields_of, refusal_of
from harness.controller.faults.in_force import FaultInForce
from harness.controller.step_conditions import Condition, holds
from harness.errors import MISFITS, NAME_SHOWN, HarnessError
from harness.ports.cluster import CanCrash, ClientId, Cluster, NodeId
from harness.ports.faults import ACTS
from harness.scenario.file import read_topics
from harness.scenario.model import StepSpec, TopicSpec
from harness.scenario.steps import WITHIN_S, read_step, wrong_condition
from harness.scenario.topic_names import LEGAL_NAMES, is_legal, wrong_count
from harness.values import seconds

TRIGGER = "asked over the control socket"
TOPICS_SEEN_S = 10.0
ROUND_S = 5.0  # for one look at the brokers; one that is paused is waited for half a second
Topics = tuple[TopicSpec, ...]


class ControlSession:
    """One cluster under command. unrecorded: makes the context of what nobody records. record: begins a run.

    judge: the verdict of a recorded run and what was found, as the answer to `check` has them.
    """

    def __init__(
        self,
        *,
        unrecorded: Callable[[Topics], FaultContext],
        record: Callable[[str, Topics], Awaitable[Recording]],
        judge: Callable[[Path, float], Awaitable[Mapping[str, Any]]],
        end: Callable[[], None],
    ) -> None:
        self._make_unrecorded = unrecorded
        self._record = record
        self._judge = judge
        self._end = end
        self._present = unrecorded(())
        self._recording: Recording | None = None
        self._numbers = itertools.count(1)
        self._faults: dict[int, FaultInForce] = {}
        self._changing = asyncio.Lock()  # held while one context follows another
        self._acting = 0  # acts that are under way
        self._ending = False
        self._words: Mapping[str, Callable[[Request], Awaitable[Mapping[str, Any]]]] = {
            "state": self._state,
            "act": self._act,
            "heal": self._heal,
            "wait": self._wait,
            "topic": self._topic,
            "record": self._begin_recording,
            "client": self._client,
            "check": self._check,
            "end": self._end_all,
        }

    async def answer(self, request: Request) -> Mapping[str, Any]:
        """What the answer has beside its id. Raises Refused."""
        if self._ending:
            raise Refused("ending", "the cluster is being stopped")
        try:
            return await self._words[request.word](request)
        except (HarnessError, OSError, TimeoutError) as error:
            raise refusal_of(error) from error
        except MISFITS as error:  # a request of a kind that nobody thought of, or a bug of ours: reported, and survived
            what = f"{request.word}: {type(error).__name__}: {error}"
            raise Refused(
                "failed", what, "look whether docs/control.md has such a request; else this is a bug"
            ) from error

    async def close(self) -> list[str]:
        """Heals everything; a recording that nobody checked is ended and sealed. Sentences on what went wrong."""
        self._ending = True
        async with self._changing:
            said: list[str] = []
            if self._recording is not None:
                said += (await self._recording.break_off()).inconclusive
                self._recording = None
                return said
            return await self._present.close()

    @property
    def _context(self) -> RunContext:
        return self._present.context

    def _refuse_while_changing(self) -> None:
        if self._changing.locked():
            raise Refused("busy", "a recording is just being begun or checked")

    # -- what there is ------------------------------------------------------------------------------------------------

    async def _state(self, request: Request) -> Mapping[str, Any]:
        topics = fields_of(request.value, {"topics": list}, of="state").get("topics", [])
        if not all(isinstance(topic, str) for topic in topics):
            raise Refused("bad-request", "state: topics is a list of names")
        _refuse_misnamed("state", topics)
        context = self._context
        if topics:
            await self._watch(topics)
        cluster, observer = context.cluster, context.observer
        in_force = self._present.acts.in_force
        return {
            "bootstrap": cluster.bootstrap(ClientId(1)),
            "controller": observer.controller,
            "nodes": [
                {
                    "node": each.node,
                    "name": each.name,
                    "role": each.role,
                    "state": in_force.state_of(each.node) if _runs(cluster, each.node) else "down",
                }
                for each in cluster.nodes
            ],
            "partitions": [
                {
                    "topic": state.topic,
                    "partition": state.partition,
                    "leader": state.leader,
                    "leader_epoch": state.leader_epoch,
                    "isr": state.isr,
                    "replicas": state.replicas,
                    "elr": state.elr,
                }
                for state in observer.states()
            ],
            "faults": [self._described(number, fault) for number, fault in self._in_force()],
            "recording": str(self._recording.folder.path) if self._recording is not None else None,
        }

    async def _watch(self, topics: Sequence[str]) -> None:
        """Topics that somebody else created. Returns when a broker has named each, or named none for a while."""
        observer = self._context.observer
        observer.watch(topics)
        await observer.wait_until(
            lambda: set(topics) <= {state.topic for state in observer.states()}, timeout_s=TOPICS_SEEN_S
        )

    def _in_force(self) -> list[tuple[int, FaultInForce]]:
        """With their numbers; those that other means began, such as a step's `for`, get one now."""
        known = {id(fault): number for number, fault in self._faults.items()}
        return [(known.get(id(fault)) or self._numbered(fault), fault) for fault in self._present.acts.in_force.all()]

    def _numbered(self, fault: FaultInForce) -> int:
        number = next(self._numbers)
        self._faults[number] = fault
        return number

    def _described(self, number: int, fault: FaultInForce) -> Mapping[str, Any]:
        return {
            "fault": number,
            "name": fault.fault.name,
            "nodes": fault.nodes,
            "links": [link.short_name for link in fault.struck.links],
            "in_force": not fault.over.is_set(),
            "label": fault.label,
        }

    # -- harm, and what ends it ---------------------------------------------------------------------------------------

    async def _act(self, request: Request) -> Mapping[str, Any]:
        self._refuse_while_changing()
        step = _step("act", replace(request, value=self._word_first(request.value)))
        if "create_topic" in step.body or "delete_topic" in step.body:
            raise Refused("bad-request", "act: a topic is created by the request topic, and goes with the cluster")
        planned = step.planned
        self._acting += 1
        try:
            async with asyncio.timeout(step.within_s):
                if planned is None:
                    return {"seen": await self._present.acts.perform(step, 0), "faults": []}
                return await self._begin(planned)
        except TimeoutError:
            raise TimeoutError(f"{step.wording}: not done within {step.within_s:g} s") from None
        finally:
            self._acting -= 1

    def _word_first(self, body: Any) -> Any:
        """A step begins with what it does; the keys of a JSON object have no order."""
        if not isinstance(body, dict) or any(key in ACTS for key in body):
            return body
        return dict(sorted(body.items(), key=lambda item: not is_fault(item[0])))

    async def _begin(self, planned: PlannedFault) -> Mapping[str, Any]:
        for need in planned.fault.needs:
            if not isinstance(self._context.cluster, need):
                raise Refused(
                    "failed",
                    f"{planned.fault.name}: this cluster cannot do that ({need.__name__})",
                    "use a fault that docs/scenarios.md lists for a local cluster",
                )
        acts = self._present.acts
        begun = await acts.begin(planned, step=None, trigger=TRIGGER, chance=f"control/{len(self._faults)}")
        faults = [self._described(self._numbered(fault), fault) for fault in begun]
        return {"seen": "; ".join(acts.seen(fault) for fault in begun), "faults": faults}

    async def _heal(self, request: Request) -> Mapping[str, Any]:
        self._refuse_while_changing()
        wanted, acts = request.value, self._present.acts
        if wanted == "all":
            chosen = [number for number, _ in reversed(self._in_force())]
        elif isinstance(wanted, list) and all(type(number) is int for number in wanted):
            chosen = wanted
        else:
            raise Refused("bad-request", 'heal: give the numbers of faults, for example [1, 2], or "all"')
        for number in chosen:
            if number not in self._faults:
                raise Refused("bad-request", f"heal: there never was a fault {number} on this cluster")
        self._acting += 1
        try:
            healed = [number for number in chosen if not self._faults[number].over.is_set()]
            errors = []
            for number in healed:  # all of them, whatever becomes of one
                try:
                    await acts.in_force.end(self._faults[number])
                except HarnessError as error:
                    errors.append(error)
            if errors:
                raise errors[0]
            return {"healed": healed}
        finally:
            self._acting -= 1

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def _wait(self, request: Request) -> Mapping[str, Any]:
        observer = self._context.observer
        before = observer.rounds  # what was seen before it was asked may be from before the last act
        await observer.wait_until(lambda: observer.rounds > before, timeout_s=ROUND_S)
        own = self._own_condition(request)
        if own is not None:
            predicate, within_s, seen = own
            if await self._context.observer.wait_until(predicate, timeout_s=within_s):
                return {"seen": seen()}
            raise TimeoutError(f"wait: not within {within_s:g} s; last seen: {seen()}")
        step = _step("wait", request)
        word, value = next(iter(step.body.items()))
        if word in ("acks", "elapsed"):
            raise Refused("bad-request", "wait: acks and elapsed are for scenarios, whose load the harness drives")
        if (wrong := wrong_condition(word, value)) is not None:
            raise Refused("bad-request", f"wait: {wrong[0]}", wrong[1])
        if "topic" in step.body:
            _refuse_misnamed("wait", [str(step.body["topic"])])
        throughout_s = seconds(step.body.get("throughout", 0))
        held, answer = await holds(
            Condition(step.body, self._context), within_s=step.within_s, throughout_s=throughout_s
        )
        if not held:
            raise TimeoutError(f"{step.wording}: not within {step.within_s:g} s; last seen: {answer}")
        return {"seen": answer}

    def _own_condition(self, request: Request) -> tuple[Callable[[], bool], float, Callable[[], str]] | None:
        """Two conditions that a test needs and a scenario does not, since it knows its nodes by number."""
        body = request.value
        if not isinstance(body, dict) or not ({"alive", "new_leader"} & body.keys()):
            return None
        within_s = _seconds(request.within, WITHIN_S["wait"])
        context, observer = self._context, self._context.observer
        if "alive" in body:
            nodes = fields_of(body, {"alive": list}, of="wait")["alive"]
            known = {int(node.node): node.node for node in context.cluster.nodes}
            if not nodes or not all(type(node) is int and node in known for node in nodes):
                raise Refused("bad-request", f"wait: alive is a list of nodes of {sorted(known)}")
            in_force, cluster = self._present.acts.in_force, context.cluster

            def up() -> list[int]:
                running = [node for node in nodes if _runs(cluster, known[node])]
                return [node for node in running if in_force.state_of(known[node]) == "up"]

            return (lambda: len(up()) == len(nodes)), within_s, lambda: f"alive {up()} of {nodes}"
        fields = fields_of(body, {"new_leader": int, "topic": str, "partition": int}, of="wait")
        _refuse_misnamed("wait", [fields["topic"]] if "topic" in fields else [])
        topic, partition, old = context.topic_of(fields), fields.get("partition", 0), fields["new_leader"]

        def leader() -> int:
            return observer.leader(topic, partition)

        return (lambda: leader() not in (-1, old)), within_s, lambda: f"leader {leader()}"

    # -- topics and recordings ----------------------------------------------------------------------------------------

    def _topics(self, word: str, tables: Any) -> Topics:
        topics = read_topics(tables, brokers=self._context.scenario.cluster.brokers)
        _refuse_misnamed(word, [topic.name for topic in topics])
        for topic in topics:
            if (wrong := wrong_count(topic)) is not None:
                raise Refused("bad-request", f"{word}: topic {topic.name!r}: {wrong[1]}", wrong[2])
        if len({topic.name for topic in topics}) < len(topics):
            raise Refused("bad-request", f"{word}: a topic is there twice", "give one another name")
        return topics

    async def _topic(self, request: Request) -> Mapping[str, Any]:
        self._refuse_while_changing()
        if self._recording is not None:
            raise Refused("bad-request", "topic: the topics of a recording are named when it begins, in record")
        topics = self._topics("topic", [request.value])
        context = self._context
        if {topic.name for topic in topics} & context.scenario.topic_names:
            raise Refused("bad-request", f"topic: there is a topic {topics[0].name!r} already", "choose another name")
        scenario = context.scenario
        self._present.knows(topics)
        try:
            seen = await step_acts.create(context, {"create_topic": topics[0].name})
        except BaseException:
            context.scenario = scenario
            raise
        await self._watch([topics[0].name])
        return {"seen": seen}

    async def _begin_recording(self, request: Request) -> Mapping[str, Any]:
        fields = fields_of(request.value, {"name": str, "topics": list}, of="record")
        self._refuse_while_changing()
        topics = self._topics("record", fields.get("topics", []))
        async with self._changing:
            self._refuse_while_harmed("record")
            if self._recording is not None:
                raise Refused("bad-request", "record: a recording goes on", 'end it by {"check": {}}')
            known = self._context.scenario.topics
            if used := {topic.name for topic in topics} & {topic.name for topic in known}:
                what = f"record: topics {sorted(used)} are there already, and what is in them nobody recorded"
                raise Refused("bad-request", what, "choose other names, or a cluster of its own for each recording")
            await self._present.close()
            try:
                recording = await self._record(fields.get("name", "application"), topics)
            except BaseException:
                self._present = self._make_unrecorded(known)
                raise
            self._recording, self._present = recording, recording.faults
        return {"run": str(recording.folder.path), "bootstrap": self._context.cluster.bootstrap(ClientId(1))}

    def _refuse_while_harmed(self, word: str) -> None:
        if self._acting or self._in_force():
            labels = ", ".join(fault.label for _, fault in self._in_force()) or "one is just being begun or healed"
            raise Refused("bad-request", f"{word}: a fault is in force: {labels}", 'heal it first: {"heal": "all"}')

    def _recorded(self, word: str) -> Recording:
        self._refuse_while_changing()
        if self._recording is None:
            raise Refused("bad-request", f"{word}: nothing is being recorded", 'begin by {"record": {"topics": [...]}}')
        return self._recording

    async def _client(self, request: Request) -> Mapping[str, Any]:
        name = fields_of(request.value, {"name": str}, of="client").get("name", "client")
        path, number = self._recorded("client").new_journal(name)
        return {"journal": str(path), "process": number}

    async def _check(self, request: Request) -> Mapping[str, Any]:
        fields = fields_of(request.value, {"judge": bool, "flows": list}, of="check")
        judge, within_s = fields.get("judge", True), _seconds(request.within, 300.0)
        recording = self._recorded("check")
        flows = flows_of(fields.get("flows", []), topics=self._context.scenario.topic_names)
        async with self._changing:
            if self._acting:
                raise Refused("busy", "check: a fault is just being begun or healed")
            known = self._context.scenario.topics
            recording.holds_to(flows)
            self._recording = None
            try:
                outcome = await recording.end()
            finally:
                self._present = self._make_unrecorded(known)
            if outcome.error is not None:
                raise HarnessError(f"the recording could not be ended: {outcome.error}; see {recording.folder.path}")
        if not judge:
            return {"run": str(recording.folder.path), "verdict": None}
        return await self._judge(recording.folder.path, within_s)

    async def _end_all(self, request: Request) -> Mapping[str, Any]:
        fields_of(request.value, {}, of="end")
        self._ending = True
        self._end()
        return {}


def _seconds(given: Any, otherwise: float) -> float:
    try:
        return otherwise if given is None else seconds(given)
    except ValueError as error:
        raise Refused("bad-request", f"within: {error}") from None


def _runs(cluster: Cluster, node: NodeId) -> bool:
    """As far as this cluster can tell."""
    return not isinstance(cluster, CanCrash) or cluster.is_running(node)


def _refuse_misnamed(word: str, topics: Sequence[str]) -> None:
    for topic in topics:
        if not is_legal(topic):
            raise Refused("bad-request", f"{word}: {topic[:NAME_SHOWN]!r} can be no topic's name", LEGAL_NAMES)


def _step(kind: Literal["act", "wait"], request: Request) -> StepSpec:
    """What a step of a scenario would say. Raises Refused."""
    within = {} if request.within is None else {"within": request.within}
    try:
        return read_step({kind: request.value, **within}, line=0)
    except (ValueError, TypeError) as error:
        raise Refused("bad-request", f"{kind}: {error}") from None
