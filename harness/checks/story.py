"""What happened to one partition, from the cluster's own books: elections, log starts, truncations, lost disks.

Epochs and offsets decide what an election can have cost. Questions by time are answered from indexes, because a run may
have thousands of partitions, faults and states.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from harness.checks.elections import Election, Snapshot, committed_copies, elections_of, exact_states
from harness.checks.tables import Row, Tables
from harness.checks.unclean_rules import UncleanRules
from harness.history.disk_facts import DiskEvent, disk_events
from harness.history.step_facts import deletions_asked
from harness.scenario import Scenario

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
_NEVER = 2**62


@dataclass(frozen=True, kw_only=True)
class Truncation:
    node: int
    t: int
    epoch: int | None
    from_offset: int
    to_offset: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class DiskLoss:
    """A copy that a fault destroyed, or a part of one; `evidence` is for people."""

    event: DiskEvent
    evidence: str

    @property
    def node(self) -> int:
        return self.event.node

    @property
    def t(self) -> int:
        return self.event.t

    @property
    def fault(self) -> int | None:
        return self.event.fault


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """Of the topic that a partition is of. asked: by a step of the plan; None where others may have asked for it."""

    t: int
    uncertainty_ns: int
    asked: bool | None

    @property
    def earliest_t(self) -> int:
        return self.t - self.uncertainty_ns


class Faults(Sequence[Row]):
    """The faults of a run in order of their begin, found by time; `times`: when they began and ended, in order."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows = sorted(rows, key=lambda row: row["t_begin"] or row["t_asked"] or 0)
        self._begun = sorted((row for row in self._rows if row["t_begin"] is not None), key=lambda row: row["t_begin"])
        self._begins = [row["t_begin"] for row in self._begun]
        ends = (_NEVER if row["t_end"] is None else row["t_end"] for row in self._begun)
        self._last_ends = list(accumulate(ends, max))
        times = {row[name] for row in self._begun for name in ("t_begin", "t_end")}
        self.times = sorted(t for t in times if t is not None)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # as every sequence's
        return self._rows[index]

    def numbered(self, numbers: Iterable[int | None]) -> list[Row]:
        """Those with these numbers, in order of their begin."""
        return [self._rows[place] for place in sorted({self._places[n] for n in numbers if n in self._places})]

    @cached_property
    def _places(self) -> Mapping[int | None, int]:
        return {row["fault"]: place for place, row in enumerate(self._rows)}

    def between(self, begin: int, end: int) -> list[Row]:
        """Those that were seen in force at some moment of [begin, end]."""
        found = []
        place = bisect_right(self._begins, end) - 1
        while place >= 0 and self._last_ends[place] >= begin:
            row = self._begun[place]
            if row["t_end"] is None or row["t_end"] >= begin:
                found.append(row)
            place -= 1
        return found[::-1]


def holds_up(fault: Row, node: int) -> bool:
    """Whether a fault keeps a broker from hearing of other nodes, or from acting: clients cut off from it do not."""
    if fault["kind"] in ("pause", "full"):
        return node in (fault["nodes"] or ())
    if fault["kind"] not in ("cut", "slow", "impair"):
        return False
    links = [link.split(">") for link in (fault["links"] or "").split()]
    between = [ends for ends in links if all(end.startswith("n") for end in ends)]
    return any(f"n{node}" in ends for ends in between) if links else node in (fault["nodes"] or ())


@dataclass(frozen=True, kw_only=True)
class PartitionStory:
    run: int
    tp: int
    topic: str
    part: int
    replicas: tuple[int, ...]
    read_to_end: bool
    end_offset: int | None
    states: tuple[Row, ...] = ()
    elections: tuple[Election, ...] = ()
    truncations: tuple[Truncation, ...] = ()
    disk_losses: tuple[DiskLoss, ...] = ()
    snapshots: tuple[Row, ...] = ()
    events: tuple[Row, ...] = ()
    faults: Faults = field(default_factory=Faults)
    exact: bool = True  # the states are from the cluster's own books; not polled from its brokers, nor missing
    unclean_allowed: bool | None = False  # at the run's end, and by what the brokers said of the topic
    log_start: int | None = None  # when the final read began
    cleanup_policy: str | None = None
    is_foreign: bool = False  # others than the harness may have asked something of it
    deletion: Deletion | None = None
    is_recreated: bool = False  # there was a topic of this name before
    is_set_apart: bool = False  # no partition, but what nobody can tell to be of the topic or of the one before it

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.part}"

    @cached_property
    def final_isr(self) -> tuple[int, ...]:
        """While a partition waits for a leader with an empty ISR, its eligible leader replicas are the in-sync ones."""
        return tuple(self.states[-1]["isr"] or self.states[-1]["elr"] or ()) if self.states else ()

    @cached_property
    def end_snapshots(self) -> Mapping[int, Row]:
        return {row["node"]: row for row in self.snapshots if row["reason"] == "end"}

    @cached_property
    def logs(self) -> tuple[Snapshot, ...]:
        return tuple(Snapshot(row=row) for row in self.snapshots)

    @cached_property
    def _times(self) -> list[int]:
        return [row["t"] for row in self.states]

    @cached_property
    def losses_by_node(self) -> Mapping[int, list[DiskLoss]]:
        """In order of time."""
        found: dict[int, list[DiskLoss]] = {}
        for loss in sorted(self.disk_losses, key=lambda loss: loss.t):
            found.setdefault(loss.node, []).append(loss)
        return found

    @cached_property
    def _memberships(self) -> Mapping[int, tuple[list[int], list[int]]]:
        """Node -> when it came to be in sync, and when it ceased to be (parallel lists; the last may be open)."""
        spans: dict[int, tuple[list[int], list[int]]] = {}
        members: frozenset[int] = frozenset()
        for row in self.states:
            now = frozenset(committed_copies(row))
            for node in now - members:
                spans.setdefault(node, ([], []))[0].append(row["t"])
            for node in members - now:
                spans[node][1].append(row["t"])
            members = now
        return spans

    def joined(self, node: int, moment: int) -> int:
        """When `node` last came to have every committed record, as of `moment`: it entered the ISR then.

        From the ISR it may go to the eligible leader replicas and back and keeps what it has.
        """
        joins, _ = self._memberships.get(node, ([], []))
        place = bisect_right(joins, moment)
        return joins[place - 1] if place else 0

    def is_in_sync(self, node: int, moment: int) -> bool:
        joins, leaves = self._memberships.get(node, ([], []))
        return bisect_right(joins, moment) > bisect_right(leaves, moment)

    def election_of(self, epoch: int | None) -> Election | None:
        return next((election for election in self.elections if election.epoch == epoch), None)

    @cached_property
    def _leaders(self) -> Mapping[int, int]:
        return {row["leader_epoch"]: row["leader"] for row in self.states if row["leader"] >= 0}

    def leader_of(self, epoch: int | None) -> int | None:
        """Who led in an epoch; a state change that kept the leader has its epoch too."""
        return None if epoch is None else self._leaders.get(epoch)

    def state_at(self, t: int) -> Row | None:
        place = bisect_right(self._times, t)
        return self.states[place - 1] if place else None

    def epoch_at(self, t: int | None) -> int | None:
        state = self.state_at(t) if t is not None else None
        return state["leader_epoch"] if state else None

    def reign_at(self, t: int) -> Election | None:
        """The election whose leader was surely in force; None near a change."""
        place = bisect_right(self._elected, t)
        election = self.elections[place - 1] if place else None
        return election if election is not None and election.latest_t <= t else None

    @cached_property
    def _elected(self) -> list[int]:
        return [election.earliest_t for election in self.elections]

    def faults_between(self, begin: int, end: int) -> list[Row]:
        """Faults that were seen in force at some moment of [begin, end]."""
        return self.faults.between(begin, end)


@dataclass(frozen=True, kw_only=True)
class RunStory:
    run: int
    scenario: Scenario | None
    partitions: Mapping[int, PartitionStory]
    faults: Faults
    steps: tuple[Row, ...]
    origin: int  # t = 0 of sentences: when the load began
    unclean_group_offsets: bool | None = None  # whether it was ever allowed of the partitions that keep group offsets
    wall_ns: tuple[int, int] | None = None  # least and greatest difference of wall time to the run's own; None: unknown

    def seconds(self, t: int | None) -> str:
        return "at an unknown time" if t is None else f"at {(t - self.origin) / 1e9:.3f} s"


def read_story(
    tables: Tables, run: int, scenario: Scenario | None, origin: int | None, *,
    anchors: Sequence[Mapping[str, int]] = (),
) -> RunStory:  # fmt: skip
    faults = Faults(tables.rows("faults", run))
    rules = UncleanRules(
        tables.rows("configuration", run), tables.rows("steps", run), scenario, tables.rows("controllers", run)
    )
    by_partition = _group(tables.rows("partition_states", run))
    events, snapshots = _group(tables.rows("broker_events", run)), _group(tables.rows("replica_snapshots", run))
    is_foreign = scenario is None or scenario.cluster.is_foreign
    topics = {row["topic"]: row for row in tables.rows("topics", run)}
    losses = _Losses(_disk_losses(tables, run, faults, is_foreign=is_foreign))
    deletions = _deletions(topics.values(), tables.rows("steps", run), is_foreign=is_foreign)
    partitions = {}
    for row in tables.rows("partitions", run):
        key = (row["topic"], row["part"])
        states, told = exact_states(by_partition.get(key, ())), tuple(events.get(key, ()))
        logs = tuple(snapshots.get(key, ()))
        replicas = tuple(row["replicas"] or (states[-1]["replicas"] or () if states else ()))
        partitions[row["tp"]] = PartitionStory(
            run=run, tp=row["tp"], topic=row["topic"], part=row["part"], replicas=replicas,
            read_to_end=bool(row["read_to_end"]), end_offset=row["end_offset"], states=states,
            elections=tuple(elections_of(states, told, [Snapshot(row=log) for log in logs], rules, *key)),
            truncations=tuple(_truncations(told)),
            disk_losses=losses.of(*key),
            snapshots=logs, events=told, faults=faults,
            exact=any(state["exact"] for state in states),
            unclean_allowed=rules.at_end(row["topic"]), log_start=row["log_start"],
            cleanup_policy=row["cleanup_policy"], is_foreign=is_foreign, deletion=deletions.get(row["topic"]),
            is_recreated=_is_recreated(topics, row["topic"]),
            is_set_apart=row["topic"] in topics and bool(topics[row["topic"]]["undecided"]),
        )  # fmt: skip
    times = [row["t_asked"] for row in faults] + [r["t"] for rows in by_partition.values() for r in rows]
    if origin is None:
        origin = min((t for t in times if t is not None), default=0)
    steps = tuple(sorted(tables.rows("steps", run), key=lambda row: row["step"]))
    apart = [anchor["wall_ns"] - anchor["monotonic_ns"] for anchor in anchors]
    return RunStory(run=run, scenario=scenario, partitions=partitions, faults=faults, steps=steps, origin=origin,
                    unclean_group_offsets=None if is_foreign else rules.ever(GROUP_OFFSETS_TOPIC),
                    wall_ns=(min(apart), max(apart)) if apart else None)  # fmt: skip


def _deletions(topics: Iterable[Row], steps: Sequence[Row], *, is_foreign: bool) -> dict[str, Deletion]:
    """A topic's deletion was asked for by a step that came after its creation and no later than itself."""
    asked = deletions_asked(steps)
    found = {}
    for row in topics:
        apart, created = row["uncertainty_ns"] or 0, row["created_ns"] or 0
        if row["deleted_ns"] is None:
            continue
        own = any(
            each.topic == row["name"] and created - apart <= each.t0 <= row["deleted_ns"] + apart for each in asked
        )
        found[row["topic"]] = Deletion(
            t=row["deleted_ns"], uncertainty_ns=apart, asked=True if own else None if is_foreign else False
        )
    return found


def _is_recreated(topics: Mapping[str, Row], topic: str) -> bool:
    row = topics.get(topic)
    return row is not None and any(
        each["name"] == row["name"] and (each["created_ns"] or 0) < (row["created_ns"] or 0) for each in topics.values()
    )


def _group(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    grouped: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["t"]):
        grouped.setdefault((row["topic"], row["part"]), []).append(row)
    return grouped


def _truncations(events: Sequence[Row]) -> Iterable[Truncation]:
    for row in events:
        if row["event"] == "truncation" and (row["from_offset"] or 0) > (row["to_offset"] or 0):
            yield Truncation(
                node=row["node"], t=row["t"], epoch=row["epoch"], from_offset=row["from_offset"],
                to_offset=row["to_offset"] or 0, reason=row["reason"] or "",
            )  # fmt: skip


class _Losses:
    """Lost disks and parts of them, in order of time, found by the partition that they may have had."""

    def __init__(self, losses: Sequence[DiskLoss]) -> None:
        self._all = losses
        self._of_any: list[int] = []
        self._of: dict[tuple[str, int | None], list[int]] = {}
        for place, loss in enumerate(losses):
            if loss.event.extent == "disk" or loss.event.topic is None:
                self._of_any.append(place)
            else:
                self._of.setdefault((loss.event.topic, loss.event.part), []).append(place)

    def of(self, topic: str, part: int) -> tuple[DiskLoss, ...]:
        places = sorted((*self._of_any, *self._of.get((topic, part), ())))
        return tuple(self._all[place] for place in places)


def _disk_losses(tables: Tables, run: int, faults: Sequence[Row], *, is_foreign: bool) -> list[DiskLoss]:
    words = {row["fault"]: str(row["proof"] or row["label"] or row["kind"]) for row in faults}
    losses = [
        DiskLoss(event=event, evidence=words.get(event.fault or 0, "a disk fault") if event.fault is not None else "")
        for event in disk_events(tables.rows("disk_events", run), faults)
    ]
    # A broker of the harness has one directory; somebody else's may have kept its other ones.
    for row in tables.rows("broker_events", run):
        if row["event"] == "directory_lost":
            event = DiskEvent(node=row["node"], t=row["t"], extent="unknown" if is_foreign else "disk")
            losses.append(DiskLoss(event=event, evidence="registered with another directory id"))
    return sorted(losses, key=lambda loss: loss.t)
