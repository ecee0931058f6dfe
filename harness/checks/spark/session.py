"""One Spark session in a JVM that we start ourselves (jvm.py); PySpark gets its port.

Masters other than local ones and standalone clusters use PySpark's ordinary way.
"""

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from harness.checks.spark.jvm import Jvm, start_jvm_early
from harness.checks.spark.standalone import cluster_settings, is_standalone
from harness.history.facts.extent import FEW_ROWS, MANY_ROWS
from harness.host.printable import printable

_JOBS_OF_A_CHECK = 4
_PARTITIONS = "spark.sql.shuffle.partitions"


def spark_settings(*, master: str, scratch: Path | None) -> dict[str, str]:
    """Chosen by measurement. ANSI mode stays on: a wrong cast is a bug and must raise."""
    settings = {
        "spark.master": master,
        "spark.app.name": "kafka-chaos",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # A check compiles some hundred pieces of code. Told apart by their text alone, and all kept, the next check in
        # the same session compiles none of them; by default the latest hundred are kept.
        "spark.sql.codegen.cache.maxEntries": "4000",
        "spark.sql.codegen.useIdInClassName": "false",
        # Rows of a window's partition that are kept as objects; more are kept in pages that can be spilled.
        "spark.sql.windowExec.buffer.in.memory.threshold": "32768",
        # Small files are distributed evenly, too: opening one costs little here.
        "spark.sql.files.openCostInBytes": "65536",
        # What a sort, an aggregation or a broadcast begins with, by default 4 to 64 MiB; most hold little.
        "spark.buffer.pageSize": "2m",
        "spark.broadcast.blockSize": "256k",
        # Nobody looks at what was executed: by default the latest thousand are kept, with their plans.
        "spark.sql.ui.retainedExecutions": "8",
        "spark.ui.retainedJobs": str(2 * _JOBS_OF_A_CHECK),
        "spark.ui.retainedStages": "8",
        "spark.ui.retainedTasks": "64",
        "spark.sql.ui.explainMode": "simple",
        # Spark's own rules are not under test here: each is otherwise held against what it was given.
        "spark.sql.lightweightPlanChangeValidation": "false",
        "spark.sql.debug.maxToStringFields": "1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if master.startswith("local"):
        settings[_PARTITIONS] = str(2 * (os.cpu_count() or 2))
        settings["spark.default.parallelism"] = str(os.cpu_count() or 2)
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    if is_in_one_jvm(master):
        # Every user of this machine reaches its ports. Spark makes a secret of its own for each session and keeps it in
        # the JVM; without it nobody stops an executor or reads a block. Clusters have their owners' settings for this.
        settings["spark.authenticate"] = "true"
    if is_standalone(master):
        settings = cluster_settings() | settings
    if scratch is not None:
        settings["spark.local.dir"] = str(scratch)
        settings["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    return settings


def is_in_one_jvm(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


# Of few rows it takes longer to plan, compile and hand out a query than to answer it: as one task, interpreted.
_FEW = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    # With everything in one partition nothing is exchanged: a broadcast would be a job of its own.
    _PARTITIONS: "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
    # Sets and lists of more groups than this are gathered by sorting, and the comparison for that is always compiled.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(FEW_ROWS),
    # What is true of every row of each part of a plan: it takes longer to find out than it spares.
    "spark.sql.constraintPropagation.enabled": "false",
}
_sized: weakref.WeakKeyDictionary[SparkSession, dict[bool, SparkSession]] = weakref.WeakKeyDictionary()


def are_few(rows: int) -> bool:
    return rows <= FEW_ROWS


def sized_for(session: SparkSession, rows: int) -> SparkSession:
    """The session for queries over so many records: this one, or a sibling with settings of its own.

    A sibling and not other settings for a while, since a warm-up and a check may go on beside each other.
    """
    settings = _FEW if are_few(rows) else _many(session) if rows > MANY_ROWS else {}
    if not settings:
        return session
    siblings = _sized.setdefault(session, {})
    if (sibling := siblings.get(are_few(rows))) is None:
        sibling = siblings[are_few(rows)] = session.newSession()
        for key, value in settings.items():
            sibling.conf.set(key, value)
    return sibling


def _many(session: SparkSession) -> Mapping[str, str]:
    """Smaller partitions: one that does not fit into memory is spilled."""
    wanted = 8 * (os.cpu_count() or 2)
    is_local = (session.sparkContext.master or "").startswith("local")
    return {_PARTITIONS: str(wanted)} if is_local and int(session.conf.get(_PARTITIONS, None) or 0) < wanted else {}


@contextlib.contextmanager
def spark_session(
    *, master: str = "local[*]", jvm: Jvm | None = None, stderr_path: Path | None = None
) -> Iterator[SparkSession]:
    """A session for a `with` block. `jvm`: one from `start_jvm_early`; it ends with the session."""
    direct = is_standalone(master) or is_in_one_jvm(master)
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
    # In a thread of its own: opened in the main thread, PySpark answers Ctrl-C from then on by asking a JVM that may
    # have been interrupted as well, in the midst of another question to it.
    with ThreadPoolExecutor(max_workers=1) as opening:
        session: SparkSession = opening.submit(builder.getOrCreate).result()
    session.sparkContext.setLogLevel("ERROR")
    _end_accumulators(session.sparkContext)
    return session


def _end_accumulators(context: Any) -> None:
    """No query has workers in Python, from which their accumulators would be brought up to date. The server for it
    takes up to half a second to end, which nobody is to wait for when all is said."""
    server, context._accumulatorServer = context._accumulatorServer, None
    threading.Thread(target=_ended, args=(server,), name="accumulators-end", daemon=True).start()


def _ended(server: Any) -> None:
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def _gateway_in_environment(port: int, secret: str) -> Iterator[None]:
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        yield
    finally:
        # The early session of this process may be opened beside another one that was begun because it was late.
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)
        os.environ.pop("PYSPARK_GATEWAY_SECRET", None)


def _close(session: SparkSession) -> bool:
    """Stops the session and drops the gateway, so that a later session may use another JVM. Returns if it worked."""
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
        # The JVM is already gone. The verdict was written before; report it beside the JVM's own last output.
        sys.stderr.write(f"Spark's JVM was gone before its session was closed: {printable(error)}\n")
    finally:
        SparkContext._gateway, SparkContext._jvm = None, None
    return jobs >= _JOBS_OF_A_CHECK
