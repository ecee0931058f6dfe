"""After the last heal the clients of the load, and fresh ones, are asked whether they get on."""

from collections.abc import Sequence
from typing import Any

import pytest

from harness.controller import fresh_clients
from harness.controller.context import RunContext
from harness.ports.cluster import NodeId, Send, SendOutcome
from harness.scenario.model import ExpectSpec
from tests.harness.controller.conftest import MemoryClient
from tests.jumping_time import CLOCK

PARTITIONS = {0, 1}


async def until_acks(context: RunContext, more: int = 60) -> None:
    await context.acks.wait_for(context.acks.ok + more)


def outcomes(staged: Any) -> dict[tuple[str, str], set[tuple[int, str]]]:
    found: dict[tuple[str, str], set[tuple[int, str]]] = {}
    for row in staged.folder.table("progress").to_pylist():
        found.setdefault((row["age"], row["what"]), set()).add((row["partition"], row["outcome"]))
    return found


async def test_of_a_sound_cluster_everybody_gets_everything_and_nothing_is_waited_for(staged_run: Any) -> None:
    staged = staged_run(until_acks)

    await staged.run.go()

    done = {(partition, "done") for partition in PARTITIONS}
    assert outcomes(staged) == {("old", "write"): done, ("old", "read"): done, ("fresh", "write"): done}
    began = {phase["name"]: phase["t"] for phase in staged.folder.run["phases"]}
    asking_ns = began["drain"] - began["ask"] + began["stop"] - began["ask anew"]
    assert asking_ns < 1.5e9


async def test_the_fresh_record_is_in_no_table_but_the_askings_own(staged_run: Any) -> None:
    staged = staged_run(until_acks)

    await staged.run.go()

    written = {
        (row["partition"], row["offset"]) for row in staged.folder.table("progress").to_pylist() if row["offset"]
    }
    assert {partition for partition, _ in written} == PARTITIONS
    for table in ("records", "replica_log"):
        assert not written & {(row["partition"], row["offset"]) for row in staged.folder.table(table).to_pylist()}
    assert fresh_clients.VALUE.decode() not in str(staged.folder.table("value_names").to_pylist())
    ends = {row["partition"]: row["end_offset"] for row in staged.folder.table("partitions").to_pylist()}
    assert dict(written) == ends


async def test_where_nobody_leads_it_is_asked_for_a_moment_only(staged_run: Any) -> None:
    async def leaves_all_down(context: RunContext) -> None:
        await until_acks(context)
        for node in list(staged.cluster.running):
            await staged.cluster.kill(NodeId(node))

    staged = staged_run(leaves_all_down, expect=ExpectSpec(unreadable=True), recovery_timeout_s=10.0)

    outcome = await staged.run.go()

    assert outcome.status == "complete"
    assert outcomes(staged)["fresh", "write"] == {(0, "unanswered"), (1, "unanswered")}
    rows = [row for row in staged.folder.table("progress").to_pylist() if row["age"] == "fresh"]
    assert {row["leader"] for row in rows} == {None}, "who leads is not known where nobody says so"
    assert all(row["until_ns"] - row["asked_ns"] < 10e9 for row in rows)


async def test_an_old_producer_that_is_refused_for_ever_stands_beside_fresh_ones_that_are_not(
    staged_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a broker does that has forgotten what idempotent producers had sent."""
    sound = MemoryClient.send
    refuses = False

    async def send(self: MemoryClient, records: Sequence[Send]) -> Sequence[SendOutcome]:
        if refuses and records[0].value != fresh_clients.VALUE:
            now = CLOCK.monotonic_ns()
            return [SendOutcome(status="fail", offset=None, error="E", end_ns=now, code=45) for _ in records]
        return await sound(self, records)

    async def forgets(context: RunContext) -> None:
        nonlocal refuses
        await until_acks(context)
        refuses = True

    monkeypatch.setattr(MemoryClient, "send", send)
    staged = staged_run(forgets)

    await staged.run.go()

    assert outcomes(staged)["old", "write"] == {(partition, "refused") for partition in PARTITIONS}
    assert outcomes(staged)["old", "read"] == {(partition, "not_asked") for partition in PARTITIONS}
    assert outcomes(staged)["fresh", "write"] == {(partition, "done") for partition in PARTITIONS}
    old = [row for row in staged.folder.table("progress").to_pylist() if row["outcome"] == "refused"]
    assert {(row["client"], row["code"]) for row in old} == {("producer-1", 45), ("producer-2", 45)}
    assert all(row["until_ns"] - row["asked_ns"] >= staged.run.scenario.recovery_timeout_s * 1e9 for row in old)


async def test_an_applications_topics_get_no_record_of_ours(staged_run: Any) -> None:
    staged = staged_run(until_acks)
    staged.run.asks_anew = False

    await staged.run.go()

    assert ("fresh", "write") not in outcomes(staged)
    assert not any(fresh_clients.VALUE in log for log in staged.cluster.logs.values())
