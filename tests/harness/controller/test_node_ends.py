"""A node that ends though no fault had ended it is recorded when it is seen, and again when it runs again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.controller.context import RunContext
from harness.history.journals.controller_rows import ROWS, read_rows
from harness.history.schema.cluster_rows import NODE_ENDS
from harness.ports.cluster import NodeEnd, NodeId
from tests.harness.controller.conftest import MemoryCluster
from tests.jumping_time import CLOCK


class Mortal(MemoryCluster):
    """Its node 3 can end by itself."""

    def __init__(self, *ends: NodeEnd) -> None:
        super().__init__()
        self.ends = list(ends)

    def node_ends(self) -> Sequence[NodeEnd]:
        return tuple(self.ends)

    def end(self) -> None:
        self.running.discard(3)
        now = CLOCK.monotonic_ns()
        self.ends.append(NodeEnd(node=NodeId(3), t_ns=now, exit_status=1, reason="exception", line="boom", fresh=True))

    def run_again(self) -> None:
        self.running.add(3)
        self.ends[-1] = replace(self.ends[-1], back_ns=CLOCK.monotonic_ns())


def rows(staged: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = staged.folder.table("node_ends").to_pylist()
    return found


async def test_an_end_is_written_down_while_the_run_goes_on(staged_run: Any) -> None:
    cluster = Mortal()
    written: list[int] = []

    async def story(context: RunContext) -> None:
        cluster.end()
        await context.observer.next_round()
        await context.observer.next_round()
        written.append(len(read_rows(staged.folder.history / ROWS)[NODE_ENDS]))
        cluster.run_again()

    staged = staged_run(story, cluster=cluster)
    await staged.run.go()
    [row] = rows(staged)
    assert written == [1]
    assert (row["node"], row["exit_status"], row["signal"]) == (3, 1, None)
    assert (row["reason"], row["line_text"], row["fresh"]) == ("exception", "boom", True)
    assert row["back_ns"] >= row["time_ns"]


async def test_an_end_after_the_last_round_is_recorded_too(staged_run: Any) -> None:
    cluster = Mortal()

    async def story(context: RunContext) -> None:
        await context.acks.wait_for(context.acks.ok + 10)

    staged = staged_run(story, cluster=cluster)
    collected = cluster.collect

    def collect() -> Any:
        cluster.end()
        return collected()

    cluster.collect = collect  # type: ignore[method-assign]
    await staged.run.go()
    assert [(row["node"], row["back_ns"]) for row in rows(staged)] == [(3, None)]


async def test_on_a_cluster_that_ran_before_only_who_is_still_down_is_the_runs(staged_run: Any) -> None:
    over = NodeEnd(node=NodeId(1), t_ns=-20, back_ns=-10, exit_status=1)
    down = NodeEnd(node=NodeId(3), t_ns=-5, exit_status=1)
    staged = staged_run(_nothing, cluster=Mortal(over, down))
    await staged.run.go()
    assert [row["node"] for row in rows(staged)] == [3]


async def _nothing(context: RunContext) -> None:
    await context.acks.wait_for(context.acks.ok + 10)
