"""A run in progress is told from its folder as it grows; what nobody wrote whole is never taken for something."""

import fcntl
import json
from pathlib import Path
from typing import Any

from harness.controller.recorder import Recorder
from harness.history.journals.journal import JournalFile
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.ports.cluster import Evidence, PartitionState, Send, SendOutcome
from harness.web import live
from harness.web.live import LiveRun, is_locked
from tests.reports.stories.unclean_story import loss_run


def started(runs: Path) -> RunFolder:
    clock = SystemClock()
    return RunFolder.create(runs, scenario="s", clock=clock, seed=1, stamp="20261123-000000")


def looked_at(folder: RunFolder) -> LiveRun:
    return LiveRun(path=folder.path, clock=SystemClock())


def test_acknowledgements_are_counted_once_and_a_torn_line_waits_for_its_end(tmp_path: Path) -> None:
    folder = started(tmp_path)
    run = looked_at(folder)
    journal = JournalFile(folder.history / "worker-1.jsonl", worker="1", clock=SystemClock())
    journal.begin_process(1, client="kafka-python", acks="all")

    def send(count: int) -> None:
        operation = journal.invoke("send", [Send(topic="t", partition=0, value=str(n).encode()) for n in range(count)])
        now = SystemClock().monotonic_ns()
        journal.complete_send(operation, [outcome(now)] * count)

    def outcome(now: int) -> Any:
        return SendOutcome(status="ok", offset=1, error=None, begin_ns=now, end_ns=now)

    send(3)
    assert run.look()["acknowledged"] == 3
    assert run.look()["acknowledged"] == 3
    send(2)
    path = folder.history / "worker-1.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert run.look()["acknowledged"] == 3
    path.write_bytes(whole)
    state_seen = run.look()
    assert (state_seen["acknowledged"], state_seen["unreadable"], state_seen["from_the_beginning"]) == (5, 0, True)


def test_faults_in_force_leaders_and_isr_are_the_newest_that_were_seen(tmp_path: Path) -> None:
    folder = started(tmp_path)
    run = looked_at(folder)
    recorder = Recorder(folder=folder.history, clock=SystemClock())
    first = recorder.fault_asked(kind="kill", label="kill 1", nodes=[1])
    recorder.fault_begun(first, Evidence(sentence="gone", t_ns=1))
    second = recorder.fault_asked(kind="cut", label="cut 2>1")
    recorder.partition_state(state(epoch=4, leader=2, isr=(2, 3)))
    recorder.partition_state(state(epoch=3, leader=1, isr=(1,)))  # a zombie's view

    state_seen = run.look()
    assert [each["label"] for each in state_seen["faults"]] == ["kill 1"]
    assert state_seen["partitions"] == [
        {"name": "orders-0", "leader": 2, "epoch": 4, "isr": [2, 3], "replicas": [1, 2, 3]}
    ]
    recorder.fault_begun(second, Evidence(sentence="cut", t_ns=2))
    recorder.fault_ended(first, Evidence(sentence="back", t_ns=3))
    recorder.close()
    state_seen = run.look()
    assert ([each["label"] for each in state_seen["faults"]], state_seen["faults_over"]) == (["cut 2>1"], 1)


def state(*, epoch: int, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return PartitionState(
        topic="orders",
        partition=0,
        t_ns=5,
        leader=leader,
        leader_epoch=epoch,
        isr=isr,
        replicas=(1, 2, 3),
        observer=1,
        uncertainty_ns=0,
        exact=False,
        partition_epoch=None,
        controller_epoch=None,
    )


def test_a_run_goes_on_while_its_harness_holds_the_lock_and_the_look_takes_no_lock(tmp_path: Path) -> None:
    folder = started(tmp_path)
    run = looked_at(folder)
    folder.update(phases=[{"name": "act", "t": SystemClock().monotonic_ns()}])
    assert run.look()["status"] == "its harness is gone"
    with (folder.path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_locked(folder.path / "lock")
        state_seen = run.look()
        assert (state_seen["status"], state_seen["phase"], state_seen["going_on"]) == ("in progress", "act", True)
    assert not is_locked(folder.path / "lock")


def test_of_a_long_journal_only_its_end_is_read_and_that_is_reported(tmp_path: Path, monkeypatch: Any) -> None:
    folder = started(tmp_path)
    line = json.dumps(["S", 1, 5, [0], [1], [None], [1], [2]]) + "\n"
    (folder.history / "worker-1.jsonl").write_text(line * 100 + "no line of ours\n")
    monkeypatch.setattr(live, "BYTES_A_LOOK", len(line) * 10)
    state_seen = looked_at(folder).look()
    assert 5 <= state_seen["acknowledged"] <= 10
    assert (state_seen["from_the_beginning"], state_seen["unreadable"]) == (False, 1)


def test_a_run_that_has_ended_is_reported_by_its_verdict(tmp_path: Path) -> None:
    state_seen = LiveRun(path=loss_run(tmp_path), clock=SystemClock()).look()
    assert (state_seen["going_on"], state_seen["verdict"], state_seen["faults"]) == (False, "pass", [])
