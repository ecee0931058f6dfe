"""What a run leaves on a cluster that goes on, and whether the cluster is as after a start.

Topics are looked for wherever a later topic of the same name could be mistaken for them: in what each broker answers
its clients, on the disks, and in the brokers' checkpoints of high watermarks.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from harness.cluster.attached.administration import Administration, address_of
from harness.cluster.attached.journal import OwnTopic
from harness.cluster.broker_requests import BrokerConnection
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.processes import state_of
from harness.cluster.replica_logs import partition_folders, read_high_watermarks
from harness.ports.cluster import NodeId
from harness.scenario.topic_names import INTERNAL_TOPICS

_METADATA_VERSION = 9
_ASK_S = 2.0
_STOPPED = ("T", "t", "Z", "")


class Remains:
    """Of a local cluster whose nodes all run. keep: topics of the harness's own, which stay."""

    def __init__(self, cluster: LocalCluster, *, keep: Set[str]) -> None:
        """Raises HarnessError if a node is not running."""
        self._cluster = cluster
        self._nodes = cluster.whereabouts()
        brokers = [each for each in self._nodes if each["role"] == "broker"]
        self._addresses = {NodeId(each["node"]): address_of(each["address"], each["name"]) for each in brokers}
        self._data = {NodeId(each["node"]): Path(each["data"]) for each in brokers}
        self._keep = keep | set(INTERNAL_TOPICS)
        self._brokers = {node: BrokerConnection(*address) for node, address in self._addresses.items()}

    def close(self) -> None:
        for connection in self._brokers.values():
            connection.close()

    async def clear(self) -> None:
        """Deletes every topic that is not kept. Raises HarnessError."""
        running = [NodeId(each["node"]) for each in self._nodes if state_of(each["process"]) not in _STOPPED]
        administration = Administration({node: self._addresses[node] for node in running if node in self._addresses})
        try:
            for topic in sorted(await administration.topics() - self._keep):
                await administration.delete(OwnTopic(name=topic))
        finally:
            administration.close()

    async def seen(self) -> str:
        """What is not as after a start, the first of it; "" if all is. Raises HarnessError, OSError, TimeoutError."""
        for each in self._nodes:
            if state_of(each["process"]) in _STOPPED:
                return f"process {each['process']} of {each['name']} does not run"
        if harmed := await self._cluster.harmed_links():
            return f"link {harmed[0]} is not healed"
        if leaks := self._cluster.leaks():
            return leaks[0]
        answers = {node: await self._metadata(connection) for node, connection in self._brokers.items()}
        return next(chain(self._of_topics(answers), self._of_brokers(answers)), "")

    async def _metadata(self, broker: BrokerConnection) -> Any:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return await broker.ask(request, _METADATA_VERSION, timeout_s=_ASK_S)

    def _of_topics(self, answers: Mapping[NodeId, Any]) -> Iterator[str]:
        for node, answer in answers.items():
            for topic in answer.topics:
                if topic.name not in self._keep:
                    yield f"broker {node} still knows topic {topic.name}"
            for name, partition, _ in partition_folders(self._data[node]):
                if name not in self._keep:
                    yield f"broker {node} still has {name}-{partition} on its disk"
            for name, partition in read_high_watermarks(self._data[node]):
                if name not in self._keep:
                    yield f"broker {node} still has a high watermark of {name}-{partition} in its checkpoint"

    def _of_brokers(self, answers: Mapping[NodeId, Any]) -> Iterator[str]:
        for node, answer in answers.items():
            if missing := sorted(set(self._brokers) - {broker.node_id for broker in answer.brokers}):
                yield f"broker {node} does not know broker {missing[0]}"
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.leader_id < 0 or set(each.isr_nodes) != set(each.replica_nodes):
                        isr = _in_words(each.isr_nodes)
                        yield f"broker {node} sees {topic.name}-{each.partition_index} with the ISR {isr}"


def _in_words(nodes: Sequence[int]) -> str:
    return ", ".join(str(node) for node in sorted(nodes)) or "of nobody"


def written_everywhere(cluster: LocalCluster, topic: str, end: int) -> str:
    """Which broker's replica of a topic with one partition ends before `end` on its disk; "" if none."""
    for node in cluster.brokers:
        found = cluster.log_end(node, topic, 0)
        if found is None or found < end:
            return f"the log of {topic}-0 on broker {node} ends at {found} and not at {end}"
    return ""
