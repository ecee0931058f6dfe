"""Kafka requests to one chosen broker, whether it leads or not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.ports.cluster import NodeId, TopicDefinition, TopicPartition


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """One broker's answer to one fetch."""

    error: int
    values: tuple[str, ...]


class Questions(Protocol):
    """Kafka requests to one chosen broker, whether it leads or not. Raises OSError or TimeoutError if it does not
    answer."""

    async def registered(self) -> Sequence[int]: ...  # the live brokers, as most brokers report them

    async def config_defaults(self, node: NodeId, keys: Sequence[str]) -> Mapping[str, str | None]: ...

    async def configure_broker(self, node: NodeId, settings: Mapping[str, str]) -> int: ...

    async def create_topic(self, topic: TopicDefinition) -> int: ...

    async def fetch(
        self, node: NodeId, partition: TopicPartition, offset: int, *, epoch: int, version: int
    ) -> Fetched: ...

    async def epoch_end(self, node: NodeId, partition: TopicPartition, epoch: int) -> tuple[int, int]: ...

    async def produce(
        self, node: NodeId, partition: TopicPartition, values: Sequence[bytes], *, acks: str, timeout_s: float
    ) -> tuple[int, int]:
        """(error, first offset); with acks=0 a TimeoutError is normal, and a ConnectionResetError is an answer too."""
        ...


@runtime_checkable
class AnswersQuestions(Protocol):
    def questions(self) -> Questions: ...
