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
_UNDER_WAY_S = 0.5

Replicas = Sequence[tuple[str, int | None]]  # topics and partitions; None: every partition of the topic


async def refuse_without_spare(cluster: Cluster, victims: Sequence[NodeId], replicas: Replicas) -> None:
    """Raises NothingToStrike unless there are other replicas, and all of them run, answer, and are in sync."""
    missing, _ = await _look(cluster, victims, replicas)
    if missing:
        raise NothingToStrike(missing)


async def missing_after_a_kill(cluster: Cluster, victims: Sequence[NodeId], replicas: Replicas) -> str:
    """Which replicas are not in sync after all, in a sentence; "" if they all are.

    A leader's last request may be carried out when the leader is dead: to be the only member of the ISR. So one watches
    for half a second, or until it leads no more, since requests of an earlier leader epoch are refused. No longer: how
    a leader returns before its session has ended is worth a schedule.
    """
    try:
        async with asyncio.timeout(_UNDER_WAY_S):
            while True:
                missing, leads = await _look(cluster, victims, replicas)
                if missing or not leads:
                    return missing
                await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError:
        return ""


async def _look(cluster: Cluster, victims: Sequence[NodeId], replicas: Replicas) -> tuple[str, bool]:
    """What is missing, in a sentence, and whether anybody who answers believes that a victim leads."""
    topics = list(dict.fromkeys(topic for topic, _ in replicas))
    states = [
        state
        for state in await cluster.live_partition_states(topics)
        if (state.topic, state.partition) in replicas or (state.topic, None) in replicas
    ]
    if not states:
        return f"nobody answers which replicas of {' and '.join(topics)} are in sync", True
    return _missing(cluster, victims, states), any(state.leader in victims for state in states)


def _missing(cluster: Cluster, victims: Sequence[NodeId], states: Sequence[PartitionState]) -> str:
    """In a sentence, the first partition of a victim whose other replicas are not all well; "" if there is none."""
    assert isinstance(cluster, CanCrash)
    for place in sorted({(state.topic, state.partition) for state in states if {*state.replicas} & {*victims}}):
        of_it = [state for state in states if (state.topic, state.partition) == place]
        newest = max(state.leader_epoch for state in of_it)
        answering = {state.observer for state in of_it}
        others = [NodeId(node) for node in of_it[0].replicas if node not in victims]
        well = [node for node in others if node in answering and cluster.is_running(node)]
        # In the same epoch an observer may be behind: an ISR without them that only one knows may be the newest.
        smallest = min((state.isr for state in of_it if state.leader_epoch == newest), key=len)
        if not others or well != others or not {*smallest} >= {*others}:
            return (
                f"not all other replicas of {place[0]}/{place[1]} run and are in sync ({others}, ISR {list(smallest)})"
            )
    return ""


async def refuse_short_logs(cluster: Cluster, victims: Sequence[NodeId], replicas: Replicas, *, records: int) -> None:
    """Before anybody is killed for it. Raises NothingToStrike if a victim has no replica, or fewer records in it."""
    if not isinstance(cluster, ShowsLogs):
        return
    for topic, partition in replicas:
        if partition is None:
            continue
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
