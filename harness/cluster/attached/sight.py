"""What a broker shows to somebody who knows nothing but its address: it answers, hangs, or is gone."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kafka.protocol.metadata import MetadataRequest

from harness.cluster.broker_requests import BrokerConnection

_LOOK_S = 1.0
_POLL_S = 0.1
# A busy broker may take a second to answer once: silence counts when it is heard this often in a row.
_SILENCES = 3


@dataclass(frozen=True, kw_only=True)
class Sight:
    kind: Literal["answers", "silent", "gone"]
    words: str


async def look_at(host: str, port: int) -> Sight:
    """By a connection of its own, since an old one may be answered by what is in flight."""
    place = f"{host}:{port}"
    try:
        async with asyncio.timeout(_LOOK_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Sight(kind="silent", words=f"{place} takes no connection")
    except ConnectionRefusedError:
        return Sight(kind="gone", words=f"{place} refuses connections")
    except OSError as error:
        return Sight(kind="gone", words=f"{place} cannot be reached ({error})")
    writer.transport.abort()
    connection = BrokerConnection(host, port)
    try:
        await connection.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), 4, timeout_s=_LOOK_S)
    except TimeoutError:
        return Sight(kind="silent", words=f"{place} takes connections and answers nothing")
    except OSError:
        return Sight(kind="gone", words=f"{place} closes every connection")
    finally:
        connection.close()
    return Sight(kind="answers", words=f"{place} answers")


async def becomes(host: str, port: int, wanted: Callable[[Sight], bool], *, within_s: float) -> tuple[bool, Sight]:
    """Looks until `wanted` holds, for silence several times in a row; (whether it came to hold, what was seen last)."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    silences = 0
    while True:
        seen = await look_at(host, port)
        silences = silences + 1 if seen.kind == "silent" else 0
        if wanted(seen) and (seen.kind != "silent" or silences >= _SILENCES):
            return True, seen
        if loop.time() >= deadline:
            return False, seen
        await asyncio.sleep(_POLL_S)


def is_gone(seen: Sight) -> bool:
    """A dead broker behind a forwarder still has its connections taken."""
    return seen.kind != "answers"


def is_silent(seen: Sight) -> bool:
    return seen.kind == "silent"


def is_answering(seen: Sight) -> bool:
    return seen.kind == "answers"
