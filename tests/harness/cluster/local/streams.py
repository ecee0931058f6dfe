"""Helpers that send bytes over a link and wait for them, or for silence."""

import asyncio

from tests.waiting import PATIENCE_S

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_SILENCE_S = 0.15  # how long a silent link is listened to


async def exchange(streams: Streams, data: bytes) -> bytes:
    reader, writer = streams
    writer.write(data)
    async with asyncio.timeout(PATIENCE_S):
        return await reader.readexactly(len(data))


async def is_silent(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(_SILENCE_S):
            await reader.read(1)
    except TimeoutError:
        return True
    return False
