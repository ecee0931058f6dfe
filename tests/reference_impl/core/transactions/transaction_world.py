"""A coordinator of transactions whose clock, log and markers the test moves."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.transactions.coordinator import TransactionCoordinator
from reference_impl.core.transactions.transaction import TransactionState
from reference_impl.core.transactions.transaction_data import (
    EndRequest,
    InitAnswer,
    InitRequest,
    Speaker,
    TransactionMarkers,
    TransactionSettings,
)
from reference_impl.core.transactions.transaction_rules import TransactionRules
from reference_impl.wire.key_values import Producer
from tests.reference_impl.core.coordinator_world import Clock, Log

ID, FRESH, TIMEOUT_MS = "writer", 1000, 10_000
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
SETTINGS = TransactionSettings()
SOUND = TransactionRules()


@dataclass
class Markers:
    """Those that the coordinator wants written; the test writes them."""

    wanted: list[tuple[TransactionMarkers, Callable[[Iterable[TopicPartition]], None]]] = field(default_factory=list)
    is_stopped: bool = False

    def write(self, markers: TransactionMarkers, written: Callable[[Iterable[TopicPartition]], None]) -> None:
        self.wanted.append((markers, written))

    def stop(self) -> None:
        self.is_stopped = True


class World:
    def __init__(self, *, log: Log | None = None, clock: Clock | None = None, rules: TransactionRules = SOUND) -> None:
        self._rules = rules
        self.clock = clock or Clock()
        self.log = log or Log()
        self.markers = Markers()
        self.coordinator = TransactionCoordinator(
            self.log, self.markers, clock=self.clock, settings=SETTINGS, rules=self._rules
        )
        self.coordinator.replay(self.log.batches)
        self.coordinator.loaded()

    def successor(self) -> "World":
        """The next coordinator, on a replica that has the whole log."""
        self.log.lose()
        self.coordinator.end()
        log = Log(batches=list(self.log.batches), leader_epoch=self.log.leader_epoch + 1)
        return World(log=log, clock=self.clock, rules=self._rules)

    def settle(self) -> None:
        if not self.log.holds:
            self.log.replicate()

    # Requests

    def init(
        self, *, producer: Producer | None = None, fresh_id: int = FRESH, timeout_ms: int = TIMEOUT_MS
    ) -> InitAnswer:
        answers: list[InitAnswer] = []
        request = InitRequest(transactional_id=ID, timeout_ms=timeout_ms, producer=producer)
        self.coordinator.init(request, fresh_id, answers.append)
        self.settle()
        (answer,) = answers
        return answer

    def begun(self, *partitions: TopicPartition) -> Producer:
        """A new incarnation with a transaction in these partitions."""
        answer = self.init()
        assert answer.error is ErrorCode.NONE
        producer = Producer(answer.producer_id, answer.epoch)
        if partitions:
            assert self.add(producer, *partitions) == [ErrorCode.NONE]
        return producer

    def add(self, producer: Producer, *partitions: TopicPartition) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        self.coordinator.add_partitions(Speaker(ID, producer), partitions, answers.append)
        self.settle()
        return answers

    def verify(self, producer: Producer, key: TopicPartition) -> ErrorCode:
        return self.coordinator.verify(Speaker(ID, producer), key)

    def end(self, producer: Producer, *, commit: bool = True) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        asked = EndRequest(commit)
        self.coordinator.end_transaction(Speaker(ID, producer), asked, lambda answer: answers.append(answer.error))
        self.settle()
        return answers

    def end_with_next_epoch(
        self, producer: Producer, *, commit: bool = True, fresh_id: int = FRESH + 1
    ) -> list[InitAnswer]:
        answers: list[InitAnswer] = []
        asked = EndRequest(commit, has_own_epoch=True, fresh_id=fresh_id)
        self.coordinator.end_transaction(Speaker(ID, producer), asked, answers.append)
        self.settle()
        return answers

    def add_by_leader(self, producer: Producer, *partitions: TopicPartition) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        self.coordinator.add_by_leader(Speaker(ID, producer), partitions, answers.append)
        self.settle()
        return answers

    def write_markers(self, *partitions: TopicPartition) -> None:
        """Of the last transaction; all of its partitions, if none is named."""
        markers, written = self.markers.wanted[-1]
        written(partitions or markers.partitions)
        self.settle()

    def state(self) -> TransactionState:
        return self.coordinator.transactions[ID].state
