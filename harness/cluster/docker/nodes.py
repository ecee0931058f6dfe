"""One node of a cluster of containers: its infra container, its volume, and the broker's container.

The volume outlives the broker as a disk outlives a process; it contains configuration, data and log. If the engine is
on this machine, the volume is an ordinary folder; otherwise its files are copied as archives.
"""

import contextlib
import io
import shutil
import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from docker.models.containers import Container

from harness.cluster.brokers.system import NodeFolders
from harness.cluster.docker import file_export
from harness.cluster.docker.engine import Engine, engine_errors, unless_ended
from harness.cluster.docker.environment import PLACE
from harness.cluster.docker.infra import Infra
from harness.cluster.docker.namespace import Entry, Namespace
from harness.errors import HarnessError
from harness.ports.cluster import NodeId

_STOP_S = 15
_FILLS_MAX = 5
_FILLER = f"{PLACE}/data/filler"  # brokers ignore plain files in their data directory
# Its output belongs to the run's evidence: one log file in the volume for all of its lives.
_LOGGED = ["sh", "-c", f'exec "$@" >> {PLACE}/log 2>&1', "sh"]


@dataclass(kw_only=True)
class ContainerNode:
    """`folder`: the volume as the harness sees it, or (`copied`) a copy of it in the run folder.

    `on_end`: gets the exit code of its process at each end, None where it is not known; from any thread, and perhaps
    twice. `ran_out_of_memory`: the kernel ended it for that.

    `disk`: a volume of limited size for the data alone, so that the log stays writable when the disk is full; "" if
    there is none. `disk_folder`: the same volume as the harness sees it.
    """

    node: NodeId
    engine: Engine
    infra: Infra
    volume: str
    folder: Path
    copied: bool
    entry: Entry
    on_end: Callable[[int | None], None]
    disk: str = ""
    disk_folder: Path | None = None
    container: Container | None = None
    ended: str | None = None  # how the process ended, in words
    ran_out_of_memory: bool = False
    _lives: int = field(default=0)

    @property
    def namespace(self) -> Namespace:
        return Namespace(self.infra.container, entry=self.entry)

    @property
    def volumes(self) -> Sequence[tuple[str, str]]:
        """(volume, mount point in the node's containers)."""
        return [(self.volume, str(PLACE)), *([(self.disk, f"{PLACE}/data")] if self.disk else [])]

    @property
    def is_running(self) -> bool:
        return self.container is not None and self.ended is None

    def create(self, image: str, command: Sequence[str], *, name: str, labels: Mapping[str, str], memory: str) -> None:
        if self.copied:
            self._send()
        with engine_errors(f"making container {name}"):
            self.container = self.engine.client.containers.create(
                image,
                entrypoint=[],
                command=[*_LOGGED, *command],
                name=name,
                labels=dict(labels),
                network_mode=self.infra.network_mode,
                volumes={volume: {"bind": place, "mode": "rw"} for volume, place in self.volumes},
                mem_limit=memory,
                user="root",  # as the volume's files are
                working_dir=str(PLACE),
            )

    def start(self) -> None:
        container = self._made()
        with engine_errors(f"starting container {container.name}"):
            container.start()
            container.reload()
        self.ended = None
        self._lives += 1
        # A thread of its own, because a process may end at any time and nothing else would notice.
        threading.Thread(target=self._watch, args=(container, self._lives), daemon=True).start()

    def _watch(self, container: Container, life: int) -> None:
        code: int | None = None
        try:
            with engine_errors(f"waiting for container {container.name}"):
                code = int(container.wait(timeout=None)["StatusCode"])
                words = str(code)
        except Exception as error:  # noqa: BLE001  # the engine itself went away: the node's end is unknown, not unnoticed
            words = f"unknown ({error})"
        if life == self._lives and self.ended is None:
            self._has_ended(f"ended with code {words}", code, container)

    def _has_ended(self, words: str, code: int | None, container: Container) -> None:
        with contextlib.suppress(HarnessError), engine_errors(f"looking at container {container.name}"):
            container.reload()
            self.ran_out_of_memory = bool(container.attrs["State"]["OOMKilled"])
        self.on_end(code)
        self.ended = words

    def look(self) -> None:
        """Notes an end that nobody has told of yet."""
        container = self._made()
        with engine_errors(f"looking at container {container.name}"):
            container.reload()
        state = container.attrs["State"]
        if self.ended is None and not state["Running"]:
            code = int(state["ExitCode"])
            self._has_ended(f"ended with code {code}", code, container)

    def kill(self) -> str:
        container = self._made()
        with engine_errors(f"killing container {container.name}"):
            with unless_ended():
                container.kill()
            state = self._settled(container)
        self._has_ended(f"ended with code {state['ExitCode']}", int(state["ExitCode"]), container)
        return f"container {container.short_id} is {state['Status']} after SIGKILL"

    def shut_down(self) -> tuple[str, bool]:
        """Returns (what was observed, whether the process ended by itself)."""
        container = self._made()
        with engine_errors(f"stopping container {container.name}"):
            container.stop(timeout=_STOP_S)
            state = self._settled(container)
        self._has_ended(f"ended with code {state['ExitCode']}", int(state["ExitCode"]), container)
        by_itself = int(state["ExitCode"]) != 137
        return f"container {container.short_id} ended with code {state['ExitCode']} after SIGTERM", by_itself

    def pause(self, *, on: bool) -> str:
        container = self._made()
        with engine_errors(f"pausing container {container.name}"):
            with unless_ended():  # in which case its status shows it
                container.pause() if on else container.unpause()
            container.reload()
        return f"container {container.short_id} is {container.attrs['State']['Status']}"

    def _settled(self, container: Container) -> Mapping[str, Any]:
        container.wait()
        container.reload()
        state: Mapping[str, Any] = container.attrs["State"]
        return state

    def empty(self) -> int:
        """Empties the data directory through the infra container, which mounts the volume too; returns the bytes
        removed."""
        data = f"{PLACE}/data"
        output = self._execute(["sh", "-c", f"du -sb {data} | cut -f1; find {data} -mindepth 1 -delete; ls -A {data}"])
        size, *left = output.split()
        if left:
            raise HarnessError(f"the data directory of node {self.node} still has {left[0]!r} in it after it was wiped")
        if self.copied:
            shutil.rmtree(self.folder / "data", ignore_errors=True)
            (self.folder / "data").mkdir(parents=True)
        return int(size)

    def send(self) -> None:
        """Copies what the harness has written for the node into the volume, if its folders are copies."""
        if self.copied:
            self._send()

    def refresh(self) -> None:
        """Copies what the node has written since into the run folder, if its folders are copies."""
        if self.copied:
            self._bring(self.folder)

    def keep(self, folder: Path) -> None:
        """Copies the whole volume to its place after the run."""
        if self.copied:
            self._bring(folder)
            return
        left_out = file_export.copy(self.folder, folder)
        if self.disk_folder is not None:
            left_out += file_export.copy(self.disk_folder, folder / "data")
        file_export.note(left_out, folder)

    def fill(self) -> int:
        """Takes every free byte of the data directory's volume; returns their number. Raises HarnessError if some
        remain."""
        before = self._free()
        for _ in range(_FILLS_MAX):  # the broker may free some space meanwhile
            self._execute(["sh", "-c", f"cat /dev/zero >> {_FILLER} 2> /dev/null || true"])
            left = self._free()
            if not left:
                return before
        raise HarnessError(f"{left} bytes of the data volume of node {self.node} are free after it was filled")

    def free(self) -> int:
        """Removes the filling file; returns the number of free bytes afterwards."""
        self._execute(["rm", "-f", _FILLER])
        return self._free()

    def _free(self) -> int:
        return int(self._execute(["df", "-B1", "--output=avail", f"{PLACE}/data"]).split()[-1])

    def _send(self) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name in ("config", "data"):
                if (self.folder / name).is_dir():
                    archive.add(self.folder / name, arcname=name)
        with engine_errors(f"writing the volume of node {self.node}"):
            self.infra.container.put_archive(str(PLACE), buffer.getvalue())

    def _bring(self, folder: Path) -> None:
        with engine_errors(f"reading the volume of node {self.node}"):
            pieces, _ = self.infra.container.get_archive(f"{PLACE}/.")
            archive = file_export.joined(pieces, f"the volume of node {self.node}")
        try:
            file_export.note(file_export.extract(archive, folder), folder)
        except (tarfile.TarError, OSError) as error:
            raise HarnessError(f"the volume of node {self.node} came broken from the engine ({error})") from None

    def _execute(self, command: Sequence[str]) -> str:
        return Namespace(self.infra.container, entry="exec").run(command)

    def _made(self) -> Container:
        assert self.container is not None, "the node was made"
        return self.container

    def folders(self) -> NodeFolders:
        found = NodeFolders.below(self.folder)
        return found if self.disk_folder is None else replace(found, data=self.disk_folder)
