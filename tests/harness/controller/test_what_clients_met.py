"""What a client met is in the journal before the answer that came after it, under the client's own number."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka.errors import KafkaTimeoutError, UnknownProducerIdError

from harness.clients.client_log import ClientLog
from harness.controller.client_progress import ProgressReporter
from harness.controller.workers.acting import CountingJournal, FreshClients
from harness.history.facts.values import ValueNames
from harness.history.journals.journal import ClientMet, JournalFile, Process, ProcessNumbers, Sent
from harness.history.journals.journal_files import read_lines
from harness.history.sealed.tables import Conversion
from harness.host.clock import SystemClock
from harness.ports.clients import ClientEvent, ClientUse
from harness.ports.cluster import Send, SendOutcome
from harness.ports.load import WorkloadSpec

SETTINGS = WorkloadSpec(idempotence=False)


class Client:
    """Meets what it is told to."""

    tells_attempts = True

    def __init__(self) -> None:
        self.events: list[ClientEvent] = []

    def take_events(self) -> Sequence[ClientEvent]:
        taken, self.events = self.events, []
        return taken


def failed(t_ns: int, *, topic: str = "orders") -> ClientEvent:
    return ClientEvent(
        event="attempt_failed", t_ns=t_ns, node=1, topic=topic, partition=0, status="info", error="E 7", code=7
    )


def at_work(path: Path, *, makes: Any = Client) -> tuple[FreshClients, CountingJournal, JournalFile]:
    journal = JournalFile(path, worker="p", clock=SystemClock())
    progress = ProgressReporter(lambda progress: None)
    clients = FreshClients(
        make_client=lambda **_: makes(),
        bootstrap="",
        settings=SETTINGS,
        journal=journal,
        numbers=ProcessNumbers(first=0, step=1),
        name="p",
        role="producer",
        progress=progress,
    )
    return clients, CountingJournal(journal, lambda _: None, clients.tell, progress), journal


def send(journal: CountingJournal) -> int:
    return journal.invoke("send", [Send(topic="orders", partition=0, value=b"v")])


OK = SendOutcome(status="ok", offset=0, error=None, end_ns=9)


def test_a_failed_attempt_is_written_before_the_answer_of_its_record(tmp_path: Path) -> None:
    clients, journal, _ = at_work(tmp_path / "p.jsonl")
    client: Any = clients(None)
    operation = send(journal)
    client.events.append(failed(5))
    journal.complete_send(operation, [OK])

    lines = [line for line in read_lines(tmp_path / "p.jsonl") if isinstance(line, ClientMet | Sent)]
    assert [type(line) for line in lines] == [ClientMet, Sent]


def test_what_a_client_met_after_its_last_answer_is_its_own_and_not_its_successors(tmp_path: Path) -> None:
    clients, journal, file = at_work(tmp_path / "p.jsonl")
    first: Any = clients(None)
    journal.complete_send(send(journal), [OK])
    first.events.append(failed(5))
    clients(ClientUse(role="producer"))
    file.close()

    conversion = Conversion(names=ValueNames(()))
    conversion.add(tmp_path / "p.jsonl")
    converted = conversion.finish()
    (row,) = converted.client_events.to_pylist()
    assert (row["process"], row["time_ns"], row["event"], row["topic"], row["partition"]) == (
        0,
        5,
        "attempt_failed",
        "orders",
        0,
    )
    assert (row["node"], row["status"], row["error"], row["leader_epoch"]) == (1, 2, "E 7", None)
    assert row["code"] == 7
    assert converted.processes.column("tells_attempts").to_pylist() == [True, True]


def test_nothing_is_said_of_a_partition_that_nobody_used(tmp_path: Path) -> None:
    clients, journal, _ = at_work(tmp_path / "p.jsonl")
    client: Any = clients(None)
    client.events.append(failed(5, topic="audit"))
    journal.complete_send(send(journal), [OK])

    assert not [line for line in read_lines(tmp_path / "p.jsonl") if isinstance(line, ClientMet)]


def test_a_client_that_tells_nothing_is_known_to_tell_nothing(tmp_path: Path) -> None:
    clients, _, _ = at_work(tmp_path / "p.jsonl", makes=object)
    clients(None)

    (rows,) = [line.tells_attempts for line in read_lines(tmp_path / "p.jsonl") if isinstance(line, Process)]
    assert rows is False


def test_the_number_of_an_error_is_told_beside_its_name_where_a_broker_answered_it() -> None:
    log = ClientLog()
    for error in (UnknownProducerIdError(), KafkaTimeoutError()):
        log.failed("orders", 0, error, node=1)

    assert [(event.error, event.code) for event in log.take()] == [
        ("UnknownProducerIdError 59", 59),
        ("KafkaTimeoutError", None),
    ]


def test_the_version_in_which_a_client_sends_requests_is_told_once_for_each_node(tmp_path: Path) -> None:
    log = ClientLog()
    for version, node in ((8, 1), (8, 1), (8, 2), (7, 1)):
        log.request("OffsetFetch", version, node=node)
    assert log.last_version("OffsetFetch") == 7
    assert log.last_version("EndTxn") is None
    journal = JournalFile(tmp_path / "p.jsonl", worker="p", clock=SystemClock())
    journal.begin_process(0, client="p", acks="all")
    journal.client_met(0, log.take())
    journal.close()

    conversion = Conversion(names=ValueNames(()))
    conversion.add(tmp_path / "p.jsonl")
    rows = conversion.finish().client_events.to_pylist()
    assert [(row["event"], row["request"], row["version"], row["node"]) for row in rows] == [
        ("request", "OffsetFetch", 8, 1),
        ("request", "OffsetFetch", 8, 2),
        ("request", "OffsetFetch", 7, 1),
    ]


def test_a_transactional_client_of_plain_producers_without_idempotence_is_idempotent_all_the_same(
    tmp_path: Path,
) -> None:
    """Every library refuses it otherwise: no transaction of such a load would ever begin."""
    made: list[WorkloadSpec] = []

    def make_client(*, settings: WorkloadSpec, **_: Any) -> Any:
        made.append(settings)
        return Client()

    plain = WorkloadSpec(idempotence=False, acks="1", retries=0)
    journal = JournalFile(tmp_path / "p.jsonl", worker="p", clock=SystemClock())
    clients = FreshClients(
        make_client=make_client,
        bootstrap="",
        settings=plain,
        journal=journal,
        numbers=ProcessNumbers(first=0, step=1),
        name="p",
        role="both",
        progress=ProgressReporter(lambda progress: None),
    )

    clients(ClientUse(role="both", transactional_id="x"))
    clients(ClientUse(role="producer"))

    assert [(each.idempotent, each.acks, each.retries) for each in made] == [(True, "all", None), (False, "1", 0)]
    lines = [line for line in read_lines(tmp_path / "p.jsonl") if isinstance(line, Process)]
    assert [(line.idempotent, line.acks) for line in lines] == [(True, -1), (False, 1)]
