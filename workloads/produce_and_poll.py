"""Producers send unique values to all partitions at a steady rate; consumers read all partitions from the beginning.

A producer keeps its rate by the clock while it is answered, with a bounded catch-up after a stall: one operation at a
time, of `batch` records in flight; while a record of it is waited for, the producer sends nothing else. An unknown
outcome ends the client: kafka-python's idempotent producer never recovers from an expired batch, nor from being fenced
or out of order. With `replace_client = false` a producer is kept, so that the history shows whether it recovers. With
`keys` each record has one of that many keys, drawn from the seed; partitions are still used in turn.
Consumers need no group; a failed poll ends the client, and the next one starts from the beginning again.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.history.facts.values import encode
from harness.ports.clients import ClientUse
from harness.ports.cluster import Client, ClientFactory, Event, Journal, Send, SendOutcome, TopicPartition, Workload
from harness.ports.load import LoadFacts
from harness.ports.programs import SendsByItself
from harness.ports.workload import WorkloadSettings
from harness.values import Count
from workloads.programs import let_send, topic_of

CATCH_UP_S = 0.5  # a stalled producer makes up for at most this much
POLL_S = 0.25
POLL_RECORDS = 500
RENEW_S = 0.1  # between a client that ended and the next one
_SEQUENCE_ERRORS = (45, 47, 90)
_LIBRDKAFKA_FATAL = "_FATAL"  # such a producer accepts no more records


@dataclass(frozen=True, kw_only=True)
class ProducerSettings(WorkloadSettings):
    """The settings of workloads with these producers."""

    producers: Count = 2
    consumers: Count = 1
    rate_per_second: float = 200.0  # records/s of all producers together
    batch: int = 10  # records in flight at once per send operation
    value_bytes: int = 32
    keys: int = 0  # number of different keys; 0: records have no key
    replace_client: bool = True  # after an unknown outcome


@dataclass(frozen=True, kw_only=True)
class ProduceAndPollSettings(ProducerSettings):
    name: ClassVar[str] = "produce_and_poll"

    @property
    def facts(self) -> LoadFacts:
        clients = {"producer": self.producers, "consumer": self.consumers}
        return LoadFacts(clients=clients, value_bytes=self.value_bytes, in_flight=self.batch)

    def make_worker(self, *, role: str, place: int, places: int, partitions: Sequence[TopicPartition]) -> Workload:
        return ProduceAndPoll(role=role, place=place, places=places, partitions=partitions, settings=self)


class ProduceAndPoll:
    """Implements harness.ports.cluster.Workload for one of its clients."""

    def __init__(
        self,
        *,
        role: str,
        place: int,
        places: int,
        partitions: Sequence[TopicPartition],
        settings: ProducerSettings,
        use: ClientUse | None = None,
    ) -> None:
        assert role in ("producer", "consumer"), role
        self._role = role
        self._place = place
        self._places = places
        self._partitions = tuple(partitions)
        self._settings = settings
        self._use = use

    async def act(self, client: ClientFactory, journal: Journal, chance: random.Random, until: Event) -> None:
        if self._role == "producer":
            await self._produce(client, journal, chance, until)
        else:
            await self._consume(client, journal, until)

    async def _produce(self, make: ClientFactory, journal: Journal, chance: random.Random, until: Event) -> None:
        loop = asyncio.get_running_loop()
        interval_s = self._settings.batch * self._places / self._settings.rate_per_second
        due = loop.time() + chance.random() * interval_s
        while not until.is_set():
            client, sequence, alive = make(self._use), 0, True
            try:
                if isinstance(client, SendsByItself):
                    await self._let_send(client, journal, until)
                    alive = False
                while alive and not await _is_set_by(until, due, loop):
                    due = max(due + interval_s, loop.time() - CATCH_UP_S)
                    records = self._batch(journal.process, sequence, chance)
                    sequence += len(records)
                    operation = journal.invoke("send", records)
                    outcomes = await client.send(records)
                    journal.complete_send(operation, outcomes)
                    alive = not any(self._ends_client(outcome) for outcome in outcomes)
            finally:
                await client.close()
            if not until.is_set():
                await asyncio.sleep(RENEW_S)

    async def _let_send(self, program: SendsByItself, journal: Journal, until: Event) -> None:
        settings = self._settings
        await let_send(
            program,
            journal,
            topic_of(self._partitions, self._place),
            batch=settings.batch,
            records_per_second=settings.rate_per_second / self._places,
            for_s=settings.duration_s,
            until=until,
        )

    def _batch(self, process: int, sequence: int, chance: random.Random) -> list[Send]:
        """Round robin over the partitions; each producer starts at a different one, so that all are written to."""
        records = []
        for number in range(sequence, sequence + self._settings.batch):
            partition = self._partitions[(number + self._place) % len(self._partitions)]
            value = encode(process, number, self._settings.value_bytes)
            key = b"k%d" % chance.randrange(self._settings.keys) if self._settings.keys else None
            records.append(Send(topic=partition.topic, partition=partition.partition, value=value, key=key))
        return records

    def _ends_client(self, outcome: SendOutcome) -> bool:
        if not self._settings.replace_client:
            return False
        if outcome.status == "info":
            return self._settings.acks != "0" or outcome.error is not None
        if outcome.error == _LIBRDKAFKA_FATAL:
            return True
        return outcome.status == "fail" and self._settings.idempotence and outcome.code in _SEQUENCE_ERRORS

    async def _consume(self, make: ClientFactory, journal: Journal, until: Event) -> None:
        while not until.is_set():
            client = make(self._use)
            try:
                await self._poll_until_error(client, journal, until)
            finally:
                await client.close()
            if not until.is_set():
                await asyncio.sleep(RENEW_S)

    async def _poll_until_error(self, client: Client, journal: Journal, until: Event) -> None:
        try:
            await client.assign(self._partitions, from_beginning=True)
        except Exception as error:  # noqa: BLE001  # the library may raise anything: a new client tries again
            journal.complete_poll(journal.invoke("poll"), (), error=f"assign: {type(error).__name__}")
            return
        journal.assigned(self._partitions)
        while not until.is_set():
            operation = journal.invoke("poll")
            try:
                records = await client.poll(POLL_RECORDS, timeout_s=POLL_S)
            except Exception as error:  # noqa: BLE001  # any error is recorded; a new client continues
                journal.complete_poll(operation, (), error=type(error).__name__)
                return
            journal.complete_poll(operation, records)


async def _is_set_by(until: Event, due: float, loop: asyncio.AbstractEventLoop) -> bool:
    """Waits until the time `due`. True if `until` was set first."""
    wait_s = due - loop.time()
    if wait_s > 0 and not until.is_set():
        try:
            await asyncio.wait_for(until.wait(), wait_s)
        except TimeoutError:
            return False
    return until.is_set()
