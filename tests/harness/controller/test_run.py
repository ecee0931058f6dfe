"""A run: its phases in order, its history complete, and nothing left in force however it ends."""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

from harness.controller.collection import RunningBooks, seal_unfinished
from harness.controller.context import PlanResult, RunContext, SkippedFault
from harness.errors import HarnessError
from harness.history.journals.controller_rows import ROWS
from harness.history.schema.texts import read_run
from harness.host.clock import Anchor, SystemClock
from harness.ports.capabilities import CanImpairPackets
from harness.ports.cluster import BrokerEvent, ClusterHistory, NodeId, ReplicaLog
from harness.ports.coordinator_logs import CoordinatorLog, CoordinatorRecord, OffsetsRecord
from harness.ports.load import WorkloadSpec
from harness.scenario.model import ExpectSpec, FaultSpec, Scenario
from tests.harness.controller.conftest import MemoryCluster
from tests.partition_states import recorded
from tests.waiting import PATIENCE_S


async def until_acks(context: RunContext, more: int = 60) -> None:
    await context.acks.wait_for(context.acks.ok + more)


async def test_a_quiet_run_accounts_for_every_record(staged_run: Any) -> None:
    staged = staged_run(until_acks)

    outcome = await staged.run.go()

    assert (outcome.status, list(outcome.inconclusive), outcome.error) == ("complete", [], None)
    run = staged.folder.run
    assert [phase["name"] for phase in run["phases"]] == [
        "start",
        "prepare",
        "act",
        "heal",
        "recover",
        "ask",
        "drain",
        "read back",
        "collect",
        "ask anew",
        "stop",
        "seal",
    ]
    assert len(run["anchors"]) == 2
    assert staged.cluster.stopped
    rows = staged.folder.table("records").to_pylist()
    sent = {(row["partition_id"], row["offset"]): row["value"] for row in rows if row["kind"] == 0}
    final = {(row["partition_id"], row["offset"]): row["value"] for row in rows if row["kind"] == 2}
    assert sent == final
    assert len(sent) >= 60
    partitions = staged.folder.table("partitions").to_pylist()
    assert [(row["partition_id"], row["read_to_end"], row["replicas"]) for row in partitions] == [
        (0, True, [1, 2, 3]),
        (1, True, [2, 3, 1]),
    ]
    assert sum(row["end_offset"] for row in partitions) == len(sent)
    assert staged.progress


async def test_process_numbers_and_values_are_unique_over_workers_and_final_reads(staged_run: Any) -> None:
    staged = staged_run(until_acks)

    await staged.run.go()

    ops = staged.folder.table("operations").to_pylist()
    clients = {(row["process"], row["client"]) for row in ops}
    assert len({process for process, _ in clients}) == len(clients)
    values = [row["value"] for row in staged.folder.table("records").to_pylist() if row["kind"] == 0]
    assert len(set(values)) == len(values)
    assert [row["operation"] for row in ops] == list(range(len(ops)))
    assert [row["completed_ns"] for row in ops] == sorted(row["completed_ns"] for row in ops)


async def test_an_unknown_outcome_ends_the_client_and_the_next_one_is_a_new_process(staged_run: Any) -> None:
    async def outage(context: RunContext) -> None:
        await until_acks(context)
        for node in (1, 2, 3):
            await context.cluster.kill(NodeId(node))  # type: ignore[attr-defined]
        while context.acks.info == 0:
            await context.acks.changed()
        for node in (1, 2, 3):
            await context.cluster.start_node(NodeId(node))  # type: ignore[attr-defined]
        await until_acks(context)

    staged = staged_run(outage)

    assert (await staged.run.go()).status == "complete"

    sends = [row for row in staged.folder.table("operations").to_pylist() if row["function"] == "send"]
    for process in {row["process"] for row in sends}:
        statuses = [row["status"] for row in sends if row["process"] == process]
        assert 2 not in statuses[:-1]
    assert any(row["status"] == 2 for row in sends)


async def test_a_fault_that_the_plan_left_in_force_is_healed_and_both_moments_are_recorded(staged_run: Any) -> None:
    async def kill_one(context: RunContext) -> None:
        await until_acks(context)
        cluster: Any = context.cluster
        fault = context.recorder.fault_asked(kind="kill", label="kill broker 1", nodes=[1])

        async def heal() -> None:
            context.recorder.fault_end_asked(fault)
            context.recorder.fault_ended(fault, await cluster.start_node(NodeId(1)))

        context.heal_later("kill broker 1", heal)
        context.recorder.fault_begun(fault, await cluster.kill(NodeId(1)))
        await context.snapshot("kill", 1)
        assert await context.observer.wait_until(
            lambda: context.observer.leader("orders", 0) == 2, timeout_s=PATIENCE_S
        )
        assert context.recorder.faults_in_force() == ["kill broker 1"]
        await until_acks(context)

    staged = staged_run(kill_one)

    outcome = await staged.run.go()

    assert (outcome.status, list(outcome.inconclusive)) == ("complete", [])
    (fault,) = staged.folder.table("faults").to_pylist()
    assert fault["asked_ns"] <= fault["begin_ns"] <= fault["end_asked_ns"] <= fault["end_ns"]
    assert fault["proof_text"] == "node 1 is gone"
    states = staged.folder.table("partition_states").to_pylist()
    assert [row["leader"] for row in states if row["partition"] == 0 and row["observer"] == 2] == [1, 2, 1]
    snapshots = staged.folder.table("replica_snapshots").to_pylist()
    assert [row["reason"] for row in snapshots] == ["kill"] * 2 + ["end"] * 6 + ["truncation"]
    assert [row["snapshot"] for row in snapshots] == list(range(9))
    log = staged.folder.table("replica_log").to_pylist()
    assert {row["snapshot"] for row in log} == set(range(9))
    names = {row["value"]: row["name"] for row in staged.folder.table("value_names").to_pylist()}
    assert [names.get(row["value"]) for row in log if row["snapshot"] == 8] == ["cut"]


async def test_an_interrupt_heals_stops_and_seals_what_there_is(staged_run: Any) -> None:
    healed = []

    async def endless(context: RunContext) -> None:
        async def heal() -> None:
            healed.append("cut")

        context.heal_later("cut", heal)
        await until_acks(context)
        staged.run.interrupt.set()
        await asyncio.Event().wait()

    staged = staged_run(endless)

    outcome = await staged.run.go()

    assert outcome.status == "interrupted"
    assert outcome.inconclusive == ("interrupted in phase 'act', before the final read was over",)
    assert healed == ["cut"]
    assert staged.cluster.stopped
    assert staged.folder.run["interrupted"]
    assert len(staged.folder.table("records")) >= 60


async def test_an_interrupt_before_the_first_operation_seals_an_empty_history(staged_run: Any) -> None:
    staged = staged_run(until_acks)
    staged.run.interrupt.set()

    outcome = await staged.run.go()

    assert outcome.status == "interrupted"
    assert outcome.inconclusive
    assert staged.cluster.stopped
    assert len(staged.folder.table("records")) == 0


async def test_a_cluster_that_does_not_start_is_an_error_that_names_the_place(staged_run: Any) -> None:
    staged = staged_run(until_acks)
    staged.cluster.broken = True

    outcome = await staged.run.go()

    assert outcome.status == "error"
    assert outcome.error == "node 1 did not start; see nodes/1/log"
    assert staged.folder.sealed


async def test_what_the_machine_lacks_is_said_before_any_load(staged_run: Any) -> None:
    class WithoutNetem(MemoryCluster):
        def missing(self, need: type) -> str | None:
            return "this kernel has no netem" if need is CanImpairPackets else None

    lossy = FaultSpec(kind="packet-loss", options={"loss": "10 %"}, at_s=0.0)
    faults = (FaultSpec(kind="crash", at_s=0.0), lossy)
    staged = staged_run(until_acks, cluster=WithoutNetem(), faults=faults)

    outcome = await staged.run.go()

    assert (outcome.status, outcome.error) == ("error", "fault 'packet-loss': this kernel has no netem")
    assert staged.cluster.stopped
    assert len(staged.folder.table("records")) == 0
    assert "act" not in [phase["name"] for phase in staged.folder.run["phases"]]


async def test_a_plan_that_cannot_act_heals_all_the_same(staged_run: Any) -> None:
    healed = []

    async def clumsy(context: RunContext) -> None:
        async def heal() -> None:
            healed.append(1)

        async def stubborn() -> None:
            raise HarnessError("node 2 is out of reach")

        context.heal_later("pause", heal)
        context.heal_later("cut", stubborn)
        raise HarnessError("node 2 is out of reach")

    staged = staged_run(clumsy)

    outcome = await staged.run.go()

    assert outcome.status == "error"
    assert healed == [1]
    assert list(outcome.inconclusive) == ["healing 'cut' failed: node 2 is out of reach"]
    assert staged.cluster.stopped


async def test_a_partition_that_nobody_leads_is_unread_and_the_run_inconclusive(
    staged_run: Any, scenario: Scenario
) -> None:
    async def kill_all_for_good(context: RunContext) -> PlanResult:
        await until_acks(context)
        for node in (2, 3):
            await context.cluster.kill(NodeId(node))  # type: ignore[attr-defined]
        return PlanResult(inconclusive=("step 3: a wait ran out",))

    topics = (dataclasses.replace(scenario.topics[0], assignment=((1, 2), (2, 3))),)
    staged = staged_run(kill_all_for_good, topics=topics)

    outcome = await staged.run.go()

    reasons = list(outcome.inconclusive)
    assert reasons[0] == "step 3: a wait ran out"
    assert reasons[1] == "no recovery within 0.6 s after healing: orders/1 has no leader"
    assert reasons[2].startswith("orders/1 could not be read to its end")
    assert [row["read_to_end"] for row in staged.folder.table("partitions").to_pylist()] == [True, False]

    expected = staged_run(kill_all_for_good, topics=topics, expect=ExpectSpec(unreadable=True))
    assert list((await expected.run.go()).inconclusive) == ["step 3: a wait ran out"]


async def test_a_fault_that_was_skipped_is_named_in_the_folder_and_costs_no_verdict(staged_run: Any) -> None:
    skipped = SkippedFault(kind="crash", target="2", trigger="at 9 s", why="no-victim")

    async def skip_one(context: RunContext) -> PlanResult:
        await until_acks(context)
        return PlanResult(skipped=(skipped,))

    staged = staged_run(skip_one)

    assert list((await staged.run.go()).inconclusive) == []
    reported = read_run(staged.folder.path / "run.json")
    assert reported["skipped_faults"] == [{"kind": "crash", "target": "2", "trigger": "at 9 s", "why": "no-victim"}]


async def test_probes_are_clients_of_their_own_in_the_history(staged_run: Any) -> None:
    async def probe(context: RunContext) -> None:
        sent = await context.probes.produce("orders", 0, ["r0", "r1"], acks="all", timeout_s=1)
        assert [outcome.offset for outcome in sent] == [0, 1]
        seen = await context.probes.read("orders", 0, timeout_s=1)
        assert (seen.texts, seen.end_offset, seen.reached_end) == (["r0", "r1"], 2, True)

    staged = staged_run(probe, workload=WorkloadSpec())

    assert list((await staged.run.go()).inconclusive) == []

    ops = staged.folder.table("operations").to_pylist()
    assert [row["function"] for row in ops][:3] == ["probe_send", "assign", "probe_poll"]
    names = {row["name"]: row["value"] for row in staged.folder.table("value_names").to_pylist()}
    values = [row["value"] for row in staged.folder.table("records").to_pylist() if row["kind"] == 0]
    assert values == [names["r0"], names["r1"]]


async def test_every_replica_is_read_as_leader_in_turn(staged_run: Any) -> None:
    staged = staged_run(until_acks, read_every_replica=True, recovery_timeout_s=5.0)

    assert list((await staged.run.go()).inconclusive) == []

    rows = [row for row in staged.folder.table("records").to_pylist() if row["kind"] == 2]
    whole = {(row["partition_id"], row["offset"], row["value"]) for row in rows if row["replica"] is None}
    for broker in (1, 2, 3):
        assert {(row["partition_id"], row["offset"], row["value"]) for row in rows if row["replica"] == broker} == whole
    assert staged.folder.run["replicas_not_read"] == []


async def test_topics_that_others_made_are_neither_watched_nor_judged(staged_run: Any) -> None:
    """Kafka's own ones, and what a step makes to see whether it may."""

    class Busy(MemoryCluster):
        def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
            logs = super().read_replicas(node)
            return [*logs, dataclasses.replace(logs[0], topic="elsewhere")]

        def collect(self) -> ClusterHistory:
            states = [
                recorded(1, 0, topic=topic, t_ns=SystemClock().monotonic_ns())
                for topic in ("orders", "__consumer_offsets", "elsewhere")
            ]
            return dataclasses.replace(super().collect(), partition_states=states)

    staged = staged_run(until_acks, cluster=Busy())
    await staged.run.go()

    states = staged.folder.table("partition_states").to_pylist()
    assert {row["topic"] for row in states if row["exact"]} == {"orders"}
    for table in ("partitions", "replica_snapshots", "replica_log"):
        assert {row["topic"] for row in staged.folder.table(table).to_pylist()} == {"orders"}


async def test_what_coordinators_keep_is_apart_from_the_scenarios_topics(staged_run: Any) -> None:
    """Of the internal topics, the partitions that hold anything; a record that every replica has is one row."""

    class Coordinating(MemoryCluster):
        def read_coordinator_logs(self, node: NodeId) -> Sequence[CoordinatorLog]:
            marker = OffsetsRecord(kind="marker", commits=True)
            record = CoordinatorRecord(
                offset=4, epoch=0, wall_ms=1, producer_id=7, producer_epoch=0, transactional=True, content=marker
            )
            return [
                CoordinatorLog(
                    node=node,
                    topic="__consumer_offsets",
                    partition=1,
                    t_ns=9,
                    log_start=0,
                    high_watermark=5,
                    log_end=5,
                    epochs=((0, 0),),
                    topic_id=None,
                    kept_from=0,
                    records=(record,),
                    anchor=Anchor(monotonic_ns=0, wall_ns=0),
                )
            ]

        def collect(self) -> ClusterHistory:
            states = [recorded(2, 0, topic="__consumer_offsets", partition=partition, t_ns=8) for partition in range(3)]
            led = [
                BrokerEvent(
                    node=NodeId(2), t_ns=9, event="leadership_start", topic=state.topic, partition=state.partition
                )
                for state in states
            ]
            return dataclasses.replace(super().collect(), partition_states=states, broker_events=led)

    staged = staged_run(until_acks, cluster=Coordinating())
    await staged.run.go()

    def rows(table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = staged.folder.table(table).to_pylist()
        return found

    assert [(row["topic"], row["partition"], row["leader"]) for row in rows("internal_partition_states")] == [
        ("__consumer_offsets", 1, 2)
    ]
    assert [(row["partition"], row["event"]) for row in rows("internal_broker_events")] == [(1, "leadership_start")]
    assert not rows("broker_events")
    logs = rows("internal_replica_snapshots")
    assert [(row["node"], row["reason"], row["log_end_offset"]) for row in logs] == [(n, "end", 5) for n in (1, 2, 3)]
    assert len({row["snapshot"] for row in logs + rows("replica_snapshots")}) == len(logs + rows("replica_snapshots"))
    [record] = rows("consumer_offsets")
    assert record["snapshots"] == [row["snapshot"] for row in logs]
    assert (record["kind"], record["commits"], record["producer_id"], record["time_ns"]) == (
        "marker",
        True,
        7,
        1_000_000,
    )
    for table in ("partitions", "partition_states", "replica_snapshots", "replica_log"):
        assert {row["topic"] for row in rows(table)} == {"orders"}


async def test_a_run_whose_harness_was_killed_can_be_sealed_later(staged_run: Any) -> None:
    staged = staged_run(until_acks)
    await staged.run.go()
    whole = staged.folder.table("records")
    snapshots = staged.folder.table("replica_snapshots").to_pylist()
    for table in (staged.folder.path / "tables").iterdir():
        table.unlink()
    staged.folder.update(status="started", collected=False, journals={})
    with (staged.folder.history / ROWS).open("ab") as rows:
        rows.write(b'{"table": "faults", "row": {"run": 0, "fa')

    books = RunningBooks(staged.cluster)
    seal_unfinished(staged.folder, books=books, clock=SystemClock())

    assert staged.folder.table("records").equals(whole)
    again = staged.folder.table("replica_snapshots").to_pylist()
    assert [(row["snapshot"], row["reason"]) for row in again] == [
        (row["snapshot"], row["reason"]) for row in snapshots
    ]
    assert staged.folder.run["status"] == "unfinished"
    assert staged.folder.run["inconclusive"] == ["the harness was ended in phase 'seal'"]
    before = staged.folder.run
    seal_unfinished(staged.folder, books=books, clock=SystemClock())
    assert staged.folder.run == before


async def test_a_harness_killed_before_the_first_operation_leaves_a_folder_that_seals(staged_run: Any) -> None:
    staged = staged_run(until_acks)

    class NoBooks(type(staged.cluster)):  # type: ignore[misc]
        def collect(self) -> Any:
            raise FileNotFoundError("nodes/0/log")

    seal_unfinished(staged.folder, books=RunningBooks(NoBooks()), clock=SystemClock())

    assert staged.folder.sealed
    assert staged.folder.run["status"] == "unfinished"
    assert [reason.partition(":")[0] for reason in staged.folder.run["inconclusive"]] == [
        "the harness was ended in phase 'start'",
        "the cluster's books could not be read",
    ]
