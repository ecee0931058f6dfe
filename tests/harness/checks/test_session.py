"""The JVM is ours to start and ours to end."""

import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from harness.checks.class_archive import ClassArchive
from harness.checks.session import Jvm, sized_for, start_jvm_early
from harness.errors import HarnessError
from harness.history.extent import MANY_ROWS


def test_a_jvm_started_early_listens_and_leaves_nothing_when_it_is_ended(tmp_path: Path) -> None:
    jvm = start_jvm_early(stderr_path=tmp_path / "stderr", memory_mb=256)
    try:
        port, secret = jvm.join()
        assert port > 0
        assert secret
    finally:
        jvm.end()
    assert jvm.process.returncode is not None
    assert not jvm.scratch.exists()


def test_a_jvm_that_dies_is_one_clear_line_that_names_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx1k")
    jvm = start_jvm_early(stderr_path=tmp_path / "stderr", memory_mb=0)
    try:
        with pytest.raises(HarnessError, match=r"before it listened: see .*stderr"):
            jvm.join()
    finally:
        jvm.end()


def test_much_to_check_is_divided_into_more_shares_and_only_while_it_is_checked(spark: SparkSession) -> None:
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key)

    with sized_for(spark, MANY_ROWS):
        assert spark.conf.get(key) == before
    with sized_for(spark, MANY_ROWS + 1):
        assert int(spark.conf.get(key) or 0) > int(before or 0)

    assert spark.conf.get(key) == before


@pytest.mark.parametrize(("waits", "lines"), [(False, 0), (True, 1)])
def test_the_wait_for_the_kept_classes_is_told_in_one_line_when_there_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, waits: bool, lines: int
) -> None:
    class Process:
        stdin, returncode = None, 0
        asked: ClassVar[list[float]] = []

        def poll(self) -> int:
            return 0

        def wait(self, timeout: float) -> int:
            self.asked.append(timeout)
            if waits and len(self.asked) == 1:
                raise subprocess.TimeoutExpired("java", timeout)
            return 0

    archive = ClassArchive(path=tmp_path / "kept.aot", unfinished=tmp_path / "kept.unfinished-1", options=())
    (tmp_path / "kept.unfinished-1").write_bytes(b"c" * 1_000_001)
    (tmp_path / "scratch").mkdir()
    process: Any = Process()

    Jvm(process=process, scratch=tmp_path / "scratch", stderr_path=tmp_path, archive=archive, used=True).end()

    told = capsys.readouterr().err
    assert told.count("\n") == lines
    assert ("KAFKA_CHAOS_NO_CLASS_ARCHIVE" in told) == waits
    assert archive.path.exists()
