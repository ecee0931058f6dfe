"""The port through which the broker decodes the records of a batch, away from the event loop.

Decoding may take a second, and no heartbeat would be sent meanwhile. A decoding function is bounded by itself
(wire.record_contents). Callers hand it to this one port, `Decoding`, and await it; a simulated world implements the
port itself. Other requests are handled meanwhile, so a caller must check the partition's state again afterwards.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, TypeVar

Found = TypeVar("Found")


class Decoding(Protocol):
    async def run(self, look: Callable[[], Found]) -> Found:
        """Returns the function's result or raises its exception. Other callers do not wait for it on the loop."""
        ...

    async def close(self) -> None:
        """Drops the waiting calls."""
        ...


class Turns:
    """First come, first served for each partition, or whatever else turns are taken for: a producer's next batch cannot
    overtake one that waits."""

    def __init__(self) -> None:
        self._last: dict[Hashable, asyncio.Future[None]] = {}

    def is_taken(self, keys: Iterable[Hashable]) -> bool:
        return any(key in self._last for key in keys)

    def take(self, keys: Iterable[Hashable]) -> "Turn":
        """Takes a place in the order of arrival; call it before the first await."""
        keys = frozenset(keys)
        before = [self._last[key] for key in keys if key in self._last]
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last.update(dict.fromkeys(keys, ended))
        return Turn(self._last, keys, before, ended)


class Turn:
    """Await `comes`, then call `end`. Without `end` no later turn is served."""

    def __init__(
        self,
        last: dict[Hashable, asyncio.Future[None]],
        keys: frozenset[Hashable],
        before: list[asyncio.Future[None]],
        ended: asyncio.Future[None],
    ) -> None:
        self._last = last
        self._keys = keys
        self._before = before
        self._ended = ended

    async def comes(self) -> None:
        if self._before:
            await asyncio.wait(self._before)

    def end(self) -> None:
        """Also ends a turn that has not come yet; later turns still wait for those before it."""
        self._pass_on()
        for turn in self._before:
            if not turn.done():
                turn.add_done_callback(self._pass_on)

    def _pass_on(self, _: object = None) -> None:
        if self._ended.done() or not all(turn.done() for turn in self._before):
            return
        self._ended.set_result(None)
        for key in self._keys:
            if self._last.get(key) is self._ended:
                del self._last[key]
