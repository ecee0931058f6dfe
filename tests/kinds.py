"""What a test starts: its kind, a marker. `make quick` leaves out every kind but `spark`, and `make test` what is
`further` (`make test FURTHER=yes` and `.ci/run` pass all).

A kind follows from the folder or from a fixture where that is always true (FOLDERS, FIXTURES); otherwise the test or
its module is marked. Nobody can forget it: `Starts` sees every process and every node's address, and a test that starts
what its markers do not say fails, in every run.
"""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = {
    "cluster": "starts a reference cluster, in processes or within the test, or commands of kafka-chaos that do",
    "jvm": "starts a JVM of its own: real Kafka, ZooKeeper, or a Spark besides the shared one",
    "docker": "asks a Docker engine",
    "browser": "opens a page in a browser",
    "spark": "asks the shared Spark session",
    "further": "keeps a promise that another test keeps, with one more release, layout, library or world",
    "slow": "takes more than a few seconds of CPU, alone or with the tests that share its fixture",
}
NOT_QUICK = ("cluster", "jvm", "docker", "browser", "slow")

# What `make quick` asks its one Spark session; whatever else needs the session is slow, a new test too.
QUICK_ON_SPARK = (Path("harness/checks/test_judge_run_folder.py"),)
FOLDERS = {"end_to_end": ("cluster", "jvm"), "interop": ("cluster", "jvm")}
FIXTURES = {
    "spark": "spark",
    "engine": "docker",
    "running_cluster": "cluster",
    "tidy_cluster": "cluster",
}

GROUPS = ("spark", "docker")  # all of one worker, whatever their files (workers.py)
_FIRST = (*GROUPS, "jvm", "cluster")  # in the order in which they are begun; then the rest

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_NODES = ("harness", "reference_impl", "harness.cluster.local.fabric_process")


def kinds_of(place: Path, fixtures: Iterable[str]) -> set[str]:
    """`place` is relative to the tests' folder."""
    found = {*FOLDERS.get(place.parts[0], ()), *(FIXTURES[name] for name in fixtures if name in FIXTURES)}
    return found | {"slow"} if "spark" in found and place not in QUICK_ON_SPARK else found


def group_of(kinds: set[str]) -> str | None:
    return next((group for group in GROUPS if group in kinds), None)


def rank(kinds: set[str]) -> int:
    return next((number for number, kind in enumerate(_FIRST) if kind in kinds), len(_FIRST))


def kind_of_process(command: Iterable[Any]) -> str | None:
    words = [os.fsdecode(word) for word in command]
    names = {Path(word).name for word in words}
    if Path(words[0]).name == "java":
        return "jvm"
    if names.intersection(_BROWSERS):
        return "browser"
    if "-m" in words and words[words.index("-m") + 1] in _NODES and words[-1] != "flaws":  # which starts no node
        return "cluster"
    return "docker" if Path(words[0]).name == "docker" else None


def kind_of_address(address: Any) -> str | None:
    """Nodes listen in a block of their own, 127.B.0.0/16; everything else of these tests at 127.0.0.1."""
    host = address[0] if isinstance(address, tuple) else ""
    return "cluster" if host.startswith("127.") and not host.startswith("127.0.") else None


@dataclass
class Starts:
    """What was started since the last look, as Python's audit events tell it (PEP 578). A hook cannot be removed."""

    seen: dict[str, str] = field(default_factory=dict)  # kind -> the first of it

    def watch(self) -> None:
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            _, command, _, _ = arguments
            words = [command] if isinstance(command, str | bytes | os.PathLike) else list(command)
            self._note(kind_of_process(words), words)
        elif event == "socket.bind":
            self._note(kind_of_address(arguments[1]), arguments[1])

    def _note(self, kind: str | None, what: object) -> None:
        if kind is not None:
            self.seen.setdefault(kind, str(what)[:200])

    def unsaid(self, said: set[str]) -> list[str]:
        """A line for each kind that was started and not said; forgets all."""
        seen, self.seen = self.seen, {}
        if "spark" in said:
            seen.pop("jvm", None)
        return [
            f"this test starts {what}: mark it or its module with @pytest.mark.{kind} ({KINDS[kind]})"
            for kind, what in seen.items()
            if kind not in said
        ]
