"""The class archive is a gift to the next JVM: made once, by one maker, named by all it depends on, never needed."""

import os
import time
from pathlib import Path

import pytest

from harness.checks.spark import jvm
from harness.checks.spark.class_archive import OFF, ClassArchive, class_archive


def wanted(
    cache: Path, *, version: int = 25, class_path: str = "a.jar", offset: bool = False, making: bool = True
) -> ClassArchive | None:
    environment = {"XDG_CACHE_HOME": str(cache)} | ({OFF: "1"} if offset else {})
    return class_archive(
        home=cache / "java",
        version=version,
        class_path=class_path,
        options=["-Xss4m"],
        making=making,
        environment=environment,
    )


def made(archive: ClassArchive, size: int = 2_000_000) -> None:
    assert archive.unfinished is not None
    archive.unfinished.write_bytes(bytes(size))
    archive.keep()


def test_the_first_makes_it_others_go_without_and_the_next_uses_it(tmp_path: Path) -> None:
    first = wanted(tmp_path)
    assert first is not None
    assert first.making
    assert first.options[0] == f"-XX:AOTCacheOutput={first.unfinished}"
    assert wanted(tmp_path) is None

    made(first)

    later = wanted(tmp_path, making=False)
    assert later is not None
    assert not later.making
    assert later.options[0] == f"-XX:AOTCache={first.path}"
    assert [path.name for path in first.path.parent.iterdir()] == [first.path.name]


def test_a_jvm_that_somebody_waits_for_makes_none(tmp_path: Path) -> None:
    assert wanted(tmp_path, making=False) is None
    assert list(tmp_path.iterdir()) == []


def test_a_new_one_takes_the_place_of_those_that_nobody_used_for_long_and_of_the_least_used_of_too_many(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "kafka-chaos" / "spark-classes"
    folder.mkdir(parents=True)
    now, day = time.time(), 24 * 3600.0
    for age in (*range(9), 15, 90):
        path = folder / f"{age}.{'jsa' if age % 2 else 'aot'}"
        path.write_bytes(b"")
        os.utime(path, (now - age * day,) * 2)
    new = wanted(tmp_path)
    assert new is not None

    made(new)

    assert {path.stem for path in folder.iterdir()} == {new.path.stem, *map(str, range(7))}


def test_one_that_is_used_counts_as_new(tmp_path: Path) -> None:
    archive = wanted(tmp_path)
    assert archive is not None
    made(archive)
    os.utime(archive.path, (0, 0))

    wanted(tmp_path, making=False)

    assert time.time() - archive.path.stat().st_mtime < 3600


def test_an_older_java_has_its_own_kind_of_archive(tmp_path: Path) -> None:
    archive = wanted(tmp_path, version=17)
    assert archive is not None
    assert archive.options[0] == f"-XX:ArchiveClassesAtExit={archive.unfinished}"


def test_another_class_path_or_build_of_java_has_another_archive(tmp_path: Path) -> None:
    paths = set()
    for class_path, build in (("a.jar", "1"), ("b.jar", "1"), ("a.jar", "22")):
        (tmp_path / "java").mkdir(exist_ok=True)
        (tmp_path / "java" / "release").write_text(build)
        archive = wanted(tmp_path, class_path=class_path)
        assert archive is not None
        paths.add(archive.path)
        archive.drop()
    assert len(paths) == 3


def test_what_was_dropped_or_is_too_small_to_be_one_is_made_by_the_next(tmp_path: Path) -> None:
    for size in (None, 100):
        archive = wanted(tmp_path)
        assert archive is not None
        assert archive.making
        if size is None:
            archive.drop()
        else:
            made(archive, size)
        assert list(archive.path.parent.iterdir()) == []


def test_what_a_killed_process_had_begun_goes_and_the_next_makes_it(tmp_path: Path) -> None:
    begun = wanted(tmp_path)
    assert begun is not None
    assert begun.unfinished is not None
    assert begun.mark is not None
    begun.unfinished.write_bytes(bytes(100))
    stray = begun.path.with_name("0123.unfinished-77")  # by a JVM that outlived its process
    stray.write_bytes(bytes(100))
    begun.mark.close()  # as the kernel does when its holder is killed

    after = wanted(tmp_path)

    assert after is not None
    assert after.making
    assert not begun.unfinished.exists()
    assert not stray.exists()


def test_what_a_living_process_has_begun_stays(tmp_path: Path) -> None:
    begun = wanted(tmp_path)
    assert begun is not None
    assert begun.unfinished is not None
    begun.unfinished.write_bytes(bytes(100))

    other = wanted(tmp_path, class_path="b.jar")

    assert other is not None
    assert begun.unfinished.exists()
    other.drop()
    begun.drop()


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    assert wanted(tmp_path, offset=True) is None
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_written_to_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "kafka-chaos").write_text("a file where the folder should be")
    assert wanted(tmp_path) is None


def test_the_first_test_that_wants_a_session_has_the_time_to_make_it(pytestconfig: pytest.Config) -> None:
    """Its fixture starts a JVM, the one that makes the archive, and one that uses it."""
    longest_s = 3 * jvm._START_TIMEOUT_S + jvm._ARCHIVE_TIMEOUT_S
    assert float(pytestconfig.getini("timeout")) > longest_s
