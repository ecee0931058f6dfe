"""What producers ask the coordinator of their transactions, the port it writes markers by, and its settings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import Producer

NO_PRODUCER = -1


@dataclass(frozen=True, kw_only=True)
class InitRequest:
    """InitProducerId. `producer`: who it was, if it goes on after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer: Producer | None = None


class InitAnswer(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER
    epoch: int = NO_PRODUCER


class EndRequest(NamedTuple):
    """EndTxn. `has_own_epoch`: the producer has an epoch for each transaction (R87); it is told the next one."""

    is_commit: bool
    has_own_epoch: bool = False
    fresh_id: int = NO_PRODUCER  # a producer id that nobody has, if `needs_fresh_id`


class Speaker(NamedTuple):
    """In whose name a request comes."""

    transactional_id: str
    producer: Producer


class TransactionMarkers(NamedTuple):
    """The end of one transaction, for each of its partitions."""

    transactional_id: str
    producer: Producer
    marker: Marker
    partitions: frozenset[TopicPartition]


class MarkerWriter(Protocol):
    """Has the leaders write markers; one writer for each term of a coordinator."""

    def write(self, markers: TransactionMarkers, written: Callable[[Iterable[TopicPartition]], None]) -> None:
        """Tries until each is replicated, and calls `written` as they are. Partitions of deleted topics count as
        written. Those of a leader that has seen a newer coordinator or producer are tried no more: that one's
        coordinator writes them."""
        ...

    def stop(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class TransactionSettings:
    """Kafka's settings of a broker, with its defaults."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    write_timeout_ms: int = 5000
