"""Requests that wait for a partition's progress: acks=all for the high watermark, fetches for data.

A partition reports progress in the middle of its own work, so the waiting requests are checked in the loop's next
iteration, once per partition however often it progressed.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from reference_impl.core.identifiers import TopicPartition


class Waiting:
    """One parked request. `check` returns None while it must wait on; `expire` returns the answer after the timeout."""

    def __init__(
        self, keys: Iterable[TopicPartition], check: Callable[[], Any | None], expire: Callable[[], Any]
    ) -> None:
        self.keys = tuple(keys)
        self.check = check
        self.expire = expire
        self.timer: asyncio.TimerHandle | None = None
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Purgatory:
    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, dict[Waiting, None]] = {}  # in order of arrival
        self._moved: dict[TopicPartition, None] = {}
        self._scheduled = False

    def park(self, waiting: Waiting, timeout_ms: float) -> asyncio.Future[Any]:
        for key in waiting.keys:
            self._waiting.setdefault(key, {})[waiting] = None
        loop = asyncio.get_running_loop()
        waiting.timer = loop.call_later(max(timeout_ms, 0) / 1000, self._expire, waiting)
        waiting.future.add_done_callback(lambda _: self._forget(waiting))  # also when its connection was closed
        return waiting.future

    def moved(self, key: TopicPartition) -> None:
        if key not in self._waiting:
            return
        self._moved[key] = None
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._recheck)

    def _recheck(self) -> None:
        self._scheduled = False
        moved, self._moved = self._moved, {}
        seen: set[Waiting] = set()
        for key in moved:
            for waiting in list(self._waiting.get(key, ())):
                if waiting in seen or waiting.future.done():
                    continue
                seen.add(waiting)
                self._answer(waiting, waiting.check)

    def _expire(self, waiting: Waiting) -> None:
        if not waiting.future.done():
            self._answer(waiting, waiting.expire)

    @staticmethod
    def _answer(waiting: Waiting, compute: Callable[[], Any | None]) -> None:
        try:
            answer = compute()
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the one request, which logs it
            waiting.future.set_exception(error)
            return
        if answer is not None:
            waiting.future.set_result(answer)

    def _forget(self, waiting: Waiting) -> None:
        if waiting.timer is not None:
            waiting.timer.cancel()
        for key in waiting.keys:
            others = self._waiting.get(key)
            if others is not None:
                others.pop(waiting, None)
                if not others:
                    del self._waiting[key]
