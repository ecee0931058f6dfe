"""The final read under transactions and groups: both isolations, ends that nobody is handed, and committed offsets."""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.controller import final_read
from harness.controller.final_read import FinalRead
from harness.history.facts.values import encode
from harness.history.journals.journal import ProcessNumbers
from harness.host.clock import SystemClock
from harness.ports.clients import ClientUse
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.membership import GroupEvent
from harness.scenario.model import Scenario, TopicSpec
from tests.harness.history.test_tables import converted
from workloads.consumer_groups import ConsumerGroupsSettings
from workloads.produce_and_poll import ProduceAndPollSettings
from workloads.transactions import TransactionsSettings

ORDERS = TopicPartition(topic="orders", partition=0)
RESULTS = TopicPartition(topic="results", partition=0)
# What lies at each offset: a committed record, an aborted one, a transaction's marker.
LOGS = {ORDERS: "ccc", RESULTS: "caamcm"}


class Cluster:
    """An open transaction holds read_committed at `stable` until it was asked `open_for` times."""

    def __init__(self, *, stable: int | None = None, open_for: int = 0, refuses_offsets: int = 0) -> None:
        self.stable = stable
        self.open_for = open_for
        self.refuses_offsets = refuses_offsets
        self.uses: list[ClientUse | None] = []
        self.partitions: dict[TopicPartition, dict[str, Any]] = {}
        self.rows: dict[Any, Mapping[str, Any]] = {}

    def bootstrap(self, client: Any) -> str:
        return "memory"

    def write(self, table: str, row: Mapping[str, Any], identity: Any = None) -> None:
        assert table == "final_reads", table
        self.rows[tuple(identity)] = dict(row)

    def partition(self, *, topic: str, partition: int, **row: Any) -> None:
        self.partitions[TopicPartition(topic=topic, partition=partition)] = row


class Reader:
    """Implements GroupClient as far as a final read asks."""

    def __init__(self, cluster: Cluster, use: ClientUse) -> None:
        self._cluster = cluster
        self._committed = use.isolation == "read_committed"
        self._positions: dict[TopicPartition, int] = {}

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        ends = {partition: len(LOGS[partition]) for partition in partitions}
        if self._committed and self._cluster.stable is not None and RESULTS in ends:
            self._cluster.open_for -= 1
            if self._cluster.open_for >= 0:
                ends[RESULTS] = self._cluster.stable
        self._ends = ends
        return ends

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        self._positions = dict.fromkeys(partitions, 0)

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        await asyncio.sleep(0)
        shown = "c" if self._committed else "ca"
        records = [
            ReadRecord(topic=each.topic, partition=0, offset=at, epoch=0, value=encode(0, at))
            for each, position in self._positions.items()
            for at in range(position, self._ends[each])
            if LOGS[each][at] in shown
        ]
        self._positions = {each: self._ends[each] for each in self._positions}
        return records

    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._positions

    async def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def committed(self, partitions: Sequence[TopicPartition]) -> GroupEvent:
        self._cluster.refuses_offsets -= 1
        refused = self._cluster.refuses_offsets >= 0
        return GroupEvent(
            event="fetched",
            offsets=dict.fromkeys(partitions, None if refused else 2),
            begin_ns=1,
            end_ns=2,
            status="fail" if refused else "ok",
            error="CoordinatorNotAvailableError 15" if refused else None,
        )

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        raise AssertionError

    async def subscribe(self, topics: Sequence[str]) -> None:
        raise AssertionError

    def rebalances(self) -> Sequence[GroupEvent]:
        raise AssertionError

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        raise AssertionError

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        raise AssertionError

    async def crash(self) -> None:
        raise AssertionError

    async def close(self) -> None:
        self._positions = {}


def load(**workload: Any) -> WorkloadSpec:
    if "output" in workload:
        return TransactionsSettings(**workload)
    return ConsumerGroupsSettings(**workload) if "group" in workload else ProduceAndPollSettings()


@pytest.fixture
def read(tmp_path: Path, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(final_read, "ASK_AGAIN_S", 0.01)

    async def read_all(cluster: Cluster, *, timeout_s: float = 10, **workload: Any) -> tuple[list[str], Any]:
        topics = (TopicSpec(name="orders", settings={"cleanup.policy": "compact"}), TopicSpec(name="results"))
        wanted = dataclasses.replace(scenario, workload=load(**workload), topics=topics)

        def make_client(*, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Any:
            cluster.uses.append(use)
            return Reader(cluster, use or ClientUse(role="consumer"))

        context: Any = SimpleNamespace(scenario=wanted, cluster=cluster, recorder=cluster, clock=SystemClock())
        final = FinalRead(
            context=context,
            make_client=make_client,
            numbers=ProcessNumbers(first=0, step=1),
            folder=tmp_path,
            layout={ORDERS: (1, 2, 3), RESULTS: (1, 2, 3)},
            timeout_s=timeout_s,
        )
        unread = await final.read_all()
        return unread, converted(*sorted(tmp_path.glob("*.jsonl")))

    return read_all


def offsets(tables: Any, kind: int, partition: TopicPartition) -> list[int]:
    rows = tables.records.to_pylist()
    return [row["offset"] for row in rows if (row["kind"], row["topic"]) == (kind, partition.topic)]


async def test_the_final_log_is_the_committed_one_and_the_uncommitted_is_a_readers_own(read: Any) -> None:
    cluster = Cluster()

    unread, tables = await read(cluster, output="results", group="g", processors=1)

    assert unread == []
    assert offsets(tables, 2, RESULTS) == [0, 4]
    assert offsets(tables, 1, RESULTS) == [0, 1, 2, 4]
    assert [row["isolation"] for row in tables.processes.to_pylist()] == [
        "read_uncommitted",
        "read_committed",
        "read_committed",
    ]
    results = cluster.partitions[RESULTS]
    assert (results["read_to_end"], results["end_offset"], results["last_stable_offset"]) == (True, 6, 6)
    assert (results["log_start"], results["cleanup_policy"]) == (0, None)
    assert cluster.partitions[ORDERS]["cleanup_policy"] == "compact"


async def test_a_transaction_that_is_still_open_is_waited_for(read: Any) -> None:
    cluster = Cluster(stable=3, open_for=2)

    unread, tables = await read(cluster, output="results", group="g", processors=1)

    assert unread == []
    assert cluster.partitions[RESULTS]["read_to_end"]
    assert offsets(tables, 2, RESULTS)[-2:] == [0, 4]


async def test_a_transaction_that_never_ends_keeps_the_partition_from_being_read(read: Any) -> None:
    cluster = Cluster(stable=3, open_for=10_000)

    unread, _ = await read(cluster, timeout_s=0.3, output="results", group="g", processors=1)

    results = cluster.partitions[RESULTS]
    assert [sentence.partition(":")[0] for sentence in unread] == ["results/0 could not be read to its end"]
    assert (results["read_to_end"], results["end_offset"], results["last_stable_offset"]) == (False, 6, 3)
    stood = cluster.rows["stable", "results", 0, 0]
    assert stood["to_offset"] == 3
    assert stood["completed_ns"] - stood["invoked_ns"] >= 0.2 * 10**9, "it was asked for as long as there was time"
    assert ("stable", "results", 0, 1) not in cluster.rows, "and answered the same each time"


async def test_a_groups_offsets_are_asked_for_until_they_are_reported(read: Any) -> None:
    unread, tables = await read(Cluster(refuses_offsets=2), output="results", group="g", processors=1)

    rows = tables.group_events.to_pylist()
    assert unread == []
    assert [(row["topic"], row["offset"], row["status"]) for row in rows] == [
        ("orders", None, 1),
        ("orders", None, 1),
        ("orders", 2, 0),
    ]
    assert {row["group"] for row in rows} == {"g"}


async def test_offsets_that_are_never_told_are_said_to_be_so(read: Any) -> None:
    unread, _ = await read(Cluster(refuses_offsets=10_000), timeout_s=0.1, group="g")

    assert unread == ["the offsets of group g could not be fetched: CoordinatorNotAvailableError 15"]


async def test_without_transactions_one_read_is_enough(read: Any) -> None:
    cluster = Cluster()

    unread, tables = await read(cluster)

    assert unread == []
    assert len(cluster.uses) == 1
    assert offsets(tables, 1, RESULTS) == []
    assert cluster.partitions[RESULTS]["last_stable_offset"] is None
