"""What the harness knows of somebody else's cluster and owes to it, one line each in RUN/attached.jsonl.

Such a cluster keeps no books for us, and a node that we killed stays dead when the harness is killed too: so each harm
is written down before it is done, and struck out when it is undone. What is left, the next command undoes.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.history.files_below import FilesBelow
from harness.interfaces import ClusterHistory, ConfigurationChange, ControllerState, NodeId

NAME = "attached.jsonl"


class Book:
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
                continue  # the last line of a harness that was killed while writing it
            if isinstance(entry, dict):
                yield entry

    # -- what is owed -------------------------------------------------------------------------------------------------

    def owe(self, undo: str, subject: str) -> None:
        """Before the harm: `undo` (start, resume, heal, unslow, delete) of a node, of links or of a topic is owed."""
        self._write({"owed": undo, "subject": subject})

    def paid(self, undo: str, subject: str) -> None:
        self._write({"paid": undo, "subject": subject})

    def owed(self) -> list[tuple[str, str]]:
        """(undo, subject), newest first."""
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
        """What was asked while the run went on."""
        return ClusterHistory(
            partition_states=(), controllers=self.controllers(), broker_events=(), configuration=self.configuration()
        )

    # -- what is known ------------------------------------------------------------------------------------------------

    def found(self, addresses: Mapping[NodeId, tuple[str, int]]) -> None:
        self._write({"addresses": {str(node): [host, port] for node, (host, port) in addresses.items()}})

    def addresses(self) -> dict[NodeId, tuple[str, int]]:
        known: dict[NodeId, tuple[str, int]] = {}
        for entry in self._entries():
            known |= {NodeId(int(node)): (host, port) for node, (host, port) in entry.get("addresses", {}).items()}
        return known

    def created(self, topic: str) -> None:
        self._write({"topic": topic})

    def topics(self) -> list[str]:
        return [entry["topic"] for entry in self._entries() if "topic" in entry]

    def configured(self, topic: str, settings: Mapping[str, str], *, t_ns: int) -> None:
        self._write({"configuration": dict(settings), "of": topic, "t": t_ns})

    def configuration(self) -> list[ConfigurationChange]:
        """The values in force for each topic, wherever they are set: they are asked of the topic."""
        return [
            ConfigurationChange(t_ns=entry["t"], scope="topic", name=entry["of"], node=-1, key=key, value=value)
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
