"""Kafka's jars are downloaded once, completely or not at all, and errors are reported in one line.

Most tests run the real Ivy with a Maven repository in a folder, which Maven's settings name as the mirror.
"""

import hashlib
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from harness.cluster.brokers import kafka_jars
from harness.cluster.brokers.kafka_jars import KafkaHome, fetch, home_from_distribution, installed, kafka_health
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.errors import HarnessError, UsageError
from harness.host.user_folders import cache_directory
from tests.harness.cluster.brokers.maven_repository import Lines, jar_in, publish_kafka, put, refused

pytestmark = pytest.mark.jvm

SMALL = resolve_version("0.9.0.0")  # few modules, no extra ones, and nobody pinned it


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and an empty home folder; the folder of the versions."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "cache" / "kafka-chaos" / "kafka"


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return publish_kafka(tmp_path, SMALL)


def fake_java(home: Path, output: str, code: int) -> Path:
    """A Java that prints a given text instead of running Ivy."""
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="21"\n')
    (home / "output").write_text(output)
    java = home / "bin" / "java"
    java.write_text(f'#!/bin/sh\ncat "{home}/output"\nexit {code}\n')
    java.chmod(0o755)
    return home


# ---- fetching -------------------------------------------------------------------------------------------------------


def test_a_fetched_version_is_whole_with_a_manifest_and_nothing_beside_it(cache: Path, mirror: Path) -> None:
    received: Lines = []

    home = fetch(SMALL, progress=received.append)

    assert home == KafkaHome(version=SMALL, class_path=f"{cache / SMALL.version}/*", libs=cache / SMALL.version)
    assert installed(SMALL) == home
    manifest = json.loads((home.libs / "manifest.json").read_text())
    assert manifest["version"] == SMALL.version
    assert {jar["name"] for jar in manifest["jars"]} == {path.name for path in home.libs.glob("*.jar")}
    assert {jar["name"] for jar in manifest["jars"]} == set(SMALL.needed_jars())
    for jar in manifest["jars"]:
        data = (home.libs / jar["name"]).read_bytes()
        assert (jar["bytes"], jar["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert {path.name for path in cache.iterdir()} == {SMALL.version, ".lock"}
    assert any(line.startswith("found 1: ") for line in received)
    assert "2 jars" in received[-2]
    assert received[-1].endswith(
        "2 jars verified against the repository's own checksums alone: this version is not pinned"
    )


def test_a_version_that_is_there_is_not_fetched_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, SMALL)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "no Ivy is needed", 1)))
    received: Lines = []

    assert fetch(SMALL, progress=received.append) == installed(SMALL)
    assert received == [
        f"Kafka {SMALL} is in {cache / SMALL.version}",
        f"Kafka {SMALL}: 2 jars verified against the SHA-256 of the first fetch alone: this version is not pinned",
    ]


def test_a_damaged_version_is_reported_and_fetched_anew(cache: Path, mirror: Path) -> None:
    home = fetch(SMALL, progress=lambda line: None)
    jar = home.libs / f"kafka-clients-{SMALL}.jar"
    whole = jar.read_bytes()
    jar.write_bytes(whole[:-1])
    received: Lines = []

    fetch(SMALL, progress=received.append)

    assert f"{jar.name} has {len(whole) - 1} bytes, not {len(whole)}" in received[0]
    assert jar.read_bytes() == whole
    assert installed(SMALL) is not None


@pytest.mark.parametrize("lies_there", ["a file", "a link to nothing", "a link to a folder"])
def test_what_lies_in_a_versions_place_and_is_no_folder_of_its_own_gives_way_to_it(
    cache: Path, mirror: Path, lies_there: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / SMALL.version
    if lies_there == "a file":
        place.write_text("none of ours")
    else:
        place.symlink_to(elsewhere if lies_there == "a link to a folder" else tmp_path / "nothing")

    assert fetch(SMALL, progress=lambda line: None) == installed(SMALL)
    assert place.is_dir()
    assert not place.is_symlink()
    assert (elsewhere / "kept").exists()


def test_a_jar_whose_checksum_does_not_fit_is_not_taken(cache: Path, mirror: Path) -> None:
    jar_in(mirror, f"kafka-clients-{SMALL}.jar").write_bytes(b"something else")

    reported = refused(lambda: fetch(SMALL, progress=lambda line: None))

    assert f"org.apache.kafka:kafka-clients:{SMALL} (invalid sha1: " in reported
    assert installed(SMALL) is None
    assert {path.name for path in cache.iterdir()} == {".lock"}


def test_a_missing_module_is_named(mirror: Path) -> None:
    shutil.rmtree(jar_in(mirror, f"kafka-clients-{SMALL}.jar").parent)

    reported = refused(lambda: fetch(SMALL, progress=lambda line: None))

    assert f"does not give org.apache.kafka:kafka-clients:{SMALL} (not found)" in reported


def test_no_network_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")  # nobody listens on port 1

    reported = refused(lambda: fetch(SMALL, progress=lambda line: None))

    assert reported.startswith("Maven Central could not be reached (java.net.ConnectException")


def test_a_java_that_fails_is_reported_with_where_its_words_are(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "Error: could not create the machine\n", 3)))

    reported = refused(lambda: fetch(SMALL, progress=lambda line: None))

    log = cache.parent / "ivy" / "ivy.log"
    assert reported == f"Ivy ended with code 3: see {log}"
    assert "could not create the machine" in log.read_text()


def test_success_without_the_brokers_jar_is_no_success(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = "\t0 artifacts copied, 44 already retrieved (0kB/1ms)\n"
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", output, 0)))

    reported = refused(lambda: fetch(SMALL, progress=lambda line: None))

    assert f"came without {SMALL.artifact}-{SMALL}.jar" in reported
    assert installed(SMALL) is None


def test_of_two_fetches_the_second_waits_and_takes_what_the_first_got(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "no Ivy is needed", 1)))
    cache.mkdir(parents=True)
    waits, got = threading.Event(), []

    def second() -> None:
        got.append(fetch(SMALL, progress=lambda line: waits.set() if "under way" in line else None))

    with kafka_jars._locked(cache / ".lock", lambda: None):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(10)
        put(cache, SMALL)
    thread.join(10)

    assert got == [installed(SMALL)]


def test_what_a_killed_fetch_left_is_swept_by_the_next(cache: Path, mirror: Path) -> None:
    (cache / ".unfinished" / "jars").mkdir(parents=True)
    (cache / ".unfinished" / "jars" / "half.jar").write_bytes(b"half")

    home = fetch(SMALL, progress=lambda line: None)

    assert not (home.libs / "half.jar").exists()
    assert not (cache / ".unfinished").exists()


def test_a_cache_that_cannot_be_written_is_reported_with_the_remedy(cache: Path) -> None:
    cache.parent.parent.write_text("a file, no folder")

    assert "XDG_CACHE_HOME" in refused(lambda: fetch(SMALL, progress=lambda line: None))


def test_a_listed_version_comes_from_maven_central_as_it_is_pinned(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Ivy's own cache of this machine, so that it is downloaded once and not with every test."""
    monkeypatch.undo()
    kept = cache_directory() / "ivy"
    kept.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache.parent.mkdir(parents=True)
    (cache.parent / "ivy").symlink_to(kept)
    listed, reported = resolve_version("0.9"), Lines()
    try:
        home = fetch(listed, progress=reported.append)
    except HarnessError as error:
        if "could not be reached" in str(error):
            pytest.skip(f"needs Maven Central: {error}")
        raise

    jars = {path.name for path in home.libs.glob("*.jar")}
    assert {*listed.needed_jars(), "zookeeper-3.4.6.jar", "slf4j-log4j12-1.7.6.jar"} <= jars
    assert reported[-1] == f"Kafka {listed}: 17 jars verified against pinned SHA-256"
    assert installed(listed) == home


# ---- what is there --------------------------------------------------------------------------------------------------


def test_a_version_that_was_never_fetched_is_not_installed() -> None:
    assert installed(SMALL) is None


def test_a_manifest_that_leads_to_a_device_is_refused_as_what_others_may_write_to(cache: Path) -> None:
    manifest = put(cache, SMALL) / "manifest.json"
    manifest.unlink()
    manifest.symlink_to("/dev/zero")
    with pytest.raises(HarnessError, match="/dev/zero may be written to by others"):
        installed(SMALL)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("jar gone", "kafka-clients-0.9.0.0.jar"),
        ("jar short", "kafka-clients-0.9.0.0.jar"),
        ("jar changed", "kafka-clients-0.9.0.0.jar"),
        ("jar added", "more.JAR"),
        ("manifest gone", "manifest.json"),
        ("manifest torn", "manifest.json"),
        ("manifest a pipe", "manifest.json is a pipe"),
        ("manifest a folder", "manifest.json is a folder"),
        ("manifest of another", "manifest.json"),
    ],
)
def test_a_damaged_version_is_not_used_and_reported_with_the_remedy(cache: Path, damage: str, named: str) -> None:
    folder = put(cache, SMALL)
    assert installed(SMALL) is not None
    manifest = folder / "manifest.json"
    jar = folder / f"kafka-clients-{SMALL}.jar"
    if damage == "jar gone":
        jar.unlink()
    elif damage == "jar short":
        jar.write_bytes(b"")
    elif damage == "jar changed":
        jar.write_bytes(b"raj")
    elif damage == "jar added":
        (folder / named).write_bytes(b"every jar of the folder is on the class path")
    elif damage == "manifest gone":
        manifest.unlink()
    elif damage == "manifest torn":
        manifest.write_bytes(manifest.read_bytes()[:20])
    elif damage == "manifest of another":
        manifest.write_text('{"version": "4.3.1", "jars": []}')
    else:
        manifest.unlink()
        (os.mkfifo if damage == "manifest a pipe" else os.mkdir)(manifest)

    refusal = refused(lambda: installed(SMALL))
    [(_, well, reported)] = kafka_health()
    assert not well
    for line in (refusal, reported):
        assert named in line
        assert line.endswith(f"fetch it anew: kafka-chaos fetch-kafka {SMALL}")


def test_health_lists_the_versions_newest_first_with_the_java_that_runs_them(cache: Path) -> None:
    for text in ("0.9.0.0", "4.3.0", "0.10.2.1", "3.9.0"):
        put(cache, resolve_version(text))

    rows = kafka_health()

    assert [reported.partition(":")[0] for _, _, reported in rows] == ["4.3.0", "3.9.0", "0.10.2.1", "0.9.0.0"]
    assert all(well and "none pinned" in reported and "runs on Java" in reported for _, well, reported in rows)


def test_health_without_any_kafka_is_good_and_says_how_to_get_one() -> None:
    [(_, well, reported)] = kafka_health()

    assert well
    assert "kafka-chaos fetch-kafka" in reported


def test_a_relative_cache_folder_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")

    assert cache_directory() == Path.home() / ".cache" / "kafka-chaos"


# ---- a distribution -------------------------------------------------------------------------------------------------


def distribution(folder: Path, *jars: str) -> Path:
    (folder / "libs").mkdir(parents=True)
    for jar in jars:
        (folder / "libs" / jar).write_bytes(b"")
    return folder


def test_a_distribution_is_a_home_with_the_version_of_its_jars(tmp_path: Path) -> None:
    unpacked = distribution(
        tmp_path / "kafka",
        "kafka-clients-3.8.1-test.jar",
        "kafka-clients-3.8.1.jar",
        "kafka_2.12-3.8.1.jar",
        "zookeeper-3.8.4.jar",
    )

    home = home_from_distribution(unpacked)

    assert (home.version.version, home.version.artifact) == ("3.8.1", "kafka_2.12")
    assert home.version.modes == ("kraft", "zookeeper")
    assert (home.libs, home.class_path) == (unpacked / "libs", f"{unpacked / 'libs'}/*")


@pytest.mark.parametrize("jars", [(), ("kafka-clients-4.3.1.jar",), ("kafka_2.13-4.3.1.jar",)])
def test_a_folder_that_is_no_distribution_is_refused(tmp_path: Path, jars: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="is no Kafka distribution"):
        home_from_distribution(distribution(tmp_path / "kafka", *jars))


def test_a_distribution_of_an_unknown_line_is_refused(tmp_path: Path) -> None:
    unpacked = distribution(tmp_path / "kafka", "kafka-clients-7.9.0-ccs.jar", "kafka_2.13-7.9.0-ccs.jar")

    with pytest.raises(UsageError, match=r"'7\.9\.0-ccs' is not known"):
        home_from_distribution(unpacked)
