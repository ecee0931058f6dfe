"""A class data archive for real Kafka: a JVM maps it instead of reading, verifying and linking 45 jars at each start.

A node that is started once for this purpose lists the classes, and Java writes the archive to the user's cache, for
exactly this Java, class path and flags. A failure costs only a note in the cache: without an archive a node starts more
slowly.
"""

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.brokers.kafka_jars import KafkaHome
from harness.cluster.brokers.kafka_storage import formatted, give
from harness.cluster.brokers.system import write_properties
from harness.errors import HarnessError
from harness.host.parent import die_with_parent
from harness.host.scratch import scratch_folder
from harness.host.user_folders import cache_directory, made_in_cache, refuse_others
from harness.ports.cluster import NodeId

_FOLDER = "class-archives"
_START_S = 40.0
_STOP_S = 15.0
_DUMP_S = 60.0
_POLL_S = 0.05
_TRY_AGAIN_S = 24 * 3600.0
_NODE = NodeId(1)
_Address = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Archiving:
    """The program that an archive is for: its class path and the JVM's flags, which Java compares with the archive."""

    home: KafkaHome
    java: str
    flags: Sequence[str]

    @property
    def path(self) -> Path:
        """The path changes with everything that invalidates the archive. Java checks again before it uses one."""
        jars = sorted(self.home.libs.glob("*.jar"))
        parts = [*self.flags, os.path.realpath(self.java), str(self.home.libs)]
        parts += [_identity(path) for path in (Path(os.path.realpath(self.java)), *jars)]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
        return cache_directory() / _FOLDER / f"{self.home.version}-{digest}.jsa"

    def options(self) -> list[str]:
        """JVM options for a node; none while there is no archive. Java logs one line if it rejects an archive. Raises
        HarnessError for a cache that others may change."""
        refuse_others()
        path = self.path
        return [f"-XX:SharedArchiveFile={path}"] if path.is_file() else []


def _identity(path: Path) -> str:
    found = path.stat()
    return f"{path.name} {found.st_size} {found.st_mtime_ns}"


async def ensure(archiving: Archiving, *, log_option: str, listens: _Address, controls: _Address) -> None:
    """Creates the archive if there is none, with a node that listens at these two addresses for a moment."""
    path = archiving.path
    failed = path.with_suffix(".failed")
    if path.is_file() or _is_recent(failed):
        return
    try:
        with scratch_folder(".making-", beside=made_in_cache(_FOLDER)) as scratch:
            await _make(archiving, scratch, log_option=log_option, listens=listens, controls=controls)
            (scratch / "archive").replace(path)
        failed.unlink(missing_ok=True)
    except (HarnessError, OSError) as error:
        with contextlib.suppress(OSError):
            failed.write_text(f"{error}\n", encoding="utf-8")


def _is_recent(failed: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - failed.stat().st_mtime < _TRY_AGAIN_S
    return False


async def _make(archiving: Archiving, scratch: Path, *, log_option: str, listens: _Address, controls: _Address) -> None:
    give(_NODE, await formatted(archiving.home, {}), scratch / "data")
    write_properties(scratch / "server.properties", _settings(scratch / "data", listens, controls))
    class_path = ["-cp", archiving.home.class_path]
    java = [archiving.java, *archiving.flags]
    listing = [*java, f"-XX:DumpLoadedClassList={scratch / 'classes'}", log_option, *class_path]
    await _run_node([*listing, "kafka.Kafka", str(scratch / "server.properties")], scratch / "log", listens)
    files = [f"-XX:SharedClassListFile={scratch / 'classes'}", f"-XX:SharedArchiveFile={scratch / 'archive'}"]
    process = await _spawn([*java, "-Xshare:dump", *files, *class_path], scratch / "log")
    code = await _ended(process, within_s=_DUMP_S)
    if code or not (scratch / "archive").is_file():
        raise HarnessError(f"Java made no archive (code {code}): {_last_line(scratch / 'log')}")


async def _run_node(command: Sequence[str], log: Path, listens: _Address) -> None:
    """Runs the node until it accepts clients, then stops it in order: Java writes the class list at that moment."""
    process = await _spawn(command, log)
    try:
        async with asyncio.timeout(_START_S):
            while not await _accepts(listens):
                if process.returncode is not None:
                    raise HarnessError(f"a node alone ended with code {process.returncode}: {_last_line(log)}")
                await asyncio.sleep(_POLL_S)
        process.terminate()
        await _ended(process, within_s=_STOP_S)
    except TimeoutError:
        raise HarnessError(f"a node alone was not up within {_START_S:g} s: {_last_line(log)}") from None
    finally:
        await _kill(process)


async def _spawn(command: Sequence[str], log: Path) -> asyncio.subprocess.Process:
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )


async def _ended(process: asyncio.subprocess.Process, *, within_s: float) -> int:
    """Returns the exit code; kills a process that takes longer."""
    try:
        async with asyncio.timeout(within_s):
            return await process.wait()
    except TimeoutError:
        raise HarnessError(f"Java did not end within {within_s:g} s") from None
    finally:
        await _kill(process)


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


async def _accepts(address: _Address) -> bool:
    try:
        _, writer = await asyncio.open_connection(*address)
    except OSError:
        return False
    writer.close()
    return True


def _settings(data: Path, listens: _Address, controls: _Address) -> dict[str, str]:
    """Settings of a node that is broker and controller, so that it loads the classes of both."""
    broker, controller = (f"{host}:{port}" for host, port in (listens, controls))
    return {
        "process.roles": "broker,controller",
        "node.id": str(_NODE),
        "controller.quorum.voters": f"{_NODE}@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"INTERNAL://{broker},CONTROLLER://{controller}",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "log.dirs": str(data),
        "log.cleaner.dedupe.buffer.size": "4194304",
    }


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
