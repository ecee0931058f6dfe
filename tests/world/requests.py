"""A client's request to a coordinator: sent to the leader of its partition, again until it is answered for good.

An answer that says "later" or "not here" is asked again; one that is lost, or does not come, leaves it open whether the
coordinator did what was asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.world.brokers import NOT_ENOUGH, NOT_ENOUGH_AFTER, NOT_LEADER, Broker
from tests.world.chronicle import Partition
from tests.world.clients import DELIVERY_NS, REQUEST_NS, Metadata
from tests.world.world import MS, World

TRANSACTIONS: Partition = (TRANSACTIONS_TOPIC, 0)
OFFSETS: Partition = (GROUP_OFFSETS_TOPIC, 0)
CONCURRENT = "ConcurrentTransactions 51"
UNSTABLE = "UnstableOffsetCommitError 88"
LATER = frozenset({UNSTABLE, NOT_LEADER, NOT_ENOUGH, NOT_ENOUGH_AFTER, CONCURRENT, "KafkaConnectionError"})
TIMED_OUT = "KafkaTimeoutError"
Reply = Callable[[str | None, Any], None]  # an error, or what was asked for
Done = Callable[[str | None, Any, bool], None]  # and whether an attempt before may have taken effect


@dataclass(kw_only=True)
class Request:
    world: World
    metadata: Metadata
    partition: Partition
    ask: Callable[[Broker, Reply], None]
    done: Done
    within_ns: int = DELIVERY_NS
    begun_ns: int = -1
    tries: int = 0
    over: bool = False
    perhaps_done: bool = False

    def go(self) -> None:
        world = self.world
        if self.over:
            return
        if self.begun_ns < 0:
            self.begun_ns = world.now
        if world.now - self.begun_ns > self.within_ns:
            self._end(TIMED_OUT, None)
            return
        self.tries += 1
        current = self.tries
        broker = self.metadata.leader(self.partition)
        if broker is None or not broker.alive:
            self._again(current, 150)
            return
        if broker.paused:
            self.perhaps_done = True
            world.after(REQUEST_NS, lambda: self._again(current, 50))
            return
        lost = world.random.random() < world.answers_lost

        def reply(error: str | None, result: Any = None) -> None:
            if lost and error is None:
                self.perhaps_done = True
                return
            world.after(world.some(0.2, 3), lambda: self._answered(current, error, result))

        self.ask(broker, reply)
        world.after(REQUEST_NS if not lost else 150 * MS, lambda: self._unanswered(current))

    def _answered(self, current: int, error: str | None, result: Any) -> None:
        if self.over or current != self.tries:
            return
        if error in LATER:
            self.perhaps_done |= error in (NOT_ENOUGH_AFTER, NOT_LEADER, "KafkaConnectionError")
            self._again(current, 60)
        else:
            self._end(error, result)

    def _unanswered(self, current: int) -> None:
        if not self.over and current == self.tries:
            self.perhaps_done = True
            self._again(current, 50)

    def _again(self, current: int, wait_ms: int) -> None:
        if self.over or current != self.tries:
            return
        self.metadata.ask_again(self.partition)
        self.tries += 1  # an answer that comes later is of nobody any more
        self.world.after(wait_ms * MS, self.go)

    def _end(self, error: str | None, result: Any) -> None:
        self.over = True
        self.done(error, result, self.perhaps_done)
