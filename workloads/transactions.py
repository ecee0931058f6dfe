"""Read, process, write: the output records and the offsets of the input form one transaction.

Plain producers write the input topics. Processors are members of a group that read them with read_committed; for each
input record one goes to the output topic, named after the input's topic, partition and offset (values.py), and the
offsets are sent to the transaction. A share of the transactions, drawn from the seed, is aborted on purpose, and the
processor seeks back to where it began. A processor keeps its transactional id over all its clients, so that a new one
ends the transaction its predecessor left open; after a transaction with unknown outcome the client is replaced.
Consumers read the output topic from the beginning with read_committed, the last of several with read_uncommitted.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.history.facts.values import encode_output
from harness.ports.clients import ClientUse
from harness.ports.cluster import Client, ClientFactory, Event, Journal, ReadRecord, Send, TopicPartition, Workload
from harness.ports.load import LoadFacts
from harness.ports.membership import GroupJournal, TransactionalClient, TransactionEnd
from harness.ports.programs import ReadsByItself
from harness.values import Count, Share
from workloads.consumer_groups import (
    GroupSettings,
    Life,
    Membership,
    one_after_the_other,
    positions_after,
    positions_before,
)
from workloads.produce_and_poll import ProduceAndPoll

RECORDS = 50  # at most, per transaction
ON_PURPOSE = "aborted on purpose"


@dataclass(frozen=True, kw_only=True)
class TransactionsSettings(GroupSettings):
    name: ClassVar[str] = "transactions"

    processors: Count = 0  # transactional clients that read, process and write
    output: str = ""  # the topic that processors write to
    abort_share: Share = 0.1  # share of the transactions that are aborted on purpose
    transaction_timeout_ms: int = 10_000

    @property
    def facts(self) -> LoadFacts:
        return LoadFacts(
            clients={"producer": self.producers, "consumer": self.consumers, "processor": self.processors},
            group=self.group,
            session_timeout_ms=self.session_timeout_ms,
            group_protocol=self.group_protocol,
            outputs=(self.output,),
            transactional_ids=tuple(self.transactional_id(place) for place in range(self.processors)),
            value_bytes=self.value_bytes,
        )

    def transactional_id(self, place: int) -> str:
        """Of the processor at this place, counted from 0: the same for all its clients."""
        return f"{self.group}-{place + 1}"

    def check(self, topics: Sequence[str]) -> None:
        super().check(topics)
        of_load = set(self.topics or topics)
        if self.output not in of_load or len(of_load) < 2 or self.processors < 1:
            raise ValueError(
                "workload 'transactions' needs processors, an output among its topics, and another topic as input: "
                f"processors = {self.processors}, output = {self.output!r}, topics = {sorted(of_load)}"
            )

    def make_worker(self, *, role: str, place: int, places: int, partitions: Sequence[TopicPartition]) -> Workload:
        outputs = [each for each in partitions if each.topic == self.output]
        inputs = [each for each in partitions if each.topic != self.output]
        if role == "processor":
            topics = sorted({each.topic for each in inputs})
            return Processor(place=place, inputs=topics, outputs=outputs, settings=self)
        if role == "producer":
            return ProduceAndPoll(role=role, place=place, places=places, partitions=inputs, settings=self)
        last = place > 0 and place == places - 1
        use = ClientUse(role="consumer", isolation="read_uncommitted" if last else "read_committed")
        return ProduceAndPoll(role=role, place=place, places=places, partitions=outputs, settings=self, use=use)


class Processor:
    """Implements harness.ports.cluster.Workload for one processor."""

    def __init__(
        self, *, place: int, inputs: Sequence[str], outputs: Sequence[TopicPartition], settings: TransactionsSettings
    ) -> None:
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._settings = settings
        self._use = replace(
            settings.membership(place),
            role="both",
            transactional_id=settings.transactional_id(place),
            transaction_timeout_ms=settings.transaction_timeout_ms,
            isolation="read_committed",
        )

    async def act(self, client: ClientFactory, journal: Journal, chance: random.Random, until: Event) -> None:
        def begin(processor: Client | ReadsByItself, group_journal: GroupJournal) -> Life:
            assert isinstance(processor, TransactionalClient), processor
            return _Processing(processor, group_journal, self._inputs, self._outputs, self._settings)

        await one_after_the_other(client, self._use, self._settings, journal, chance, until, begin)


class _Processing:
    """One client of a processor: its transactions, one after the other."""

    def __init__(
        self,
        client: TransactionalClient,
        journal: GroupJournal,
        inputs: Sequence[str],
        outputs: Sequence[TopicPartition],
        settings: TransactionsSettings,
    ) -> None:
        self._client = client
        self._journal = journal
        self._inputs = inputs
        self._outputs = outputs
        self._settings = settings
        self._written = 0
        self.membership = Membership(client, journal)

    async def stay(self, chance: random.Random, until: Event, leaves: float) -> bool:
        loop = asyncio.get_running_loop()
        alive = await self.membership.join(self._inputs)
        while alive and not until.is_set() and loop.time() < leaves:
            alive = await self.transact(aborts=chance.random() < self._settings.abort_share, until=until)
        return alive

    async def _begin(self) -> int | None:
        """Begins a transaction; None if the library cannot."""
        transaction = self._journal.begin_transaction()
        try:
            await self._client.begin_transaction()
        except Exception as error:  # noqa: BLE001  # the library may raise anything: the next client tries again
            self._journal.end_transaction(
                transaction, TransactionEnd(outcome="never_begun", error=type(error).__name__)
            )
            return None
        return transaction

    async def transact(self, *, aborts: bool, until: Event) -> bool:
        """One transaction, begun before its first poll. False if the client must be replaced."""
        transaction = await self._begin()
        if transaction is None:
            return False
        records: Sequence[ReadRecord] | None = ()
        while records is not None and not records and not until.is_set():
            records = await self.membership.poll(limit=RECORDS, transaction=transaction)
        if not records:
            end = await self._client.end_transaction(commit=False)
            self._journal.end_transaction(transaction, replace(end, outcome="never_begun"))
            return False
        done = await self._write(transaction, records) and await self._send_offsets(transaction, records)
        end = await self._client.end_transaction(commit=done and not aborts)
        if done and aborts and end.error is None:
            end = TransactionEnd(outcome=end.outcome, error=ON_PURPOSE)
        self._journal.end_transaction(transaction, end)
        if end.outcome == "committed":
            return True
        if end.outcome == "unknown" or not done:
            return False
        back = {each: at for each, at in positions_before(records).items() if each in self.membership.owned}
        return await self.membership.seek(back)

    async def _write(self, transaction: int, records: Sequence[ReadRecord]) -> bool:
        sends = []
        for record in records:
            self._written += 1
            value = encode_output(
                record.topic, record.partition, record.offset, process=self._journal.process, count=self._written
            )
            output = self._outputs[record.partition % len(self._outputs)]
            sends.append(Send(topic=output.topic, partition=output.partition, value=value))
        operation = self._journal.invoke("send", sends, transaction=transaction)
        outcomes = await self._client.send(sends)
        self._journal.complete_send(operation, outcomes)
        return all(outcome.status == "ok" for outcome in outcomes)

    async def _send_offsets(self, transaction: int, records: Sequence[ReadRecord]) -> bool:
        event = await self._client.send_offsets(positions_after(records))
        self._journal.group_event(event, transaction=transaction)
        return event.status == "ok"

    async def before_a_crash(self) -> None:
        """Leaves a transaction open, with records if there were any: the coordinator or the next client must end it."""
        transaction = await self._begin()
        if transaction is not None and (records := await self.membership.poll(limit=RECORDS, transaction=transaction)):
            await self._write(transaction, records)

    def hear(self) -> object:
        return self.membership.hear()
