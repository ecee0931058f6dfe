"""The socket: made so that only its user can open it, one line a request, one line an answer, in the order asked.

Requests of one connection are answered one after the other; connections do not wait for each other.
"""

import asyncio
import os
import socket
import stat
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from harness.controller.control.requests import (
    LINE_BYTES_MAX,
    Refused,
    Request,
    answer_line,
    error_line,
    id_in,
    read_request,
)
from harness.errors import UsageError

CONNECTIONS_MAX = 64
TAKEN_WITHIN_S = 2.0  # the last answer, when the cluster ends
_PATH_BYTES_MAX = 107  # of a Unix socket's address
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
Answer = Callable[[Request], Awaitable[Mapping[str, Any]]]


class ControlSocket:
    """Listens from `open` to `close`. Whoever is not user `only_uid` is refused, and nothing else."""

    def __init__(self, path: Path, answer: Answer, *, only_uid: int) -> None:
        self._path = path
        self._answer = answer
        self._only_uid = only_uid
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Raises UsageError, with the remedy, for a place where the socket would not be private."""
        listening = bound(self._path)
        # The limit is of what comes before the newline.
        self._server = await asyncio.start_unix_server(self._connected, sock=listening, limit=LINE_BYTES_MAX)

    async def close(self) -> None:
        """Ends every connection, and removes the socket."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._path.unlink(missing_ok=True)
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the cluster ends: what was asked is done, and nobody is left to answer
        finally:
            self._connections.discard(task)
            await _close(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        refused = self._refused_at_once(writer)
        if refused is not None:
            await _say(writer, error_line(None, refused))
            return
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    half = Refused("bad-json", f"the connection ended within a line, after {len(error.partial)} bytes")
                    await _say(writer, error_line(None, half))
                return
            except asyncio.LimitOverrunError:
                too_long = Refused("too-long", f"this line has more than {LINE_BYTES_MAX} bytes")
                await _say(writer, error_line(None, too_long))
                return
            await _say(writer, await self._answered(line))

    async def _answered(self, line: bytes) -> bytes:
        try:
            request = read_request(line)
        except Refused as refused:
            return error_line(id_in(line), refused)
        try:
            return answer_line(request.id, await self._answer(request))
        except Refused as refused:
            return error_line(request.id, refused)

    def _refused_at_once(self, writer: asyncio.StreamWriter) -> Refused | None:
        asking = writer.get_extra_info("socket")
        _, uid, _ = _CREDENTIALS.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid != self._only_uid:
            return Refused("not-allowed", f"user {uid} may not command a cluster of user {self._only_uid}")
        if len(self._connections) > CONNECTIONS_MAX:
            return Refused("busy", f"{CONNECTIONS_MAX} connections are open already")
        return None


async def _close(writer: asyncio.StreamWriter) -> None:
    """Gives a client some time for the answers that it has not read, and no more: it may never read them."""
    writer.close()
    try:
        async with asyncio.timeout(TAKEN_WITHIN_S):
            await writer.wait_closed()
    except (ConnectionError, TimeoutError, asyncio.CancelledError):
        writer.transport.abort()


async def _say(writer: asyncio.StreamWriter, line: bytes) -> None:
    writer.write(line)
    await writer.drain()


def bound(path: Path) -> socket.socket:
    """A socket with mode 0600 in a folder with mode 0700, which is made where there is none. Raises UsageError."""
    path = path.absolute()
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise UsageError(f"--control {path}: a socket's path has at most {_PATH_BYTES_MAX} bytes; choose a shorter one")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _check_private(path.parent)
        _remove_what_nobody_serves(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    except OSError as error:
        raise UsageError(f"--control {path}: {error.strerror}; choose a path in a folder of your own") from error
    before = os.umask(0o177)  # nobody else, from the first moment on
    try:
        listening.bind(str(path))
        listening.listen(CONNECTIONS_MAX)
    except OSError as error:
        listening.close()
        raise UsageError(f"--control {path}: {error.strerror}; choose another path") from error
    finally:
        os.umask(before)
    return listening


def _check_private(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise UsageError(f"--control: {folder} belongs to user {found.st_uid}; choose a folder of your own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise UsageError(f"--control: others may enter {folder}; `chmod 700 {folder}`, or name one that is not there")


def _remove_what_nobody_serves(path: Path) -> None:
    """The socket of a command that was killed. Raises UsageError for anything else of that name."""
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise UsageError(f"--control {path}: there is something of that name, and no socket; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise UsageError(f"--control {path}: another cluster is commanded there; choose another path")
