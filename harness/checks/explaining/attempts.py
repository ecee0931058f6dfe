"""Whether a producer sent a record more than once: decided by the client's events, otherwise by the partition's.

A client that reports its failed attempts decides it: without a failed attempt of unknown outcome there was no second
one. For other clients, a fault, a node that was down by itself, a change of leader or ISR, or a long wait may have
caused a second attempt; without any of these it is unknown. A change of leader before the send counts too: the client
may still have used the old leader.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.contract.rulings import AttemptsCode, Cause, Class, Doubt, Ruling
from harness.checks.findings import RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.history.schema.client_rows import CLIENT_EVENTS, PROCESSES, ClientEventRow, ProcessRow
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK
from harness.ports.clients import METADATA_MAX_AGE_MS
from harness.ports.load import WorkloadSpec
from harness.scenario import workloads

_MS = 1_000_000
_OF_ITS_OWN_ACCORD = ("confluent-kafka", "aiokafka")  # retry regardless of `retries`
# A library may use old metadata for longer while no broker answers its metadata request.
_STALE_MS = 3 * METADATA_MAX_AGE_MS
_ATTEMPTS_UNKNOWN = Doubt(code="attempts-not-told")
_IDEMPOTENCE_UNKNOWN = Doubt(code="idempotence-not-told")


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """yes: None if unknown. failed: the failed attempts that decide it."""

    yes: bool | None
    code: AttemptsCode
    failed: Sequence[ClientEventRow] = ()
    unknown: Doubt = _ATTEMPTS_UNKNOWN  # what is not known, if it is unknown

    @property
    def classification(self) -> Class:
        return "observation" if self.yes is None else "permitted" if self.yes else "violation"

    @property
    def ruling(self) -> Ruling | None:
        """The ruling that makes a run inconclusive, if it is unknown."""
        if self.yes is not None:
            return None
        return Ruling(
            classification="observation",
            cause="unknown",
            election=None,
            epoch=None,
            by_time=False,
            rules=(),
            undecided=self.unknown,
        )

    @property
    def cause(self) -> Cause:
        return Cause(code=self.code, doubt=self.unknown if self.yes is None else None)


_NEVER_TWICE = Repeated(yes=False, code="idempotent-producer")
_IN_DOUBT = Repeated(yes=None, code="idempotence-not-told", unknown=_IDEMPOTENCE_UNKNOWN)


class Attempts:
    """The attempts of all producers of a run."""

    def __init__(self, context: RunContext) -> None:
        self._scenario = context.history.scenario
        self._clients = {row["process"]: row for row in context.tables[PROCESSES]}
        self._failed: dict[tuple[int, str | None, int | None], list[ClientEventRow]] = {}
        for row in sorted(context.tables[CLIENT_EVENTS], key=lambda row: row["time_ns"]):
            if row["event"] == "attempt_failed":
                self._failed.setdefault((row["process"], row["topic"], row["partition"]), []).append(row)

    def idempotent(self, row: Flagged) -> bool | None:
        """Whether the record's producer was idempotent. Those of the harness are as the scenario's settings say, and
        assumed to be where there is none; an application makes its own: None if nobody told. With fewer acks than all
        none is (KIP-98)."""
        client, scenario = self._client(row), self._scenario
        if client is not None and client["idempotent"] is not None:
            return client["idempotent"]
        if scenario is not None and scenario.workload.name == WorkloadSpec.name:
            return False if row.acks in (0, 1) else None
        return scenario is None or scenario.workload.idempotent

    def twice(self, history: PartitionHistory, row: Flagged) -> Repeated:
        """Whether a record may be in the log twice."""
        idempotent = self.idempotent(row)
        if idempotent:
            return _NEVER_TWICE
        repeated = self.repeated(history, row)
        return _IN_DOUBT if idempotent is None and repeated.yes is not False else repeated

    def of_one_task(self) -> bool:
        """Whether one task makes all calls of a process, one after the other, as our own workloads do it. Of an
        application, and of a package's workload, nobody recorded it."""
        return self._scenario is not None and workloads.is_own(self._scenario.workload.name)

    def overtaken(self, history: PartitionHistory, row: Flagged, *, around_ns: int) -> Repeated:
        """Whether a record may stand before one that its producer had sent before it, and that had no answer yet: one
        of several in flight that is sent again comes behind the others, unless the producer is idempotent."""
        idempotent = self.idempotent(row)
        if idempotent:
            return _NEVER_TWICE
        repeated = self.repeated(history, row, around_ns=around_ns)
        if idempotent is None and repeated.yes is not False:
            return _IN_DOUBT
        if repeated.yes is None:
            return Repeated(yes=True, code="several-in-flight")
        if repeated.code == "refused-before-the-append":  # and was sent again, behind what had been stored meanwhile
            return Repeated(yes=True, code="refused-and-sent-again", failed=repeated.failed)
        return repeated

    def repeated(self, history: PartitionHistory, row: Flagged, *, around_ns: int = 0) -> Repeated:
        """Considers events between its send and its answer; with `around_ns` also that long before and after."""
        client, scenario = self._client(row), self._scenario
        library = (client["library"] if client is not None else None) or (
            scenario.workload.client if scenario is not None else None
        )
        if scenario is not None and scenario.workload.retries == 0 and library not in _OF_ITS_OWN_ACCORD:
            return Repeated(yes=False, code="never-retried")
        if row.invoked_ns is None or row.completed_ns is None or row.status != STATUS_OK:
            return Repeated(yes=True, code="not-acknowledged")
        begin, end = row.invoked_ns - around_ns, row.completed_ns + around_ns
        if client is not None and client["tells_attempts"]:
            return self._as_reported(history, row, begin, end)
        return self._by_circumstances(history, begin, end, waited_ms=(row.completed_ns - row.invoked_ns) / _MS)

    def _client(self, row: Flagged) -> ProcessRow | None:
        return self._clients.get(row.process) if row.process is not None else None

    def _as_reported(self, history: PartitionHistory, row: Flagged, begin: int, end: int) -> Repeated:
        assert row.process is not None, "a client that reports attempts has a number"
        failures = self._failed.get((row.process, history.topic, history.partition), [])
        first = bisect_left(failures, begin, key=lambda attempt: attempt["time_ns"])
        failed = failures[first : bisect_right(failures, end, key=lambda attempt: attempt["time_ns"])]
        open_ends = [attempt for attempt in failed if attempt["status"] != STATUS_FAIL]
        if open_ends:
            return Repeated(yes=True, code="sent-again", failed=open_ends)
        if failed:
            return Repeated(yes=False, code="refused-before-the-append", failed=failed)
        return Repeated(yes=False, code="nothing-made-it-retry")

    def _by_circumstances(self, history: PartitionHistory, begin: int, end: int, *, waited_ms: float) -> Repeated:
        timeout_ms = self._scenario.workload.request_timeout_ms if self._scenario is not None else 0
        since = begin - (_STALE_MS + timeout_ms) * _MS
        changed = any(
            since <= state["time_ns"] + (state["uncertainty_ns"] or 0) and state["time_ns"] <= end
            for state in history.states[1:]
        )
        harmed = history.faults_between(since, end) or history.ends_between(since, end)
        if changed or harmed or (timeout_ms and waited_ms >= timeout_ms):
            return Repeated(yes=True, code="had-a-reason-to-retry")
        return Repeated(yes=None, code="attempts-not-told")
