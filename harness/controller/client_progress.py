"""What a client of the load tries and gets after it is asked for progress: the worker's half of old_clients.py.

A worker tells each thing once, when it happens first: a partition that it tried to write to, that a broker answered or
refused, that it was given, that it got a record of. Nothing is told before it is asked.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.membership import GroupEvent

# written: readers of committed records may have it too.
Thing = Literal["write", "written", "membership", "read"]
State = Literal["tried", "done", "refused"]


class ClientProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """error, code: of a refusal. topic "": of all that the client reads."""

    what: Thing
    state: State
    topic: str = ""
    partition: int = 0
    error: str | None = None
    code: int | None = None


class ProgressReporter:
    """Hears what is written to a worker's journal; `tell` gets what there is to tell once `ask` was called."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        self._asked = False
        self._reported: set[ClientProgress] = set()
        self._sends: dict[int, tuple[Sequence[Send], int | None]] = {}  # in flight: records, transaction
        self._pending: dict[int, set[tuple[str, int]]] = {}  # written in a transaction that is open
        self._assigned: Sequence[TopicPartition] = ()
        self._owned: set[TopicPartition] = set()

    def ask(self) -> None:
        self._asked = True
        for records, _ in self._sends.values():
            self._tried(records)
        self._reads()
        self._member()

    def invoked(self, operation: int, records: Sequence[Send], transaction: int | None) -> None:
        if records:
            self._sends[operation] = records, transaction
            if self._asked:
                self._tried(records)

    def sent(self, operation: int, outcomes: Sequence[SendOutcome]) -> None:
        records, transaction = self._sends.pop(operation, ((), None))
        if not self._asked:
            return
        for record, outcome in zip(records, outcomes, strict=False):
            place = record.topic, record.partition
            if outcome.status != "ok":
                self._say("write", "refused", *place, error=outcome.error, code=outcome.code)
                continue
            self._say("write", "done", *place)
            if transaction is None:
                self._say("written", "done", *place)
            else:
                self._pending.setdefault(transaction, set()).add(place)

    def polled(self, records: Sequence[ReadRecord], error: str | None) -> None:
        if not self._asked:
            return
        if error is not None:
            self._say("read", "refused", error=error)
        for place in {(record.topic, record.partition) for record in records}:
            self._say("read", "done", *place)

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._assigned = partitions
        if self._asked:
            self._reads()

    def group_event(self, event: GroupEvent) -> None:
        if event.event == "assigned":
            self._owned |= event.offsets.keys()
        elif event.event in ("revoked", "lost"):
            self._owned -= event.offsets.keys()
        if self._asked:
            self._member()

    def ended(self, transaction: int, *, committed: bool) -> None:
        for place in self._pending.pop(transaction, ()):
            if committed:
                self._say("written", "done", *place)

    def replaced(self) -> None:
        """By a new client, which owns nothing yet and reads what the one before it read."""
        self._owned.clear()

    def _tried(self, records: Sequence[Send]) -> None:
        for place in {(record.topic, record.partition) for record in records}:
            self._say("write", "tried", *place)

    def _reads(self) -> None:
        for each in self._assigned:
            self._say("read", "tried", each.topic, each.partition)

    def _member(self) -> None:
        for each in self._owned:
            self._say("membership", "done", each.topic, each.partition)

    def _say(
        self,
        what: Thing,
        state: State,
        topic: str = "",
        partition: int = 0,
        *,
        error: str | None = None,
        code: int | None = None,
    ) -> None:
        progress = ClientProgress(what=what, state=state, topic=topic, partition=partition, error=error, code=code)
        if progress not in self._reported:
            self._reported.add(progress)
            self._tell(msgspec.to_builtins(progress))
