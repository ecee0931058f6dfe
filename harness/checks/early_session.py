"""A session that is prepared beside other work: its JVM starts at once, and a thread may warm it up.

A request for the session has priority: the warm-up ends with its current stage, and what it has loaded stays loaded.
Nothing depends on the warm-up; if it fails, the next request gets a session as if it had never been tried.

A warm-up runs beside a load, so its JVM has the lowest priority until the session is requested (priority.py).
"""

import contextlib
import logging
import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from harness.checks.spark.jvm import Jvm, a_jvm
from harness.checks.spark.session import spark_session
from harness.errors import first_line
from harness.history.facts.extent import MANY_ROWS

_PATIENCE_S = 30.0  # to wait for one stage of the warm-up; then both continue in parallel
_LOG = logging.getLogger(__name__)


class _Wanted(Exception):
    """The session is requested: ends the warm-up."""


class EarlySession:
    """One session; `records`: the expected number of records to check. `jvm`: one that was already started."""

    def __init__(self, *, master: str, records: int = 0, jvm: Jvm | None = None) -> None:
        self._master = master
        self._local = master.startswith("local")
        self._jvm = jvm if jvm is not None or not self._local else a_jvm(large=records > MANY_ROWS)
        self._open = contextlib.ExitStack()
        self._session: SparkSession | None = None
        self._wanted = threading.Event()
        self._is_last = False
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Opens the session in the background; returns at once. Only if the JVM is ours; once.

        For use when no load runs any more and the user waits for the result.
        """
        self._comes_first()
        self._beside(self._opened)

    def warm_up(self) -> None:
        """Opens it and runs every query once, beside a load; returns at once. Only if the JVM is ours; once."""
        if self._jvm is not None and not self._wanted.is_set():
            self._jvm.place.last()
            self._is_last = True
        self._beside(self._warmed)

    def _beside(self, work: Callable[[], None]) -> None:
        if self._local and self._thread is None and not self._wanted.is_set():
            self._thread = threading.Thread(target=self._tried, args=(work,), name="early-session", daemon=True)
            self._thread.start()

    def session(self) -> SparkSession:
        self._somebody_waits()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
        return self._made()

    def ran_out_of_memory(self) -> bool:
        """Whether the JVM's last output says so."""
        errors = self._jvm.stderr_path if self._jvm is not None else None
        return errors is not None and errors.is_file() and b"java.lang.OutOfMemoryError" in errors.read_bytes()

    def close(self) -> None:
        self._somebody_waits()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
        self._open.close()
        if self._jvm is not None:
            self._jvm.end()
            if self._jvm.used and self._jvm.archive is None:
                from harness.checks.keeping_classes import keep_classes

                keep_classes()

    def _comes_first(self) -> None:
        if self._jvm is not None and self._is_last:
            self._jvm.place.as_any_other()
        self._is_last = False

    def _somebody_waits(self) -> None:
        self._comes_first()
        self._wanted.set()

    def _made(self) -> SparkSession:
        if self._session is None:
            self._session = self._open.enter_context(spark_session(master=self._master, jvm=self._jvm))
        return self._session

    def _opened(self) -> None:
        if self._jvm is not None:
            self._jvm.join()
        self._unless_wanted("session")
        self._made()

    def _warmed(self) -> None:
        self._opened()
        self._unless_wanted("imports")
        from harness.checks.warm_up import warm_up

        warm_up(self._made(), progress=self._unless_wanted)

    def _tried(self, work: Callable[[], None]) -> None:
        try:
            work()
        except _Wanted:
            return
        except Exception as error:  # noqa: BLE001  # nothing depends on it, and the check itself will report the error
            _LOG.warning("the checks could not be made ready early: %s", first_line(error))
            self._forget_what_is_broken()

    def _unless_wanted(self, phase: str) -> None:
        if self._wanted.is_set():
            raise _Wanted(phase)

    def _forget_what_is_broken(self) -> None:
        """Drops a session that could not be opened, or whose JVM is gone; the next request opens a new one."""
        gone = self._jvm is not None and self._jvm.process.poll() is not None
        if self._session is None or gone:
            try:
                self._open.close()
            except Exception as error:  # noqa: BLE001  # a session whose JVM is gone may not close; it is not used again
                _LOG.info("a broken session did not close: %s", first_line(error))
            self._open, self._session = contextlib.ExitStack(), None
            if self._jvm is not None:
                self._jvm.end()
                self._jvm = None
