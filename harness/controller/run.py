"""A run, phase by phase: start, prepare, act (the plan runs), heal, recover, ask, read back, collect, stop, seal.

After recovery the load's clients, and after all else fresh ones, are asked whether they get on. In every case faults
are healed, processes stopped, and the recorded data sealed. The first interrupt ends the plan early: then there is no
final read, and the data recorded so far is analysed.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.controller.collection import collect_books
from harness.controller.context import Plan, PlanResult, RunContext
from harness.controller.final_read import FinalRead
from harness.controller.fresh_clients import AskingAnew
from harness.controller.observer import Observer
from harness.controller.old_clients import OldClients, ProgressRows
from harness.controller.probes import Probes
from harness.controller.recorder import Recorder
from harness.controller.workers.processes import Workers
from harness.errors import HarnessError, Problem, in_a_line, leaves
from harness.history.journals.journal import ProcessNumbers
from harness.history.journals.journal_files import opened_journals
from harness.history.run_folder import RunFolder
from harness.history.sealed.sealing import seal
from harness.host.clock import Clock
from harness.ports.capabilities import ReportsWhatIsMissing, SharedWithOthers
from harness.ports.cluster import CanCrash, ClientMaker, Cluster, NodeId, TopicPartition
from harness.scenario.model import Scenario

PROGRESS_S = 0.25
STEADY_S = 1.0
LEADERS_S = 30.0  # for new topics to have all their replicas in sync
KNOWN_EVERYWHERE_S = 5.0  # for every broker to know them


@dataclass(frozen=True, kw_only=True)
class Progress:
    """For the live display. Counters are of the whole run so far."""

    phase: str
    elapsed_s: float
    acknowledged: int
    unknown: int
    failed: int
    polled: int
    faults: Sequence[str]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """status: complete | interrupted | error. The reasons are in run.json too, from which the verdict is computed."""

    status: str
    inconclusive: Sequence[str]
    error: str | None


@dataclass(kw_only=True)
class Run:
    """compose fills in the fields; `go` does the run. workers: None without a workload. cut_short: ends the plan, once
    set; what follows is done as after every plan."""

    folder: RunFolder
    scenario: Scenario
    cluster: Cluster
    plan: Plan
    make_client: ClientMaker
    workers: Workers | None
    numbers: ProcessNumbers  # the controller's own, for probes and final reads
    clock: Clock
    seed: int
    interrupt: asyncio.Event
    cut_short: asyncio.Event = field(default_factory=asyncio.Event)
    progress: Callable[[Progress], None] = lambda progress: None
    asks_anew: bool = True  # by writing to the run's topics at its end
    _phase: str = "start"
    _began_ns: int = 0
    _interrupted_in: str | None = None
    _was_read: bool = False
    _inconclusive: list[str] = field(default_factory=list)
    _ended_at: int | None = None
    _recorded: RunContext | None = None
    _error: str | None = None

    async def go(self) -> RunOutcome:
        await self.record()
        return self.seal()

    async def record(self) -> None:
        """All of the run that needs its cluster and its time."""
        cluster = self.cluster
        self._began_ns = self.clock.monotonic_ns()
        recorder = Recorder(folder=self.folder.history, clock=self.clock)
        context = self._recorded = self._context(recorder)
        display = asyncio.create_task(self._display(context), name="progress")
        try:
            await self._phases(context)
        except* (HarnessError, OSError) as group:
            self._error = "; ".join(in_a_line(each) for each in leaves(group))
        finally:
            try:
                with contextlib.suppress(HarnessError):  # a full disk must not prevent healing
                    self._enter("stop")
                self._inconclusive.extend(await context.heal_everything())
                if self.workers is not None:
                    await self.workers.kill()
                await context.observer.stop()
            finally:
                await cluster.stop()
                display.cancel()
                recorder.close()

    def seal(self, *, error: str | None = None) -> RunOutcome:
        """`error`: why what was recorded is worth nothing, whatever it is."""
        context, folder = self._recorded, self.folder
        assert context is not None, "nothing is sealed before it was recorded"
        error = error or self._error
        if self._interrupted_in is not None and not self._was_read:
            self._inconclusive.append(f"interrupted in phase {self._interrupted_in!r}, before the final read was over")
        status = "error" if error else "interrupted" if self.interrupt.is_set() else "complete"
        try:
            self._seal(context, status, error)
        except (HarnessError, OSError) as unsealed:
            kept = f"what was recorded stays in {folder.path}: `kafka-chaos check` judges it once there is room"
            raise HarnessError(f"{error or in_a_line(unsealed)}; {kept}") from unsealed
        return RunOutcome(status=status, inconclusive=tuple(self._inconclusive), error=error)

    # -- the phases ---------------------------------------

    async def _phases(self, context: RunContext) -> None:
        self._enter("start")
        if not await self._unless_interrupted(self.cluster.start()):
            return
        self._refuse_what_is_missing()
        self.folder.update(environment=dict(self.cluster.environment()))
        context.observer.start()
        self._enter("prepare")
        if not await self._unless_interrupted(self._prepare(context)):
            return
        self._enter("act")
        await self._unless_interrupted(self._until_cut_short(self._act(context)))
        self._enter("heal")
        self._inconclusive.extend(await context.heal_everything())
        self._enter("recover")
        await self._unless_interrupted(self._recover(context))
        rows = ProgressRows(recorder=context.recorder, observer=context.observer, clock=self.clock)
        if self.workers is not None:
            self._enter("ask")
            await self._unless_interrupted(self._ask(self.workers, rows))
        self._enter("drain")
        if self.workers is not None:
            self._inconclusive.extend(await self.workers.stop())
        self.folder.update(load_ended_ns=self.clock.monotonic_ns())
        await self._read_back(context)
        if self.asks_anew:
            self._enter("ask anew")
            await self._unless_interrupted(self._ask_anew(context, rows))

    async def _ask(self, workers: Workers, rows: ProgressRows) -> None:
        scenario, workload = self.scenario, self.scenario.workload
        partitions = scenario.partitions(workload.topics)
        acks = workload.acks
        old = OldClients(rows=rows, clock=self.clock, facts=workload.facts, acks=acks, partitions=partitions)
        await old.ask(workers, timeout_s=scenario.recovery_timeout_s)

    async def _ask_anew(self, context: RunContext, rows: ProgressRows) -> None:
        scenario, workload = self.scenario, self.scenario.workload
        of_load = scenario.partitions(workload.topics)
        asking = AskingAnew(
            rows=rows,
            clock=self.clock,
            make_client=self.make_client,
            bootstrap=self.cluster.bootstrap(None),
            settings=workload,
            partitions=scenario.partitions(),
            inputs=[each for each in of_load if each.topic not in workload.facts.outputs],
        )
        await asking.ask(timeout_s=scenario.recovery_timeout_s)

    def _refuse_what_is_missing(self) -> None:
        """Before any load. Raises HarnessError for a capability that the cluster has but this machine lacks."""
        if isinstance(self.cluster, ReportsWhatIsMissing):
            for place, what, planned in self.scenario.planned():
                for need in planned.fault.needs:
                    why = self.cluster.missing(need)
                    if why is not None:
                        raise HarnessError(str(Problem(place=place, what=f"{what}: {why}")))

    async def _read_back(self, context: RunContext) -> None:
        final = FinalRead(
            context=context,
            make_client=self.make_client,
            numbers=self.numbers,
            folder=self.folder.history,
            layout=self._layout(context),
            timeout_s=self.scenario.recovery_timeout_s,
        )
        self._enter("read back")
        unread: list[str] = []
        if await self._unless_interrupted(_into(unread, final.read_all)):
            # The scenario may be about a partition that cannot be read.
            self._inconclusive.extend([] if self.scenario.expect.unreadable else unread)
            self._was_read = True
        self._enter("collect")
        await collect_books(self.folder, cluster=self.cluster, clock=self.clock, after=context.recorder.so_far)
        if self.scenario.read_every_replica:
            self._enter("read every replica")
            notes: list[str] = []
            await self._unless_interrupted(_into(notes, final.read_every_replica))
            self.folder.update(replicas_not_read=notes)

    async def _prepare(self, context: RunContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._create_topics(context))
            if self.workers is not None:
                group.create_task(self.workers.prepare(context.acks))

    async def _claim(self) -> None:
        """Of a cluster that others use: names that are the run's own, told once for all that is recorded."""
        if not isinstance(self.cluster, SharedWithOthers):
            return
        facts = self.scenario.workload.facts
        groups = [facts.group] if facts.group else []
        await self.cluster.claim(groups=groups, transactional_ids=facts.transactional_ids)
        known = [*(topic.name for topic in self.scenario.topics), *groups, *facts.transactional_ids]
        self.folder.update(names_there={name: self.cluster.own_names.there(name) for name in known})

    async def _create_topics(self, context: RunContext) -> None:
        await self._claim()
        await self.cluster.create_topics([topic.definition for topic in self.scenario.topics])
        wanted = self.scenario.partitions()

        def complete() -> bool:
            states = [context.observer.state(each.topic, each.partition) for each in wanted]
            return all(
                state is not None and state.leader >= 0 and set(state.isr) == set(state.replicas) for state in states
            )

        if not await context.observer.wait_until(complete, timeout_s=LEADERS_S):
            raise HarnessError(
                f"the topics had no leaders with all replicas in sync after {LEADERS_S:.0f} s; "
                f"see the nodes' logs in {self.folder.nodes}"
            )

        def known_everywhere() -> bool:
            brokers = [int(node.node) for node in self.cluster.nodes if node.role == "broker"]
            return all(context.observer.view_of(b, each.topic, each.partition) for b in brokers for each in wanted)

        # A client may ask any broker first; a broker that the harness cannot reach must not delay the run.
        await context.observer.wait_until(known_everywhere, timeout_s=KNOWN_EVERYWHERE_S)
        for partition, replicas in self._layout(context).items():
            context.recorder.partition(
                topic=partition.topic,
                partition=partition.partition,
                replicas=replicas,
                read_to_end=False,
                end_offset=None,
                note="not read",
            )

    async def _act(self, context: RunContext) -> None:
        context.load_began_ns = self.clock.monotonic_ns()
        self.folder.update(load_began_ns=context.load_began_ns)
        if self.workers is not None:
            self.workers.start()
            context.workload_running.set()
            await asyncio.sleep(self.scenario.workload.warm_up_s)
        result: PlanResult = await self.plan.run(context)
        self._inconclusive.extend(result.inconclusive)
        self._ended_at = result.ended_at
        self.folder.update(skipped_faults=[dataclasses.asdict(each) for each in result.skipped])

    async def _recover(self, context: RunContext) -> None:
        """Waits until every partition is seen to have a leader and all its replicas on running brokers in sync."""
        layout = self._layout(context)
        cluster = self.cluster

        def lacking() -> list[str]:
            found = []
            for partition, replicas in layout.items():
                state = context.observer.state(partition.topic, partition.partition)
                running = {
                    each for each in replicas if not isinstance(cluster, CanCrash) or cluster.is_running(NodeId(each))
                }
                if state is None or state.leader < 0:
                    found.append(f"{partition.topic}/{partition.partition} has no leader")
                elif not running <= set(state.isr):
                    found.append(f"{partition.topic}/{partition.partition} has only {list(state.isr)} in sync")
            return found

        timeout_s = self.scenario.recovery_timeout_s
        await context.observer.next_round()
        if not await self._steadily(context, lambda: not lacking(), timeout_s) and not self.scenario.expect.unreadable:
            self._inconclusive.append(f"no recovery within {timeout_s:g} s after healing: {', '.join(lacking())}")

    async def _steadily(self, context: RunContext, holds: Callable[[], bool], timeout_s: float) -> bool:
        """True once `holds` was seen for STEADY_S: right after a quick restart the old state still shows."""
        observer = context.observer
        deadline_ns = self.clock.monotonic_ns() + int(timeout_s * 1e9)
        while (left_s := (deadline_ns - self.clock.monotonic_ns()) / 1e9) > 0:
            if not await observer.wait_until(holds, timeout_s=left_s):
                return False
            if not await observer.wait_until(lambda: not holds(), timeout_s=STEADY_S):
                return True
        return holds()

    # -- helpers of the phases --------------------------------------

    def _context(self, recorder: Recorder) -> RunContext:
        topics = [topic.name for topic in self.scenario.topics]
        return RunContext(
            scenario=self.scenario,
            cluster=self.cluster,
            observer=Observer(
                cluster=self.cluster,
                topics=topics,
                clock=self.clock,
                recorder=recorder,
                load=self.scenario.workload.facts,
            ),
            recorder=recorder,
            clock=self.clock,
            seed=self.seed,
            stopping=self.interrupt,
            probes=Probes(
                make_client=self.make_client,
                bootstrap=self.cluster.bootstrap,
                settings=self.scenario.workload,
                folder=self.folder.history,
                clock=self.clock,
                numbers=self.numbers,
            ),
        )

    def _layout(self, context: RunContext) -> dict[TopicPartition, tuple[int, ...]]:
        layout = {}
        for partition in self.scenario.partitions():
            state = context.observer.state(partition.topic, partition.partition)
            layout[partition] = state.replicas if state is not None else ()
        return layout

    def _enter(self, phase: str) -> None:
        self._phase = phase
        phases = [*self.folder.run.get("phases", []), {"name": phase, "t": self.clock.monotonic_ns()}]
        self.folder.update(phases=phases)

    async def _unless_interrupted(self, work: Coroutine[Any, Any, None]) -> bool:
        """Does `work`. False if an interrupt came first, or before the call: then the work is cancelled."""
        if self.interrupt.is_set():
            self._interrupted_in = self._interrupted_in or self._phase
            work.close()
            return False
        task = asyncio.create_task(work)
        watch = asyncio.create_task(self.interrupt.wait())
        try:
            await asyncio.wait([task, watch], return_when=asyncio.FIRST_COMPLETED)
        finally:
            watch.cancel()
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if task.cancelled():
            self._interrupted_in = self._interrupted_in or self._phase
            return False
        task.result()
        return True

    async def _until_cut_short(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        watch = asyncio.create_task(self.cut_short.wait())
        try:
            await asyncio.wait([task, watch], return_when=asyncio.FIRST_COMPLETED)
        finally:
            watch.cancel()
            task.cancel()  # changes nothing where it has ended
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _display(self, context: RunContext) -> None:
        while True:
            acks = context.acks
            self.progress(
                Progress(
                    phase=self._phase,
                    elapsed_s=(self.clock.monotonic_ns() - self._began_ns) / 1e9,
                    acknowledged=acks.ok,
                    unknown=acks.info,
                    failed=acks.fail,
                    polled=acks.polled,
                    faults=context.recorder.faults_in_force(),
                )
            )
            await asyncio.sleep(PROGRESS_S)

    def _seal(self, context: RunContext, status: str, error: str | None) -> None:
        self._enter("seal")
        gaps = [[gap.t_from_ns, gap.t_to_ns, gap.broker] for gap in context.observer.gaps]
        self.folder.add_anchor(self.clock)
        self.folder.update(
            status=status,
            interrupted=self.interrupt.is_set(),
            inconclusive=self._inconclusive,
            plan_ended_at_step=self._ended_at,
            error=error,
            read_every_replica=self.scenario.read_every_replica,
            observer_gaps=gaps,
            journals=opened_journals(self.folder),
        )
        seal(self.folder)


async def _into(found: list[str], work: Callable[[], Coroutine[Any, Any, list[str]]]) -> None:
    found.extend(await work())
