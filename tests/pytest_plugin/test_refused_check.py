"""A check that is refused ends nothing: the recording goes on, and its end is still its end."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_chaos_pytest import ChaosError, Flow
from kafka_chaos_pytest.chaos import Chaos
from kafka_chaos_pytest.journal import Journal

from harness.history.facts.values import ValueNames
from harness.history.sealed.tables import Conversion

PASSED = {"findings": [], "verdict": "pass", "sentence": "", "page": "", "run": ""}


class Socket:
    """Answers in place of a cluster. refuses: the code of each `check` to come, None: it is done. ended_by: codes after
    which it records no more."""

    ended_by: Collection[str] = ("failed",)

    def __init__(self, folder: Path, *refuses: str | None) -> None:
        self.folder = folder
        self.refuses = list(refuses)
        self.is_recording = True
        self.asked: list[Mapping[str, Any]] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def ask(self, word: str, value: Any, *, within_s: float | None = None) -> Mapping[str, Any]:
        if word == "record":
            return {"run": str(self.folder)}
        if word == "client":
            return {"journal": str(self.folder / f"{value['name']}.jsonl"), "process": len(value["name"])}
        self.asked.append(value)
        self.meanwhile()
        code = self.refuses.pop(0) if self.refuses else None
        self.is_recording = code is not None and code not in self.ended_by
        if code is not None:
            raise ChaosError(code, "refused")
        return PASSED

    def state(self) -> Mapping[str, Any]:
        return {"recording": str(self.folder) if self.is_recording else None}


def chaos_of(socket: Socket) -> Chaos:
    cluster: Any = SimpleNamespace(control=socket, state=socket.state)
    return Chaos(cluster)


def journal_of(chaos: Chaos, name: str, *values: bytes) -> Journal:
    journal = chaos._journal(name)
    journal.begin_process(role="producer")
    send(journal, *values)
    return journal


def send(journal: Journal, *values: bytes) -> None:
    for value in values:
        journal.send("orders", 0, value, None, transaction=None)


def sealed(*files: Path) -> Any:
    conversion = Conversion(names=ValueNames())
    for file in files:
        conversion.add(file)
    return conversion.finish()


@pytest.mark.parametrize("code", ["bad-request", "busy", "too-long"])
def test_a_refused_check_leaves_no_recording_that_nobody_can_end(tmp_path: Path, code: str) -> None:
    socket = Socket(tmp_path, code)
    chaos = chaos_of(socket)
    with pytest.raises(ChaosError, match="refused"), chaos.record("orders"):
        chaos.check(flow={"orders": "nowhere"})
    assert [asked["judge"] for asked in socket.asked] == [True, False], "the recording is ended without a verdict"
    assert chaos._recording is None


def test_an_end_without_a_verdict_waits_until_the_cluster_is_not_busy(tmp_path: Path) -> None:
    chaos = chaos_of(socket := Socket(tmp_path, "busy", "busy"))
    with chaos.record("orders"):
        pass
    assert [asked["judge"] for asked in socket.asked] == [False, False, False]
    assert chaos._recording is None


@pytest.mark.parametrize("code", ["failed", "bad-request"])
def test_a_check_that_failed_has_ended_the_recording_whatever_it_is_called(tmp_path: Path, code: str) -> None:
    chaos = chaos_of(socket := Socket(tmp_path, code))
    socket.ended_by = (code,)
    with pytest.raises(ChaosError, match="refused"), chaos.record("orders"):
        chaos.check()
    assert len(socket.asked) == 1
    assert chaos._recording is None


def test_what_is_sent_after_a_refused_check_is_in_the_journal_too(tmp_path: Path) -> None:
    socket = Socket(tmp_path, "bad-request")
    chaos = chaos_of(socket)
    with chaos.record("orders"):
        journal = journal_of(chaos, "shop", b"tea")
        socket.meanwhile = lambda: send(journal, b"jam")
        with pytest.raises(ChaosError):
            chaos.check(flow={"orders": "nowhere"})
        send(journal, b"milk")
        socket.meanwhile = lambda: None
        chaos.check()
        send(journal, b"too late")
    assert sealed(tmp_path / "shop.jsonl").records.num_rows == 3


def test_a_journal_that_went_on_after_a_refused_check_and_was_cut_short_is_not_complete(tmp_path: Path) -> None:
    chaos = chaos_of(Socket(tmp_path, "bad-request"))
    with chaos.record("orders"):
        journal = journal_of(chaos, "shop", b"tea")
        with pytest.raises(ChaosError):
            chaos.check(flow={"orders": "nowhere"})
        send(journal, b"milk")
        killed = tmp_path / "killed.jsonl"
        killed.write_bytes((tmp_path / "shop.jsonl").read_bytes())
    assert [row["journal_complete"] for row in sealed(killed).processes.to_pylist()] == [False]
    assert [row["journal_complete"] for row in sealed(tmp_path / "shop.jsonl").processes.to_pylist()] == [True]


def test_each_value_is_given_to_the_functions_once_and_other_ids_are_refused(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def of(value: bytes) -> bytes:
        seen.append(value)
        return value[:1]

    chaos = chaos_of(Socket(tmp_path, "busy"))
    with chaos.record("orders", "bills"):
        for name in ("a", "bb"):
            journal_of(chaos, name, b"tea", b"jam")
        with pytest.raises(ChaosError, match="refused"):
            chaos.check(flow=Flow(input="orders", output="bills", id=of))
        assert sorted(seen) == [b"jam", b"tea"]
        with pytest.raises(ChaosError, match="other ids of the values of orders were told before"):
            chaos.check(flow=Flow(input="orders", output="bills", id=bytes.upper))
        chaos.check(flow=Flow(input="orders", output="bills", id=of))
    assert sealed(tmp_path / "a.jsonl", tmp_path / "bb.jsonl").value_origins.num_rows == 2
