"""What is made ready beside a run never breaks a check and never holds it up."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks import early_session, keeping_classes, warm_up
from harness.checks.early_session import EarlySession
from harness.errors import HarnessError
from harness.history.facts.extent import MANY_ROWS

AT_MOST_S = 20.0


class Spark:
    """Stands in for JVMs and sessions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        self.larges: list[bool] = []
        self.places: list[str] = []
        self.made: Any = object()
        self.refusals = 0
        self.exit_code: int | None = None
        self.thread: threading.Thread | None = None
        self.used = False
        self.archive: object = object()
        monkeypatch.setattr(early_session, "a_jvm", self._jvm)
        monkeypatch.setattr(early_session, "spark_session", self._session)

    def _jvm(self, *, large: bool) -> Any:
        self.larges.append(large)
        process = SimpleNamespace(poll=lambda: self.exit_code)
        place = SimpleNamespace(
            last=lambda: self.places.append("last"), as_any_other=lambda: self.places.append("as any other")
        )
        return SimpleNamespace(
            join=lambda: (1, ""),
            end=lambda: self.events.append("jvm ended"),
            process=process,
            place=place,
            used=self.used,
            archive=self.archive,
        )

    @contextlib.contextmanager
    def _session(self, *, master: str, jvm: Any) -> Iterator[Any]:
        if self.refusals:
            self.refusals -= 1
            raise HarnessError("no session today")
        self.events.append("opened beside its own JVM" if jvm is None else "opened")
        yield self.made
        self.events.append("closed")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Spark:
    return Spark(monkeypatch)


def finished(session: EarlySession) -> None:
    assert session._thread is not None
    session._thread.join(AT_MOST_S)
    assert not session._thread.is_alive()


def test_whoever_asks_for_the_session_ends_the_warm_up_at_its_next_stage_and_gets_the_same_one(
    stand_in: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    phases: list[str] = []

    def warm(session: object, *, progress: Callable[[str], None]) -> None:
        assert session is stand_in.made
        begun.set()
        assert early._wanted.wait(AT_MOST_S)
        phases.append("the first")
        progress("the second")
        phases.append("the second")

    monkeypatch.setattr(warm_up, "warm_up", warm)
    early = EarlySession(master="local[2]")
    early.warm_up()
    early.warm_up()
    assert begun.wait(AT_MOST_S)

    assert early.session() is stand_in.made
    early.close()

    assert phases == ["the first"]
    assert stand_in.events == ["opened", "closed", "jvm ended"]


def test_a_jvm_is_last_in_the_queue_only_beside_a_load(stand_in: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "warm_up", lambda *_, **__: None)
    beside_a_load = EarlySession(master="local[2]")
    beside_a_load.warm_up()
    assert stand_in.places == ["last"]
    beside_a_load.open()
    assert stand_in.places == ["last", "as any other"]
    beside_a_load.session()
    beside_a_load.close()
    assert stand_in.places == ["last", "as any other"]

    waited_for = EarlySession(master="local[2]")
    waited_for.open()
    waited_for.session()
    waited_for.close()
    assert stand_in.places == ["last", "as any other"]


def test_a_warm_up_that_fails_is_reported_and_the_session_stays(
    stand_in: Spark, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ValueError("a query was refused\nand much more")

    monkeypatch.setattr(warm_up, "warm_up", fails)
    early = EarlySession(master="local[2]")
    with caplog.at_level(logging.WARNING):
        early.warm_up()
        finished(early)

    assert early.session() is stand_in.made
    assert stand_in.events == ["opened"]
    assert caplog.messages == ["the checks could not be made ready early: a query was refused"]


def test_a_session_that_could_not_be_made_beside_the_run_is_made_anew(stand_in: Spark) -> None:
    stand_in.refusals = 1
    early = EarlySession(master="local[2]")
    early.warm_up()
    finished(early)

    assert early.session() is stand_in.made
    assert stand_in.events == ["jvm ended", "opened beside its own JVM"]


def test_a_jvm_that_dies_in_the_warm_up_is_replaced(stand_in: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object, **__: object) -> None:
        stand_in.exit_code = 137
        raise OSError("the JVM is gone")

    monkeypatch.setattr(warm_up, "warm_up", dies)
    early = EarlySession(master="local[2]")
    early.warm_up()
    finished(early)
    early.session()

    assert stand_in.events == ["opened", "closed", "jvm ended", "opened beside its own JVM"]


@pytest.mark.parametrize(
    ("used", "are_kept", "kept"), [(True, False, ["jvm ended", "keeps"]), (True, True, None), (False, False, None)]
)
def test_the_first_check_of_an_installation_has_its_classes_kept_when_all_else_is_done(
    stand_in: Spark, monkeypatch: pytest.MonkeyPatch, *, used: bool, are_kept: bool, kept: list[str] | None
) -> None:
    monkeypatch.setattr(keeping_classes, "keep_classes", lambda: stand_in.events.append("keeps"))
    stand_in.used, stand_in.archive = used, object() if are_kept else None

    EarlySession(master="local[2]").close()

    assert stand_in.events == (kept or ["jvm ended"])


def test_an_interrupted_run_leaves_no_jvm_and_a_standalone_master_no_thread(stand_in: Spark) -> None:
    early = EarlySession(master="local[2]")
    early.close()
    assert stand_in.events == ["jvm ended"]

    elsewhere = EarlySession(master="spark://somewhere:7077")
    elsewhere.warm_up()
    assert elsewhere._thread is None


@pytest.mark.parametrize(("records", "large"), [(0, False), (MANY_ROWS, False), (MANY_ROWS + 1, True)])
def test_the_full_compiler_is_for_much_to_check(stand_in: Spark, records: int, large: bool) -> None:
    EarlySession(master="local[2]", records=records)

    assert stand_in.larges == [large]


def test_a_session_that_was_warmed_up_by_a_thread_answers_this_one(
    stand_in: Spark, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in.made = spark
    early = EarlySession(master="local[2]")
    early.warm_up()
    assert early._thread is not None
    early._thread.join()

    assert early.session().range(3).count() == 3
    assert caplog.messages == []
