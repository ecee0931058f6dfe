"""What a run calls its topics, groups and transactional ids, and what they are called on a cluster that others use.

There they get a prefix and the run's mark: `orders` is `chaos-3f2a-orders`, so that nothing of anybody else's is meant
by chance and a second run finds nothing of the first. Only what is said to the cluster has these names; scenario,
history and pages keep the user's own.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from harness.history.facts.internal_topics import COORDINATORS_TOPICS
from harness.ports.clients import ClientUse
from harness.ports.cluster import TopicPartition

PREFIX = "chaos"
_MARK_BYTES = 2

Value = TypeVar("Value")


@dataclass(frozen=True)
class OwnNames:
    """`before` stands before each name; empty: names are what the user wrote."""

    before: str = ""

    @classmethod
    def drawn(cls, prefix: str) -> "OwnNames":
        """For a new run. An empty prefix: without a mark, too."""
        return cls(f"{prefix}-{secrets.token_hex(_MARK_BYTES)}-" if prefix else "")

    def there(self, name: str) -> str:
        """On the cluster, of a topic, a group or a transactional id of the run. Kafka's own topics are everybody's."""
        return name if name in COORDINATORS_TOPICS else self.before + name

    def here(self, name: str) -> str:
        """In the run, of a name on the cluster."""
        return name.removeprefix(self.before)

    def partition_there(self, partition: TopicPartition) -> TopicPartition:
        return replace(partition, topic=self.there(partition.topic))

    def partition_here(self, partition: TopicPartition) -> TopicPartition:
        return replace(partition, topic=self.here(partition.topic))

    def all_there(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [self.partition_there(each) for each in partitions]

    def keyed_there(self, values: Mapping[TopicPartition, Value]) -> dict[TopicPartition, Value]:
        return {self.partition_there(each): value for each, value in values.items()}

    def keyed_here(self, values: Mapping[TopicPartition, Value]) -> dict[TopicPartition, Value]:
        return {self.partition_here(each): value for each, value in values.items()}

    def use_there(self, use: ClientUse | None) -> ClientUse | None:
        if use is None:
            return None
        group, identity = use.group, use.transactional_id
        return replace(
            use,
            group=None if group is None else self.there(group),
            transactional_id=None if identity is None else self.there(identity),
        )


AS_WRITTEN = OwnNames()


def described(names: OwnNames, topics: Sequence[str]) -> str:
    """One line on what the run's names are on the cluster; empty where they are what the user wrote."""
    if not names.before:
        return ""
    example = f": {topics[0]} is {names.there(topics[0])}" if topics else ""
    return f"{names.before} stands before each of the run's names on the cluster{example}"
