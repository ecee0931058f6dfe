"""The journal of one client: JSON arrays, one a line, written without a buffer, in the format of docs/control.md.

An invocation is in the file before its record is sent. Safe to call from several threads, such as those in which a
library calls back.
"""

import json
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
_STATUS = {"ok": 0, "fail": 1, "info": 2}
_OUTCOME = {"committed": 0, "aborted": 1, "unknown": 2}
_NUMBERED = re.compile(rb"p(0|[1-9][0-9]{0,6})-([0-9]{6}|[1-9][0-9]{6,12})\.*")
_SEQUENCE_BITS, _PRODUCER_MAX = 40, (1 << 22) - 1
_KEY = re.compile(rb"k(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """One record as a consumer got it. timestamp_ms: None where it has none."""

    topic: str
    partition: int
    offset: int
    value: bytes
    key: bytes | None = None
    timestamp_ms: int | None = None


class Journal:
    """process: the number that the control socket gave this client."""

    def __init__(self, path: Path, *, process: int, worker: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        self._process = process
        self._worker = worker
        self._lock = threading.RLock()
        self._lines = 0
        self._path = path
        self._late: list[bytes] | None = None  # written since it was closed, while it may be opened again
        self._operations = 0
        self._acks: int | None = None
        self._transactions = 0
        self._partitions: dict[tuple[str, int], int] = {}
        self.values: dict[str, dict[bytes, None]] = {}  # by topic: each that was sent or read, once
        self._returned: dict[int, int | None] = {}  # of the sends that have no answer yet
        self._write(["J", worker])

    def begin_process(
        self,
        *,
        role: str,
        acks: str | int = "all",
        idempotent: bool | None = None,
        library: str = "",
        isolation: str | None = None,
        reset: str | None = None,
        reads_for: str | None = None,
    ) -> None:
        """idempotent: of a producer; isolation: of a consumer; None: not known, it may be either. reads_for: its group;
        "": none; None: not known."""
        self._acks = ACKS[str(acks)] if role == "producer" else None
        line = ["P", self._process, self._worker, ACKS[str(acks)], time.monotonic_ns(), None, library, role]
        self._write([*line, idempotent, isolation, None, None, reset, None, None, None, reads_for])

    def send(self, topic: str, partition: int, value: bytes, key: bytes | None, *, transaction: int | None) -> int:
        """A record is about to be sent; the operation's number."""
        with self._lock:
            place = self._number(topic, partition)
            self.values.setdefault(topic, {})[value] = None
            self._operations += 1
            values, texts = _values([value])
            invoked = [self._operations, "send", time.monotonic_ns(), [place], values, texts, transaction, _keys([key])]
            self._write(["I", *invoked])
            self._returned[self._operations] = None
            return self._operations

    def handed_over(self, operation: int) -> None:
        """The library's call returned: whatever is called from now on, in any thread, comes after it."""
        with self._lock:
            if operation in self._returned:
                self._returned[operation] = time.monotonic_ns()

    def sent(
        self,
        operation: int,
        *,
        status: str,
        offset: int | None = None,
        error: str | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """The answer: "ok" with its offset, "fail" (it was certainly not appended) or "info" (nobody knows).

        timestamp_ms: the record's, as the library tells it: what was set, or what the broker answered.
        """
        if self._acks == 0 and status == "ok":  # nobody answers such a send: its offset is the library's invention
            status, offset, timestamp_ms = "info", None, None
        with self._lock:
            now = time.monotonic_ns()
            returned = self._returned.pop(operation, None) or now  # the answer may come before the call returns
            answer = [[_STATUS[status]], [offset], [error], [None], [now], [timestamp_ms], [returned]]
            self._write(["S", operation, now, *answer])

    def poll(self) -> int:
        with self._lock:
            self._operations += 1
            self._write(["I", self._operations, "poll", time.monotonic_ns(), [], [], []])
            return self._operations

    def polled(self, operation: int, records: Sequence[Delivered], *, error: str | None = None) -> None:
        with self._lock:
            parts: list[list[object]] = []
            for record in records:
                place = self._number(record.topic, record.partition)
                self.values.setdefault(record.topic, {})[record.value] = None
                values, texts = _values([record.value])
                stamps = [record.timestamp_ms]
                parts.append([place, [record.offset], [None], values, texts, _keys([record.key]), stamps])
            self._write(["R", operation, time.monotonic_ns(), parts, error])

    def assigned(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Reading begins anew: other partitions, or another position."""
        with self._lock:
            places = [self._number(topic, partition) for topic, partition in partitions]
            self._write(["A", time.monotonic_ns(), places])

    def sought(self, partitions: Sequence[tuple[str, int]]) -> None:
        """What comes next of these begins where the application, or its group, has it begin: anywhere."""
        with self._lock:
            places, now = [self._number(topic, partition) for topic, partition in partitions], time.monotonic_ns()
            self._write(["G", "seek", now, now, places, [None] * len(places), 0])

    def begin_transaction(self) -> int:
        """A transaction has begun; its number."""
        with self._lock:
            self._transactions += 1
            self._write(["B", self._transactions, time.monotonic_ns()])
            return self._transactions

    def end_transaction(self, transaction: int, outcome: str, *, error: str | None = None) -> None:
        """ "committed", "aborted" or "unknown"; without this line nobody knows."""
        self._write(["E", transaction, time.monotonic_ns(), _OUTCOME[outcome], error])

    def origins(self, topic: str, ids: Mapping[bytes, bytes | None]) -> None:
        """Of which inputs the records of these values are; None: of none."""
        for value, origin in ids.items():
            numbers, texts = _values([value] if origin is None else [value, origin])
            self._write(["N", topic, numbers[:1], texts, [numbers[1] if origin is not None else None]])

    def close(self) -> None:
        with self._lock:
            self.pause()
            self._late = None

    def pause(self) -> None:
        """Closes the file, which is whole, until it is opened again or closed for good."""
        with self._lock:
            if self._file >= 0:
                self._write(["F", self._lines])
                os.close(self._file)
                self._file, self._late = -1, []

    def go_on(self) -> None:
        """The recording goes on: what its client did since the pause belongs to it, too."""
        with self._lock:
            if self._late is not None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
                late, self._late = self._late, None
                for line in late:
                    self._append(line)

    def _number(self, topic: str, partition: int) -> int:
        number = self._partitions.get((topic, partition))
        if number is None:
            number = self._partitions[topic, partition] = len(self._partitions)
            self._write(["D", number, topic, partition])
        return number

    def _write(self, line: Sequence[object]) -> None:
        encoded = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            if self._file >= 0:
                self._append(encoded)
            elif self._late is not None:
                self._late.append(encoded)
            # else: an answer after the recording's end is of no operation that is judged

    def _append(self, encoded: bytes) -> None:
        if os.write(self._file, encoded) != len(encoded):
            raise OSError("the journal's disk is full")
        self._lines += 1


def _values(values: Sequence[bytes]) -> tuple[list[int], list[str]]:
    """Numbers of values in the harness's own form (p3-000123), -1-k for the k-th other one; the texts of the others."""
    numbers: list[int] = []
    texts: list[str] = []
    for value in values:
        own = _NUMBERED.fullmatch(value)
        if own is not None and int(own[1]) <= _PRODUCER_MAX and int(own[2]) < 1 << _SEQUENCE_BITS:
            numbers.append(int(own[1]) << _SEQUENCE_BITS | int(own[2]))
        else:
            numbers.append(-1 - len(texts))
            texts.append(value.decode("utf-8", errors="backslashreplace"))
    return numbers, texts


def _keys(keys: Sequence[bytes | None]) -> list[int | None]:
    matches = [None if key is None else _KEY.fullmatch(key) for key in keys]
    return [None if match is None else int(match[1]) for match in matches] if any(matches) else []
