"""A small application: a shop that keeps its orders in Kafka, and tells its customer when one is taken.

It has a planted bug. `HastyShop` does not wait until the in-sync replicas have an order: it asks for the leader's
acknowledgement alone (acks=1), and a leader that dies or is cut off takes orders with it that customers were promised.
`Shop` is the mended one.
"""

from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

TOPIC = "orders"
PATIENCE_S = 60.0  # for an acknowledgement; an idempotent kafka-python producer is lost after an expired batch


class Shop:
    """producer: how a producer is made, by its settings; a test gives one that is recorded."""

    acks: str | int = "all"

    def __init__(self, bootstrap: str, *, producer: Callable[..., Any] = KafkaProducer) -> None:
        self._producer = producer(
            bootstrap_servers=bootstrap.split(","),
            acks=self.acks,
            enable_idempotence=self.acks == "all",
            request_timeout_ms=3000,
            delivery_timeout_ms=int(PATIENCE_S * 1000),
        )

    def take_order(self, order: str) -> bool:
        """Whether the customer is told that the order is taken; where it is not, he may ask again."""
        try:
            self._producer.send(TOPIC, order.encode()).get(timeout=PATIENCE_S + 5)
        except KafkaError:
            return False
        return True

    def close(self) -> None:
        self._producer.close(timeout=30)


class HastyShop(Shop):
    acks = 1
