"""What a fault that takes records off a disk finds: a replica that is there, and perhaps that all others are well.

Without eligible leader replicas (KIP-966) nobody knows that a replica lost its unflushed records. When every member of
the ISR is down and that one returns first, it leads, and the others cut what they still have. Such a loss says more of
the schedule than of the system, so drawn schedules ask for spare copies. One is not enough: it may be the next to fail,
or be about to leave the ISR.
"""

import asyncio
from collections.abc import Sequence

from harness.ports.cluster import CanCrash, Cluster, NodeId, PartitionState, ShowsLogs
from harness.ports.faults import NothingToStrike

_REJOIN_S = 15.0
_LOOK_AGAIN_S = 0.2


async def refuse_without_spare(
    cluster: Cluster, victims: Sequence[NodeId], topic: str, partition: int | None = None
) -> None:
    """Raises NothingToStrike unless there is another replica of the partition, and all others run, answer, and are in
    sync. partition: None for each of the topic that a victim has."""
    assert isinstance(cluster, CanCrash)
    states = await cluster.live_partition_states([topic])
    newest: dict[int, PartitionState] = {}
    for state in sorted(states, key=lambda state: (state.leader_epoch, state.t_ns)):
        newest[state.partition] = state
    if partition is not None:
        wanted = [partition]
    else:
        wanted = sorted(number for number, state in newest.items() if {*state.replicas} & {*victims}) or [0]
    for number in wanted:
        answering = {state.observer for state in states if state.partition == number}
        known = newest.get(number)
        others = [NodeId(node) for node in (known.replicas if known is not None else ()) if node not in victims]
        in_sync = known.isr if known is not None else ()
        well = [node for node in others if node in in_sync and node in answering and cluster.is_running(node)]
        if not others or well != others:
            raise NothingToStrike(
                f"not all other replicas of {topic}/{number} run and are in sync ({others}, ISR {list(in_sync)})"
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


async def rejoined(cluster: Cluster, victims: Sequence[NodeId], topics: Sequence[str]) -> None:
    """Returns when the victims are in every ISR and have what other replicas had when they came back, or after 15 s.

    Until its old session has ended, a broker that came back quickly stands in the ISR with the log that it has left.
    """
    if not isinstance(cluster, ShowsLogs):
        return
    wanted: dict[tuple[NodeId, str, int], int] = {}
    for state in (await _newest(cluster, topics)).values():
        ends = {node: await _log_end(cluster, NodeId(node), state) for node in state.replicas}
        for node in victims:
            others = [end for other, end in ends.items() if other != node and end is not None]
            if node in state.replicas and others:
                wanted[node, state.topic, state.partition] = max(others)
    try:
        async with asyncio.timeout(_REJOIN_S):
            while not await _has_all(cluster, topics, wanted):
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError:
        return  # what keeps it away is seen by others; it is no part of this fault


async def _has_all(cluster: Cluster, topics: Sequence[str], wanted: dict[tuple[NodeId, str, int], int]) -> bool:
    newest = await _newest(cluster, topics)
    for (node, topic, partition), least in wanted.items():
        state = newest.get((topic, partition))
        if state is None or node not in state.isr or (await _log_end(cluster, node, state) or 0) < least:
            return False
    return True


async def _newest(cluster: Cluster, topics: Sequence[str]) -> dict[tuple[str, int], PartitionState]:
    states = sorted(await cluster.live_partition_states(topics), key=lambda state: (state.leader_epoch, state.t_ns))
    return {(state.topic, state.partition): state for state in states}


async def _log_end(cluster: Cluster, node: NodeId, state: PartitionState) -> int | None:
    assert isinstance(cluster, ShowsLogs)
    return await asyncio.to_thread(cluster.log_end, node, state.topic, state.partition)
