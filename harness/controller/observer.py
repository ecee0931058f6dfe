"""Watches leaders, in-sync replicas and the controller during a run, as each broker reports them, and nodes that end.

It polls, so its view is late by up to one round and may differ between brokers: the exact history is read from the
cluster's own books afterwards. Plans use the latest view to choose victims and to wait for conditions. Rounds that
took too long are recorded as gaps, because what happened during them was not seen.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.controller.coordinators import NO_LOAD, Coordinators, coordinators_topics, places_of
from harness.controller.recorder import Recorder
from harness.errors import HarnessError
from harness.history.facts.internal_topics import COORDINATORS_TOPICS
from harness.host.clock import Clock
from harness.ports.cluster import Cluster, NodeEnd, PartitionState, SeesNodesEnd
from harness.ports.load import LoadFacts

GAP_NS = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A broker did not answer between two moments; broker -1: the observer itself completed no round."""

    t_from_ns: int
    t_to_ns: int
    broker: int


class Observer:
    """Polls every `interval_s`. `state` and `controller` are the latest view; `wait_until` wakes after each round."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        topics: Sequence[str],
        clock: Clock,
        recorder: Recorder,
        interval_s: float = 0.12,
        load: LoadFacts = NO_LOAD,
    ) -> None:
        self._cluster = cluster
        self._topics = tuple(topics)
        self._clock = clock
        self._recorder = recorder
        self._interval_s = interval_s
        self._load = load
        self._views: dict[tuple[str, int], dict[int, PartitionState]] = {}
        self._changed_ns: dict[tuple[str, int, int], int] = {}
        self._led: dict[tuple[str, int], int] = {}
        self._internal: dict[tuple[str, int], PartitionState] = {}  # the newest view of coordinators' partitions
        self._answered_ns: dict[int, int] = {}
        self._last_round_ns: int | None = None
        self._round = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ends: list[NodeEnd] = []  # as they are recorded
        self._since_ns = clock.monotonic_ns()
        self.controller = -1
        self.rounds = 0
        self.gaps: list[Gap] = []

    def watch(self, topics: Sequence[str]) -> None:
        """Looks at these topics, too, from the next round on."""
        self._topics = tuple(dict.fromkeys((*self._topics, *topics)))

    def start(self) -> None:
        assert self._task is None, "the observer is started once"
        self._task = asyncio.create_task(self._poll_for_ever(), name="observer")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        self._note_ends()

    async def _poll_for_ever(self) -> None:
        while True:
            await self.poll_once()
            await asyncio.sleep(self._interval_s)

    async def poll_once(self) -> None:
        """One round. If no node can be asked (all are down), the round is empty, which counts as a gap."""
        try:
            states = await self._cluster.live_partition_states((*self._topics, *coordinators_topics(self._load)))
            controller = await self._cluster.controller()
        except (HarnessError, OSError):
            states, controller = (), -1
        now = self._clock.monotonic_ns()
        own = Coordinators.of(self._load, states).partitions
        answered = set()
        for state in states:
            if state.topic not in COORDINATORS_TOPICS:
                self._take(state)
            else:
                self._take_internal(state)
                if (state.topic, state.partition) in own:
                    self._recorder.partition_state(state)
            answered.add(state.observer)
        for partition in self._views:
            if (leader := self.leader(*partition)) >= 0:
                self._led[partition] = leader
        self._note_gaps(now, answered)
        if controller != self.controller:
            self.controller = controller
            self._recorder.write("controller_seen", {"time_ns": now, "node": controller})
        self._note_ends()
        self.rounds += 1
        woken, self._round = self._round, asyncio.Event()
        woken.set()

    def _take(self, state: PartitionState) -> None:
        views = self._views.setdefault((state.topic, state.partition), {})
        before = views.get(state.observer)
        if before is None or _content(before) != _content(state):
            self._changed_ns[state.topic, state.partition, state.observer] = state.t_ns
            self._recorder.partition_state(state)
        views[state.observer] = state

    def _take_internal(self, state: PartitionState) -> None:
        known = self._internal.get((state.topic, state.partition))
        if known is None or state.leader_epoch >= known.leader_epoch:
            self._internal[state.topic, state.partition] = state

    def _note_ends(self) -> None:
        """Records the nodes that ended by themselves, also before a run on a running cluster began, if they are still
        down then."""
        if not isinstance(self._cluster, SeesNodesEnd):
            return
        ends = self._cluster.node_ends()
        own = [end for end in ends if end.back_ns is None or end.back_ns >= self._since_ns]
        for number, end in enumerate(own):
            if number >= len(self._ends) or self._ends[number] != end:
                self._recorder.node_end(number, end)
        self._ends = own

    def _note_gaps(self, now: int, answered: set[int]) -> None:
        if self._last_round_ns is not None and now - self._last_round_ns > GAP_NS:
            self.gaps.append(Gap(t_from_ns=self._last_round_ns, t_to_ns=now, broker=-1))
        self._last_round_ns = now
        for broker in answered:
            before = self._answered_ns.get(broker)
            if before is not None and now - before > GAP_NS:
                self.gaps.append(Gap(t_from_ns=before, t_to_ns=now, broker=broker))
            self._answered_ns[broker] = now

    @property
    def nobody_answers(self) -> bool:
        """Whether every broker has been silent for a while: then the last view says nothing about the present."""
        newest = max(self._answered_ns.values(), default=None)
        return newest is not None and self._last_round_ns is not None and self._last_round_ns - newest > GAP_NS

    def state(self, topic: str, partition: int) -> PartitionState | None:
        """The most credible view: highest leader epoch, then the controller's own view, then the latest change.

        A zombie's view has a lower epoch; at equal epochs a broker cut off from the controller holds an older ISR.
        """
        views = self._views.get((topic, partition))
        if not views:
            return None
        return max(
            views.values(),
            key=lambda view: (
                view.leader_epoch,
                view.partition_epoch if view.partition_epoch is not None else -1,
                view.observer == self.controller,
                self._changed_ns[view.topic, view.partition, view.observer],
            ),
        )

    def states(self) -> list[PartitionState]:
        """The most credible view of every partition seen so far."""
        found = (self.state(topic, partition) for topic, partition in sorted(self._views))
        return [state for state in found if state is not None]

    def view_of(self, broker: int, topic: str, partition: int) -> PartitionState | None:
        """The last answer of one broker; a zombie leader still names itself here."""
        return self._views.get((topic, partition), {}).get(broker)

    def leader(self, topic: str, partition: int) -> int:
        """The leader's node id; -1 if there is none or it is not known."""
        state = self.state(topic, partition)
        return state.leader if state is not None else -1

    def last_leader(self, topic: str, partition: int) -> int:
        """The node last seen as leader; -1 if there was none."""
        return self._led.get((topic, partition), -1)

    def coordinator(self, name: str) -> int:
        """The coordinator of a group or a transactional id of the load; -1 if there is none or it is not known."""
        place = places_of(self._load, self._internal).get(name)
        return -1 if place is None else self._internal[place].leader

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        state = self.state(topic, partition)
        return state.isr if state is not None else ()

    async def next_round(self) -> None:
        await self._round.wait()

    async def wait_until(self, predicate: Callable[[], bool], *, timeout_s: float) -> bool:
        """True as soon as `predicate` holds, tested now and after every round; False when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                while not predicate():
                    await self.next_round()
        except TimeoutError:
            return predicate()
        return True


def _content(state: PartitionState) -> tuple[object, ...]:
    return (state.leader, state.leader_epoch, state.partition_epoch, state.isr, state.elr)
