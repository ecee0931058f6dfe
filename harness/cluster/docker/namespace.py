"""Enters a node's network namespace to set rules and to try connections.

The fast way is nsenter as root on the engine's own machine; the way that always works is the engine's exec in the infra
container. Both run the same commands.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Literal, Protocol

from harness.cluster.docker.engine import engine_errors
from harness.errors import HarnessError

Entry = Literal["nsenter", "exec"]
Reached = Literal["open", "silent", "refused"]
_COMMAND_S = 20
# Tries one connection and prints the result; run with -I -S, which starts in a few milliseconds.
_TRY = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])).close()
    print("open")
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("silent")
"""


class InfraContainer(Protocol):
    """The used part of the docker package's container class."""

    name: str
    attrs: dict[str, dict[str, object]]

    def reload(self) -> None: ...

    def exec_run(
        self, cmd: Sequence[str], *, user: str, demux: bool
    ) -> tuple[int, tuple[bytes | None, bytes | None]]: ...


class Namespace:
    def __init__(self, container: InfraContainer, *, entry: Entry) -> None:
        self._container = container
        self._entry = entry
        self._pid = 0

    @property
    def name(self) -> str:
        return self._container.name

    def run(self, command: Sequence[str], *, given: str = "") -> str:
        """Returns the command's output; `given` is its input. Raises HarnessError with its error output if it fails."""
        if self._entry == "nsenter":
            return self._enter(command, given)
        return self._execute(command, given)

    def reaches(self, address: str, port: int, *, timeout_s: float) -> Reached:
        """The result of a new connection from this namespace."""
        python = sys.executable if self._entry == "nsenter" else "python3"
        answer = self.run([python, "-I", "-S", "-c", _TRY, address, str(port), str(timeout_s)]).strip()
        assert answer in ("open", "silent", "refused"), answer
        return answer  # type: ignore[return-value]

    def _enter(self, command: Sequence[str], given: str) -> str:
        if not self._pid:
            self._pid = pid_of(self._container)
        whole = ["nsenter", "-t", str(self._pid), "-n", "--", *command]
        try:
            ended = subprocess.run(whole, input=given, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
        except subprocess.TimeoutExpired:
            raise HarnessError(
                f"{command[0]} in the network of {self.name} did not end within {_COMMAND_S} s"
            ) from None
        if ended.returncode != 0:
            raise HarnessError(_failed(command, self.name, ended.returncode, ended.stderr))
        return ended.stdout

    def _execute(self, command: Sequence[str], given: str) -> str:
        # The engine's exec has no simple standard input, so the text is passed as an argument.
        fed = ["sh", "-c", 'text=$1; shift; printf %s "$text" | exec "$@"', "sh", given, *command]
        with engine_errors(f"{command[0]} in {self.name}"):
            code, (output, complaint) = self._container.exec_run(fed if given else command, user="root", demux=True)
        if code != 0:
            raise HarnessError(_failed(command, self.name, code, (complaint or output or b"").decode(errors="replace")))
        return (output or b"").decode(errors="replace")


def pid_of(container: InfraContainer) -> int:
    """The process that holds the namespace, in the engine's numbering."""
    container.reload()
    pid = container.attrs["State"]["Pid"]
    if not isinstance(pid, int) or not pid:
        raise HarnessError(f"infra container {container.name} is not running; see `docker logs {container.name}`")
    return pid


def can_enter() -> bool:
    """True if this machine has what nsenter needs; the probe shows whether the engine runs on it."""
    return all(shutil.which(tool) for tool in ("nsenter", "iptables-restore", "iptables-save"))


def _failed(command: Sequence[str], name: str, code: int, complaint: str) -> str:
    return f"{command[0]} in the network of {name} failed with {code}: {' '.join(complaint.split())[:300]}"
