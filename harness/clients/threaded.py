"""A client library with blocking calls as a Client: one thread per client runs its calls, and waiting is bounded.

Not an executor, because Python joins executors at its end and a call may hang. `close` is bounded too: a hanging
(daemon) thread is left behind, after `_abandon` has stopped it from sending more.
"""

import asyncio
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from harness.clients import answers as common
from harness.clients.answers import Answers
from harness.clients.client_log import ClientLog
from harness.ports.clients import ClientEvent
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec

T = TypeVar("T")


class CallThread:
    """Runs one call after the other."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    async def call(self, function: Callable[[], T], *, timeout_s: float) -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001  # handed to the caller, whatever it is
                settle = partial(_fail, answer, error)
            else:
                settle = partial(_succeed, answer, result)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle)

        self._calls.put(run)
        async with asyncio.timeout(timeout_s):
            return await answer

    def end(self) -> None:
        self._calls.put(None)


def _succeed(answer: "asyncio.Future[T]", result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[T]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


class ThreadedClient(ABC):
    """Implements harness.ports.cluster.Client with the blocking calls of a subclass, which needs no knowledge of
    threads.

    A subclass writes its library's events into `_log`, so this class also implements ReportsEvents.
    """

    retries_itself = False  # even if `retries` is 0
    tells_attempts = False

    def __init__(self, *, library: str, bootstrap: str, settings: WorkloadSpec) -> None:
        self._settings = settings
        self._log = ClientLog()
        self._thread = CallThread(f"{library} {bootstrap[:40]}")
        self._read_timeout_ms = max(settings.request_timeout_ms, 1000)
        unsent_ms = common.MAX_BLOCK_MS + settings.delivery_timeout_ms + settings.linger_ms
        self._send_s = unsent_ms / 1000 + common.GRACE_S

    # -- the library's calls, each executed in the thread ---

    @abstractmethod
    def _send(self, records: Sequence[Send], answers: Answers) -> None:
        """Returns when every answer has come, or after `_send_s` seconds."""

    @abstractmethod
    def _assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None: ...

    @abstractmethod
    def _poll(self, limit: int, timeout_s: float) -> list[ReadRecord]: ...

    @abstractmethod
    def _end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]: ...

    @abstractmethod
    def _close(self) -> None: ...

    @abstractmethod
    def _abandon(self) -> None:
        """Called from outside the hanging thread: unsent records must not be sent any more."""

    # -- Client -------------------------------------------

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        settings = self._settings
        answers = Answers(records, acks=settings.acks, retried=self.retries_itself or settings.retries != 0)
        try:
            timeout_s = self._send_s + common.MAX_BLOCK_MS / 1000
            await self._thread.call(partial(self._send, records, answers), timeout_s=timeout_s)
        except TimeoutError:
            return answers.outcomes(missing="the client library hangs")
        except Exception as error:  # noqa: BLE001  # a library that breaks leaves open what became of the rest
            return answers.outcomes(missing=f"the client library broke: {type(error).__name__}")
        return answers.outcomes(missing="no answer from the client library")

    def _read_s(self, timeout_s: float) -> float:
        return timeout_s + (common.MAX_BLOCK_MS + self._read_timeout_ms) / 1000 + common.GRACE_S

    async def assign(self, partitions: Sequence[TopicPartition], *, from_beginning: bool) -> None:
        call = partial(self._assign, partitions, from_beginning=from_beginning)
        await self._thread.call(call, timeout_s=self._read_s(0))

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        return await self._thread.call(partial(self._poll, limit, timeout_s), timeout_s=self._read_s(timeout_s))

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return await self._thread.call(partial(self._end_offsets, partitions), timeout_s=self._read_s(0))

    def take_events(self) -> Sequence[ClientEvent]:
        return self._log.take()

    async def close(self) -> None:
        self._log.close()
        try:
            await self._thread.call(self._close, timeout_s=common.CLOSE_S)
        except Exception:  # noqa: BLE001  # a client that cannot be closed in time is left to its daemon threads
            self._abandon()
        self._thread.end()
