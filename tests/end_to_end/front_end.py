"""Front ends of a one-node cluster: `front_end.py FOLDER start|kill|stop|pause|resume NUMBER`, as an owner has.

Each passes Kafka's bytes on. Clients of a front end are to come back to it, so where the broker's answers to Metadata
and FindCoordinator tell its address, the front end tells its own. FOLDER/NUMBER.json has both; `serve` is its process.
"""

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from tests.waiting import until

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGTERM, "pause": signal.SIGSTOP, "resume": signal.SIGCONT}
_METADATA = MetadataResponse.API_KEY
_TELLING = {kind.API_KEY: kind for kind in (MetadataResponse, FindCoordinatorResponse)}
_BY_KEYS_FROM = 4  # FindCoordinator (KIP-699)

Asked = dict[int, tuple[int, int]]  # correlation id -> API, version


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


class FrontEnd:
    def __init__(self, own: tuple[str, int], target: tuple[str, int]) -> None:
        self._own = own
        self._target = target

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection(*self._target)
        asked: Asked = {}
        ways = [asyncio.ensure_future(way) for way in (_ask(reader, onward, asked), self._tell(there, writer, asked))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            onward.close()
            writer.close()

    async def _tell(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: Asked) -> None:
        while True:
            frame = await _frame(there)
            api, version = asked.pop(int.from_bytes(frame[:4], "big"))
            writer.write(_sized(self._renamed(frame, api, version)))

    def _renamed(self, frame: bytes, api: int, version: int) -> bytes:
        if api not in _TELLING:
            return frame
        kind = _TELLING[api]
        head = io.BytesIO(frame)
        kind.parse_header(head, version=version)
        answer: Any = kind.decode(frame[head.tell() :], version=version)
        answer._header = None  # which decoding leaves unset, and encoding asks for
        by_key = api != _METADATA and version < _BY_KEYS_FROM
        named = [answer] if by_key else answer.brokers if api == _METADATA else answer.coordinators
        for each in named:
            if each.host:
                each.host, each.port = self._own
        return frame[: head.tell()] + bytes(answer.encode(version=version))


async def _ask(reader: asyncio.StreamReader, onward: asyncio.StreamWriter, asked: Asked) -> None:
    while True:
        frame = await _frame(reader)
        api, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        asked[int.from_bytes(frame[4:8], "big")] = api, version
        onward.write(_sized(frame))


async def _serve(own: tuple[str, int], target: tuple[str, int]) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    server = await asyncio.start_server(FrontEnd(own, target).serve, *own)
    await ended.wait()
    server.close()


def write(folder: Path, number: int, *, own: tuple[str, int], target: tuple[str, int]) -> None:
    (folder / f"{number}.json").write_text(json.dumps({"own": own, "target": target}))


def act(folder: Path, word: str, number: str) -> None:
    """Of a front end that was started by this; `kill` and `stop` are over when its process is."""
    noted = folder / f"{number}.pid"
    if word == "start":
        if not (noted.is_file() and _runs(int(noted.read_text()))):
            command = [sys.executable, "-m", "tests.end_to_end.front_end", str(folder), "serve", number]
            quiet = subprocess.DEVNULL
            process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
            noted.write_text(str(process.pid))
        return
    pid = int(noted.read_text())
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, _SIGNALS[word])
    if word in ("kill", "stop"):
        until(lambda: not _runs(pid), "the front end's process has ended")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def main() -> None:
    folder, word, number = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if word == "serve":
        known = json.loads((folder / f"{number}.json").read_text())
        asyncio.run(_serve(tuple(known["own"]), tuple(known["target"])))
    else:
        act(folder, word, number)


if __name__ == "__main__":
    main()
