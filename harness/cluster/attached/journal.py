"""The harness's journal of an attached cluster, RUN/attached.jsonl: observations, and faults that must be undone.

Each fault is written down before it is injected and struck out when it is undone, because a node that the harness
killed stays down even if the harness is killed. The next command undoes what is left.
"""

import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.history.schema.schemas import AT_START
from harness.ports.cluster import ClusterHistory, ConfigurationChange, ControllerState, NodeId
from harness.ports.own_names import OwnNames

NAME = "attached.jsonl"
DELETE_TOPIC, DELETE_GROUP = "delete", "delete-group"
DELETIONS = (DELETE_TOPIC, DELETE_GROUP)  # of what the run has made; all else that is owed heals


@dataclass(frozen=True, kw_only=True)
class OwnTopic:
    """A topic that the run has made, and what tells it apart from others of that name (see own_topics.py)."""

    name: str  # on the cluster
    topic_id: uuid.UUID | None = None  # None: its cluster has no topic ids
    mark: str | None = None  # None: its cluster keeps none


class AttachedJournal:
    def __init__(self, run: Path) -> None:
        self._files = FilesBelow(run)
        self._pen = threading.Lock()

    @property
    def path(self) -> Path:
        return self._files.top / NAME

    def _write(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry).encode() + b"\n"
        with self._pen, self._files.append(NAME) as file:
            file.write(line)

    def _entries(self) -> Iterator[dict[str, Any]]:
        try:
            lines = self._files.read(NAME).splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue  # the last line of a harness that was killed while writing
            if isinstance(entry, dict):
                yield entry

    # -- faults to undo ----------------------------------------------------------------------------------------------

    def owe(self, undo: str, subject: str) -> None:
        """Call it before a fault: notes the action `undo` (start, resume, heal, unslow, delete, delete-group) for a
        node, links, a topic or a group."""
        self._write({"owed": undo, "subject": subject})

    def paid(self, undo: str, subject: str) -> None:
        self._write({"paid": undo, "subject": subject})

    def failed(self, undo: str, subject: str) -> None:
        """It was tried, and stays owed."""
        self._write({"failed": undo, "subject": subject})

    def has_failed(self, undo: str, subject: str) -> bool:
        """Since it was owed last."""
        failed = False
        for entry in self._entries():
            match entry:
                case {"owed": str(what), "subject": str(whose)} if (what, whose) == (undo, subject):
                    failed = False
                case {"failed": str(what), "subject": str(whose)} if (what, whose) == (undo, subject):
                    failed = True
        return failed

    def owed(self) -> list[tuple[str, str]]:
        """Returns (undo action, subject) of everything not undone yet, newest first."""
        open_ones: dict[tuple[str, str], None] = {}
        for entry in self._entries():
            match entry:
                case {"owed": str(undo), "subject": str(subject)}:
                    open_ones.pop((undo, subject), None)
                    open_ones[undo, subject] = None
                case {"paid": str(undo), "subject": str(subject)}:
                    open_ones.pop((undo, subject), None)
        return list(reversed(open_ones))

    def history(self) -> ClusterHistory:
        """Returns what was polled during the run."""
        return ClusterHistory(
            partition_states=(), controllers=self.controllers(), broker_events=(), configuration=self.configuration()
        )

    # -- observations ------------------------------------------------------------------------------------------------

    def found(self, addresses: Mapping[NodeId, tuple[str, int]]) -> None:
        self._write({"addresses": {str(node): [host, port] for node, (host, port) in addresses.items()}})

    def addresses(self) -> dict[NodeId, tuple[str, int]]:
        known: dict[NodeId, tuple[str, int]] = {}
        for entry in self._entries():
            known |= {NodeId(int(node)): (host, port) for node, (host, port) in entry.get("addresses", {}).items()}
        return known

    def in_containers(self, ids: Mapping[NodeId, str], *, engine: str) -> None:
        """engine: its address."""
        self._write({"containers": {str(node): each for node, each in ids.items()}, "engine": engine})

    def containers(self) -> dict[NodeId, str]:
        """The container that each node was when the run began; empty: nobody noted it."""
        for entry in self._entries():
            match entry:
                case {"containers": dict(ids)}:
                    return {NodeId(int(node)): str(each) for node, each in ids.items()}
        return {}

    def engine(self) -> str | None:
        """The address of the engine of these containers; None: nobody noted it."""
        for entry in self._entries():
            match entry:
                case {"containers": dict(), "engine": str(address)}:
                    return address
        return None

    def named(self, names: OwnNames) -> None:
        self._write({"before": names.before})

    def names(self) -> OwnNames | None:
        """What the run's names are on the cluster; None: nobody noted it."""
        for entry in self._entries():
            match entry:
                case {"before": str(before)}:
                    return OwnNames(before)
        return None

    def created(self, topic: OwnTopic) -> None:
        self._write({"topic": topic.name, "topic_id": topic.topic_id and str(topic.topic_id), "mark": topic.mark})

    def topics(self) -> list[str]:
        """Their names on the cluster."""
        return list(dict.fromkeys(entry["topic"] for entry in self._entries() if "topic" in entry))

    def own_topic(self, name: str) -> OwnTopic | None:
        """The topic of that name that the run made last; None if it made none. Former releases noted a name before the
        topic was made, and nothing that would tell it apart."""
        found = None
        for entry in self._entries():
            match entry:
                case {"topic": str(topic), "topic_id": str() | None as topic_id, "mark": str() | None as mark}:
                    if topic == name:
                        found = OwnTopic(name=name, topic_id=_uuid(topic_id), mark=mark)
        return found

    def configured(self, topic: str, settings: Mapping[str, str], *, t_ns: int, source: str | None = None) -> None:
        self._write({"configuration": dict(settings), "of": topic, "t": t_ns, "source": source})

    def configured_broker(self, node: NodeId, settings: Mapping[str, str], *, t_ns: int) -> None:
        """By its own word."""
        self._write({"configuration": dict(settings), "of_broker": node, "t": t_ns})

    def configuration(self) -> list[ConfigurationChange]:
        """Returns the settings in force for each topic, whether set on the topic or inherited, and for each broker."""
        return [
            ConfigurationChange(t_ns=entry["t"], key=key, value=value, **_place(entry))
            for entry in self._entries()
            for key, value in entry.get("configuration", {}).items()
        ]

    def controller(self, node: int, *, t_ns: int, uncertainty_ns: int) -> None:
        self._write({"controller": node, "t": t_ns, "uncertainty": uncertainty_ns})

    def controllers(self) -> list[ControllerState]:
        return [
            ControllerState(
                t_ns=entry["t"], uncertainty_ns=entry["uncertainty"], node=entry["controller"], controller_epoch=None
            )
            for entry in self._entries()
            if "controller" in entry
        ]


def _uuid(text: str | None) -> uuid.UUID | None:
    try:
        return None if text is None else uuid.UUID(text)
    except ValueError:
        raise HarnessError(f"{NAME}: {text!r} is no topic id; put the file back as the run left it") from None


def _place(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry's configuration is of."""
    node = entry.get("of_broker")
    if node is not None:
        return {"scope": "broker", "name": str(node), "node": node, "source": AT_START}
    return {"scope": "topic", "name": entry["of"], "node": -1, "source": entry.get("source")}
