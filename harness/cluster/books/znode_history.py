"""Converts znode changes to the exact history of a ZooKeeper-era cluster: leaders, epochs, ISRs, controllers, settings.

Times are the service's wall clock in ms, placed on the run's time axis by its clock anchor; accurate to 1 ms.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from harness.cluster.books.zookeeper_log import ZnodeChange, understanding
from harness.history.facts.incarnations import TopicLife
from harness.host.clock import Anchor
from harness.ports.cluster import (
    BrokerEvent,
    ClusterHistory,
    ConfigurationChange,
    ControllerState,
    NodeId,
    PartitionState,
)

UNCERTAINTY_NS = 1_000_000
EXACT = -1  # the observer column of rows from the system's own records
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")
_BROKER = re.compile(r"/brokers/ids/(\d+)")
_DIRECTORIES = re.compile(r"/brokers/directories/(\d+)")
_CONFIG = re.compile(r"/config/(topics|brokers)/([^/]+)")


class _Reader:
    """Processes the changes in order; the meaning of a change depends on the state at that moment."""

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
        self._living: dict[str, int] = {}  # topic -> its index in `topics`

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
        elif change.path == "/feature":
            self._take_features(t_ns, value)

    def _take_topic(self, t_ns: int, topic: str, change: ZnodeChange, value: Any) -> None:
        """Brokers have topic ids since 2.8; before that, creation and deletion distinguish topics of the same name."""
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
        """The epoch is raised right after (or with) the election, so it belongs to the controller elected last."""
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
        """The controller stores what a broker registered with; a directory id that differs from before means a lost
        disk."""
        previous = (value or {}).get("previous")
        if value is None or not previous or set(previous) == set(value["directories"]):
            return
        detail = f"registered with directory {value['directories']}, before it was {previous}"
        self.events.append(BrokerEvent(node=node, t_ns=t_ns, event="directory_lost", detail=detail))

    def _take_config(self, t_ns: int, scope: str, name: str, value: Any) -> None:
        """One row per changed key; a removed key has an empty value."""
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

    def _take_features(self, t_ns: int, value: Any) -> None:
        """The levels that the controller finalized; brokers since 2.7 have the znode, most often without any."""
        for name, levels in sorted(((value or {}).get("features") or {}).items()):
            level = str(_number(levels["max_version_level"]))
            self.configuration.append(
                ConfigurationChange(t_ns=t_ns, scope="feature", name="", node=-1, key=name, value=level)
            )


def history_of(changes: Iterable[ZnodeChange], anchor: Anchor) -> ClusterHistory:
    """Raises HarnessError if a znode has invalid contents."""
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


def _number(value: Any) -> int:
    """Parses a node id, partition or epoch. Raises ValueError if Kafka has no such number."""
    number = int(value)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number} is no node, partition or epoch")
    return number


def _topic_id(value: Any) -> str | None:
    topic_id = value.get("topic_id") if isinstance(value, dict) else None
    return topic_id if isinstance(topic_id, str) else None


def _decoded(data: bytes | None) -> Any:
    """The JSON of a znode; None if it was deleted or contains no JSON."""
    if not data or not data.lstrip().startswith(b"{"):
        return None
    return json.loads(data)
