"""A worker process: one loop, one client at a time, one journal.

Commands come on stdin, one word a line: start, ask, stop. Counters go to stdout, one JSON object a line, after every
answer, so that a trigger such as "after the 500th ack" fires at once; after `ask` so does what the client gets anew
(client_progress.py). A closed stdin means that the harness is gone: the worker ends. It always ends with `os._exit`,
because a client library's thread may hang without limit.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.controller.client_progress import ProgressReporter
from harness.history.journals.journal import JournalFile, ProcessNumbers
from harness.host.clock import Clock, SystemClock
from harness.host.randomness import stream
from harness.ports.clients import ClientUse, ReportsEvents, as_used
from harness.ports.cluster import Client, ClientMaker, Journal, ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.membership import GroupEvent, TransactionEnd
from harness.ports.security import SecuritySpec
from harness.ports.workload import WorkloadSettings
from harness.scenario.file import read_workload

STOP_GRACE_S = 1.0  # beyond the client's own time-outs
_PR_SET_PDEATHSIG = 1


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a worker needs to know; the harness writes it to a JSON file."""

    name: str  # e.g. producer-1; also the journal's name
    role: str  # producer | consumer | processor
    place: int  # of this worker among those of its role, from 0
    places: int
    process_first: int  # process numbers are process_first + k * process_step
    process_step: int
    bootstrap: str
    partitions: list[tuple[str, int]]
    workload: dict[str, Any]  # the table [workload]
    seed: int
    journal: str
    parent: int  # pid of the harness
    names: dict[str, str] = {}  # for brokers that advertise names: the address of each name for this client
    brokers_version: list[int] = []  # for brokers that cannot be asked for their version
    security: SecuritySpec | None = None  # names of secrets, which the worker reads itself
    names_before: str = ""  # what stands before the run's names on the cluster (own_names.py)


def read_spec(path: str) -> WorkerSpec:
    return msgspec.json.decode(Path(path).read_bytes(), type=WorkerSpec)


def settings_of(spec: WorkerSpec) -> WorkloadSettings:
    workload = read_workload(spec.workload, topics=[topic for topic, _ in spec.partitions])
    assert isinstance(workload, WorkloadSettings), "a load without clients has no workers"
    return workload


class CountingJournal:
    """Wraps a journal, and reports each answer to `count`, and everything to `progress`.

    `tell`: writes the client's events to the journal first; they must stand before the answer that followed them.
    """

    def __init__(
        self,
        journal: JournalFile,
        count: Callable[[Mapping[str, int]], None],
        tell: Callable[[], None],
        progress: ProgressReporter,
    ) -> None:
        self._journal = journal
        self._count = count
        self._tell = tell
        self._progress = progress

    @property
    def process(self) -> int:
        return self._journal.process

    def invoke(self, f: str, records: Sequence[Send] = (), *, transaction: int | None = None) -> int:
        operation = self._journal.invoke(f, records, transaction=transaction)
        self._progress.invoked(operation, records, transaction)
        return operation

    def complete_send(self, operation: int, outcomes: Sequence[SendOutcome]) -> None:
        self._tell()
        self._journal.complete_send(operation, outcomes)
        self._progress.sent(operation, outcomes)
        counts: dict[str, int] = {}
        for outcome in outcomes:
            counts[outcome.status] = counts.get(outcome.status, 0) + 1
        self._count(counts)

    def complete_poll(self, operation: int, records: Sequence[ReadRecord], *, error: str | None = None) -> None:
        self._tell()
        self._journal.complete_poll(operation, records, error=error)
        self._progress.polled(records, error)
        if records:
            self._count({"polled": len(records)})

    def polled(self, records: Sequence[ReadRecord], *, begin_ns: int, end_ns: int) -> None:
        self._journal.polled(records, begin_ns=begin_ns, end_ns=end_ns)
        self._progress.polled(records, None)
        if records:
            self._count({"polled": len(records)})

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._journal.assigned(partitions)
        self._progress.assigned(partitions)

    def group_event(self, event: GroupEvent, *, transaction: int | None = None) -> None:
        self._journal.group_event(event, transaction=transaction)
        self._progress.group_event(event)

    def done(self, f: str, *, begin_ns: int | None = None, count: int = 0, error: str | None = None) -> None:
        self._journal.done(f, begin_ns=begin_ns, count=count, error=error)

    def begin_transaction(self) -> int:
        return self._journal.begin_transaction()

    def end_transaction(self, transaction: int, end: TransactionEnd) -> None:
        self._journal.end_transaction(transaction, end)
        self._progress.ended(transaction, committed=end.outcome == "committed")


class FreshClients:
    """The worker's ClientFactory: each client gets a new process number, journalled before the client acts."""

    def __init__(
        self,
        *,
        make_client: ClientMaker,
        bootstrap: str,
        settings: WorkloadSpec,
        journal: JournalFile,
        numbers: ProcessNumbers,
        name: str,
        role: Literal["producer", "consumer", "both"],
        progress: ProgressReporter,
    ) -> None:
        self._make_client = make_client
        self._bootstrap = bootstrap
        self._settings = settings
        self._journal = journal
        self._numbers = numbers
        self._name = name
        self._plain = ClientUse(role=role)
        self._progress = progress
        self._present: tuple[int, Client] | None = None

    def __call__(self, use: ClientUse | None = None) -> Client:
        use = use or self._plain
        settings, number = as_used(self._settings, use), self._numbers.next()
        client = self._make_client(bootstrap=self._bootstrap, settings=settings, use=use)
        self.tell()
        self._journal.begin_process(
            number,
            client=self._name,
            acks=settings.acks,
            library=settings.client,
            idempotent=settings.idempotent,
            use=use,
            tells_attempts=isinstance(client, ReportsEvents) and client.tells_attempts,
        )
        self._present = number, client
        self._progress.replaced()
        return client

    def tell(self) -> None:
        """Journals the present client's events since the last call."""
        if self._present is not None:
            number, client = self._present
            if isinstance(client, ReportsEvents):
                self._journal.client_met(number, client.take_events())


async def act(
    spec: WorkerSpec,
    *,
    settings: WorkloadSettings,
    make_client: ClientMaker,
    until: asyncio.Event,
    count: Callable[[Mapping[str, int]], None],
    clock: Clock,
    progress: ProgressReporter,
) -> None:
    """The worker's work, on any loop; a simulated world runs it as a task."""
    journal = JournalFile(Path(spec.journal), worker=spec.name, clock=clock)
    clients = FreshClients(
        make_client=make_client,
        bootstrap=spec.bootstrap,
        settings=settings,
        journal=journal,
        numbers=ProcessNumbers(first=spec.process_first, step=spec.process_step),
        name=spec.name,
        role="producer" if spec.role == "producer" else "consumer" if spec.role == "consumer" else "both",
        progress=progress,
    )
    workload = settings.make_worker(
        role=spec.role,
        place=spec.place,
        places=spec.places,
        partitions=[TopicPartition(topic=topic, partition=partition) for topic, partition in spec.partitions],
    )
    counting: Journal = CountingJournal(journal, count, clients.tell, progress)
    try:
        await workload.act(clients, counting, stream(spec.seed, f"worker/{spec.name}"), until)
    finally:
        clients.tell()
        journal.close()


def run_worker(
    spec_path: str, *, clients: Mapping[str, ClientMaker]
) -> None:  # pragma: no cover  # runs in a process of its own
    """The hidden command `worker`. Does not return."""
    spec = read_spec(spec_path)
    _die_with(spec.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness handles Ctrl-C, and sends `stop`
    exit_code = 1
    try:
        settings = settings_of(spec)
        asyncio.run(_serve(spec, settings=settings, make_client=clients[settings.client]))
        exit_code = 0
    except BaseException as error:  # noqa: BLE001  # the last message of the process, for any error
        sys.stderr.write(f"{spec.name}: {type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(exit_code)


def _die_with(parent: int) -> None:
    """Ends this process when the harness ends, even if killed. The check covers a harness that was gone before."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


async def _serve(spec: WorkerSpec, *, settings: WorkloadSettings, make_client: ClientMaker) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    started, until = asyncio.Event(), asyncio.Event()
    progress = ProgressReporter(lambda progress: _say({"told": progress}))
    commands = asyncio.create_task(_obey(reader, started, until, progress.ask))
    _say({"ready": 1})
    await started.wait()
    if not until.is_set():
        work = asyncio.create_task(
            act(
                spec,
                settings=settings,
                make_client=make_client,
                until=until,
                count=_say,
                clock=SystemClock(),
                progress=progress,
            )
        )
        await asyncio.wait([work, asyncio.create_task(until.wait())], return_when=asyncio.FIRST_COMPLETED)
        # Operations in flight may still be answered: wait up to a delivery time-out for them.
        grace_s = settings.delivery_timeout_ms / 1000 + STOP_GRACE_S
        done, _ = await asyncio.wait([work], timeout=grace_s)
        for task in done:
            task.result()
    commands.cancel()
    _say({"ended": 1})


async def _obey(
    reader: asyncio.StreamReader, started: asyncio.Event, until: asyncio.Event, ask: Callable[[], None]
) -> None:
    while line := await reader.readline():
        if line == b"start\n":
            started.set()
        elif line == b"ask\n":
            ask()
        elif line == b"stop\n":
            break
    until.set()
    started.set()
    if not line:
        os._exit(0)  # the harness is gone; the journal is complete up to here


def _say(line: Mapping[str, Any]) -> None:
    os.write(1, msgspec.json.encode(line) + b"\n")
