"""Bursts: a producer sends many records to one partition at once, then is silent for a while; the next is for another.

So a partition's log has quiet stretches, in which a follower catches up, and rushes, in which it may fall behind.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.extending.workloads import (
    ClientFactory,
    Count,
    Event,
    Journal,
    LoadFacts,
    Seconds,
    Send,
    TopicPartition,
    Workload,
    WorkloadSettings,
    value_of,
)


@dataclass(frozen=True, kw_only=True)
class BurstSettings(WorkloadSettings):
    name: ClassVar[str] = "bursts"

    producers: Count = 2
    burst: Count = 50  # records at once
    pause_s: Seconds = 0.5  # between two bursts of a producer: pause = "500 ms"

    def check(self, topics: Sequence[str]) -> None:
        if self.burst < 1:
            raise ValueError(f"a burst has at least one record, not {self.burst}")

    @property
    def facts(self) -> LoadFacts:
        return LoadFacts(clients={"producer": self.producers})

    def make_worker(self, *, role: str, place: int, places: int, partitions: Sequence[TopicPartition]) -> Workload:
        return Bursts(self, partitions)


class Bursts:
    """What one producer does."""

    def __init__(self, settings: BurstSettings, partitions: Sequence[TopicPartition]) -> None:
        self._settings = settings
        self._partitions = partitions

    async def act(self, client: ClientFactory, journal: Journal, chance: random.Random, until: Event) -> None:
        while not until.is_set():
            producer, sent, known = client(), 0, True
            try:
                while known and not until.is_set():
                    to = chance.choice(self._partitions)
                    # A value is never sent twice: it names its producer and its place among that one's values.
                    values = [value_of(journal.process, sent + place) for place in range(self._settings.burst)]
                    records = [Send(topic=to.topic, partition=to.partition, value=each) for each in values]
                    sent += len(records)
                    operation = journal.invoke("send", records)
                    outcomes = await producer.send(records)
                    journal.complete_send(operation, outcomes)
                    known = all(outcome.status != "info" for outcome in outcomes)  # else comes a fresh client
                    await asyncio.sleep(self._settings.pause_s)
            finally:
                await producer.close()
