"""What a fault that takes records off a disk finds: a replica that is there, and perhaps that all others are well.

Without eligible leader replicas (KIP-966) nobody knows that a replica lost its unflushed records. When every member of
the ISR is down and that one returns first, it leads, and the others cut what they still have. Such a loss says more of
the schedule than of the system, so drawn schedules ask for spare copies. One is not enough: it may be the next to fail,
or be about to leave the ISR.
"""

import asyncio
from collections.abc import Sequence

from harness.ports.cluster import CanCrash, Cluster, NodeId, ShowsLogs
from harness.ports.faults import NothingToStrike


async def refuse_without_spare(cluster: Cluster, victims: Sequence[NodeId], topic: str, partition: int) -> None:
    """Raises NothingToStrike unless there is another replica of the partition, and all others run, answer, and are in
    sync."""
    assert isinstance(cluster, CanCrash)
    states = [state for state in await cluster.live_partition_states([topic]) if state.partition == partition]
    newest = max(states, key=lambda state: (state.leader_epoch, state.t_ns), default=None)
    answering = {state.observer for state in states}
    others = [NodeId(node) for node in (newest.replicas if newest is not None else ()) if node not in victims]
    in_sync = newest.isr if newest is not None else ()
    well = [node for node in others if node in in_sync and node in answering and cluster.is_running(node)]
    if not others or well != others:
        raise NothingToStrike(
            f"not all other replicas of {topic}/{partition} run and are in sync ({others}, ISR {list(in_sync)})"
        )


async def refuse_short_logs(
    cluster: Cluster, victims: Sequence[NodeId], topic: str, partition: int, *, records: int
) -> None:
    """Before anybody is killed for it. Raises NothingToStrike if a victim has no replica, or fewer records in it."""
    if not isinstance(cluster, ShowsLogs):
        return
    for node in victims:
        end = await asyncio.to_thread(cluster.log_end, node, topic, partition)
        if end is None:
            raise NothingToStrike(f"broker {node} has no replica of {topic}/{partition}")
        if end < records:
            raise NothingToStrike(f"{topic}/{partition} ends at {end} on broker {node}: {records} are more")
