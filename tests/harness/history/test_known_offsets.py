"""Which offsets the final read looks for: what was acknowledged for good, or given to a reader that counts."""

from pathlib import Path

from harness.history.facts.values import encode
from harness.history.journals.journal import JournalFile
from harness.history.journals.known_offsets import known_offsets
from harness.host.clock import SystemClock
from harness.ports.clients import ClientUse
from harness.ports.cluster import ReadRecord, Send, SendOutcome
from harness.ports.membership import TransactionEnd

PLACE = ("orders", 0)


def journal(folder: Path, name: str, use: ClientUse) -> JournalFile:
    made = JournalFile(folder / f"{name}.jsonl", worker=name, clock=SystemClock())
    made.begin_process(0, client=name, acks="all", use=use)
    return made


def sent(producer: JournalFile, *offsets: int | None, transaction: int | None = None) -> None:
    records = [Send(topic="orders", partition=0, value=encode(0, number)) for number in range(len(offsets))]
    operation = producer.invoke("send", records, transaction=transaction)
    producer.complete_send(
        operation,
        [
            SendOutcome(status="info" if offset is None else "ok", offset=offset, error=None, end_ns=1)
            for offset in offsets
        ],
    )


def read(consumer: JournalFile, *offsets: int) -> None:
    records = [ReadRecord(topic="orders", partition=0, offset=each, epoch=0, value=encode(0, each)) for each in offsets]
    consumer.complete_poll(consumer.invoke("poll"), records)


def test_acknowledged_and_read_offsets_are_known_and_others_not(tmp_path: Path) -> None:
    producer = journal(tmp_path, "producer-1", ClientUse(role="producer"))
    sent(producer, 0, 1, None)
    producer.invoke("send", [Send(topic="orders", partition=0, value=b"unanswered")])
    producer.close()
    consumer = journal(tmp_path, "consumer-1", ClientUse(role="consumer"))
    read(consumer, 5)
    consumer.close()

    assert known_offsets(tmp_path, committed_only=False)[PLACE].ranges == [(0, 2), (5, 6)]


def test_only_what_was_committed_counts_where_the_final_log_is_the_committed_one(tmp_path: Path) -> None:
    producer = journal(tmp_path, "processor-1", ClientUse(role="both", transactional_id="id"))
    for offset, outcome in ((0, "committed"), (2, "aborted"), (4, "unknown")):
        number = producer.begin_transaction()
        sent(producer, offset, transaction=number)
        producer.end_transaction(number, TransactionEnd(outcome=outcome))  # type: ignore[arg-type]
    producer.close()
    for isolation, offset in (("read_uncommitted", 6), ("read_committed", 8)):
        consumer = journal(tmp_path, isolation, ClientUse(role="consumer", isolation=isolation))  # type: ignore[arg-type]
        read(consumer, offset)
        consumer.close()

    assert known_offsets(tmp_path, committed_only=True)[PLACE].ranges == [(0, 1), (8, 9)]
    assert known_offsets(tmp_path, committed_only=False)[PLACE].ranges == [(0, 1), (6, 7), (8, 9)]


def test_a_damaged_journal_is_read_as_far_as_it_can_be_and_the_others_whole(tmp_path: Path) -> None:
    for name, offset in (("producer-1", 0), ("producer-2", 9)):
        producer = journal(tmp_path, name, ClientUse(role="producer"))
        sent(producer, offset)
        producer.close()
    with (tmp_path / "producer-1.jsonl").open("ab") as file:
        file.write(b'["S",77,1,[0],[3],[null],[1],[2]]\n["S"]\n')

    assert {0, 9} >= {first for first, _ in known_offsets(tmp_path, committed_only=False)[PLACE].ranges} >= {9}
