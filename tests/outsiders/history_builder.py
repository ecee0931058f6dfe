"""How an outsider tells a history: several partitions on any brokers, and beside it what the promise makes of it.

The expectation was written before the checks were asked. Where the promise can be read in two ways, `verdicts` has
both; what would be wrong in either reading is still wrong.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from harness.checks.judge import Judgement
from harness.history.schema.schemas import ADDED_COLUMNS, ADDED_TABLES, AT_START
from harness.ports.load import WorkloadSpec
from harness.scenario.model import ClusterSpec, ExpectSpec, Scenario, TopicSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import SECOND, History
from workloads.produce_and_poll import ProduceAndPollSettings

VIOLATION, PASS, OPEN, VACUOUS = Verdict.VIOLATION, Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.VACUOUS
SOME = None  # at least one such finding, however many records it counts
Entry = tuple[int, int, int]  # offset, epoch, value
Findings = Mapping[str, Collection[int] | int | None]  # "check class" -> values, or how many records, or SOME
UNJUDGED = {"availability observation", "recovery observation"}
# By class: what the same places, given to other records, look like from other sides.
REWOUND = {
    each: [f"{check} {each}" for check in ("inconsistent-offsets", "acknowledged-regression", "reordering")]
    for each in ("permitted", "violation", "observation")
}


@dataclass(frozen=True, kw_only=True)
class ExpectedJudgement:
    """findings: exactly these, but for those in `also`, which may be there or not."""

    name: str
    story: str
    verdicts: tuple[Verdict, ...]
    findings: Findings
    also: frozenset[str]
    why: str
    make: Callable[[], History]

    def disagreements(self, judgement: Judgement) -> list[str]:
        found: dict[str, list[Any]] = {}
        for _, finding in judgement.findings:
            found.setdefault(f"{finding.check} {finding.classification}", []).append(finding)
        wrong = []
        if judgement.verdict not in self.verdicts:
            wrong.append(f"verdict {judgement.verdict.value}, not {' or '.join(each.value for each in self.verdicts)}")
        for name, expected in self.findings.items():
            if name not in found:
                wrong.append(f"no {name}")
            elif isinstance(expected, int):
                if (count := sum(finding.count for finding in found[name])) != expected:
                    wrong.append(f"{name}: {count} records, not {expected}")
            elif expected is not None:
                values = {value for finding in found[name] for value in finding.values}
                if values != set(expected):
                    wrong.append(f"{name}: values {sorted(values)}, not {sorted(expected)}")
        for name in found.keys() - self.findings.keys() - self.also - UNJUDGED:
            wrong.append(f"{name} though nothing is wrong: {found[name][0].sentence}")
        return wrong


CASES: dict[str, ExpectedJudgement] = {}
T = TypeVar("T", bound=History)


def case(
    story: str,
    verdicts: Verdict | tuple[Verdict, ...],
    findings: Findings | None = None,
    *,
    why: str,
    also: Collection[str] = (),
) -> Callable[[Callable[[], T]], Callable[[], T]]:
    def keep(make: Callable[[], T]) -> Callable[[], T]:
        name = make.__name__
        assert name not in CASES, name
        CASES[name] = ExpectedJudgement(
            name=name,
            story=story,
            verdicts=verdicts if isinstance(verdicts, tuple) else (verdicts,),
            findings=findings or {},
            also=frozenset(also),
            why=why,
            make=make,
        )
        return make

    return keep


class HistoryBuilder(History):
    """Partition t-0 (number 0) on `brokers`, and others as `place` names them. `log`: what the leader of t-0 holds."""

    def __init__(
        self,
        *,
        brokers: Sequence[int] = (1, 2, 3),
        settings: Mapping[str, str] | None = None,
        topics: Mapping[str, Mapping[str, str]] | None = None,
        workload: WorkloadSpec | None = None,
        coverage: Mapping[str, str] | None = None,
        system: str = "reference",
        read_to_end: bool = True,
    ) -> None:
        self._places: dict[int, tuple[str, int]] = {0: ("t", 0)}
        self._states: dict[tuple[str, int], tuple[int, int, tuple[int, ...]]] = {}
        self._led_last: dict[tuple[str, int], int] = {}
        self._elr: dict[int, tuple[int, ...]] = {}
        self.brokers = tuple(brokers)
        self.log: list[Entry] = []
        specs = tuple(TopicSpec(name=name, settings=own) for name, own in (topics or {"t": {}}).items())
        super().__init__(
            scenario_=Scenario(
                name="outsider",
                story="",
                source="",
                topics=specs,
                faults=(),
                workload=workload or ProduceAndPollSettings(),
                cluster=ClusterSpec(brokers=self.brokers, settings=settings or {}, system=system),
                steps=(),
                expect=ExpectSpec(),
                coverage=coverage or {},
            ),
            read_to_end=read_to_end,
        )
        self.partition["replicas"] = list(self.brokers)

    def _add(self, table: str, **columns: Any) -> dict[str, Any]:
        """What the builder says of t-0 holds for the partition that `partition_id` names."""
        partition_id = columns.get(
            "partition_id", columns.get("partition") if table in ("group_events", "client_events") else None
        )
        if partition_id is not None and partition_id in self._places:
            columns["topic"], columns["partition"] = self._places[partition_id]
        return super()._add(table, **columns)

    def place(
        self, partition_id: int, topic: str, partition: int, *, brokers: Sequence[int] | None = None, **columns: Any
    ) -> Self:
        self._places[partition_id] = topic, partition
        replicas = list(brokers or self.brokers)
        self._add(
            "partitions",
            partition_id=partition_id,
            topic=topic,
            partition=partition,
            **{"replicas": replicas, "read_to_end": True, **columns},
        )
        return self

    # -- the cluster --------------------------------------

    def state(
        self,
        leader: int,
        epoch: int,
        isr: Sequence[int],
        *,
        at: float,
        start: int | None = None,
        partition_id: int = 0,
        elr: Sequence[int] | None = None,
    ) -> Self:
        """From the cluster's own books; unclean as they would have it: in neither ISR nor ELR, nor the last leader."""
        topic, part = self._places[partition_id]
        before = self._states.get((topic, part))
        eligible = (*before[2], *self._elr.get(partition_id, ())) if before else ()
        if before and not eligible:
            eligible = (self._led_last[topic, part],)
        elected = before is not None and leader >= 0 and epoch > before[1]
        self._exact_state(
            (topic, part),
            leader,
            epoch,
            isr,
            at=at,
            before=None if before is None else (before[0], before[2]),
            unclean=bool(elected and eligible and leader not in eligible),
            replicas=self._replicas(partition_id),
            elr=None if elr is None else list(elr),
        )
        if start is not None:
            self.leads(leader, epoch, start, at=at, partition_id=partition_id)
        self._states[topic, part] = leader, epoch, tuple(isr)
        self._led_last[topic, part] = leader if leader >= 0 else self._led_last.get((topic, part), -1)
        self._elr[partition_id] = tuple(elr or ())
        if partition_id == 0:
            self._isr, self._leader, self._epoch = tuple(isr), leader, epoch
        return self

    def leads(self, node: int, epoch: int, start: int, *, at: float, partition_id: int = 0) -> Self:
        """The broker's own journal says that it began to lead."""
        place = self._places[partition_id]
        self.broker_event(node, "leadership_start", at=at, place=place, leader_epoch=epoch, from_offset=start)
        return self

    def polled(
        self,
        observer: int,
        leader: int,
        epoch: int | None,
        isr: Sequence[int] | None,
        *,
        at: float,
        partition_id: int = 0,
    ) -> Self:
        """What a broker answered when it was asked."""
        topic, part = self._places[partition_id]
        self._add(
            "partition_states",
            topic=topic,
            partition=part,
            time_ns=int(at * SECOND),
            uncertainty_ns=0,
            exact=False,
            observer=observer,
            leader=leader,
            leader_epoch=epoch,
            isr=None if isr is None else list(isr),
            replicas=self._replicas(partition_id),
        )
        return self

    def _replicas(self, partition_id: int) -> list[int]:
        replicas: list[int] = next(
            row["replicas"] for row in self.rows["partitions"] if row["partition_id"] == partition_id
        )
        return replicas

    def configured(
        self, key: str, value: str, *, at: float = 0.0, scope: str = "topic", name: str = "t", node: int = -1
    ) -> Self:
        self._add("configuration", time_ns=int(at * SECOND), scope=scope, name=name, node=node, key=key, value=value)
        return self

    def said_at_start(self, node: int, key: str, value: str, *, at: float = 0.0) -> Self:
        """What a broker printed of its own configuration when it started."""
        self._add(
            "configuration",
            time_ns=int(at * SECOND),
            scope="broker",
            name=str(node),
            node=node,
            key=key,
            value=value,
            source=AT_START,
        )
        return self

    def asked_unclean(self, outcome: str, *, at: float, until: float, topic: str = "t", partition: int = 0) -> Self:
        self._add(
            "steps",
            step=len(self.rows["steps"]),
            kind="act",
            act="elect",
            step_text=f"elect unclean of {topic}-{partition}",
            begin_ns=int(at * SECOND),
            end_ns=int(until * SECOND),
            outcome=outcome,
            seen_text="",
            arguments=f'{{"elect": "unclean", "partition": {partition}, "topic": "{topic}"}}',
        )
        return self

    def destroyed(
        self,
        kind: str,
        node: int,
        extent: str,
        *,
        at: float,
        until: float | None = None,
        first: int | None = None,
        end: int | None = None,
        partition_id: int | None = None,
    ) -> Self:
        """A fault took a disk or a part of it; partition_id None: whatever lay there."""
        self.fault(kind, [node], at=at, until=at + 0.5 if until is None else until)
        self.disk_event(
            node, extent, first, end, at=at, place=None if partition_id is None else self._places[partition_id]
        )
        return self

    def lived(self, topic: str, *, since: int, until: int | None) -> Self:
        """One life of topic t, which is set apart as `topic`; in seconds."""
        self._add(
            "topics",
            topic=topic,
            name="t",
            topic_id=f"id of {topic}",
            created_ns=since * SECOND,
            deleted_ns=None if until is None else until * SECOND,
            uncertainty_ns=0,
            undecided=False,
        )
        return self

    def asked_to_delete(self, *, until: int) -> Self:
        """A step of the plan that deleted topic t within the second before `until`."""
        self._add(
            "steps",
            step=len(self.rows["steps"]),
            kind="act",
            act="delete_topic",
            step_text="delete topic t",
            begin_ns=(until - 1) * SECOND,
            end_ns=until * SECOND,
            outcome="ok",
            seen_text="",
            arguments='{"delete_topic": "t"}',
        )
        return self

    def replica(
        self,
        node: int,
        log: Sequence[Entry],
        *,
        at: float = 90.0,
        reason: str = "end",
        high_watermark: int | None,
        partition_id: int = 0,
    ) -> Self:
        """A replica's log as it was read from disk, with its epochs."""
        starts: dict[int, int] = {}
        for offset, epoch, _ in log:
            starts.setdefault(epoch, offset)
        epochs = " ".join(f"{epoch}:{start}" for epoch, start in starts.items())
        return self.snapshot(
            node,
            log,
            at=at,
            reason=reason,
            high_watermark=high_watermark,
            epochs=epochs,
            place=self._places[partition_id],
            partition_id=partition_id,
        )

    # -- what coordinators keep ---------------------------

    def kept_state(
        self,
        place: tuple[str, int],
        leader: int,
        epoch: int,
        isr: Sequence[int],
        *,
        at: float,
        replicas: Sequence[int] | None = None,
    ) -> Self:
        """A state of a partition of an internal topic, from the cluster's own books."""
        before = [row for row in self.rows["internal_partition_states"] if (row["topic"], row["partition"]) == place]
        was = before[-1] if before else None
        elected = was is not None and leader >= 0 and epoch > was["leader_epoch"]
        self._exact_state(
            place,
            leader,
            epoch,
            isr,
            at=at,
            before=None if was is None else (was["leader"], was["isr"]),
            table="internal_partition_states",
            unclean=bool(elected and was is not None and leader not in was["isr"]),
            replicas=list(replicas or self.brokers),
            partition_epoch=len(before),
        )
        return self

    def kept_log(self, place: tuple[str, int], node: int, end: int, *, at: float = 110.0) -> Self:
        """A replica of such a partition as it was read at the end."""
        self._add(
            "internal_replica_snapshots",
            snapshot=len(self.rows["internal_replica_snapshots"]),
            node=node,
            time_ns=int(at * SECOND),
            reason="end",
            topic=place[0],
            partition=place[1],
            log_start_offset=0,
            high_watermark=end,
            log_end_offset=end,
            leader_epochs="0:0",
            kept_from=0,
        )
        return self

    def kept_offset(self, partition: int, committed: int, *, at: float, group: str = "g", **columns: Any) -> Self:
        """A record of a group's offset for t-0, in every log that was read."""
        self._add(
            "consumer_offsets",
            snapshots=[row["snapshot"] for row in self.rows["internal_replica_snapshots"]],
            partition=partition,
            offset=len(self.rows["consumer_offsets"]),
            leader_epoch=0,
            time_ns=int(at * SECOND),
            **{
                "kind": "offset",
                "removed": False,
                "group": group,
                "topic": "t",
                "topic_partition": 0,
                "committed_offset": committed,
                "commit_ns": int(at * SECOND),
                **columns,
            },
        )
        return self

    def kept_marker(self, partition: int, *, at: float, producer_id: int, producer_epoch: int) -> Self:
        """The end of a producer's transaction there, which commits its offsets."""
        own: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": producer_epoch, "transactional": True}
        self.kept_offset(partition, 0, at=at, kind="marker", commits=True, topic=None, **own)
        last = self.rows["consumer_offsets"][-1]
        last.update(group=None, topic_partition=None, committed_offset=None, commit_ns=None)
        return self

    # -- the ways that most stories go --------------------

    def members(
        self, *processes: int, reset: str = "earliest", isolation: str = "read_uncommitted", **columns: Any
    ) -> Self:
        """Consumers of group g; nobody has been assigned anything yet."""
        for process in processes:
            self.client(process, role="consumer", group="g", offset_reset=reset, isolation=isolation, **columns)
        return self

    def reads(self, process: int, offsets: Sequence[int], *, at: float, **more: Any) -> Self:
        """Of t-0, in which each value stands at the offset of its own number."""
        return self.poll([(offset, offset) for offset in offsets], at=at, process=process, **more)

    def ack(self, value: int, *, at: float, acks: int = -1, **more: Any) -> Self:
        """The leader of t-0 appends and acknowledges."""
        self.send(value, len(self.log), at=at, acks=acks, **more)
        self.log.append((len(self.log), self._epoch, value))
        return self

    def fail_over(
        self,
        to: int,
        *,
        kept: int | None = None,
        at: float = 8.0,
        isr: Sequence[int] | None = None,
        journalled: bool = True,
        back: bool = True,
    ) -> Self:
        """The leader is killed two seconds before, `to` takes over with log end `kept`; the old one comes back, cut."""
        old, end = self._leader, len(self.log)
        kept = end if kept is None else kept
        assert old is not None
        self.fault("kill", [old], at=at - 2, until=at + 1)
        self.replica(old, self.log, at=at - 2, reason="kill", high_watermark=None)
        left = [node for node in self._isr or () if node != old] if isr is None else list(isr)
        self.state(to, self._epoch + 1, left, at=at, start=kept if journalled else None)
        self.log = self.log[:kept]
        if back:
            self.started(old, at=at + 1)
            if end > kept:
                self.truncation(old, kept, end, epoch=self._epoch, at=at + 2)
            self.state(to, self._epoch, self.brokers, at=at + 3)
        return self

    def finish(
        self,
        *,
        high_watermark: int | None = None,
        logs: Mapping[int, Sequence[Entry]] | None = None,
        only: Sequence[int] | None = None,
        snapshots: bool = True,
    ) -> Self:
        """Every replica's log at the end (as the leader's, but for `logs`), and the final read of it."""
        end = max((offset for offset, _, _ in self.log), default=-1) + 1 if high_watermark is None else high_watermark
        for node in (self.brokers if only is None else only) if snapshots else ():
            log = (logs or {}).get(node, self.log)
            self.replica(node, log, high_watermark=min(end, max((entry[0] for entry in log), default=-1) + 1))
        readable = [entry for entry in self.log if entry[0] < end]
        self.final([(offset, value) for offset, _, value in readable])
        epochs = {offset: epoch for offset, epoch, _ in readable}
        for row in self.rows["records"]:
            if row["kind"] == 2 and row["partition_id"] == 0:
                row["leader_epoch"] = epochs[row["offset"]]
        return self

    def finish_partition(
        self, partition_id: int, log: Sequence[Entry], *, nodes: Sequence[int] | None = None, at: float = 100.0
    ) -> Self:
        """The same of another partition: its replicas hold `log`, and the final read gets all of it."""
        for node in self.brokers if nodes is None else nodes:
            self.replica(node, log, high_watermark=len(log), partition_id=partition_id)
        return self.final([(offset, value) for offset, _, value in log], at=at, partition_id=partition_id)

    def as_sealed_before(self) -> Self:
        """Without the tables and columns that came later, as a folder of old is read."""
        for table in ADDED_TABLES:
            self.rows[table].clear()
        for table, columns in ADDED_COLUMNS.items():
            for row in self.rows.get(table, ()):
                row.update(dict.fromkeys(columns))
        return self


def led(count: int = 10, *, acks: int = -1, **more: Any) -> HistoryBuilder:
    """The first broker leads t-0 in epoch 0, all in sync, and acknowledges values 0.. at offsets 0.. from second 1."""
    history = HistoryBuilder(**more)
    history.state(history.brokers[0], 0, history.brokers, at=0, start=0)
    for value in range(count):
        history.ack(value, at=1 + value / 10, acks=acks)
    return history
