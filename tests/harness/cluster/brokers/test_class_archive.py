"""A class archive is created once per Java and class path; a Java that cannot create one costs one
attempt and no run."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cluster.brokers import class_archive
from harness.cluster.brokers.class_archive import Archiving, ensure
from harness.cluster.brokers.kafka_jars import KafkaHome, installed
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.host.java import java_home

pytestmark = pytest.mark.jvm

VERSION = resolve_version("4.3.1")
# Stands in for Java: writes what it was asked for, notes each call, and as a node listens until SIGTERM.
JAVA = """#!{python}
import pathlib, signal, socket, sys
here = pathlib.Path(sys.argv[0]).parent
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if (here / "broken").exists():
    sys.exit("no memory for a heap")
options = dict(each.split("=", 1) for each in sys.argv[1:] if each.startswith("-XX:") and "=" in each)
if "-Xshare:dump" in sys.argv:
    classes = pathlib.Path(options["-XX:SharedClassListFile"]).read_text()
    pathlib.Path(options["-XX:SharedArchiveFile"]).write_text("archive of " + classes)
else:
    settings = dict(line.split("=", 1) for line in open(sys.argv[-1]).read().splitlines())
    host, port = settings["listeners"].split(",")[0].removeprefix("INTERNAL://").split(":")
    def end(*_):
        pathlib.Path(options["-XX:DumpLoadedClassList"]).write_text("kafka.Kafka")
        sys.exit(143)
    signal.signal(signal.SIGTERM, end)
    listener = socket.create_server((host, int(port)))
    while True:
        listener.accept()[0].close()
"""


@pytest.fixture(autouse=True)
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; where archives come to lie."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kafka-chaos" / "class-archives"


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archiving:
    """A Java that is a script, one jar, and storage that nobody formatted."""
    java = tmp_path / "java"
    java.write_text(JAVA.format(python=sys.executable))
    java.chmod(0o755)
    libs = tmp_path / "libs"
    libs.mkdir()
    (libs / "kafka.jar").write_bytes(b"jar")
    storage = tmp_path / "formatted"
    storage.mkdir()
    (storage / "meta.properties").write_text("node.id=100\n")

    async def formatted(*_: object) -> Path:
        return storage

    monkeypatch.setattr(class_archive, "formatted", formatted)
    home = KafkaHome(version=VERSION, class_path=f"{libs}/*", libs=libs)
    return Archiving(home=home, java=str(java), flags=["-Xmx256m"])


def calls(archiving: Archiving) -> list[str]:
    return (Path(archiving.java).parent / "calls").read_text().splitlines()


async def make(archiving: Archiving) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        listens, controls = one.getsockname(), other.getsockname()
    await ensure(archiving, log_option="-Dlog4j2.configurationFile=none", listens=listens, controls=controls)


async def test_the_classes_of_a_node_that_ran_alone_are_archived_once(made_up: Archiving, archives: Path) -> None:
    assert made_up.options() == []
    await make(made_up)
    await make(made_up)

    assert made_up.path.read_text() == "archive of kafka.Kafka"
    assert made_up.options() == [f"-XX:SharedArchiveFile={made_up.path}"]
    assert len(calls(made_up)) == 2, "one node and one dump, both in the first call"
    assert all(call.startswith("-Xmx256m ") for call in calls(made_up)), "with the flags of a node"
    assert list(archives.iterdir()) == [made_up.path], "nothing else is left"


async def test_a_java_that_makes_no_archive_is_asked_once_a_day_and_fails_nobody(made_up: Archiving) -> None:
    broken = Path(made_up.java).parent / "broken"
    broken.touch()
    await make(made_up)
    await make(made_up)

    note = made_up.path.with_suffix(".failed")
    assert "no memory for a heap" in note.read_text()
    assert made_up.options() == []
    assert len(calls(made_up)) == 1

    yesterday = note.stat().st_mtime - 25 * 3600
    os.utime(note, (yesterday, yesterday))
    broken.unlink()
    await make(made_up)
    assert made_up.options()
    assert not note.exists()


async def test_a_cache_that_cannot_be_written_fails_nobody(made_up: Archiving, archives: Path) -> None:
    archives.parent.mkdir(parents=True)
    archives.write_text("a file where a folder should be")
    await make(made_up)

    assert made_up.options() == []


def test_other_jars_another_java_and_other_flags_each_have_an_archive_of_their_own(made_up: Archiving) -> None:
    other_java = Path(made_up.java).with_name("java-of-another-build")
    shutil.copy(made_up.java, other_java)
    paths = {
        made_up.path,
        Archiving(home=made_up.home, java=str(other_java), flags=made_up.flags).path,
        Archiving(home=made_up.home, java=made_up.java, flags=["-Xmx512m"]).path,
    }
    (made_up.home.libs / "kafka.jar").write_bytes(b"fetched again")
    paths.add(made_up.path)

    assert len(paths) == 4


async def test_java_takes_kafka_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    home = installed(VERSION)
    if home is None:
        pytest.skip(f"Kafka {VERSION} is not on this machine: kafka-chaos fetch-kafka {VERSION}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    archiving = Archiving(home=home, java=str(java_home() / "bin" / "java"), flags=flags)
    await make(archiving)

    loaded = tmp_path / "loaded"
    command = [archiving.java, *flags, *archiving.options(), f"-Xlog:class+load:file={loaded}", "-cp", home.class_path]
    await asyncio.to_thread(subprocess.run, [*command, "kafka.Kafka"], capture_output=True, check=False, timeout=60)
    kafka = [line for line in loaded.read_text().splitlines() if " kafka.Kafka$ " in line]
    assert kafka, loaded.read_text()[-500:]
    assert all("shared objects file" in line for line in kafka), kafka
