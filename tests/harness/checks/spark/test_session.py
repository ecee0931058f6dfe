"""The JVM is ours to start and ours to end."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.__main__ import will_check
from harness.checks import keeping_classes
from harness.checks.keeping_classes import keep_classes
from harness.checks.spark import jvm
from harness.checks.spark.jvm import Jvm, a_jvm, end_ahead, start_ahead, start_jvm_early
from harness.checks.spark.session import sized_for
from harness.errors import HarnessError
from harness.history.facts.extent import FEW_ROWS, MANY_ROWS


@pytest.mark.jvm
def test_a_jvm_started_early_listens_and_leaves_nothing_when_it_is_ended(tmp_path: Path) -> None:
    started = start_jvm_early(stderr_path=tmp_path / "stderr", memory_mb=256)
    try:
        port, secret = started.join()
        assert port > 0
        assert secret
    finally:
        started.end()
    assert started.process.returncode is not None
    assert not started.scratch.exists()


@pytest.mark.jvm
@pytest.mark.parametrize("asked", [False, True, None])
def test_a_jvm_started_ahead_goes_to_whoever_asks_for_such_a_one_and_else_ends(asked: bool | None) -> None:
    start_ahead()
    ahead = jvm._ahead[0]
    taken = None if asked is None else a_jvm(large=asked)
    end_ahead()
    try:
        assert (taken is ahead) == (asked is False)
        assert (ahead.process.poll() is None) == (taken is ahead)
        assert taken is None or taken.large == asked
    finally:
        if taken is not None:
            taken.end()
    assert not ahead.scratch.exists()


def test_where_no_java_fits_nothing_is_started_ahead_and_whoever_asks_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    start_ahead()

    assert jvm._ahead == []
    with pytest.raises(HarnessError, match="holds no bin/java"):
        a_jvm(large=False)


@pytest.mark.parametrize(
    ("arguments", "started"),
    [
        (["check", "runs/one"], True),
        (["check", "some.edn", "--format", "jepsen"], False),
        (["check", "some.edn", "--format=jepsen"], False),
        (["check"], False),
        (["check", "--help"], False),
        (["check", "runs/one", "--master=spark://far:7077"], False),
        (["report", "check"], False),
    ],
)
def test_only_a_check_on_this_machine_starts_its_jvm_ahead(arguments: list[str], *, started: bool) -> None:
    assert will_check(arguments) == started


@pytest.mark.jvm
def test_a_jvm_that_dies_is_one_clear_line_that_names_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx1k")
    started = start_jvm_early(stderr_path=tmp_path / "stderr", memory_mb=0)
    try:
        with pytest.raises(HarnessError, match=r"before it listened: see .*stderr"):
            started.join()
    finally:
        started.end()


def test_much_to_check_is_divided_into_more_shares_and_little_into_one(spark: SparkSession) -> None:
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key)

    few, some, many = (sized_for(spark, rows) for rows in (FEW_ROWS, MANY_ROWS, MANY_ROWS + 1))

    assert few.conf.get(key) == "1"
    assert some is spark
    assert int(many.conf.get(key) or 0) > int(before or 0)
    assert spark.conf.get(key) == before


def test_the_session_for_few_records_is_opened_once(spark: SparkSession) -> None:
    assert sized_for(spark, 0) is sized_for(spark, FEW_ROWS)


@pytest.mark.jvm
def test_classes_are_kept_by_a_jvm_of_its_own_that_says_so_and_by_none_when_they_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    begun: list[Jvm] = []

    @contextlib.contextmanager
    def session(*, jvm: Jvm) -> Iterator[None]:
        begun.append(jvm)
        jvm.join()
        yield
        jvm.used = True  # as by a check
        jvm.end()

    monkeypatch.setattr(keeping_classes, "spark_session", session)
    monkeypatch.setattr(keeping_classes, "warm_up", lambda _: None)

    keep_classes()
    printed = capsys.readouterr().err
    keep_classes()

    assert len(begun) == 1
    assert printed.count("\n") == 1
    assert "KAFKA_CHAOS_NO_CLASS_ARCHIVE" in printed
    archive = begun[0].archive
    assert archive is not None
    assert archive.path.exists()
    assert begun[0].process.poll() is not None
    assert capsys.readouterr().err == ""


NOTES_HANDLERS = """
import signal
from harness.checks.spark.session import spark_session
set_handler, handlers = signal.signal, []
signal.signal = lambda number, handler: (handlers.append(number), set_handler(number, handler))[1]
with spark_session():
    print(handlers)
"""


def test_while_a_session_is_opened_ctrl_c_is_answered_by_whoever_answered_it_before() -> None:
    """PySpark's own answer asks the JVM again in the midst of another question, and prints what comes of that."""
    said = subprocess.run([sys.executable, "-c", NOTES_HANDLERS], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
