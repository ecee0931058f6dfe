"""Runs the user's commands for faults and healing: templates, filled in and passed to this machine's shell.

Output goes to a file, not a pipe: a command may start a broker that keeps its output open for ever.
"""

import asyncio
import contextlib
import os
import shlex
import signal
import string
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError, UsageError

_OF_NODE = ("node", "host", "port")
_OF_LINK = ("link_source", "link_target", "source_host", "target_host", "links", "mode")
# Command -> the placeholders allowed in its template.
PLACEHOLDERS: Mapping[str, tuple[str, ...]] = {
    "kill": _OF_NODE,
    "start": _OF_NODE,
    "stop": _OF_NODE,
    "pause": _OF_NODE,
    "resume": _OF_NODE,
    "wipe": _OF_NODE,
    "cut": _OF_LINK,
    "heal": _OF_LINK,
    "isolate": (*_OF_NODE, "peers"),
    "rejoin": (*_OF_NODE, "peers"),
    "slow": (*_OF_LINK, "delay_ms"),
    "read_log": (*_OF_NODE, "folder", "topics"),
}


def check_template(name: str, template: str) -> None:
    """Raises UsageError for an unknown placeholder."""
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    except ValueError as error:
        raise UsageError(f"[attached] {name}: {error}; write a brace that is meant as {{{{ or }}}}") from None
    for field in fields:
        if field not in PLACEHOLDERS[name]:
            known = " ".join(f"{{{each}}}" for each in PLACEHOLDERS[name])
            raise UsageError(f"[attached] {name}: {{{field}}} is nothing to fill in; there are {known}")


_Filled = tuple[str, dict[str, object]]  # a command, what is filled in


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A command that ended with exit code 0."""

    name: str
    seconds: float
    output: str  # the last line of its output

    @property
    def sentence(self) -> str:
        quoted = f': "{self.output}"' if self.output else ""
        return f"the {self.name} command ended with 0 after {self.seconds:.1f} s{quoted}"


class CommandRunner:
    """Runs the commands of one cluster; writes a file with the command and its output for each, below `folder`."""

    def __init__(self, templates: Mapping[str, str], *, folder: Path, timeout_s: float) -> None:
        self._templates = templates
        self._folder = folder
        self._timeout_s = timeout_s
        self._under_way: dict[str, tuple[_Filled, asyncio.Task[Ran]]] = {}  # by subject

    def has(self, name: str) -> bool:
        return bool(self._templates.get(name))

    def mentions(self, name: str, placeholder: str) -> bool:
        fields = string.Formatter().parse(self._templates[name])
        return any(field == placeholder for _, field, _, _ in fields)

    async def run(self, name: str, subject: str, values: Mapping[str, object]) -> Ran:
        """Runs a command. `subject` names the node or link in messages. Raises HarnessError with the path of the
        command's output.

        A command that nobody waits for any more goes on. While it does, the same one is not run again, but waited for,
        and another one for the same subject comes after it. `slow` and its undoing differ by what is filled in alone.
        """
        wanted: _Filled = (name, dict(values))
        while (running := self._under_way.get(subject)) is not None and not running[1].done():
            if running[0] == wanted:
                return await asyncio.shield(running[1])
            await asyncio.wait({running[1]})
        task = asyncio.create_task(asyncio.to_thread(self.run_here, name, subject, values), name=f"{name} {subject}")
        task.add_done_callback(_retrieve_error)
        self._under_way[subject] = (wanted, task)
        return await asyncio.shield(task)

    def run_here(self, name: str, subject: str, values: Mapping[str, object]) -> Ran:
        """Like `run`, in the caller's thread."""
        line = self._templates[name].format_map({key: shlex.quote(str(value)) for key, value in values.items()})
        output = self._file(name, subject)
        began = time.monotonic()
        with output.open("w", encoding="utf-8") as file:
            file.write(f"$ {line}\n")
            file.flush()
            process = subprocess.Popen(
                line,
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            code = process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise HarnessError(
                f"[attached] {name} for {subject} did not end within {self._timeout_s:g} s; see {output}"
            ) from None
        last = _last_line(output)
        if code != 0:
            quoted_output = f" ({last})" if last else ""
            raise HarnessError(f"[attached] {name} for {subject} ended with {code}{quoted_output}; see {output}")
        return Ran(name=name, seconds=time.monotonic() - began, output=last)

    def _file(self, name: str, subject: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        words = subject.replace(" ", "-").replace(">", "-to-")[:60]
        while True:
            number = 1 + len(list(self._folder.iterdir()))
            path = self._folder / f"{number:04d}-{name}-{words}.log"
            with contextlib.suppress(FileExistsError):  # two commands in the same millisecond
                path.touch(exist_ok=False)
                return path


def _retrieve_error(task: "asyncio.Task[Ran]") -> None:
    """asyncio warns of errors that nobody looked at, as of a command that nobody waited for any more."""
    if not task.cancelled():
        task.exception()


def _last_line(output: Path) -> str:
    lines = [line.strip() for line in output.read_text(encoding="utf-8", errors="replace").splitlines()[1:]]
    return next((line[:200] for line in reversed(lines) if line), "")
