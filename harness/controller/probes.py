"""Probes: one small request to the cluster with a separate client, journalled like any other operation.

A probe's producer has no idempotence and no retries, so that the broker's own answer is seen: with retries
kafka-python turns NOT_ENOUGH_REPLICAS into a time-out.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.controller.reading import in_words, read_to_end
from harness.history.journals.journal import JournalFile, ProcessNumbers
from harness.host.clock import Clock
from harness.ports.clients import ReportsEvents
from harness.ports.cluster import ClientId, ClientMaker, ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec

READ_TIMEOUT_MS = 1000  # a library repeats a request for an unavailable end offset: this leaves time to read
QUIET_S = 1.0


@dataclass(frozen=True, kw_only=True)
class ProbeRead:
    """What a reading probe saw. end_offset None: no leader returned one in time; then `error` says why.

    There may still be records: those that arrived until nothing more came.
    """

    records: Sequence[ReadRecord]
    end_offset: int | None
    reached_end: bool
    error: str | None

    @property
    def texts(self) -> list[str]:
        return [record.value.decode("utf-8", errors="backslashreplace") for record in self.records]


class Probes:
    """Sends probes. `numbers` is the controller's own series of process numbers."""

    def __init__(
        self,
        *,
        make_client: ClientMaker,
        bootstrap: Callable[[ClientId | None], str],
        settings: WorkloadSpec,
        folder: Path,
        clock: Clock,
        numbers: ProcessNumbers,
    ) -> None:
        self._make_client = make_client
        self._bootstrap = bootstrap
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._numbers = numbers
        self._count = 0

    def _journal(self, *, acks: str, idempotent: bool | None = None, tells_attempts: bool | None = None) -> JournalFile:
        """A file for each probe: probes may run side by side, and a journal has one present process."""
        self._count += 1
        name = f"probe-{self._count}"
        journal = JournalFile(self._folder / f"{name}.jsonl", worker=name, clock=self._clock)
        journal.begin_process(
            self._numbers.next(), client=name, acks=acks, idempotent=idempotent, tells_attempts=tells_attempts
        )
        return journal

    async def produce(
        self,
        topic: str,
        partition: int,
        values: Sequence[str],
        *,
        acks: Literal["0", "1", "all"],
        timeout_s: float,
        link: ClientId | None = None,
    ) -> Sequence[SendOutcome]:
        """Sends `values`, all in flight at once and in order, with a separate client: no idempotence, no retries.

        `link`: through that client link's own addresses, which may be cut; else through the nodes' real ones.
        """
        timeout_ms = max(100, int(timeout_s * 1000))
        settings = dataclasses.replace(
            self._settings,
            acks=acks,
            idempotence=False,
            retries=0,
            linger_ms=0,
            request_timeout_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms,
        )
        records = [Send(topic=topic, partition=partition, value=value.encode()) for value in values]
        client = self._make_client(bootstrap=self._bootstrap(link), settings=settings)
        tells_attempts = isinstance(client, ReportsEvents) and client.tells_attempts
        journal = self._journal(acks=acks, idempotent=False, tells_attempts=tells_attempts)
        try:
            operation = journal.invoke("probe_send", records)
            outcomes = await client.send(records)
            if isinstance(client, ReportsEvents):
                journal.client_met(journal.process, client.take_events())
            journal.complete_send(operation, outcomes)
        finally:
            await client.close()
            journal.close()
        return outcomes

    async def produce_by(
        self,
        ask: Callable[[Sequence[Send]], Awaitable[Sequence[SendOutcome]]],
        topic: str,
        partition: int,
        values: Sequence[str],
        *,
        acks: str,
    ) -> Sequence[SendOutcome]:
        """Like `produce`, with a request that the caller sends; journalled like any other."""
        records = [Send(topic=topic, partition=partition, value=value.encode()) for value in values]
        journal = self._journal(acks=acks)
        try:
            operation = journal.invoke("probe_send", records)
            outcomes = await ask(records)
            journal.complete_send(operation, outcomes)
        finally:
            journal.close()
        return outcomes

    async def read(self, topic: str, partition: int, *, timeout_s: float, link: ClientId | None = None) -> ProbeRead:
        """Reads from the beginning to the end offset that the leader returns, with a separate client.

        If the leader returns no end offset yet, reads until nothing more arrives for one second.
        """
        journal = self._journal(acks="all")
        settings = dataclasses.replace(
            self._settings, request_timeout_ms=min(self._settings.request_timeout_ms, READ_TIMEOUT_MS)
        )
        client = self._make_client(bootstrap=self._bootstrap(link), settings=settings)
        wanted = TopicPartition(topic=topic, partition=partition)
        try:
            reading = await read_to_end(
                client,
                journal,
                [wanted],
                f="probe_poll",
                deadline_ns=self._clock.monotonic_ns() + int(timeout_s * 1e9),
                clock=self._clock,
                keep=True,
                quiet_s=QUIET_S,
            )
        except Exception as error:  # noqa: BLE001  # any error of a client library is the probe's answer
            return ProbeRead(records=(), end_offset=None, reached_end=False, error=in_words(error))
        finally:
            await client.close()
            journal.close()
        return ProbeRead(
            records=tuple(reading.records),
            end_offset=reading.ends.get(wanted),
            reached_end=reading.done(wanted),
            error=reading.ends_error,
        )
