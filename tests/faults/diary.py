"""A cluster that writes down what it is told, and does nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from harness.ports.capabilities import Impairment, Place
from harness.ports.cluster import COORDINATION, ClientId, Evidence, Link, Node, NodeId, PartitionState, ReplicaLog
from harness.ports.requests import Requests
from tests.partition_states import seen

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


class Diary:
    """Every capability; `deeds` in order. A deed's time is its place, so that proofs can be told apart."""

    def __init__(self) -> None:
        self.deeds: list[str] = []
        self.up = {1, 2, 3}
        self.back_in_isr = True
        self.ends = dict.fromkeys(self.up, 1000)  # every replica's log end; a broker that is not here has none
        self.nodes = [Node(node=NodeId(n), role="broker", name=f"broker {n}") for n in (1, 2, 3)]

    def _did(self, deed: str) -> Evidence:
        self.deeds.append(deed)
        return Evidence(t_ns=len(self.deeds), sentence=f"{deed} seen")

    async def start(self) -> None:
        raise AssertionError("no fault may ask for this")

    async def stop(self) -> None:
        raise AssertionError("no fault may ask for this")

    def bootstrap(self, client: object) -> str:
        raise AssertionError("no fault may ask for this")

    async def controller(self) -> int:
        raise AssertionError("no fault may ask for this")

    async def create_topics(self, topics: object) -> None:
        raise AssertionError("no fault may ask for this")

    def collect(self) -> Any:
        raise AssertionError("no fault may ask for this")

    def environment(self) -> Mapping[str, str]:
        raise AssertionError("no fault may ask for this")

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        isr = tuple(sorted(self.up)) if self.back_in_isr else (1,)
        return [seen(1, 1, 0, isr, topic=topic) for topic in topics]

    async def kill(self, node: NodeId) -> Evidence:
        self.up.discard(int(node))
        await asyncio.sleep(0)
        return self._did(f"kill {node}")

    async def shut_down(self, node: NodeId) -> Evidence:
        self.up.discard(int(node))
        return self._did(f"stop {node}")

    async def start_node(self, node: NodeId) -> Evidence:
        self.up.add(int(node))
        return self._did(f"start {node}")

    def is_running(self, node: NodeId) -> bool:
        return int(node) in self.up

    async def pause(self, node: NodeId) -> Evidence:
        return self._did(f"pause {node}")

    async def resume(self, node: NodeId) -> Evidence:
        return self._did(f"resume {node}")

    def links(self) -> Sequence[Link]:
        brokers = [ONE, TWO, THREE]
        made = [Link(source=a, target=b) for a in brokers for b in [*brokers, COORDINATION] if a != b]
        return made + [Link(client=ClientId(number), target=b) for number in (1, 2) for b in brokers]

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence:
        return self._did(f"cut {' '.join(sorted(str(link) for link in links))} {mode}")

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence:
        return self._did(f"heal {' '.join(sorted(str(link) for link in links))} {mode}")

    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        return self._did(f"slow {' '.join(sorted(str(link) for link in links))} {delay_ms:g}")

    async def strike_requests(self, links: Sequence[Link], requests: Requests) -> Evidence:
        how = "lose" if requests.lost else "hold"
        return self._did(f"{how} {requests.described()}: {' '.join(sorted(str(link) for link in links))}")

    async def pass_requests(self, links: Sequence[Link], requests: Requests) -> Evidence:
        return self._did(f"pass {requests.described()}: {' '.join(sorted(str(link) for link in links))}")

    async def requested(self, request: str, nth: int) -> None:
        raise AssertionError("no fault may ask for this")

    async def wipe(self, node: NodeId) -> Evidence:
        assert int(node) not in self.up, "only a dead broker's disk is wiped"
        return self._did(f"wipe {node}")

    async def lose_tail(self, node: NodeId, topic: str, partition: int, *, records: int) -> Evidence:
        assert int(node) not in self.up, "a running broker still flushes"
        return self._did(f"lose {node} {topic}-{partition} {records}")

    async def impair(self, links: Sequence[Link], impairment: Impairment) -> Evidence:
        return self._did(f"impair {' '.join(sorted(str(link) for link in links))} {impairment.described()}")

    async def damage(self, node: NodeId, topic: str, partition: int, *, at: Place) -> Evidence:
        return self._did(f"damage {node} {topic}-{partition} {at}")

    async def lose_unsynced(self, node: NodeId) -> Evidence:
        assert int(node) not in self.up, "a running broker still syncs"
        return self._did(f"lose unsynced {node}")

    async def kill_at_write(self, node: NodeId, *, nth: int, torn: bool, within_s: float) -> Evidence:
        self.up.discard(int(node))
        return self._did(f"kill {node} at write {nth}{' torn' if torn else ''}")

    async def fail_at_write(self, node: NodeId, *, nth: int, within_s: float) -> Evidence:
        self.up.discard(int(node))
        return self._did(f"fail {node} at write {nth}")

    async def fill_disk(self, node: NodeId) -> Evidence:
        return self._did(f"fill {node}")

    async def free_disk(self, node: NodeId) -> Evidence:
        return self._did(f"free {node}")

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        return []

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        return self.ends.get(int(node))

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None:
        return None
