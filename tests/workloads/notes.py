"""What a workload tells its journal, kept for a test to look at."""

from collections.abc import Sequence

from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.membership import GroupEvent, TransactionEnd


class Notes:
    """A journal in memory. `story` has one short line for everything, in order."""

    def __init__(self) -> None:
        self.process = -1
        self.sent: list[tuple[int, Send]] = []
        self.outcomes: list[SendOutcome] = []
        self.polls: list[tuple[int, str | None]] = []
        self.assignments = 0
        self.story: list[str] = []
        self.events: list[tuple[GroupEvent, int | None]] = []
        self.ends: list[TransactionEnd] = []
        self._transactions = 0

    def invoke(self, f: str, records: Sequence[Send] = (), *, transaction: int | None = None) -> int:
        self.sent.extend((self.process, record) for record in records)
        self.story.append(f if transaction is None else f"{f} in {transaction}")
        return 0

    def complete_send(self, operation: int, outcomes: Sequence[SendOutcome]) -> None:
        self.outcomes.extend(outcomes)

    def complete_poll(self, operation: int, records: Sequence[ReadRecord], *, error: str | None = None) -> None:
        self.polls.append((self.process, error))
        self.story.append(f"read {len(records)}" if error is None else error)

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.assignments += 1

    def group_event(self, event: GroupEvent, *, transaction: int | None = None) -> None:
        self.events.append((event, transaction))
        self.story.append(event.event if transaction is None else f"{event.event} in {transaction}")

    def done(self, f: str, *, begin_ns: int | None = None, count: int = 0, error: str | None = None) -> None:
        self.story.append(f if error is None else f"{f}: {error}")

    def begin_transaction(self) -> int:
        self._transactions += 1
        self.story.append(f"begin {self._transactions}")
        return self._transactions

    def end_transaction(self, transaction: int, end: TransactionEnd) -> None:
        self.ends.append(end)
        self.story.append(f"{end.outcome} {transaction}")
