"""Observes a broker of somebody else's cluster by its address alone: it answers, hangs, lets nobody in, or is gone.

From outside an end that nobody of the harness brought about shows only as an address where nobody listens: when it came
is known to lie between the last answer and that, and how only where the cluster's kind can tell. While a fault of the
harness is not undone, nothing is concluded: what cannot be reached then may be cut off.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from kafka.protocol.metadata import MetadataRequest

from harness.cluster.admission import NotAdmitted
from harness.cluster.broker_requests import Connect, UnreadableAnswer
from harness.cluster.node_lives import status_and_signal
from harness.host.clock import Clock
from harness.ports.cluster import NodeEnd, NodeId

_LOOK_S = 1.0
_ANSWER_S = 5.0  # where an answer is waited for: a broker that has just started is slow, above all with TLS
_POLL_S = 0.1
# A busy broker may need a second to answer, so silence counts only if it is seen this often in a row.
_SILENCES = 3


@dataclass(frozen=True, kw_only=True)
class Reachability:
    """closed: somebody is there, and does not let us in. refused: nobody listens there; of what is gone otherwise, the
    way to it may be at fault. for_s: how long it had been silent by then, where that was waited for."""

    kind: Literal["answers", "silent", "closed", "gone"]
    words: str
    refused: bool = False
    for_s: float = 0.0


async def look_at(host: str, port: int, *, connect: Connect, within_s: float = _LOOK_S) -> Reachability:
    """Opens a new connection for each look, because an old one may still deliver earlier answers."""
    place = f"{host}:{port}"
    try:
        async with asyncio.timeout(_LOOK_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Reachability(kind="silent", words=f"{place} takes no connection")
    except ConnectionRefusedError:
        return Reachability(kind="gone", words=f"{place} refuses connections", refused=True)
    except OSError as error:
        return Reachability(kind="gone", words=f"{place} cannot be reached ({error})")
    writer.transport.abort()
    connection = connect(host, port)
    try:
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        await connection.ask(request, 4, timeout_s=within_s + connection.opening_s)
    except TimeoutError:
        return Reachability(kind="silent", words=f"{place} takes connections and answers nothing")
    except UnreadableAnswer as error:
        return Reachability(kind="answers", words=f"{place} answers ({error})")
    except NotAdmitted as refused:
        return Reachability(kind="closed", words=str(refused))
    except OSError:
        return Reachability(kind="gone", words=f"{place} closes every connection", refused=True)
    finally:
        connection.close()
    return Reachability(kind="answers", words=f"{place} answers")


async def becomes(
    host: str, port: int, wanted: Callable[[Reachability], bool], *, within_s: float, connect: Connect
) -> tuple[bool, Reachability]:
    """Polls until `wanted` holds, for silence several times in a row; returns (whether it holds, what was
    seen last)."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    silences, look_s = 0, _ANSWER_S if wanted in (is_answering, is_there) else _LOOK_S
    silent_since = deadline
    while True:
        began = loop.time()
        seen = await look_at(host, port, connect=connect, within_s=look_s)
        silences = silences + 1 if seen.kind == "silent" else 0
        silent_since = began if silences == 1 else silent_since
        if wanted(seen) and (seen.kind != "silent" or silences >= _SILENCES):
            return True, replace(seen, for_s=loop.time() - silent_since) if silences else seen
        if loop.time() >= deadline:
            return False, seen
        await asyncio.sleep(_POLL_S)


def is_gone(seen: Reachability) -> bool:
    """True if nothing answers behind the address; a forwarder in front of a dead broker still accepts connections."""
    return seen.kind in ("gone", "silent")


def is_silent(seen: Reachability) -> bool:
    return seen.kind == "silent"


def is_there(seen: Reachability) -> bool:
    """Whether it lets anybody in or not."""
    return seen.kind in ("answers", "closed")


def is_answering(seen: Reachability) -> bool:
    return seen.kind == "answers"


# ---- brokers that ended by themselves -------------------------------------------------------------------------------


class UnansweringBrokers:
    """is_struck: whether a fault of the harness may be why it does not answer. code_of: the exit code of its process;
    None where that is not known."""

    def __init__(
        self,
        *,
        clock: Clock,
        is_struck: Callable[[NodeId], bool],
        code_of: Callable[[NodeId], Awaitable[int | None]],
        connect: Connect,
    ) -> None:
        self._clock = clock
        self._is_struck = is_struck
        self._code_of = code_of
        self._connect = connect
        self._answered_ns: dict[NodeId, int] = {}
        self._ends: list[NodeEnd] = []

    def found(self) -> Sequence[NodeEnd]:
        return tuple(self._ends)

    async def look(self, answered: Set[NodeId], addresses: Mapping[NodeId, tuple[str, int]]) -> None:
        """After a round in which every broker was asked."""
        now = self._clock.monotonic_ns()
        for node in answered:
            self._answered_ns[node] = now
            self._ends = [replace(end, back_ns=now) if _is_open(end, node) else end for end in self._ends]
        for node in self._answered_ns:
            if node not in answered and not self._is_struck(node):
                await self.has_ended(node, addresses[node])

    async def has_ended(self, node: NodeId, address: tuple[str, int]) -> bool:
        """Whether nobody listens there any more. Keeps it as an end, unless that is known already."""
        if any(_is_open(end, node) for end in self._ends):
            return True
        if not (await look_at(*address, connect=self._connect)).refused:
            return False
        now, code = self._clock.monotonic_ns(), await self._code_of(node)
        status, number = (None, None) if code is None else status_and_signal(code)
        unseen_ns = now - self._answered_ns.get(node, now)
        end = NodeEnd(node=node, t_ns=now, uncertainty_ns=unseen_ns, exit_status=status, signal=number, fresh=False)
        self._ends.append(end)
        return True


def _is_open(end: NodeEnd, node: NodeId) -> bool:
    return end.node == node and end.back_ns is None
