"""Controls the fabric from the harness: starts its process and sends it commands, one at a time."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.cluster.local.fabric import Route
from harness.cluster.local.processes import Spawner, kill
from harness.errors import HarnessError

_ANSWER_S = 10.0


class FabricControl:
    def __init__(self, *, spawner: Spawner, log: Path) -> None:
        self._spawner = spawner
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._number = 0
        self._turn = asyncio.Lock()

    async def start(self, routes: Sequence[Route]) -> None:
        command = [sys.executable, "-m", "harness.cluster.local.fabric_process"]
        self._process = await self._spawner.spawn(command, log=self._log, pipes=True)
        lines = [{"link": route.link, "listen": route.listen, "target": route.target} for route in routes]
        await self._exchange(0, lines)

    async def command(self, do: str, links: Sequence[str], **options: Any) -> dict[str, dict[str, Any]]:
        """Returns each link's state afterwards: bytes, connections, cut."""
        self._number += 1
        number = self._number
        answer = await self._exchange(number, {"id": number, "do": do, "links": list(links), **options})
        seen: dict[str, dict[str, Any]] = answer["links"]
        return seen

    async def _exchange(self, number: int, message: Any) -> dict[str, Any]:
        process = self._process
        assert process is not None, "the fabric was started"
        assert process.stdin is not None, "it was started with pipes"
        assert process.stdout is not None, "it was started with pipes"
        async with self._turn:
            with contextlib.suppress(ConnectionError):
                process.stdin.write(json.dumps(message).encode() + b"\n")
                await process.stdin.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ANSWER_S):
                    while line := await process.stdout.readline():
                        answer: dict[str, Any] = json.loads(line)
                        # A lower number belongs to a command whose caller was cancelled.
                        if answer["id"] == number:
                            return answer
        raise HarnessError(f"the link fabric does not answer; see {self._log}")

    async def stop(self) -> None:
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(3):
                await self._process.wait()
        except TimeoutError:
            kill(self._process)
            await self._process.wait()
        self._process = None
