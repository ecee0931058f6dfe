"""A tool of Kafka's own as a process: a JVM that prints one JSON object a line.

Its configuration, which may have secrets, is given to it as a file in memory: it stands neither on a disk nor in its
arguments. What it prints between its objects is its log, and goes where this process's goes.

An object was printed after the pipe was last seen empty before it (`after_ns`), and before it was read (`seen_ns`).
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import HarnessError
from harness.host.clock import Clock
from harness.host.parent import die_with_parent
from harness.ports.cluster import Event

_JVM_FLAGS = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
)
_TOOLS = "org.apache.kafka.tools"
_READ_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class JavaTools:
    """Java, and the jars of a release. names: the addresses of the brokers' names for this client; empty: as usual."""

    java: Path
    class_path: str
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Line:
    text: bytes
    after_ns: int
    seen_ns: int


class Program:
    """One process of a tool. Ends with this one, and is gone after `close`."""

    def __init__(self, tool: str, clock: Clock) -> None:
        self._tool = tool
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._pipe = -1
        self._heard: asyncio.Queue[Line | None] = asyncio.Queue()
        self._rest = b""
        self._empty_ns = 0
        self._is_over = False
        self._ending: asyncio.Task[None] | None = None
        self.has_ended = False  # and all that it printed was taken

    @classmethod
    async def started(
        cls,
        tools: JavaTools,
        tool: str,
        arguments: Sequence[str],
        *,
        configuration: Mapping[str, str] | None,
        clock: Clock,
    ) -> "Program":
        """configuration: None for a tool that takes none."""
        program = cls(tool, clock)
        options, files = [], []
        try:
            if tools.names:
                files.append(_in_memory("".join(f"{address} {name}\n" for name, address in tools.names.items())))
                options.append(f"-Djdk.net.hosts.file={_path(files[-1])}")
            if configuration is not None:
                files.append(_in_memory("".join(f"{key}={_escaped(each)}\n" for key, each in configuration.items())))
                arguments = [*arguments, "--command-config", _path(files[-1])]
            command = [str(tools.java), *_JVM_FLAGS, *options, "-cp", tools.class_path, f"{_TOOLS}.{tool}", *arguments]
            await program._start(command, files)
        finally:
            for file in files:
                os.close(file)
        return program

    async def _start(self, command: Sequence[str], files: Sequence[int]) -> None:
        self._pipe, theirs = os.pipe()
        os.set_blocking(self._pipe, False)
        self._empty_ns = self._clock.monotonic_ns()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=theirs,
                pass_fds=files,
                preexec_fn=die_with_parent(),
            )
        except OSError as error:
            raise HarnessError(f"{command[0]} cannot be started: {error.strerror}") from None
        finally:
            os.close(theirs)
        asyncio.get_running_loop().add_reader(self._pipe, self._read)

    # -- what it prints -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        before_ns = self._clock.monotonic_ns()
        read = os.read(self._pipe, _READ_BYTES)
        seen_ns = self._clock.monotonic_ns()
        if not read:
            self._is_over = True
            asyncio.get_running_loop().remove_reader(self._pipe)
            self._heard.put_nowait(None)
            return
        *lines, self._rest = (self._rest + read).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                self._heard.put_nowait(Line(text=line, after_ns=self._empty_ns, seen_ns=seen_ns))
            else:
                sys.stderr.write(line.decode("utf-8", errors="backslashreplace") + "\n")
        if len(read) < _READ_BYTES:
            self._empty_ns = before_ns

    async def lines(self) -> AsyncIterator[Line]:
        """To its end."""
        while (line := await self._heard.get()) is not None:
            yield line
        self.has_ended = True

    async def lines_within(self, timeout_s: float) -> Sequence[Line]:
        """Those that were printed since the last call; waits so long for the first."""
        first: list[Line] = []
        with contextlib.suppress(TimeoutError):
            line = await asyncio.wait_for(self._heard.get(), timeout_s)
            if line is None:
                self.has_ended = True
            else:
                first.append(line)
        return [*first, *self.take_lines()]

    def take_lines(self) -> Sequence[Line]:
        taken = []
        while not self._heard.empty():
            line = self._heard.get_nowait()
            if line is None:
                self.has_ended = True
            else:
                taken.append(line)
        return taken

    # -- its end ------------------------------------------------------------------------------------------------------

    def end_when(self, until: Event, *, within_s: float) -> None:
        """It is asked to end once `until` is set, and killed if it takes longer."""

        async def end() -> None:
            await until.wait()
            self.ask_to_end()
            await asyncio.sleep(within_s)
            self.kill()

        self._ending = asyncio.create_task(end(), name=f"the end of {self._tool}")

    def ask_to_end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def exit_code(self) -> int:
        """Once it has ended; negative: the signal that ended it."""
        assert self._process is not None, "it was started"
        return await self._process.wait()

    async def close(self, *, within_s: float = 0.0) -> None:
        """Kills it if it still runs after this time. What it has printed can still be taken."""
        if self._ending is not None:
            self._ending.cancel()
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), within_s)
            self.kill()
            await self._process.wait()
        if self._pipe >= 0:
            self._read_the_rest()
            asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    def _read_the_rest(self) -> None:
        """Nobody writes any more, so that its end comes at once."""
        while not self._is_over:
            self._read()

    def not_begun(self, exit_code: int) -> HarnessError:
        return HarnessError(f"Kafka's {self._tool} ended with exit code {exit_code} at its start; it says why above")


def _in_memory(text: str) -> int:
    file = os.memfd_create("kafka-chaos", 0)
    os.set_inheritable(file, True)
    with open(file, "w", encoding="utf-8", closefd=False) as written:
        written.write(text)
    return file


def _path(file: int) -> str:
    return f"/proc/self/fd/{file}"


def _escaped(value: str) -> str:
    """As Java reads the values of a properties file."""
    encoded = value.replace("\\", "\\\\").replace("\n", "\\n").encode("ascii", errors="backslashreplace").decode()
    return "\\" + encoded if encoded.startswith((" ", "\t")) else encoded
