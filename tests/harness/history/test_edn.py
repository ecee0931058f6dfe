"""The Jepsen export: every operation is invoked and completed, in the words of jepsen.tests.kafka."""

from pathlib import Path

from harness.clock import SystemClock
from harness.history.edn import export
from harness.history.journal import JournalFile
from harness.history.run_folder import RunFolder
from harness.history.sealing import seal
from harness.history.values import encode
from harness.interfaces import ReadRecord, Send, SendOutcome


def test_a_history_is_exported_in_jepsens_words(tmp_path: Path) -> None:
    clock = SystemClock()
    folder = RunFolder.create(tmp_path, scenario="s", clock=clock, seed=1, stamp="now")
    journal = JournalFile(folder.history / "w.jsonl", worker="w", clock=clock)
    journal.begin_process(5, client="w", acks="all")
    sent = journal.invoke("send", [Send(topic="t", partition=p, value=encode(0, p)) for p in (0, 1)])
    now = clock.monotonic_ns()
    outcomes = [
        SendOutcome(status="ok", offset=3, error=None, t1_ns=now),
        SendOutcome(status="info", offset=None, error="KafkaTimeoutError", t1_ns=now),
    ]
    journal.complete_send(sent, outcomes)
    record = ReadRecord(topic="t", partition=0, offset=3, epoch=0, value=encode(0, 0))
    journal.complete_poll(journal.invoke("poll"), [record])
    seal(folder)

    lines = tmp_path / "history.edn"

    assert export(folder, lines) == 4
    assert [line.split(", ", 2)[2] for line in lines.read_text().splitlines()] == [
        ":type :invoke, :process 5, :f :send, :value [[:send 0 0] [:send 1 1]]}",
        ":type :info, :process 5, :f :send, :value [[:send 0 [3 0]] [:send 1 1]]}",
        ":type :invoke, :process 5, :f :poll, :value [[:poll]]}",
        ":type :ok, :process 5, :f :poll, :value [[:poll {0 [[3 0]]}]]}",
    ]
