"""What happened to one partition, from the cluster's own books: elections, log starts, truncations, lost disks.

Epochs and offsets decide what an election can have cost (DESIGN 6). Where a leader's log began its epoch is known from
the leader-epoch checkpoints in the snapshots, or from the leader's own journal.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.checks.tables import Row, Tables
from harness.scenario import Scenario

# Faults that take the only copy of something away; a kill alone does not: the page cache survives it.
_DESTROYING = re.compile(r"wipe|disk|power|damage")
_FAR = 2**62
UNCLEAN_KEY = "unclean.leader.election.enable"


@dataclass(frozen=True, kw_only=True)
class Election:
    """A leader that took over. start: its log end when its epoch began (None: not known).

    It was elected cleanly from the ISR, or, when that was empty, from the eligible leader replicas (KIP-966); when
    they were gone as well, Kafka waits for the last known leader, which was the last member of the ISR.
    """

    t: int
    uncertainty_ns: int
    epoch: int
    leader: int
    leader_before: int
    unclean: bool
    isr: tuple[int, ...]
    isr_before: tuple[int, ...]
    elr_before: tuple[int, ...]
    start: int | None
    start_from: str  # where `start` was read
    allowed: bool  # an unclean election was allowed at that moment
    allowed_by: str
    chain: tuple[tuple[int, int], ...] | None = None  # the leader's own earlier epochs: (epoch, start offset)

    @property
    def began_at(self) -> str:
        return "an unknown offset" if self.start is None else str(self.start)

    @property
    def eligible(self) -> tuple[int, ...]:
        """Who could have been elected cleanly."""
        return _with_elr(self.isr_before, self.elr_before)

    def lacks(self, offset: int | None, epoch: int | None) -> bool | None:
        """Whether the leader's log had no such record when it took over; None when nothing recorded tells.

        It lacks what lies at or beyond its log end, and what an epoch that its own log never had wrote below that
        (the follower's question of KIP-101, asked of the leader).
        """
        if self.start is None:
            return None
        if offset is None or self.start <= offset:
            return True
        if self.chain is None or epoch is None:
            return False
        own = max((entry for entry in self.chain if entry[1] <= offset), key=lambda entry: entry[0], default=None)
        return own is not None and own[0] != epoch


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
    node: int
    t: int
    fault: int | None
    evidence: str


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
    faults: tuple[Row, ...] = ()
    exact: bool = True  # the states are from the cluster's own books, not polled from its brokers
    unclean_allowed: bool = False  # at the run's end, and by what the brokers said of the topic
    log_start: int | None = None  # when the final read began
    cleanup_policy: str | None = None
    is_foreign: bool = False  # others than the harness may have asked something of it

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

    def election_of(self, epoch: int | None) -> Election | None:
        return next((election for election in self.elections if election.epoch == epoch), None)

    def leader_of(self, epoch: int | None) -> int | None:
        """Who led in an epoch; a state change that kept the leader has its epoch too."""
        leaders = [row["leader"] for row in self.states if row["leader_epoch"] == epoch and row["leader"] >= 0]
        return leaders[-1] if leaders else None

    def state_at(self, t: int) -> Row | None:
        state = None
        for row in self.states:
            if row["t"] > t:
                break
            state = row
        return state

    def epoch_at(self, t: int | None) -> int | None:
        state = self.state_at(t) if t is not None else None
        return state["leader_epoch"] if state else None

    def faults_between(self, begin: int, end: int) -> list[Row]:
        """Faults that were seen in force at some moment of [begin, end]."""
        return [
            row
            for row in self.faults
            if row["t_begin"] is not None and row["t_begin"] <= end and (row["t_end"] is None or row["t_end"] >= begin)
        ]


@dataclass(frozen=True, kw_only=True)
class RunStory:
    run: int
    scenario: Scenario | None
    partitions: Mapping[int, PartitionStory]
    faults: tuple[Row, ...]
    steps: tuple[Row, ...]
    origin: int  # t = 0 of sentences: when the load began
    wall_ns: tuple[int, int] | None = None  # least and greatest difference of wall time to the run's own; None: unknown

    def seconds(self, t: int | None) -> str:
        return "at an unknown time" if t is None else f"at {(t - self.origin) / 1e9:.3f} s"


def read_story(
    tables: Tables, run: int, scenario: Scenario | None, origin: int | None, *,
    anchors: Sequence[Mapping[str, int]] = (),
) -> RunStory:  # fmt: skip
    faults = tuple(sorted(tables.rows("faults", run), key=lambda row: row["t_begin"] or row["t_asked"] or 0))
    rules = _UncleanRules(tables.rows("configuration", run), tables.rows("steps", run), scenario)
    by_partition = _group(tables.rows("partition_states", run))
    events, snapshots = _group(tables.rows("broker_events", run)), _group(tables.rows("replica_snapshots", run))
    lost_directories = [row for row in tables.rows("broker_events", run) if row["event"] == "directory_lost"]
    partitions = {}
    for row in tables.rows("partitions", run):
        key = (row["topic"], row["part"])
        states = exact_states(by_partition.get(key, ()))
        starts = _epoch_starts(events.get(key, ()), snapshots.get(key, ()))
        replicas = tuple(row["replicas"] or (states[-1]["replicas"] or () if states else ()))
        partitions[row["tp"]] = PartitionStory(
            run=run, tp=row["tp"], topic=row["topic"], part=row["part"], replicas=replicas,
            read_to_end=bool(row["read_to_end"]), end_offset=row["end_offset"], states=states,
            elections=tuple(_elections(states, starts, rules, row["topic"], snapshots.get(key, ()))),
            truncations=tuple(_truncations(events.get(key, ()))),
            disk_losses=tuple(_disk_losses(faults, lost_directories)),
            snapshots=tuple(snapshots.get(key, ())), faults=faults,
            exact=not states or any(state["exact"] for state in states),
            unclean_allowed=rules.at(row["topic"], _FAR)[0], log_start=row["log_start"],
            cleanup_policy=row["cleanup_policy"], is_foreign=scenario is None or scenario.cluster.is_foreign,
        )  # fmt: skip
    times = [row["t_asked"] for row in faults] + [r["t"] for rows in by_partition.values() for r in rows]
    if origin is None:
        origin = min((t for t in times if t is not None), default=0)
    steps = tuple(sorted(tables.rows("steps", run), key=lambda row: row["step"]))
    apart = [anchor["wall_ns"] - anchor["monotonic_ns"] for anchor in anchors]
    return RunStory(run=run, scenario=scenario, partitions=partitions, faults=faults, steps=steps, origin=origin,
                    wall_ns=(min(apart), max(apart)) if apart else None)  # fmt: skip


def _group(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    grouped: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["t"]):
        grouped.setdefault((row["topic"], row["part"]), []).append(row)
    return grouped


def exact_states(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The coordination log's states where there are any, else the polled ones in order of epoch, then time."""
    exact = [row for row in rows if row["exact"]]
    if exact:
        return tuple(sorted(exact, key=lambda row: (row["t"], row["partition_epoch"] or 0)))
    polled: list[Row] = []
    for row in sorted(rows, key=lambda row: row["t"]):
        # A broker that was cut off answers with an old state: epochs only go up.
        if polled and (row["leader_epoch"] or 0) < (polled[-1]["leader_epoch"] or 0):
            continue
        same = polled and all(polled[-1][name] == row[name] for name in ("leader", "leader_epoch", "isr", "elr"))
        if not same:
            polled.append(row)
    return tuple(polled)


def _with_elr(isr: tuple[int, ...], elr: tuple[int, ...]) -> tuple[int, ...]:
    return (*isr, *(node for node in elr if node not in isr))


def committed_copies(row: Row) -> tuple[int, ...]:
    """Who must have every committed record while a state is in force: the ISR and the eligible leader replicas."""
    return _with_elr(tuple(row["isr"] or ()), tuple(row["elr"] or ()))


def parse_epochs(text: str | None) -> list[tuple[int, int]]:
    """A leader-epoch checkpoint as stored in a snapshot: JSON pairs, or "epoch:start" words."""
    if not text:
        return []
    if text.lstrip().startswith(("[", "{")):
        pairs = json.loads(text)
        items = pairs.items() if isinstance(pairs, dict) else pairs
        return [(int(epoch), int(start)) for epoch, start in items]
    return [(int(epoch), int(start)) for epoch, start in re.findall(r"(\d+)\s*[:=]\s*(\d+)", text)]


def _epoch_starts(events: Sequence[Row], snapshots: Sequence[Row]) -> dict[int, tuple[int, str]]:
    """Epoch -> (start offset, where it was read); the leader's own word first, then the lowest of the checkpoints."""
    starts: dict[int, tuple[int, str]] = {}
    for row in snapshots:
        for epoch, start in parse_epochs(row["epochs"]):
            if epoch not in starts or start < starts[epoch][0]:
                starts[epoch] = (start, f"leader-epoch-checkpoint of broker {row['node']} ({row['reason']} snapshot)")
    for row in events:
        if row["event"] == "leadership_start" and row["epoch"] is not None and row["from_offset"] is not None:
            starts[row["epoch"]] = (row["from_offset"], f"evidence journal of broker {row['node']}")
    return starts


def _elections(
    states: Sequence[Row], starts: Mapping[int, tuple[int, str]], rules: "_UncleanRules", topic: str,
    snapshots: Sequence[Row],
) -> Iterable[Election]:  # fmt: skip
    leader, epoch, isr, elr = -1, -1, (), ()
    for row in states:
        if row["leader"] >= 0 and row["leader_epoch"] > epoch:
            isr_before = tuple(row["isr_before"] if row["isr_before"] is not None else isr)
            before = row["leader_before"] if row["leader_before"] is not None else -1
            start, source = starts.get(row["leader_epoch"], (None, "not recorded"))
            outside = row["unclean"] if row["unclean"] is not None else row["leader"] not in (*isr_before, *elr)
            unclean = bool(outside) and epoch >= 0
            allowed, allowed_by = rules.at(topic, row["t"] + (row["uncertainty_ns"] or 0))
            yield Election(
                t=row["t"], uncertainty_ns=row["uncertainty_ns"] or 0, epoch=row["leader_epoch"], leader=row["leader"],
                leader_before=before if before >= 0 else leader, unclean=unclean, isr=tuple(row["isr"] or ()),
                isr_before=isr_before, elr_before=elr, start=start, start_from=source, allowed=allowed,
                allowed_by=allowed_by, chain=_chain(row["leader"], row["leader_epoch"], snapshots),
            )  # fmt: skip
        if row["leader"] >= 0:
            leader = row["leader"]
        epoch = max(epoch, row["leader_epoch"])
        isr, elr = tuple(row["isr"] or ()), tuple(row["elr"] or ())


def _chain(leader: int, epoch: int, snapshots: Sequence[Row]) -> tuple[tuple[int, int], ...] | None:
    """The epochs before `epoch` in the leader's own checkpoint, from its first snapshot that knows `epoch`."""
    for row in snapshots:
        if row["node"] == leader and row["reason"] != "truncation":
            entries = parse_epochs(row["epochs"])
            if any(entry[0] == epoch for entry in entries):
                return tuple(entry for entry in entries if entry[0] < epoch)
    return None


def _truncations(events: Sequence[Row]) -> Iterable[Truncation]:
    for row in events:
        if row["event"] == "truncation" and (row["from_offset"] or 0) > (row["to_offset"] or 0):
            yield Truncation(
                node=row["node"], t=row["t"], epoch=row["epoch"], from_offset=row["from_offset"],
                to_offset=row["to_offset"] or 0, reason=row["reason"] or "",
            )  # fmt: skip


def _disk_losses(faults: Sequence[Row], lost_directories: Sequence[Row]) -> Iterable[DiskLoss]:
    for row in faults:
        if row["t_begin"] is not None and _DESTROYING.search(row["kind"] or ""):
            for node in row["nodes"] or ():
                evidence = row["proof"] or row["label"] or row["kind"]
                yield DiskLoss(node=node, t=row["t_begin"], fault=row["fault"], evidence=evidence)
    for row in lost_directories:
        yield DiskLoss(node=row["node"], t=row["t"], fault=None, evidence="registered with another directory id")


class _UncleanRules:
    """Whether an unclean election was allowed for a topic at a moment, and by what."""

    def __init__(self, configuration: Sequence[Row], steps: Sequence[Row], scenario: Scenario | None) -> None:
        self._changes = sorted((row for row in configuration if row["key"] == UNCLEAN_KEY), key=lambda row: row["t"])
        self._asked = [
            row["t0"]
            for row in steps
            if row["kind"] == "act" and row["t0"] is not None and _text(row).startswith("elect unclean")
        ]
        self._scenario = scenario

    def at(self, topic: str, t: int) -> tuple[bool, str]:
        if any(asked <= t for asked in self._asked):
            return True, "an operator asked for an unclean election"
        for scope in ("topic", "broker"):
            wanted = [
                row
                for row in self._changes
                if row["t"] <= t
                and (row["scope"] == "topic") == (scope == "topic")
                and (scope != "topic" or row["name"] == topic)
            ]
            if wanted:
                value = (wanted[-1]["value"] or "").lower()
                if value in ("true", "false"):  # a removed override falls back to the broker's setting
                    return value == "true", f"{scope} setting {UNCLEAN_KEY}={value}"
        return self._from_scenario(topic)

    def _from_scenario(self, topic: str) -> tuple[bool, str]:
        if self._scenario is not None and not self._changes:
            own = [spec.settings.get(UNCLEAN_KEY) for spec in self._scenario.topics if spec.name == topic]
            for value, scope in ((own[0] if own else None, "topic"), (
                self._scenario.cluster.settings.get(UNCLEAN_KEY), "broker")):  # fmt: skip
                if value is not None:
                    return value.lower() == "true", f"{scope} setting {UNCLEAN_KEY}={value.lower()} of the scenario"
        if self._scenario is not None:
            value = self._scenario.cluster.settings.get(UNCLEAN_KEY)
            if value is not None:
                return value.lower() == "true", f"broker setting {UNCLEAN_KEY}={value.lower()} of the scenario"
        return False, f"Kafka's default {UNCLEAN_KEY}=false"


def _text(row: Row) -> str:
    return str(row["text"] or "").lower()
