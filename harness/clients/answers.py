"""Collects the outcomes of one send operation's records from the answers of any client library.

A record's completion time is taken in the thread where its answer arrives; the first answer counts. outcomes.py decides
what an answer means; this module converts answers to SendOutcomes.
"""

import threading
from collections.abc import Sequence

from harness.clients.outcomes import LibraryError, Status, library_error_of, of_delivery, of_hand_over
from harness.host.clock import Clock, SystemClock
from harness.ports.clients import METADATA_MAX_AGE_MS as METADATA_MAX_AGE_MS
from harness.ports.cluster import Send, SendOutcome
from harness.ports.load import WorkloadSpec

# Settings shared by all libraries.
MAX_BLOCK_MS = 5000  # for metadata, before a record is accepted
RECONNECT_MS, RECONNECT_MAX_MS = 50, 500
FETCH_WAIT_MS = 250
FETCH_BYTES = 4 << 20  # of one partition
CLOSE_S = 2.0
GRACE_S = 2.0  # after the library's own timeouts, until a call counts as hanging


def may_be_idempotent(settings: WorkloadSpec) -> bool:
    return settings.idempotent


class Answers:
    """Collects the outcomes of one send operation. `retried`: the library may send a record more than once."""

    def __init__(self, records: Sequence[Send], *, acks: str, retried: bool, clock: Clock | None = None) -> None:
        self._now_ns = (clock or SystemClock()).monotonic_ns
        self._acks = acks
        self._retried = retried
        self._outcomes: list[SendOutcome | None] = [None] * len(records)
        self._begun_ns: list[int | None] = [None] * len(records)
        self._returned_ns: list[int | None] = [None] * len(records)
        self._missing = len(records)
        self._lock = threading.Lock()
        self._complete = threading.Event()

    def begin(self, place: int) -> None:
        """Call it immediately before the record is passed to the library."""
        self._begun_ns[place] = self._now_ns()

    def returned(self, place: int) -> None:
        """Call it as soon as the library has taken the record: what is called from now on comes after it."""
        self._returned_ns[place] = self._now_ns()

    def delivered(self, place: int, offset: int | None, *, timestamp_ms: int | None = None) -> None:
        """The library reports the record as delivered. Without an offset it cannot be verified."""
        if self._acks == "0":
            self._put(place, "info", error=None)
        elif offset is None or offset < 0:
            # A duplicate batch (DUPLICATE_SEQUENCE_NUMBER) counts as delivered, and has no offset.
            self._put(place, "info", error="acknowledged without offset")
        else:
            self._put(place, "ok", offset=offset, error=None, code=0, timestamp_ms=timestamp_ms)

    def failed(self, place: int, error: object, library_error: LibraryError | None = None) -> None:
        """The library reports an error. `library_error`: given if the adapter knows more."""
        library_error = library_error or library_error_of(error)
        self.told(place, of_delivery(error, retried=self._retried), library_error)

    def told(self, place: int, status: Status, library_error: LibraryError) -> None:
        """The outcome is known otherwise than by an exception or an error object."""
        self._put(place, status, error=str(library_error), code=library_error.code)

    def refused(self, place: int, error: object) -> None:
        """The library did not accept this record; later ones are not tried, because each would block as long."""
        library_error = library_error_of(error)
        self._put(place, of_hand_over(error), error=str(library_error), code=library_error.code)
        for later in range(place + 1, len(self._outcomes)):
            self.begin(later)
            self._put(later, "fail", error=str(library_error), code=library_error.code)

    def _put(
        self,
        place: int,
        status: Status,
        *,
        error: str | None,
        offset: int | None = None,
        code: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        end_ns = self._now_ns()
        outcome = SendOutcome(
            status=status,
            offset=offset,
            error=error,
            code=code,
            begin_ns=self._begun_ns[place],
            end_ns=end_ns,
            timestamp_ms=timestamp_ms,
            returned_ns=self._returned_ns[place] or end_ns,  # another thread may be told sooner
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
        """Blocks until every record has its outcome; False after a timeout."""
        return self._complete.wait(timeout_s)

    def outcomes(self, *, missing: str) -> list[SendOutcome]:
        """One outcome per record, in order; `missing` is the error text for those without an answer."""
        now_ns = self._now_ns()
        with self._lock:
            return [
                outcome or SendOutcome(status="info", offset=None, error=missing, begin_ns=begun_ns, end_ns=now_ns)
                for outcome, begun_ns in zip(self._outcomes, self._begun_ns, strict=True)
            ]
