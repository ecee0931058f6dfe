"""A cluster for tests: the command `kafka-chaos cluster --control` as a process, which ends with whoever started it."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from kafka_chaos_pytest.control import Control
from kafka_chaos_pytest.errors import ChaosError

COMMAND = "KAFKA_CHAOS_COMMAND"  # the environment variable that names the command
START_S = 180.0
END_S = 60.0
_LOOK_S = 0.05
_LAST_CHARACTERS = 2000


def command_of(given: str = "") -> list[str]:
    """How the harness is called: as given, as the environment says, or as `kafka-chaos` on the path.

    Raises ChaosError where there is none.
    """
    chosen = given or os.environ.get(COMMAND, "")
    words = shlex.split(chosen) if chosen else ["kafka-chaos"]
    if not words or shutil.which(words[0]) is None:
        remedy = f"install it with pipx, or name it by --kafka-chaos, kafka_chaos_command or {COMMAND}"
        raise ChaosError("start", f"the command {chosen or 'kafka-chaos'!r} is not here", remedy)
    return words


@dataclass(kw_only=True)
class ChaosCluster:
    """system: "reference", or "kafka:4.3.1". settings: Kafka's own, of every broker. runs: where recordings are kept.

    A context manager; `start` and `stop` do the same.
    """

    system: str = "reference"
    brokers: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    runs: Path = Path("runs")
    _process: "subprocess.Popen[bytes] | None" = None
    _folder: "tempfile.TemporaryDirectory[str] | None" = None
    _ready: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """host:port,host:port of the brokers, by links that faults can cut."""
        return str(self._ready["bootstrap"])

    @property
    def control(self) -> Control:
        return Control(Path(self._ready["control"]))

    def start(self) -> "ChaosCluster":
        """Returns when all brokers are registered. Raises ChaosError with what the command said."""
        words = command_of(self.command)
        self._folder = tempfile.TemporaryDirectory(prefix="kc-", ignore_cleanup_errors=True)  # private, and short
        folder = Path(self._folder.name)
        ready, output = folder / "ready.json", folder / "output"
        settings = [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]
        options = ["--system", self.system, "--brokers", str(self.brokers), "--runs", str(self.runs.absolute())]
        options += ["--control", str(folder / "c" / "control"), "--ready-file", str(ready), "--until-stdin-closes"]
        options += ["--starters-folder", str(folder)]  # removed by whoever ends last: us, the cluster, a later command
        with output.open("wb") as said:
            self._process = subprocess.Popen(
                [*words, "cluster", *options, *settings],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                process_group=0,  # Ctrl-C is for the tests; what they start ends when they close its standard input
            )
        deadline = time.monotonic() + START_S
        while not ready.exists():
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                printed = output.read_text(errors="replace")[-_LAST_CHARACTERS:].strip()
                self.stop()
                why = "ended" if ended else f"was not ready within {START_S:g} s"
                raise ChaosError("start", f"`kafka-chaos cluster` {why}: {printed or 'it said nothing'}")
            time.sleep(_LOOK_S)
        self._ready = json.loads(ready.read_text(encoding="utf-8"))
        return self

    def stop(self) -> None:
        """Heals, ends every node, and leaves nothing but recordings. May be called again."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> "ChaosCluster":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def create_topic(
        self, name: str, *, partitions: int = 1, replication_factor: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        """Outside of a recording, which creates its own. Returns when every partition has a leader."""
        topic = topic_of(name, partitions=partitions, replication_factor=replication_factor, settings=settings)
        self.control.ask("topic", topic)

    def state(self, topics: Sequence[str] = ()) -> Mapping[str, Any]:
        """Nodes, leaders, epochs, ISRs and faults, as docs/control.md describes them."""
        return self.control.ask("state", {"topics": list(topics)} if topics else {})


def topic_of(
    name: str, *, partitions: int = 1, replication_factor: int = 3, settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A topic as the requests topic and record take it."""
    table = {"name": name, "partitions": partitions, "replication_factor": replication_factor}
    return {**table, "settings": {key: str(value) for key, value in (settings or {}).items()}}
