"""Builds the tables of tiny histories by hand: a run is told as a story, and the rows follow the schemas' rules."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement, RunInput, judge_tables
from harness.checks.spark.tables import Tables, tables_of
from harness.history.facts.log_digest import with_digests
from harness.history.schema.cluster_rows import REPLICA_SNAPSHOTS, SnapshotRow
from harness.history.schema.schemas import TABLES
from harness.history.schema.typed_rows import TypedRows
from harness.ports.load import WorkloadSpec
from harness.scenario.model import ClusterSpec, ExpectSpec, Scenario, TopicSpec
from workloads.produce_and_poll import ProduceAndPollSettings

SECOND = 10**9
ISR = (1, 2, 3)
Place = tuple[str, int]  # topic, partition


def scenario(
    *,
    settings: Mapping[str, str] | None = None,
    expect: ExpectSpec | None = None,
    coverage: Mapping[str, str] | None = None,
    workload: WorkloadSpec | None = None,
    topics: Sequence[TopicSpec] = (TopicSpec(name="t"),),
) -> Scenario:
    return Scenario(
        name="test",
        story="",
        source="",
        cluster=ClusterSpec(settings=settings or {}),
        topics=tuple(topics),
        workload=workload or ProduceAndPollSettings(),
        faults=(),
        steps=(),
        expect=expect or ExpectSpec(),
        coverage=coverage or {},
    )


class History:
    """One run over partition t-0 (partition_id 0), in seconds. A call appends rows and gives the history back."""

    def __init__(self, *, run: int = 0, scenario_: Scenario | None = None, read_to_end: bool = True) -> None:
        self.run = run
        self.scenario = scenario_ or scenario()
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self.anchors: list[dict[str, int]] = []  # of run.json: the run's clock against wall time
        self.journals_may_lack_their_end = False  # of run.json
        self._operation = 0
        self._snapshot = 0
        self._isr: tuple[int, ...] | None = None
        self._leader: int | None = None
        self._epoch = -1
        self.partition = self._add(
            "partitions",
            partition_id=0,
            topic="t",
            partition=0,
            replicas=list(ISR),
            read_to_end=read_to_end,
            end_offset=None,
        )

    def _add(self, table: str, **columns: Any) -> dict[str, Any]:
        assert columns.keys() <= set(TABLES[table].names), columns
        row = dict.fromkeys(TABLES[table].names) | {"run": self.run} | columns
        self.rows[table].append(row)
        return row

    def as_run(self, run: int) -> Self:
        """The same history as that run of several."""
        self.run = run
        for rows in self.rows.values():
            for row in rows:
                row["run"] = run
        return self

    # -- clients ------------------------------------------

    def send(
        self,
        value: int,
        offset: int | None = None,
        *,
        at: float,
        elapsed_s: float = 0.1,
        status: int = 0,
        acks: int = -1,
        process: int = 1,
        partition_id: int = 0,
        **columns: Any,
    ) -> Self:
        return self.sends(
            [(value, offset, status)],
            at=at,
            elapsed_s=elapsed_s,
            acks=acks,
            process=process,
            partition_id=partition_id,
            **columns,
        )

    def sends(
        self,
        records: Sequence[tuple[int, int | None, int]],
        *,
        at: float,
        elapsed_s: float = 0.1,
        acks: int = -1,
        process: int = 1,
        partition_id: int = 0,
        **columns: Any,
    ) -> Self:
        """columns: further ones of all these records, such as txn, key, timestamp_ms."""
        t0, t1 = int(at * SECOND), int((at + elapsed_s) * SECOND)
        for i, (value, offset, status) in enumerate(records):
            self._add(
                "records",
                kind=0,
                status=status,
                acks=acks,
                operation=self._operation,
                process=process,
                assignment=0,
                topic="t",
                partition=partition_id,
                partition_id=partition_id,
                position=i,
                offset=offset,
                value=value,
                invoked_ns=t0,
                completed_ns=t1,
                **columns,
            )
        self._operation += 1
        return self

    def poll(
        self,
        records: Sequence[tuple[int, int]],
        *,
        at: float,
        final: bool = False,
        process: int = 9,
        assignment: int = 0,
        status: int = 0,
        epoch: int | None = None,
        replica: int | None = None,
        partition_id: int = 0,
        **columns: Any,
    ) -> Self:
        """records: (offset, value) in the order they came; columns as in `sends`."""
        for i, (offset, value) in enumerate(records):
            step = offset - records[i - 1][0] if i else None
            self._add(
                "records",
                kind=2 if final else 1,
                status=status,
                operation=self._operation,
                process=process,
                assignment=assignment,
                topic="t",
                partition=partition_id,
                partition_id=partition_id,
                position=i,
                offset=offset,
                offset_step=step,
                last_of_poll=i == len(records) - 1,
                leader_epoch=epoch,
                value=value,
                invoked_ns=int(at * SECOND),
                completed_ns=int((at + 0.1) * SECOND),
                replica=replica,
                **columns,
            )
        self._operation += 1
        return self

    def final(
        self, records: Sequence[tuple[int, int]], *, at: float = 100.0, partition_id: int = 0, **columns: Any
    ) -> Self:
        """What was read at the end, which makes a history whole."""
        self.poll(records, at=at, final=True, process=99, partition_id=partition_id, **columns)
        partition = next(
            (row for row in self.rows["partitions"] if row["partition_id"] == partition_id), self.partition
        )
        partition["end_offset"] = max((offset for offset, _ in records), default=-1) + 1
        return self

    def second_partition(self, *, read_to_end: bool = True) -> Self:
        self._add("partitions", partition_id=1, topic="t", partition=1, replicas=list(ISR), read_to_end=read_to_end)
        return self

    def client(self, process: int, **columns: Any) -> Self:
        """A row of `processes`: isolation, group, transactional_id, offset_reset ..."""
        self._add("processes", process=process, client=f"client-{process}", library="kafka-python", **columns)
        return self

    def failed_attempt(
        self, *, at: float, process: int = 1, partition_id: int = 0, status: int = 2, error: str = "E 7"
    ) -> Self:
        """What a client met: an attempt to produce that failed; by default nobody knows what it came to."""
        self._add(
            "client_events",
            process=process,
            time_ns=int(at * SECOND),
            event="attempt_failed",
            node=1,
            topic="t",
            partition=partition_id,
            status=status,
            error=error,
        )
        return self

    def leader_known(self, node: int, *, at: float, process: int = 1, partition_id: int = 0) -> Self:
        """From then on the client's metadata names this leader."""
        self._add(
            "client_events",
            process=process,
            time_ns=int(at * SECOND),
            event="leader",
            node=node,
            topic="t",
            partition=partition_id,
        )
        return self

    def transaction(
        self,
        transaction: int,
        outcome: int,
        *,
        at: float,
        until: float,
        process: int = 1,
        transactional_id: str = "id",
        group: str | None = None,
    ) -> Self:
        self._add(
            "transactions",
            transaction=transaction,
            process=process,
            transactional_id=transactional_id,
            invoked_ns=int(at * SECOND),
            completed_ns=int(until * SECOND),
            outcome=outcome,
            group=group,
        )
        return self

    def decided(self, state: str, *, at: float, transactional_id: str = "id", **columns: Any) -> Self:
        """A record of the transaction coordinator's log."""
        rows = self.rows["transaction_state"]
        self._add(
            "transaction_state",
            **{
                "snapshots": [0],
                "partition": 5,
                "offset": len(rows),
                "time_ns": int(at * SECOND),
                "transactional_id": transactional_id,
                "producer_id": 1,
                "producer_epoch": 0,
                "leader_epoch": 0,
                "state": state,
                "removed": False,
                **columns,
            },
        )
        return self

    def group(
        self,
        event: str,
        *,
        at: float,
        process: int,
        offset: int | None = None,
        elapsed_s: float = 0.01,
        status: int = 0,
        generation: int | None = None,
        partition_id: int = 0,
        name: str | None = "g",
        **columns: Any,
    ) -> Self:
        """A row of `group_events`; a member's id is its process."""
        self._add(
            "group_events",
            process=process,
            group=name,
            event=event,
            generation=generation,
            member=f"m{process}",
            topic="t",
            partition=partition_id,
            offset=offset,
            status=status,
            invoked_ns=int(at * SECOND),
            completed_ns=int((at + elapsed_s) * SECOND),
            **columns,
        )
        return self

    def refused_read(self, *, at: float, f: str = "poll", error: str = "CorruptRecordError") -> Self:
        """A poll that the client library did not believe."""
        return self._operated(f, 9, begin=at, end=at + 0.1, status=1, client="consumer-1", error=error)

    def empty_poll(self, process: int, *, at: float, elapsed_s: float) -> Self:
        """A poll that returned nothing at second `at`."""
        return self._operated("poll", process, begin=at - elapsed_s, end=at, status=0)

    def final_read(self, event: str, *, at: float, elapsed_s: float, **columns: Any) -> Self:
        """What the final reader was told of t-0; columns: such as from_offset, to_offset, node."""
        told = {"topic": "t", "partition": 0, "event": event, "process": 99, "node": 1}
        times = {"invoked_ns": int(at * SECOND), "completed_ns": int((at + elapsed_s) * SECOND)}
        self._add("final_reads", **told | times | columns)
        return self

    def progress(self, age: str, what: str, outcome: str, *, at: float, until: float, **columns: Any) -> Self:
        """An operation on t-0, tried from `at` on, when all had recovered; columns: such as code, isr, client."""
        place = {"topic": "t", "partition": 0, "leader": 1, "isr": list(ISR)}
        times = {"asked_ns": int(at * SECOND), "until_ns": int(until * SECOND)}
        self._add("progress", age=age, what=what, outcome=outcome, **place | times | columns)
        return self

    def crash(self, process: int, *, at: float) -> Self:
        """The client ended without leaving its group."""
        return self._operated("crash", process, begin=at, end=at, status=2)

    def _operated(self, function: str, process: int, *, begin: float, end: float, status: int, **columns: Any) -> Self:
        """An operation that got no records."""
        self._add(
            "operations",
            operation=self._operation,
            process=process,
            function=function,
            status=status,
            invoked_ns=int(begin * SECOND),
            completed_ns=int(end * SECOND),
            count=0,
            **{"client": f"client-{process}", **columns},
        )
        self._operation += 1
        return self

    # -- the cluster --------------------------------------

    def state(self, leader: int, epoch: int, isr: Sequence[int], *, at: float, start: int | None = None) -> Self:
        """A state of the partition; `start`: the leader's journal entry of its log end when the epoch began."""
        before = None if self._leader is None or self._isr is None else (self._leader, self._isr)
        unclean = before is not None and leader >= 0 and epoch > self._epoch and leader not in before[1]
        self._exact_state(("t", 0), leader, epoch, isr, at=at, before=before, unclean=unclean)
        if start is not None:
            self.broker_event(leader, "leadership_start", at=at, leader_epoch=epoch, from_offset=start)
        self._isr, self._leader, self._epoch = tuple(isr), leader, epoch
        return self

    def _exact_state(
        self,
        place: Place,
        leader: int,
        epoch: int,
        isr: Sequence[int],
        *,
        at: float,
        before: tuple[int, Sequence[int]] | None,
        table: str = "partition_states",
        **columns: Any,
    ) -> None:
        """A state in the cluster's own books; before: leader and ISR of the state before."""
        topic, partition = place
        self._add(
            table,
            topic=topic,
            partition=partition,
            time_ns=int(at * SECOND),
            uncertainty_ns=0,
            exact=True,
            observer=-1,
            leader=leader,
            leader_epoch=epoch,
            isr=list(isr),
            isr_before=before and list(before[1]),
            leader_before=before and before[0],
            **{"partition_epoch": len(self.rows[table]), "replicas": list(ISR), **columns},
        )

    def broker_event(self, node: int, event: str, *, at: float, place: Place = ("t", 0), **columns: Any) -> Self:
        """What the broker's own journal says of the partition; columns: such as leader_epoch and to_offset."""
        topic, partition = place
        time_ns = int(at * SECOND)
        self._add("broker_events", node=node, time_ns=time_ns, event=event, topic=topic, partition=partition, **columns)
        return self

    def wrote_down(self, node: int, mark: int, *, at: float) -> Self:
        """The broker checkpointed this high watermark."""
        return self.broker_event(node, "high_watermark_checkpoint", at=at, to_offset=mark)

    def truncation(self, node: int, first: int, end: int, *, epoch: int | None, at: float) -> Self:
        cut: dict[str, Any] = {"from_offset": end, "to_offset": first, "reason_text": "diverging epoch"}
        return self.broker_event(node, "truncation", at=at, leader_epoch=epoch, **cut)

    def started(self, node: int, *, at: float) -> Self:
        self._add("broker_events", node=node, time_ns=int(at * SECOND), event="broker_start")
        return self

    def fault(self, kind: str, nodes: Sequence[int], *, at: float, until: float | None = None) -> Self:
        self._add(
            "faults",
            fault=len(self.rows["faults"]),
            kind=kind,
            label_text=f"{kind} broker {nodes[0]}",
            nodes=list(nodes),
            asked_ns=int(at * SECOND),
            begin_ns=int(at * SECOND),
            proved=True,
            proof_text="seen",
            end_ns=None if until is None else int(until * SECOND),
        )
        return self

    def damage(self, node: int, first: int, end: int, *, at: float) -> Self:
        """Bits of the batch with offsets first to end - 1 are flipped under a broker that was killed for it."""
        self.fault("damage", [node], at=at)
        return self.disk_event(node, "batch", first, end, at=at)

    def disk_event(
        self,
        node: int,
        extent: str,
        first: int | None,
        end: int | None = None,
        *,
        at: float,
        place: Place | None = ("t", 0),
    ) -> Self:
        """What the last fault took from a disk: offsets first to end - 1; place None: whatever lay there."""
        topic, partition = place or (None, None)
        self._add(
            "disk_events",
            node=node,
            time_ns=int(at * SECOND),
            fault=len(self.rows["faults"]) - 1,
            extent=extent,
            topic=topic,
            partition=partition,
            from_offset=first,
            to_offset=end,
        )
        return self

    def unclean_config(self, value: str, *, at: float = 0.0) -> Self:
        self._add(
            "configuration",
            time_ns=int(at * SECOND),
            scope="topic",
            name="t",
            node=-1,
            key="unclean.leader.election.enable",
            value=value,
        )
        return self

    def snapshot(
        self,
        node: int,
        records: Sequence[tuple[int, int, int]],
        *,
        at: float = 90.0,
        reason: str = "end",
        high_watermark: int | None = None,
        epochs: str = "",
        place: Place = ("t", 0),
        partition_id: int = 0,
    ) -> Self:
        """records: (offset, epoch, value) as they lie in the replica's log of the partition."""
        topic, partition = place
        of_replica = {"snapshot": self._snapshot, "node": node, "topic": topic, "partition": partition}
        self._add(
            "replica_snapshots",
            **of_replica,
            time_ns=int(at * SECOND),
            reason=reason,
            log_start_offset=0,
            high_watermark=high_watermark,
            log_end_offset=max((offset for offset, _, _ in records), default=-1) + 1,
            leader_epochs=epochs,
        )
        for offset, epoch, value in records:
            self._add(
                "replica_log",
                **of_replica,
                partition_id=partition_id,
                offset=offset,
                leader_epoch=epoch,
                value=value,
            )
        self._snapshot += 1
        return self

    def step(self, kind: str, text: str, outcome: str, *, seen: str = "") -> Self:
        number = len(self.rows["steps"])
        self._add(
            "steps",
            step=number,
            kind=kind,
            act=text.partition(" ")[0],
            step_text=text,
            begin_ns=SECOND,
            end_ns=2 * SECOND,
            outcome=outcome,
            seen_text=seen,
        )
        return self


class Stories(dict[str, Callable[[], History]]):
    """Histories by the names of the functions that tell them, with what is expected of them."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: dict[str, tuple[Any, ...]] = {}

    def story(self, make: Callable[[], History]) -> Callable[[], History]:
        self[make.__name__] = make
        return make

    def expecting(self, *expected: Any) -> Callable[[Callable[[], History]], Callable[[], History]]:
        def kept(make: Callable[[], History]) -> Callable[[], History]:
            self.expected[make.__name__] = expected
            return self.story(make)

        return kept

    def cases(self) -> list[tuple[Any, ...]]:
        """(name, *what is expected of it), for the stories of which something is."""
        return [(name, *expected) for name, expected in self.expected.items()]


def arrow_of(histories: Sequence[History]) -> dict[str, pa.Table]:
    """As they would be sealed; every other run was sealed before there were digests of logs."""
    arrow = {
        name: pa.Table.from_pylist([row for history in histories for row in history.rows[name]], schema=schema)
        for name, schema in TABLES.items()
    }
    described: list[SnapshotRow] = []
    for number, history in enumerate(histories):
        log = pa.Table.from_pylist(history.rows["replica_log"], schema=TABLES["replica_log"])
        snapshots = TypedRows(history.rows)[REPLICA_SNAPSHOTS]
        described += snapshots if number % 2 else with_digests(snapshots, log)
    return arrow | {"replica_snapshots": pa.Table.from_pylist(described, schema=TABLES["replica_snapshots"])}


def tables(spark: SparkSession, folder: Path, histories: Sequence[History]) -> Tables:
    return tables_of(spark, folder, arrow_of(histories), len(histories))


def judge_stories(
    spark: SparkSession, folder: Path, stories: Mapping[str, Callable[[], History]], *, with_evidence: bool = True
) -> dict[str, Judgement]:
    """All of them judged as one job, each history a run of its own."""
    histories = [make().as_run(run) for run, make in enumerate(stories.values())]
    return dict(zip(stories, judge_all(spark, folder, histories, with_evidence=with_evidence), strict=True))


def judge_all(
    spark: SparkSession,
    folder: Path,
    histories: Sequence[History],
    *,
    run: Mapping[str, Any] | None = None,
    with_evidence: bool = False,
) -> list[Judgement]:
    inputs = [
        RunInput(
            scenario=history.scenario,
            run={
                "anchors": history.anchors,
                "journals_may_lack_their_end": history.journals_may_lack_their_end,
                **(run or {}),
            },
        )
        for history in histories
    ]
    judged = judge_tables(spark, tables(spark, folder, histories), inputs, with_evidence=with_evidence)
    return [judgement for judgement, _ in judged]
