"""What members have in common whose library has blocking calls: each runs in the client's thread, in bounded time, and
what it came to is an event. A subclass says what is called.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from harness.clients import answers as common
from harness.clients.members import Asked, Listener, Offsets, asked, ended
from harness.clients.threaded import ThreadedClient
from harness.host.clock import SystemClock
from harness.ports.cluster import TopicPartition
from harness.ports.membership import GroupEvent, TransactionEnd


class ThreadedMember(ThreadedClient):
    """Implements GroupClient but for `crash`, and with a transactional id TransactionalClient."""

    _listener: Listener | None = None
    _commit_tried = False
    _commit_generation: int | None = None  # in the request of the last commit, or of the last offsets of a transaction

    # -- the library's calls, each executed in the thread -------------------------------------------------------------

    @abstractmethod
    def _subscribe(self, topics: Sequence[str]) -> None: ...

    @abstractmethod
    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    @abstractmethod
    def _committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]: ...

    @abstractmethod
    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    @abstractmethod
    def _begin_transaction(self) -> None: ...

    @abstractmethod
    def _send_offsets(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    @abstractmethod
    def _commit_transaction(self) -> None: ...

    @abstractmethod
    def _abort_transaction(self) -> None: ...

    def _asks_for_stable_offsets(self) -> bool | None:
        """Whether the last fetch of committed offsets did (KIP-447); None: not known."""
        return None

    # -- the group ----------------------------------------------------------------------------------------------------

    async def subscribe(self, topics: Sequence[str]) -> None:
        await self._thread.call(partial(self._subscribe, topics), timeout_s=self._read_s(0))

    def rebalances(self) -> Sequence[GroupEvent]:
        return [] if self._listener is None else self._listener.take()

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        committed = await self._asked("committed", offsets, partial(self._commit, offsets))
        return replace(committed, generation=self._commit_generation)

    async def committed(self, partitions: Sequence[TopicPartition]) -> GroupEvent:
        return await self._asked("fetched", dict.fromkeys(partitions), partial(self._committed, partitions))

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        return await self._asked("seek", offsets, partial(self._seek, offsets))

    async def _asked(self, event: Asked, offsets: Offsets, call: Callable[[], Offsets | None]) -> GroupEvent:
        return await asked(
            event,
            offsets,
            lambda: self._thread.call(call, timeout_s=self._read_s(0)),
            clock=SystemClock(),
            listener=self._listener,
            stable=self._asks_for_stable_offsets,
        )

    # -- transactions -------------------------------------------------------------------------------------------------

    async def begin_transaction(self) -> None:
        self._commit_tried = False
        timeout_s = 2 * common.MAX_BLOCK_MS / 1000 + common.GRACE_S
        await self._thread.call(self._begin_transaction, timeout_s=timeout_s)

    async def send_offsets(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        sent = await self._asked("committed", offsets, partial(self._send_offsets, offsets))
        return replace(sent, generation=self._commit_generation)

    async def end_transaction(self, *, commit: bool) -> TransactionEnd:
        tried_before = self._commit_tried
        self._commit_tried = tried_before or commit
        return await ended(
            (lambda: self._thread.call(self._commit_transaction, timeout_s=self._send_s)) if commit else None,
            lambda: self._thread.call(self._abort_transaction, timeout_s=self._send_s),
            tried_before=tried_before,
        )
