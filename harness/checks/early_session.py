"""A session that is made ready while something else still goes on: its JVM starts at once, a thread may warm it up.

Whoever asks for the session comes first: the warm-up ends with the stage it is at, and what it has loaded by then stays
loaded. Nothing depends on it; when it fails, the next question finds a session as if it had never been tried.
"""

import contextlib
import logging
import threading

from pyspark.sql import SparkSession

from harness.checks.session import Jvm, spark_session, start_jvm_early
from harness.history.extent import MANY_ROWS

_PATIENCE_S = 30.0  # for one stage of the warm-up; then both go on side by side
_LOG = logging.getLogger(__name__)


class _Wanted(Exception):
    """Somebody wants the session: enough warmed up."""


class EarlySession:
    """One session; `records`: how many there will be to check, as far as is known."""

    def __init__(self, *, master: str, records: int = 0) -> None:
        self._master = master
        self._local = master.startswith("local")
        self._jvm: Jvm | None = start_jvm_early(large=records > MANY_ROWS) if self._local else None
        self._open = contextlib.ExitStack()
        self._session: SparkSession | None = None
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def warm_up(self) -> None:
        """Returns at once. Only where the JVM is ours; once."""
        if self._local and self._thread is None and not self._wanted.is_set():
            self._thread = threading.Thread(target=self._warm, name="warm-up", daemon=True)
            self._thread.start()

    def session(self) -> SparkSession:
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
        return self._made()

    def close(self) -> None:
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
        self._open.close()
        if self._jvm is not None:
            self._jvm.end()

    def _made(self) -> SparkSession:
        if self._session is None:
            self._session = self._open.enter_context(spark_session(master=self._master, jvm=self._jvm))
        return self._session

    def _warm(self) -> None:
        try:
            if self._jvm is not None:
                self._jvm.join()
            self._unless_wanted("session")
            session = self._made()
            self._unless_wanted("imports")
            from harness.checks.warm_up import warm_up

            warm_up(session, progress=self._unless_wanted)
        except _Wanted:
            return
        except Exception as error:  # noqa: BLE001  # nothing depends on it, and the check itself says what is wrong
            _LOG.warning("the checks could not be warmed up beside the run: %s", str(error).partition("\n")[0])
            self._forget_what_is_broken()

    def _unless_wanted(self, stage: str) -> None:
        if self._wanted.is_set():
            raise _Wanted(stage)

    def _forget_what_is_broken(self) -> None:
        """A session that could not be made, or whose JVM is gone, is made anew by whoever asks for one."""
        gone = self._jvm is not None and self._jvm.process.poll() is not None
        if self._session is None or gone:
            try:
                self._open.close()
            except Exception as error:  # noqa: BLE001  # a session whose JVM is gone may not close; it is not used again
                _LOG.info("a broken session did not close: %s", str(error).partition("\n")[0])
            self._open, self._session = contextlib.ExitStack(), None
            if self._jvm is not None:
                self._jvm.end()
                self._jvm = None
