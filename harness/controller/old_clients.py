"""Whether the clients of the load get on after the last heal: each is asked, and what came of it is in `progress`.

They do nothing but go on. What each of them tries to write has to be answered, each partition of the group has to be
given to a member, and what is written meanwhile has to reach those who read the partition. It is waited for until
nothing is lacking, and no longer than the time that recovery may take; where leaders or in-sync replicas lack, only for
a moment.
"""

import asyncio
from collections.abc import Iterable, Sequence

from harness.controller.client_progress import ClientProgress
from harness.controller.observer import Observer
from harness.controller.recorder import Recorder
from harness.controller.workers.processes import Workers
from harness.history.schema.cluster_rows import Age, AskedFor, AskOutcome, WhyNotAsked
from harness.host.clock import Clock
from harness.ports.cluster import PartitionState, TopicPartition
from harness.ports.load import LoadFacts

QUIET_S = 1.0  # for a client that tries nothing, and where nothing can be expected
LATELY_NS = 3_000_000_000  # many rounds of the observer
_READERS = "consumer"  # the role of clients that never write
_Place = tuple[str, int]


class ProgressRows:
    """Writes the rows of the table `progress`."""

    def __init__(self, *, recorder: Recorder, observer: Observer, clock: Clock) -> None:
        self._recorder = recorder
        self._observer = observer
        self._clock = clock
        self._began_ns = clock.monotonic_ns()
        self.group_got_all = True  # its old members got all that they were asked for

    def begin(self) -> None:
        """Now somebody is asked."""
        self._began_ns = self._clock.monotonic_ns()

    def is_whole(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether every partition is seen to have a leader and all its replicas in sync."""
        states = [self._seen((each.topic, each.partition)) for each in partitions]
        return all(
            state is not None and state.leader >= 0 and set(state.isr) == set(state.replicas) for state in states
        )

    def is_led(self, partition: TopicPartition) -> bool:
        state = self._seen((partition.topic, partition.partition))
        return state is not None and state.leader >= 0

    def _seen(self, place: _Place) -> PartitionState | None:
        """None where no broker has said anything lately: what was seen last is not known to be so any more."""
        state = self._observer.state(*place)
        is_late = state is not None and self._clock.monotonic_ns() - state.t_ns > LATELY_NS
        return None if is_late else state

    def write(
        self,
        age: Age,
        what: AskedFor,
        place: _Place,
        outcome: AskOutcome,
        *,
        client: str | None = None,
        group: str | None = None,
        reason: WhyNotAsked | None = None,
        error: str | None = None,
        code: int | None = None,
        until_ns: int | None = None,
        offset: int | None = None,
    ) -> None:
        state = self._seen(place)
        if age == "old" and group is not None and outcome in ("refused", "unanswered"):
            self.group_got_all = False
        self._recorder.write(
            "progress",
            {
                "age": age,
                "what": what,
                "topic": place[0],
                "partition": place[1],
                "client": client,
                "group": group,
                "outcome": outcome,
                "reason": reason,
                "error": error,
                "code": code,
                "asked_ns": self._began_ns,
                "until_ns": self._clock.monotonic_ns() if until_ns is None else until_ns,
                "offset": offset,
                "leader": None if state is None else state.leader,
                "isr": None if state is None else list(state.isr),
            },
        )


class OldClients:
    """`partitions`: those of the load; `acks`: what its producers ask for."""

    def __init__(
        self, *, rows: ProgressRows, clock: Clock, facts: LoadFacts, acks: str, partitions: Sequence[TopicPartition]
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._facts = facts
        self._acks = acks
        self._partitions = partitions
        self._changed = asyncio.Event()
        self._seen_acting: set[str] = set()
        self._writers: dict[tuple[str, _Place], int | None] = {}  # when it was answered
        self._readers: dict[tuple[str, _Place], int | None] = {}  # of clients without a group
        self._given: dict[_Place, int] = {}  # to the group's members
        self._member_read: dict[_Place, int] = {}
        self._written: set[_Place] = set()
        self._refused: dict[tuple[str, str, _Place], ClientProgress] = {}

    async def ask(self, workers: Workers, *, timeout_s: float) -> None:
        self._rows.begin()
        expects = self._rows.is_whole(self._partitions)
        began_ns = self._clock.monotonic_ns()
        deadline_ns = began_ns + int((timeout_s if expects else QUIET_S) * 1e9)
        quiet_ns = began_ns + int(QUIET_S * 1e9)
        workers.ask(self._note_progress)
        while True:
            until_ns = deadline_ns if self._lacks() else quiet_ns if self._is_somebody_silent() else 0
            left_s = (min(until_ns, deadline_ns) - self._clock.monotonic_ns()) / 1e9
            if left_s <= 0:
                break
            try:
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
            self._changed.clear()
        self._record()

    def _note_progress(self, name: str, progress: ClientProgress) -> None:
        place, now = (progress.topic, progress.partition), self._clock.monotonic_ns()
        self._seen_acting.add(name)
        if progress.state == "refused":
            self._refused[name, progress.what, place] = progress
        if progress.what == "write":
            self._note(self._writers, (name, place), progress, now)
        elif progress.what == "read" and progress.topic:
            if progress.state == "tried" or (name, place) in self._readers:
                self._note(self._readers, (name, place), progress, now)
            else:
                self._member_read.setdefault(place, now)
        elif progress.what == "membership":
            self._given.setdefault(place, now)
        elif progress.what == "written":
            self._written.add(place)
        self._changed.set()

    def _note(
        self, of: dict[tuple[str, _Place], int | None], key: tuple[str, _Place], progress: ClientProgress, now: int
    ) -> None:
        of.setdefault(key, None)
        if progress.state == "done" and of[key] is None:
            of[key] = now

    def _is_somebody_silent(self) -> bool:
        """A client that writes, and tried nothing so far."""
        counts = {role: count for role, count in self._facts.clients.items() if role != _READERS}
        return any(
            f"{role}-{number + 1}" not in self._seen_acting for role, count in counts.items() for number in range(count)
        )

    def _inputs(self) -> list[_Place]:
        """What the group reads."""
        topics = [each for each in self._partitions if each.topic not in self._facts.outputs]
        return [(each.topic, each.partition) for each in topics] if self._facts.group else []

    def _lacks(self) -> bool:
        if self._acks != "0" and any(done is None for done in self._writers.values()):
            return True
        if any(
            place not in self._given or (place in self._written - self._member_read.keys()) for place in self._inputs()
        ):
            return True
        return any(done is None and place in self._written for (_, place), done in self._readers.items())

    # -- what came of it ----------------------------------

    def _record(self) -> None:
        for (name, place), done in self._writers.items() if self._acks != "0" else ():
            self._write("write", place, done, client=name)
        for place in self._inputs():
            self._write("membership", place, self._given.get(place))
            self._write_read(place, self._member_read.get(place))
        for (name, place), done in self._readers.items():
            self._write_read(place, done, client=name)

    def _write_read(self, place: _Place, done: int | None, *, client: str | None = None) -> None:
        if done is None and place not in self._written:
            group = None if client is not None else self._facts.group
            self._rows.write("old", "read", place, "not_asked", client=client, group=group, reason="nothing_new")
        else:
            self._write("read", place, done, client=client)

    def _write(self, what: AskedFor, place: _Place, done: int | None, *, client: str | None = None) -> None:
        refused = self._refused.get((client, what, place)) if client is not None else None
        refused = refused or (self._refused.get((client, what, ("", 0))) if client is not None else None)
        outcome: AskOutcome = "done" if done is not None else "unanswered" if refused is None else "refused"
        self._rows.write(
            "old",
            what,
            place,
            outcome,
            client=client,
            group=self._facts.group if client is None else None,
            error=refused.error if refused is not None and done is None else None,
            code=refused.code if refused is not None and done is None else None,
            until_ns=done,
        )
