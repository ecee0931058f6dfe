"""The history of one partition, from the cluster's own books: elections, log starts, truncations, lost disks.

Epochs and offsets decide what an election can have removed. Queries by time use indexes, because a run may have
thousands of partitions, faults and states.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeVar, overload

from harness.checks.model.elections import Election, Snapshot, committed_copies, elections_of, exact_states, states_near
from harness.checks.model.kept_logs import kept_logs
from harness.checks.model.settings import SettingsOverTime
from harness.checks.model.unclean_rules import UncleanRules
from harness.checks.spark.tables import Tables
from harness.history.facts.disk_facts import DiskEvent, disk_events
from harness.history.facts.fault_facts import begin_of, begun, end_of, struck_links
from harness.history.facts.incarnations import is_created_anew
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.history.facts.node_end_facts import down_between
from harness.history.facts.releases import LOG_STARTS_ARE_EXPLAINED
from harness.history.facts.step_facts import deletions_asked
from harness.history.schema.cluster_rows import (
    BROKER_EVENTS,
    CONFIGURATION,
    CONTROLLERS,
    DISK_EVENTS,
    FAULTS,
    NODE_ENDS,
    PARTITION_STATES,
    PARTITIONS,
    REPLICA_SNAPSHOTS,
    STEPS,
    TOPICS,
    BrokerEventRow,
    FaultRow,
    NodeEndRow,
    PartitionRow,
    PartitionStateRow,
    SnapshotRow,
    StepRow,
    TopicRow,
)
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.internal_rows import INTERNAL_EVENTS, INTERNAL_STATES
from harness.scenario.model import Scenario

Placed = TypeVar("Placed", PartitionStateRow, BrokerEventRow, SnapshotRow)


@dataclass(frozen=True, kw_only=True)
class Truncation:
    node: int
    time_ns: int
    epoch: int | None
    from_offset: int
    to_offset: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class DiskLoss:
    """A copy, or a part of one, that a fault destroyed; `evidence` is text for people."""

    event: DiskEvent
    evidence: str

    @property
    def node(self) -> int:
        return self.event.node

    @property
    def time_ns(self) -> int:
        return self.event.time_ns

    @property
    def fault(self) -> int | None:
        return self.event.fault


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """The deletion of a partition's topic. asked: requested by a step of the plan; None: others may have done so."""

    time_ns: int
    uncertainty_ns: int
    asked: bool | None

    @property
    def earliest_t(self) -> int:
        return self.time_ns - self.uncertainty_ns


class Faults(Sequence[FaultRow]):
    """The faults of a run in order of their begin, searchable by time; `times`: all begins and ends, in order."""

    def __init__(self, rows: Iterable[FaultRow] = ()) -> None:
        self._rows = sorted(rows, key=lambda row: row["begin_ns"] or row["asked_ns"] or 0)
        self._begun = sorted(begun(self._rows), key=begin_of)
        self._begins = [begin_of(row) for row in self._begun]
        self._last_ends = list(accumulate(map(end_of, self._begun), max))
        self.times = sorted({t for row in self._begun for t in (row["begin_ns"], row["end_ns"]) if t is not None})

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> FaultRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[FaultRow]: ...

    def __getitem__(self, index: int | slice) -> FaultRow | list[FaultRow]:
        return self._rows[index]

    def numbered(self, numbers: Iterable[int | None]) -> list[FaultRow]:
        """The faults with these numbers, in order of their begin."""
        return [self._rows[place] for place in sorted({self._places[n] for n in numbers if n in self._places})]

    @cached_property
    def _places(self) -> Mapping[int | None, int]:
        return {row["fault"]: place for place, row in enumerate(self._rows)}

    def between(self, begin: int, end: int) -> list[FaultRow]:
        """The faults seen in force at some moment of [begin, end]."""
        found = []
        place = bisect_right(self._begins, end) - 1
        while place >= 0 and self._last_ends[place] >= begin:
            row = self._begun[place]
            if row["end_ns"] is None or row["end_ns"] >= begin:
                found.append(row)
            place -= 1
        return found[::-1]


def holds_up(fault: FaultRow, node: int) -> bool:
    """Whether a fault keeps a broker from hearing other nodes or from acting; a cut to its clients does not."""
    if fault["kind"] in ("pause", "full"):
        return node in (fault["nodes"] or ())
    if fault["kind"] not in ("cut", "slow", "impair"):
        return False
    links = struck_links(fault)
    return (
        any(link.source is not None and link.touches(node) for link in links)
        if links
        else node in (fault["nodes"] or ())
    )


# How soon brokers that no fault holds up have heard of a change, and finished what they began before it.
_HEARD_NS = 10 * 10**9


def held_up(faults: Faults, nodes: Iterable[int], begin_ns: int, end_ns: int) -> list[FaultRow]:
    """What may have kept one of these nodes from hearing of a change at some moment of [begin, end]."""
    lately = faults.between(begin_ns - _HEARD_NS, end_ns)
    return [row for row in lately if any(holds_up(row, node) for node in nodes)]


def heard_by(faults: Faults, nodes: Sequence[int], changed_ns: int) -> int:
    """When each of these nodes had surely heard of a setting's change: a fault may keep one from hearing of it."""
    until_ns = changed_ns + _HEARD_NS
    meanwhile = (row for row in faults.between(changed_ns, until_ns) if any(holds_up(row, node) for node in nodes))
    return max([until_ns, *(end_of(row) + _HEARD_NS for row in meanwhile)])


@dataclass(frozen=True, kw_only=True)
class PartitionHistory:
    run: int
    partition_id: int
    topic: str
    partition: int
    replicas: tuple[int, ...]
    read_to_end: bool
    end_offset: int | None
    states: tuple[PartitionStateRow, ...] = ()
    elections: tuple[Election, ...] = ()
    truncations: tuple[Truncation, ...] = ()
    disk_losses: tuple[DiskLoss, ...] = ()
    snapshots: tuple[SnapshotRow, ...] = ()
    events: tuple[BrokerEventRow, ...] = ()
    starts: tuple[BrokerEventRow, ...] = ()  # of brokers, which are of no partition
    faults: Faults = field(default_factory=Faults)
    ends: tuple[NodeEndRow, ...] = ()  # of nodes that no fault had ended
    exact: bool = True  # the states are from the cluster's own books; not polled from its brokers, nor missing
    unclean_ever: bool | None = False  # whether an unclean election of it was allowed at any moment; None: not known
    log_start: int | None = None  # when the final read began
    cleanup_policy: str | None = None  # at the end of the run
    may_compact: bool = False  # whether its topic compacted at any moment of the run
    is_foreign: bool = False  # others than the harness may use the cluster
    may_be_trimmed: bool = False  # others may have deleted records, and no broker's log would say so (DeleteRecords)
    deletion: Deletion | None = None
    is_recreated: bool = False  # an earlier topic had the same name
    is_set_apart: bool = False  # not a real partition: records that may belong to this topic or to the one before it

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @cached_property
    def final_isr(self) -> tuple[int, ...]:
        """The last ISR; if it is empty, the eligible leader replicas count as in sync."""
        return tuple(self.states[-1]["isr"] or self.states[-1]["elr"] or ()) if self.states else ()

    @cached_property
    def end_snapshots(self) -> Mapping[int, SnapshotRow]:
        return {row["node"]: row for row in self.snapshots if row["reason"] == "end"}

    @cached_property
    def logs(self) -> tuple[Snapshot, ...]:
        return tuple(Snapshot(row=row) for row in self.snapshots)

    @cached_property
    def _times(self) -> list[int]:
        return [row["time_ns"] for row in self.states]

    @cached_property
    def losses_by_node(self) -> Mapping[int, list[DiskLoss]]:
        """Node -> its lost disks, in order of time."""
        found: dict[int, list[DiskLoss]] = {}
        for loss in sorted(self.disk_losses, key=lambda loss: loss.time_ns):
            found.setdefault(loss.node, []).append(loss)
        return found

    @cached_property
    def _memberships(self) -> Mapping[int, tuple[list[int], list[int]]]:
        """Node -> when it became in sync, and when it stopped (parallel lists; the last may be open)."""
        spans: dict[int, tuple[list[int], list[int]]] = {}
        members: frozenset[int] = frozenset()
        for row in self.states:
            now = frozenset(committed_copies(row))
            for node in now - members:
                spans.setdefault(node, ([], []))[0].append(row["time_ns"])
            for node in members - now:
                spans[node][1].append(row["time_ns"])
            members = now
        return spans

    def joined(self, node: int, moment: int) -> int:
        """When `node` last entered the ISR before `moment`: since then it has every committed record.

        It may change between the ISR and the eligible leader replicas and keeps its records.
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
        """The leader of an epoch; a state change that kept the leader has its epoch too."""
        return None if epoch is None else self._leaders.get(epoch)

    def state_at(self, time_ns: int) -> PartitionStateRow | None:
        place = bisect_right(self._times, time_ns)
        return self.states[place - 1] if place else None

    def epoch_at(self, time_ns: int | None) -> int | None:
        state = self.state_at(time_ns) if time_ns is not None else None
        return state["leader_epoch"] if state else None

    def term_at(self, time_ns: int) -> Election | None:
        """The election whose leader was certainly in force; None near a change."""
        place = bisect_right(self._elected, time_ns)
        election = self.elections[place - 1] if place else None
        return election if election is not None and election.latest_t <= time_ns else None

    def elections_near(self, time_ns: int) -> list[Election]:
        """Around a change: those of which nobody knows whose leader was in force."""
        near = (two for two in pairwise(self.elections) if two[1].earliest_t <= time_ns <= two[1].latest_t)
        return list({each.epoch: each for two in near for each in two}.values())

    @cached_property
    def _elected(self) -> list[int]:
        return [election.earliest_t for election in self.elections]

    def was_led_by_nobody_but(self, node: int, begin: int, end: int) -> bool:
        """For certain, so that it had nobody to fetch from in that time."""
        later = (row for row in self.states if begin < row["time_ns"] <= end + (row["uncertainty_ns"] or 0))
        led = {row["leader"] for row in (*states_near(self.states, begin), *later)}
        return self.exact and led <= {node, -1}

    def faults_between(self, begin: int, end: int) -> list[FaultRow]:
        """The faults seen in force at some moment of [begin, end]."""
        return self.faults.between(begin, end)

    def ends_between(self, begin: int, end: int) -> list[NodeEndRow]:
        """The nodes that were, or may have been, down by themselves at some moment of [begin, end]."""
        return down_between(self.ends, begin, end)

    def is_in_force(self, fault: int | None, time_ns: int) -> bool:
        """Whether a fault of that number had begun and not yet ended."""
        return any(begin_of(row) <= time_ns < end_of(row) for row in self.faults.numbered((fault,)))


@dataclass(frozen=True, kw_only=True)
class RunHistory:
    run: int
    scenario: Scenario | None
    partitions: Mapping[int, PartitionHistory]
    faults: Faults
    steps: tuple[StepRow, ...]
    ends: tuple[NodeEndRow, ...]  # of nodes that no fault had ended, in order of time
    origin: int  # t = 0 of sentences: when the load began
    settings: SettingsOverTime
    unclean_group_offsets: bool | None = None  # whether it was ever allowed where group offsets are kept
    unclean_transactions: bool | None = None  # the same of the partitions that transactions' states are kept in
    internal: Mapping[tuple[str, int], PartitionHistory] = field(default_factory=dict)  # of the coordinators' topics
    disk_losses: tuple[DiskLoss, ...] = ()  # of whatever partition, in order of time
    wall_ns: tuple[int, int] | None = None  # least and greatest difference of wall time to the run's clock
    set_back_ns: int = 0  # by how much wall time was set back in the run, at least

    @property
    def node_noun(self) -> str:
        """What its nodes are to people, those below 100."""
        return "front end" if self.scenario is not None and self.scenario.cluster.attached.front_ends else "broker"

    def seconds(self, time_ns: int | None) -> str:
        return "at an unknown time" if time_ns is None else f"at {(time_ns - self.origin) / 1e9:.3f} s"


def read_run_history(
    tables: Tables,
    run: int,
    scenario: Scenario | None,
    origin: int | None,
    *,
    anchors: Sequence[Mapping[str, int]] = (),
) -> RunHistory:
    faults = Faults(tables.rows(FAULTS, run))
    ends = tuple(sorted(tables.rows(NODE_ENDS, run), key=lambda row: (row["time_ns"], row["node"])))
    settings = SettingsOverTime(tables.rows(CONFIGURATION, run), scenario)
    rules = UncleanRules(
        settings,
        tables.rows(STEPS, run),
        scenario,
        tables.rows(CONTROLLERS, run),
        tables.rows(FAULTS, run),
    )
    by_partition = _group(tables.rows(PARTITION_STATES, run))
    starts = _starts(tables, run)
    events, snapshots = _group(tables.rows(BROKER_EVENTS, run)), _group(tables.rows(REPLICA_SNAPSHOTS, run))
    is_foreign = scenario is None or scenario.cluster.is_foreign
    topics = {row["topic"]: row for row in tables.rows(TOPICS, run)}
    losses = _Losses(_disk_losses(tables, run, faults, is_foreign=is_foreign))
    is_shared = is_foreign or scenario is None or scenario.is_an_applications
    deletions = _deletions(topics.values(), tables.rows(STEPS, run), is_shared=is_shared)
    partitions = {}
    for row in tables.rows(PARTITIONS, run):
        key = (row["topic"], row["partition"])
        states, own_events = exact_states(by_partition.get(key, ())), tuple(events.get(key, ()))
        logs = tuple(snapshots.get(key, ()))
        replicas = tuple(row["replicas"] or (states[-1]["replicas"] or () if states else ()))
        partitions[row["partition_id"]] = PartitionHistory(
            run=run,
            partition_id=row["partition_id"],
            topic=row["topic"],
            partition=row["partition"],
            replicas=replicas,
            read_to_end=bool(row["read_to_end"]),
            end_offset=row["end_offset"],
            states=states,
            elections=tuple(elections_of(states, own_events, [Snapshot(row=log) for log in logs], rules, *key)),
            truncations=tuple(_truncations(own_events)),
            disk_losses=losses.of(*key),
            snapshots=logs,
            events=own_events,
            starts=starts,
            faults=faults,
            ends=ends,
            exact=any(state["exact"] for state in states),
            unclean_ever=rules.ever(row["topic"]),
            log_start=_log_start(row, states, logs),
            cleanup_policy=row["cleanup_policy"],
            may_compact="compact" in settings.policies(row["topic"], row["cleanup_policy"], 0, END_OF_TIME_NS),
            is_foreign=is_foreign,
            may_be_trimmed=_may_be_trimmed(scenario),
            deletion=deletions.get(row["topic"]),
            is_recreated=row["topic"] in topics and is_created_anew(topics[row["topic"]], topics.values()),
            is_set_apart=row["topic"] in topics and bool(topics[row["topic"]]["undecided"]),
        )
    times = [row["asked_ns"] for row in faults] + [r["time_ns"] for rows in by_partition.values() for r in rows]
    if origin is None:
        origin = min((t for t in times if t is not None), default=0)
    steps = tuple(sorted(tables.rows(STEPS, run), key=lambda row: row["step"]))
    apart = [anchor["wall_ns"] - anchor["monotonic_ns"] for anchor in anchors]
    return RunHistory(
        run=run,
        scenario=scenario,
        partitions=partitions,
        faults=faults,
        steps=steps,
        origin=origin,
        ends=ends,
        unclean_group_offsets=None if is_foreign else rules.ever(GROUP_OFFSETS_TOPIC),
        unclean_transactions=None if is_foreign else rules.ever(TRANSACTIONS_TOPIC),
        settings=settings,
        disk_losses=losses.every,
        internal=_internal(tables, run, rules, losses, faults, ends, is_foreign=is_foreign),
        wall_ns=(min(apart), max(apart)) if apart else None,
        set_back_ns=max(
            (before - after for before, after in zip(accumulate(apart, max), apart, strict=True)), default=0
        ),
    )


def _starts(tables: Tables, run: int) -> tuple[BrokerEventRow, ...]:
    return tuple(row for row in tables.rows(BROKER_EVENTS, run) if row["event"] == "broker_start")


def _log_start(row: PartitionRow, states: Sequence[PartitionStateRow], logs: Sequence[SnapshotRow]) -> int | None:
    """As a leader answered when the final read began; without one, as it is on the disk of every in-sync replica."""
    if row["log_start_offset"] is not None or not states:
        return row["log_start_offset"]
    starts = {log["node"]: log["log_start_offset"] for log in logs if log["reason"] == "end"}
    in_sync = states[-1]["isr"] or ()
    if not in_sync or not starts.keys() >= set(in_sync):
        return None
    return min((start for node in in_sync if (start := starts[node]) is not None), default=None)


def _internal(
    tables: Tables,
    run: int,
    rules: UncleanRules,
    losses: "_Losses",
    faults: Faults,
    ends: tuple[NodeEndRow, ...],
    *,
    is_foreign: bool,
) -> dict[tuple[str, int], PartitionHistory]:
    """Those partitions of the coordinators' topics whose states were recorded; what their logs hold is told apart."""
    found, kept = {}, kept_logs(tables, run)
    recorded = _group(tables.rows(INTERNAL_EVENTS, run))
    starts = _starts(tables, run)
    for (topic, partition), rows in _group(tables.rows(INTERNAL_STATES, run)).items():
        states = exact_states(rows)
        assert topic is not None
        assert partition is not None
        logs, events = tuple(kept.get((topic, partition), ())), tuple(recorded.get((topic, partition), ()))
        found[topic, partition] = PartitionHistory(
            run=run,
            partition_id=-1,
            topic=topic,
            partition=partition,
            replicas=tuple(states[-1]["replicas"] or ()),
            read_to_end=False,
            end_offset=None,
            states=states,
            elections=tuple(elections_of(states, events, [Snapshot(row=row) for row in logs], rules, topic, partition)),
            truncations=tuple(_truncations(events)),
            disk_losses=losses.of(topic, partition),
            snapshots=logs,
            events=events,
            starts=starts,
            faults=faults,
            ends=ends,
            exact=any(state["exact"] for state in states),
            unclean_ever=rules.ever(topic),
            is_foreign=is_foreign,
        )
    return found


def _may_be_trimmed(scenario: Scenario | None) -> bool:
    """In somebody else's cluster; of an application, where leaders do not say why a log's start was moved, which only
    Kafka's newer ones are known to. No other load asks for it, and the reference does not have it."""
    if scenario is None or scenario.cluster.is_foreign:
        return True
    release = scenario.cluster.release
    is_recorded = release is not None and release >= LOG_STARTS_ARE_EXPLAINED
    return scenario.is_an_applications and scenario.cluster.system != "reference" and not is_recorded


def _deletions(topics: Iterable[TopicRow], steps: Sequence[StepRow], *, is_shared: bool) -> dict[str, Deletion]:
    """Deletions by topic. A step after the topic's creation, and not after its deletion, counts as the request."""
    asked = deletions_asked(steps)
    found = {}
    for row in topics:
        apart, created = row["uncertainty_ns"] or 0, row["created_ns"] or 0
        if row["deleted_ns"] is None:
            continue
        own = any(
            each.topic == row["name"] and created - apart <= each.begin_ns <= row["deleted_ns"] + apart
            for each in asked
        )
        found[row["topic"]] = Deletion(
            time_ns=row["deleted_ns"], uncertainty_ns=apart, asked=True if own else None if is_shared else False
        )
    return found


def _group(rows: Iterable[Placed]) -> dict[tuple[str | None, int | None], list[Placed]]:
    grouped: dict[tuple[str | None, int | None], list[Placed]] = {}
    for row in sorted(rows, key=lambda row: row["time_ns"]):
        grouped.setdefault((row["topic"], row["partition"]), []).append(row)
    return grouped


def _truncations(events: Sequence[BrokerEventRow]) -> Iterable[Truncation]:
    for row in events:
        end, new_end = row["from_offset"] or 0, row["to_offset"] or 0
        if row["event"] == "truncation" and end > new_end:
            yield Truncation(
                node=row["node"],
                time_ns=row["time_ns"],
                epoch=row["leader_epoch"],
                from_offset=end,
                to_offset=new_end,
                reason=row["reason_text"] or "",
            )


class _Losses:
    """Lost disks and parts of them, in order of time, found by the partitions they may have held."""

    def __init__(self, losses: Sequence[DiskLoss]) -> None:
        self._all = losses
        self._of_any: list[int] = []
        self._of: dict[tuple[str, int | None], list[int]] = {}
        for place, loss in enumerate(losses):
            if loss.event.extent == "disk" or loss.event.topic is None:
                self._of_any.append(place)
            else:
                self._of.setdefault((loss.event.topic, loss.event.partition), []).append(place)

    @property
    def every(self) -> tuple[DiskLoss, ...]:
        return tuple(self._all)

    def of(self, topic: str, partition: int) -> tuple[DiskLoss, ...]:
        places = sorted((*self._of_any, *self._of.get((topic, partition), ())))
        return tuple(self._all[place] for place in places)


def _disk_losses(tables: Tables, run: int, faults: Sequence[FaultRow], *, is_foreign: bool) -> list[DiskLoss]:
    words = {row["fault"]: str(row["proof_text"] or row["label_text"] or row["kind"]) for row in faults}
    losses = [
        DiskLoss(event=event, evidence=words.get(event.fault or 0, "a disk fault") if event.fault is not None else "")
        for event in disk_events(tables.rows(DISK_EVENTS, run), faults)
    ]
    # A broker of the harness has one directory; another's may have kept its other directories.
    for row in tables.rows(BROKER_EVENTS, run):
        if row["event"] == "directory_lost":
            event = DiskEvent(node=row["node"], time_ns=row["time_ns"], extent="unknown" if is_foreign else "disk")
            losses.append(DiskLoss(event=event, evidence="registered with another directory id"))
    return sorted(losses, key=lambda loss: loss.time_ns)
