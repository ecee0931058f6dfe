"""A tried version is only used with exactly the jars it was tried with."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from harness.cluster.brokers import pins
from harness.cluster.brokers.kafka_jars import fetch, installed
from harness.cluster.brokers.kafka_versions import KAFKA_VERSIONS, KafkaVersion, resolve_version
from harness.cluster.brokers.pinning import pin
from harness.cluster.brokers.pins import difference, pinned, pins_file
from harness.errors import HarnessError, UsageError
from tests.harness.cluster.brokers.maven_repository import (
    Lines,
    give_pins,
    jar_in,
    name_mirror,
    publish_kafka,
    put,
    refused,
)

pytestmark = pytest.mark.jvm

SMALL = resolve_version("0.9.0.0")
CLIENTS = f"kafka-clients-{SMALL}.jar"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, an empty home folder and no pins; the folder of the versions."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pins, "FOLDER", tmp_path / "pinned")
    return tmp_path / "cache" / "kafka-chaos" / "kafka"


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return publish_kafka(tmp_path, SMALL)


# ---- what is shipped ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", KAFKA_VERSIONS, ids=str)
def test_every_listed_version_has_its_jars_and_those_it_needs_pinned(
    version: KafkaVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()

    found = pinned(version)

    assert set(version.needed_jars()) < set(found)
    assert any(name.startswith("scala-library-") for name in found)


def test_a_jar_that_several_versions_share_is_pinned_to_one_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    contents: dict[str, set[str]] = {}
    for version in KAFKA_VERSIONS:
        for name, sha256 in pinned(version).items():
            contents.setdefault(name, set()).add(sha256)

    assert {name for name, found in contents.items() if len(found) > 1} == set()
    assert len(contents) < sum(len(pinned(version)) for version in KAFKA_VERSIONS)


def test_a_version_that_is_not_listed_has_no_pins() -> None:
    assert pinned(SMALL) == {}


def test_pins_that_cannot_be_read_are_reported_by_file_and_line() -> None:
    give_pins(SMALL, {"a.jar": "0" * 64})
    with pins_file(SMALL).open("a") as file:
        file.write("no pin\n")

    assert f"{pins_file(SMALL)}, line 3 is no pin" in refused(lambda: pinned(SMALL))


# ---- before a version is used ---------------------------------------------------------------------------------------


def test_jars_that_are_as_pinned_are_used(cache: Path) -> None:
    folder = put(cache, SMALL)
    give_pins(SMALL, {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")})

    home = installed(SMALL)

    assert home is not None
    assert home.libs == folder


def test_a_jar_exchanged_together_with_its_manifest_is_refused_by_its_pin(cache: Path) -> None:
    folder = put(cache, SMALL)
    give_pins(SMALL, {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")})
    (folder / CLIENTS).write_bytes(b"evil")
    manifest = json.loads((folder / "manifest.json").read_text())
    for jar in manifest["jars"]:
        if jar["name"] == CLIENTS:
            jar.update(bytes=4, sha256=hashlib.sha256(b"evil").hexdigest())
    (folder / "manifest.json").write_text(json.dumps(manifest))

    reported = refused(lambda: installed(SMALL))

    assert re.search(rf"{CLIENTS} is not what was pinned .*; fetch it anew: kafka-chaos fetch-kafka {SMALL}$", reported)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"a.jar": "1", "b.jar": "2"}, ""),
        ({"a.jar": "1", "b.jar": "3"}, "b.jar is not what was pinned"),
        ({"a.jar": "1"}, "b.jar is pinned and missing"),
        ({"a.jar": "1", "b.jar": "2", "c.jar": "3"}, "c.jar is not among the pinned jars"),
        ({}, "a.jar is pinned and missing"),
    ],
)
def test_jars_differ_from_their_pins_by_content_and_by_being_there(found: dict[str, str], expected: str) -> None:
    said = difference({"a.jar": "1", "b.jar": "2"}, found)

    assert said.startswith(expected)
    assert bool(said) == bool(expected)


# ---- fetching and pinning -------------------------------------------------------------------------------------------


def test_what_is_fetched_as_pinned_is_reported_so_each_time(mirror: Path) -> None:
    pin(SMALL)
    received: Lines = []

    fetch(SMALL, progress=received.append)
    assert received[-1] == f"Kafka {SMALL}: 2 jars verified against pinned SHA-256"


def test_a_repository_that_gives_another_jar_than_the_pinned_is_not_believed(cache: Path, mirror: Path) -> None:
    give_pins(SMALL, dict.fromkeys(SMALL.needed_jars(), "0" * 64))

    reported = refused(lambda: fetch(SMALL, progress=lambda line: None))

    assert f"Kafka {SMALL} is not taken: kafka" in reported
    assert "is not what was pinned" in reported
    assert f"remove {cache.parent / 'ivy'} and fetch again" in reported
    assert {path.name for path in cache.iterdir()} == {".lock"}


def test_a_dependency_that_nobody_pinned_is_not_taken(mirror: Path) -> None:
    pin(SMALL)
    text = pins_file(SMALL).read_text().splitlines(keepends=True)
    pins_file(SMALL).write_text("".join(line for line in text if CLIENTS not in line))

    assert f"{CLIENTS} is not among the pinned jars" in refused(lambda: fetch(SMALL, progress=lambda line: None))


def test_a_jar_tampered_with_in_ivys_own_cache_is_not_taken_from_there(cache: Path, mirror: Path) -> None:
    pin(SMALL)
    home = installed(SMALL)
    assert home is not None
    [kept] = (cache.parent / "ivy").rglob(CLIENTS)
    for jar in (kept, home.libs / CLIENTS):
        jar.write_bytes(b"evil")

    assert f"{CLIENTS} is not what was pinned" in refused(lambda: fetch(SMALL, progress=lambda line: None))


def test_pins_are_what_sha256sum_checks(mirror: Path) -> None:
    lines = pin(SMALL).read_text().splitlines()

    assert lines[0].startswith(f"# The jars of Kafka {SMALL} (kafka_2.11)")
    expected = {name: hashlib.sha256(jar_in(mirror, name).read_bytes()).hexdigest() for name in SMALL.needed_jars()}
    assert sorted(lines[1:]) == sorted(f"{sha256}  {name}" for name, sha256 in expected.items())


def test_what_is_pinned_is_never_pinned_over(mirror: Path) -> None:
    before = pin(SMALL).read_text()

    with pytest.raises(UsageError, match="remove it first"):
        pin(SMALL)
    assert pins_file(SMALL).read_text() == before


def test_a_jar_that_another_version_has_otherwise_is_not_pinned(mirror: Path) -> None:
    listed = resolve_version("0.9")
    give_pins(listed, {CLIENTS: "0" * 64})

    reported = refused(lambda: pin(SMALL))

    assert reported.startswith(f"{CLIENTS} is not the one of {pins_file(listed)}")
    assert not pins_file(SMALL).exists()


def test_pins_are_not_made_of_what_came_by_plain_http(tmp_path: Path) -> None:
    name_mirror(tmp_path / "home", "http://127.0.0.1:1/")

    with pytest.raises(HarnessError, match="over TLS alone"):
        pin(SMALL)


@pytest.mark.parametrize(
    ("guarded", "expected"), [(True, "the pinned SHA-256 alone protect"), (False, "nothing protects")]
)
def test_a_mirror_by_plain_http_is_reported_with_what_protects(tmp_path: Path, guarded: bool, expected: str) -> None:
    name_mirror(tmp_path / "home", "http://127.0.0.1:1/")
    if guarded:
        give_pins(SMALL, dict.fromkeys(SMALL.needed_jars(), "0" * 64))
    said: Lines = []

    refused(lambda: fetch(SMALL, progress=said.append))

    assert any(line.startswith("the mirror of Maven Central") and expected in line for line in said)
