"""What a fault that takes records off a disk finds: a replica that is there, and perhaps a spare copy, another in-sync
replica that runs.

Without eligible leader replicas (KIP-966) nobody knows that a replica lost its unflushed records. When every member of
the ISR is down and that one returns first, it leads, and the others cut what they still have. Such a loss says more of
the schedule than of the system, so drawn schedules ask for a spare copy.
"""

import asyncio
from collections.abc import Sequence

from harness.ports.cluster import CanCrash, Cluster, NodeId, ShowsLogs
from harness.ports.faults import NothingToStrike


async def refuse_without_spare(cluster: Cluster, victims: Sequence[NodeId], topic: str, partition: int) -> None:
    """Raises NothingToStrike unless a running in-sync replica of the partition is left when the victims are gone."""
    assert isinstance(cluster, CanCrash)
    states = [state for state in await cluster.live_partition_states([topic]) if state.partition == partition]
    newest = max(states, key=lambda state: (state.leader_epoch, state.t_ns), default=None)
    in_sync = newest.isr if newest is not None else ()
    if not any(node not in victims and cluster.is_running(NodeId(node)) for node in in_sync):
        raise NothingToStrike(f"no other in-sync replica of {topic}/{partition} runs (ISR {list(in_sync)})")


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
