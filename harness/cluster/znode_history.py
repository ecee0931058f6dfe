"""From znode changes to the exact history of a ZooKeeper-era cluster: leaders, epochs, ISRs, controllers, settings.

Times are the service's wall clock in milliseconds, placed on the run's axis by its anchor and good to a millisecond.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from harness.clock import Anchor
from harness.cluster.zookeeper_log import ZnodeChange, understanding
from harness.history.incarnations import TopicLife
from harness.interfaces import BrokerEvent, ClusterHistory, ConfigurationChange, ControllerState, NodeId, PartitionState

UNCERTAINTY_NS = 1_000_000
EXACT = -1  # the observer of what the system itself kept
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")
_BROKER = re.compile(r"/brokers/ids/(\d+)")
_DIRECTORIES = re.compile(r"/brokers/directories/(\d+)")
_CONFIG = re.compile(r"/config/(topics|brokers)/([^/]+)")


class _Reader:
    """Follows the changes in order; what is there at each moment decides what a change means."""

    def __init__(self, anchor: Anchor) -> None:
        self._anchor = anchor
        self._replicas: dict[str, dict[str, list[int]]] = {}
        self._settings: dict[tuple[str, str], dict[str, str]] = {}
        self._controller_epoch: int | None = None
        self.states: list[PartitionState] = []
        self.controllers: list[ControllerState] = []
        self.events: list[BrokerEvent] = []
        self.configuration: list[ConfigurationChange] = []
        self.topics: list[TopicLife] = []
        self._living: dict[str, int] = {}  # topic -> its place in `topics`

    def take(self, change: ZnodeChange) -> None:
        t_ns = self._anchor.monotonic_from_wall(change.wall_ms * 1_000_000)
        value = _decoded(change.data)
        if match := _STATE.fullmatch(change.path):
            self._take_state(t_ns, match[1], _number(match[2]), change, value)
        elif match := _TOPIC.fullmatch(change.path):
            self._replicas[match[1]] = (value or {}).get("partitions", {})
            self._take_topic(t_ns, match[1], change, value)
        elif change.path == "/controller_epoch":
            self._take_controller_epoch(change)
        elif change.path == "/controller":
            node = _number(value["brokerid"]) if value is not None else -1
            self.controllers.append(
                ControllerState(t_ns=t_ns, uncertainty_ns=UNCERTAINTY_NS, node=node, controller_epoch=None)
            )
        elif match := _BROKER.fullmatch(change.path):
            event = "broker_registered" if change.data is not None else "broker_gone"
            self.events.append(
                BrokerEvent(node=NodeId(_number(match[1])), t_ns=t_ns, event=event, detail=f"{change.zxid:#x}")
            )
        elif match := _DIRECTORIES.fullmatch(change.path):
            self._take_directories(t_ns, NodeId(_number(match[1])), value)
        elif match := _CONFIG.fullmatch(change.path):
            self._take_config(t_ns, match[1], match[2], value)

    def _take_topic(self, t_ns: int, topic: str, change: ZnodeChange, value: Any) -> None:
        """Brokers know topics' ids since 2.8; before that, creation and deletion tell one from the other."""
        if change.data is None:
            if (place := self._living.pop(topic, None)) is not None:
                self.topics[place] = replace(self.topics[place], deleted_ns=t_ns)
        elif topic in self._living:
            place = self._living[topic]
            self.topics[place] = replace(self.topics[place], topic_id=_topic_id(value) or self.topics[place].topic_id)
        else:
            self._living[topic] = len(self.topics)
            self.topics.append(
                TopicLife(
                    topic=topic,
                    topic_id=_topic_id(value),
                    created_ns=t_ns,
                    deleted_ns=None,
                    uncertainty_ns=UNCERTAINTY_NS,
                )
            )

    def _take_state(self, t_ns: int, topic: str, partition: int, change: ZnodeChange, value: Any) -> None:
        if value is None:
            return
        epoch = value.get("controller_epoch")
        self.states.append(
            PartitionState(
                topic=topic,
                partition=partition,
                t_ns=t_ns,
                uncertainty_ns=UNCERTAINTY_NS,
                exact=True,
                observer=EXACT,
                leader=_number(value["leader"]),
                leader_epoch=_number(value["leader_epoch"]),
                partition_epoch=change.version,
                controller_epoch=None if epoch is None else _number(epoch),
                isr=tuple(map(_number, value["isr"])),
                replicas=tuple(map(_number, self._replicas.get(topic, {}).get(str(partition), ()))),
                topic_id=self.topics[self._living[topic]].topic_id if topic in self._living else None,
            )
        )

    def _take_controller_epoch(self, change: ZnodeChange) -> None:
        """It is raised right after (or with) the election: it belongs to the controller that was elected last."""
        if change.data is None:
            return
        self._controller_epoch = _number(change.data)
        for number in range(len(self.controllers) - 1, -1, -1):
            last = self.controllers[number]
            if last.node >= 0:
                self.controllers[number] = ControllerState(
                    t_ns=last.t_ns,
                    uncertainty_ns=last.uncertainty_ns,
                    node=last.node,
                    controller_epoch=self._controller_epoch,
                )
                return

    def _take_directories(self, t_ns: int, node: NodeId, value: Any) -> None:
        """The controller writes what a broker registered with; another directory than before is a lost disk."""
        previous = (value or {}).get("previous")
        if value is None or not previous or set(previous) == set(value["directories"]):
            return
        detail = f"registered with directory {value['directories']}, before it was {previous}"
        self.events.append(BrokerEvent(node=node, t_ns=t_ns, event="directory_lost", detail=detail))

    def _take_config(self, t_ns: int, scope: str, name: str, value: Any) -> None:
        """One row per key that changed; a key that is taken away has an empty value."""
        now = {str(key): str(item) for key, item in (value or {}).get("config", {}).items()}
        before = self._settings.get((scope, name), {})
        self._settings[scope, name] = now
        for key in sorted({*now, *before}):
            if now.get(key) != before.get(key):
                node = _number(name) if scope == "brokers" and name.isdecimal() else -1
                self.configuration.append(
                    ConfigurationChange(
                        t_ns=t_ns,
                        scope="topic" if scope == "topics" else "broker",
                        name=name,
                        node=node,
                        key=key,
                        value=now.get(key, ""),
                    )
                )


def history_of(changes: Iterable[ZnodeChange], anchor: Anchor) -> ClusterHistory:
    """Raises HarnessError where a znode holds what tells nothing."""
    reader = _Reader(anchor)
    for change in changes:
        with understanding(change):
            reader.take(change)
    return ClusterHistory(
        partition_states=reader.states,
        controllers=reader.controllers,
        broker_events=reader.events,
        configuration=reader.configuration,
        topics=reader.topics,
    )


def _number(told: Any) -> int:
    """A node's id, a partition or an epoch. Raises ValueError for what Kafka has none of."""
    number = int(told)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number} is no node, partition or epoch")
    return number


def _topic_id(value: Any) -> str | None:
    told = value.get("topic_id") if isinstance(value, dict) else None
    return told if isinstance(told, str) else None


def _decoded(data: bytes | None) -> Any:
    """The JSON of a znode; None when it was deleted or holds none."""
    if not data or not data.lstrip().startswith(b"{"):
        return None
    return json.loads(data)
