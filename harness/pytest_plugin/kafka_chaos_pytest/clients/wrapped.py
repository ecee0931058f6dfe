"""What the recorded clients of all libraries have in common."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafka_chaos_pytest.errors import ChaosError
from kafka_chaos_pytest.journal import Delivered, Journal

_MURMUR_SEED, _MURMUR_M, _MURMUR_R, _WORD = 0x9747B28C, 0x5BD1E995, 24, 0xFFFFFFFF


class Wrapped:
    """Everything that is not recorded is the client's own; what a statement asks of its class is passed on."""

    def __init__(self, client: Any, journal: Journal) -> None:
        self._client = client
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __enter__(self) -> Any:
        self._client.__enter__()
        return self

    def __exit__(self, *ending: Any) -> Any:
        return self._client.__exit__(*ending)

    async def __aenter__(self) -> Any:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *ending: Any) -> Any:
        return await self._client.__aexit__(*ending)

    @staticmethod
    def own_acks(client: Any) -> str | int | None:
        """As the client says itself; None where its library does not tell."""
        return None

    @staticmethod
    def own_idempotence(client: Any) -> bool | None:
        """Likewise."""
        return None

    @staticmethod
    def own_isolation(client: Any) -> str | None:
        """Likewise, of a consumer."""
        return None

    @staticmethod
    def own_group(client: Any) -> str | None:
        """Likewise; "" of one that is in none."""
        return None


class Partitioning:
    """The partition of a record whose sender names none: by its key as Java's client does it, else in turn.

    It must be known before the record is sent, and the libraries say it only afterwards.
    """

    def __init__(self) -> None:
        self._turn = itertools.count()

    def choose(self, partitions: Iterable[int], key: bytes | None) -> int:
        known = sorted(partitions)
        if not known:
            raise ChaosError("bad-request", "the topic has no partitions", "create it before it is written to")
        number = next(self._turn) if key is None else murmur2(key) & 0x7FFFFFFF
        return known[number % len(known)]


class Transactions:
    """The transaction that a producer has open, as its journal tells it.

    Only what the library says has succeeded is known. A commit that failed may have been decided nevertheless, so what
    ends after one without being committed has an unknown outcome.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._commit_failed = False
        self.open: int | None = None

    def begun(self) -> None:
        self._commit_failed = False
        self.open = self._journal.begin_transaction()

    def committed(self) -> None:
        self._ended("committed")

    def commit_failed(self) -> None:
        self._commit_failed = True

    def aborted(self) -> None:
        self._ended("unknown" if self._commit_failed else "aborted")

    def _ended(self, outcome: str) -> None:
        transaction, self.open = self.open, None
        if transaction is not None:
            self._journal.end_transaction(transaction, outcome)


class RecordedProducer(Wrapped):
    """Of a library whose calls return when they are done; aiokafka has coroutines of the same names."""

    def __init__(self, client: Any, journal: Journal) -> None:
        super().__init__(client, journal)
        self._partitioning = Partitioning()
        self._transactions = Transactions(journal)

    def begin_transaction(self, *arguments: Any, **named: Any) -> Any:
        answer = self._client.begin_transaction(*arguments, **named)
        self._transactions.begun()
        return answer

    def commit_transaction(self, *arguments: Any, **named: Any) -> Any:
        try:
            answer = self._client.commit_transaction(*arguments, **named)
        except BaseException:
            self._transactions.commit_failed()
            raise
        self._transactions.committed()
        return answer

    def abort_transaction(self, *arguments: Any, **named: Any) -> Any:
        answer = self._client.abort_transaction(*arguments, **named)
        self._transactions.aborted()
        return answer


class Reading:
    """Journals when reading begins anew: other partitions are assigned, or another position was sought.

    A partition may be lost and given again between two polls, or within one: the library's own state of it is another
    one then. A consumer that is said to start at the beginning does so with each partition once: when it seeks, or is
    given the partition again, it goes on wherever it likes.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._assigned: dict[tuple[str, int], object] | None = None
        self._begun: frozenset[tuple[str, int]] = frozenset()

    def sought(self, *partitions: Any) -> None:
        """partitions: those that the application moved, objects with topic and partition, perhaps before it read any
        of them."""
        self._begun |= {*(self._assigned or ()), *((each.topic, each.partition) for each in partitions)}
        self._assigned = None

    def polled(
        self,
        operation: int,
        records: Sequence[Delivered],
        assignment: Iterable[Any] | None,
        *,
        states: Callable[[Any], object] = lambda _: None,
        error: str | None = None,
    ) -> None:
        """assignment: what the client has by now, objects with topic and partition; None: nobody asked. states: the
        library's own state of one, kept here so that no later one can be taken for it."""
        now = None if assignment is None else {(each.topic, each.partition): states(each) for each in assignment}
        for record in records:
            now = {} if now is None else now
            now.setdefault((record.topic, record.partition), None)
        if now is not None and not _same(now, self._assigned):
            if now:
                self._journal.assigned(sorted(now))
            if again := self._begun & now.keys():
                self._journal.sought(sorted(again))
            self._assigned, self._begun = now, self._begun | now.keys()
        self._journal.polled(operation, records, error=error)


def _same(now: dict[tuple[str, int], object], before: dict[tuple[str, int], object] | None) -> bool:
    return before is not None and now.keys() == before.keys() and all(now[each] is before[each] for each in now)


def as_bytes(value: Any) -> bytes:
    """A key or a value as it is in the log. Raises ChaosError for what a deserializer has made of it."""
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise ChaosError(
        "bad-request",
        f"a value of type {type(value).__name__} cannot be recorded",
        "record a client without serializer or deserializer, and convert values in the application",
    )


def murmur2(key: bytes) -> int:
    """The hash by which Kafka's Java client chooses the partition of a key."""
    length = len(key)
    found = (_MURMUR_SEED ^ length) & _WORD
    whole = length // 4 * 4
    for place in range(0, whole, 4):
        word = int.from_bytes(key[place : place + 4], "little") * _MURMUR_M & _WORD
        word = (word ^ (word >> _MURMUR_R)) * _MURMUR_M & _WORD
        found = (found * _MURMUR_M & _WORD) ^ word
    if length > whole:
        found = (found ^ int.from_bytes(key[whole:], "little")) * _MURMUR_M & _WORD
    found = (found ^ (found >> 13)) * _MURMUR_M & _WORD
    return found ^ (found >> 15)
