"""What became of the records of one send operation, put together from the answers of any client library.

A record is timed where its answer arrives, in whatever thread that is; the first answer counts. What the answers mean
is decided in outcomes.py; here they only become SendOutcomes.
"""

import threading
import time
from collections.abc import Sequence

from harness.client_use import METADATA_MAX_AGE_MS as METADATA_MAX_AGE_MS
from harness.clients.outcomes import Told, of_delivery, of_hand_over, told_by
from harness.interfaces import Send, SendOutcome
from harness.scenario import WorkloadSpec

# What all libraries are set to alike.
MAX_BLOCK_MS = 5000  # for metadata, before a record is taken
RECONNECT_MS, RECONNECT_MAX_MS = 50, 500
FETCH_WAIT_MS = 250
FETCH_BYTES = 4 << 20  # of one partition
CLOSE_S = 2.0
GRACE_S = 2.0  # beyond the library's own time-outs, before it is taken to hang


def may_be_idempotent(settings: WorkloadSpec) -> bool:
    return settings.idempotent


class Answers:
    """Collects the outcomes of one send operation. `retried`: the library may try a record more than once."""

    def __init__(self, records: Sequence[Send], *, acks: str, retried: bool) -> None:
        self._acks = acks
        self._retried = retried
        self._outcomes: list[SendOutcome | None] = [None] * len(records)
        self._begun_ns: list[int | None] = [None] * len(records)
        self._missing = len(records)
        self._lock = threading.Lock()
        self._complete = threading.Event()

    def begin(self, place: int) -> None:
        """The record is about to be handed to the library."""
        self._begun_ns[place] = time.monotonic_ns()

    def delivered(self, place: int, offset: int | None, *, timestamp_ms: int | None = None) -> None:
        """Counted as delivered by the library. Without an offset it cannot be accounted for."""
        if self._acks == "0":
            self._put(place, "info", error=None)
        elif offset is None or offset < 0:
            # A batch that the broker had already (DUPLICATE_SEQUENCE_NUMBER) counts as delivered, and has no offset.
            self._put(place, "info", error="acknowledged without offset")
        else:
            self._put(place, "ok", offset=offset, error=None, code=0, timestamp_ms=timestamp_ms)

    def failed(self, place: int, error: object, told: Told | None = None) -> None:
        """Came back with an error. `told`: how the adapter words it, where it knows more than the error says."""
        told = told or told_by(error)
        self._put(place, of_delivery(error, retried=self._retried), error=str(told), code=told.code)

    def refused(self, place: int, error: object) -> None:
        """The library did not take this record; those after it are not tried (each would block for as long again)."""
        told = told_by(error)
        self._put(place, of_hand_over(error), error=str(told), code=told.code)
        for later in range(place + 1, len(self._outcomes)):
            self.begin(later)
            self._put(later, "fail", error=str(told), code=told.code)

    def _put(
        self,
        place: int,
        status: str,
        *,
        error: str | None,
        offset: int | None = None,
        code: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        t1_ns = time.monotonic_ns()
        outcome = SendOutcome(
            status=status,  # type: ignore[arg-type]
            offset=offset,
            error=error,
            code=code,
            t0_ns=self._begun_ns[place],
            t1_ns=t1_ns,
            timestamp_ms=timestamp_ms,
        )
        with self._lock:
            if self._outcomes[place] is None:
                self._outcomes[place] = outcome
                self._missing -= 1
                if self._missing == 0:
                    self._complete.set()

    @property
    def complete(self) -> bool:
        return self._complete.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Blocks until every record has its outcome; False when time ran out."""
        return self._complete.wait(timeout_s)

    def outcomes(self, *, missing: str) -> list[SendOutcome]:
        """One per record, in order; `missing` words what is not known of those without an answer."""
        now_ns = time.monotonic_ns()
        with self._lock:
            return [
                outcome or SendOutcome(status="info", offset=None, error=missing, t0_ns=begun_ns, t1_ns=now_ns)
                for outcome, begun_ns in zip(self._outcomes, self._begun_ns, strict=True)
            ]
