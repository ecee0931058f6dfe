"""Transactions that were open at the end: in the leader's log, and what their coordinator's log says of them.

A log has their records and no marker of their producer after these. Where logs were not read for that, the record at
the last stable offset shows one, if a transaction of a client wrote it, and read_uncommitted readers or the replicas'
marks say that the log goes on above it.

The coordinator's log says how far the transaction had come there (KIP-98): begun with this partition (Ongoing), decided
(PrepareCommit, PrepareAbort), complete, or begun without it. What only logs say that were read before a wipe, the
coordinator has forgotten. From when on its marker is overdue: 30 s after it was decided, or after its time-out and the
interval in which coordinators look for such, in which coordinator and partitions were led (leaders_known.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from pyspark.sql import functions as sf

from harness.checks.contract.coordinators_log import number_of
from harness.checks.families.groups.transactional_offsets import PENDING_NS
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.leaders_known import LeadersKnown
from harness.checks.model.partition_history import PartitionHistory, RunHistory
from harness.history.facts.internal_topics import TRANSACTIONS_TOPIC
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.cluster_rows import FINAL_READS, PARTITIONS, PartitionRow
from harness.history.schema.internal_rows import INTERNAL_SNAPSHOTS, TRANSACTION_STATE, TransactionStateRow
from harness.history.schema.schemas import STATUS_INFO
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "hanging-transaction"
_INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_LONGEST = "transaction.max.timeout.ms"  # for a transaction of which nobody knows the time-out
_DECIDED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_MS = 1_000_000
# not-told: no log of a coordinator was read. unregistered: its log has the producer, and no transaction of it with this
# partition. forgotten: only logs that were read before a wipe have it, or none has.
Known = Literal["not-told", "unregistered", "forgotten", "ongoing", "decided", "complete"]


class _PlaceRow(TypedDict):
    """An open transaction, as its partition shows it. read_ns: it was still open then. last_offset, producer_id,
    producer_epoch, begun_ns: None where only the last stable offset shows it. nodes: in whose logs it is open."""

    run: int
    partition_id: int
    offset: int
    last_offset: int | None
    producer_id: int | None
    producer_epoch: int | None
    begun_ns: int | None
    read_ns: int
    nodes: list[int]


class _ClientRow(TypedDict):
    """The client's transaction at that place, and when its record there was answered; above: acknowledged records."""

    run: int
    partition_id: int
    offset: int
    transaction: int | None
    answered_ns: int | None
    above: int


class OpenRow(_PlaceRow):
    """transaction, process: of a client. decided_ns, complete_ns: by the coordinator's log, else by the answer that the
    client got. state_ns: of the last thing that its log says. due_ns: from then on its marker is overdue. owed_ns: that
    moment if its coordinator had not forgotten it; None: nobody knows that it ever knew of it."""

    transactional_id: str | None
    transaction: int | None
    process: int | None
    answered_ns: int | None
    above: int
    known: Known
    state_partition: int | None
    state_ns: int | None
    decided_ns: int | None
    complete_ns: int | None
    timeout_ms: int | None
    due_ns: int
    owed_ns: int | None


ANSWER = RowsOf(NAME, OpenRow)


def query(runs: JudgedRuns) -> list[OpenRow]:
    places = [row for history in runs.histories for row in _places(runs, history)]
    if not places:
        return []
    clients = _clients(runs, places)
    transactions = {(row["run"], row["transaction"]): row for row in runs.rows(TRANSACTIONS)}
    coordinators = {history.run: _Coordinators(runs, history) for history in runs.histories}
    rows = []
    for place in places:
        client = clients.get((place["run"], place["partition_id"], place["offset"]))
        number = client["transaction"] if client is not None else None
        own = transactions.get((place["run"], number)) if number is not None else None
        if own is not None or place["producer_id"] is not None:
            rows.append(coordinators[place["run"]].row(place, client, own))
    return rows


# ---- which are open -------------------------------------------------------------------------------------------------


def _places(runs: JudgedRuns, history: RunHistory) -> Iterable[_PlaceRow]:
    rows = {row["partition_id"]: row for row in runs.tables.rows(PARTITIONS, history.run)}
    for partition_id, partition in history.partitions.items():
        if partition.is_set_apart or partition.deletion is not None:
            continue
        leader = partition.states[-1]["leader"] if partition.states else -1
        last = partition.end_snapshots.get(leader)
        if last is None or last["open_transactions"] is None:
            yield from _by_stable_offset(runs, history, partition, rows[partition_id])
            continue
        stable = rows[partition_id]["last_stable_offset"]
        for each in last["open_transactions"]:
            if stable is not None and stable > each["first_offset"]:
                continue  # readers had passed it: not held back by it
            yield {
                "run": history.run,
                "partition_id": partition_id,
                "offset": each["first_offset"],
                "last_offset": each["last_offset"],
                "producer_id": each["producer_id"],
                "producer_epoch": each["producer_epoch"],
                "begun_ns": _on_the_runs_clock(history, each["begun_ms"]),
                "read_ns": last["time_ns"],
                "nodes": _open_on(partition, each["producer_id"], each["first_offset"]),
            }


def _open_on(partition: PartitionHistory, producer: int, offset: int) -> list[int]:
    return sorted(
        node
        for node, log in partition.end_snapshots.items()
        if any(
            (each["producer_id"], each["first_offset"]) == (producer, offset) for each in log["open_transactions"] or ()
        )
    )


def _on_the_runs_clock(history: RunHistory, wall_ms: int) -> int | None:
    return None if history.wall_ns is None or wall_ms < 0 else wall_ms * _MS - history.wall_ns[0]


def _by_stable_offset(
    runs: JudgedRuns, history: RunHistory, partition: PartitionHistory, row: PartitionRow
) -> Iterable[_PlaceRow]:
    """A last stable offset below the log's end."""
    stable = row["last_stable_offset"]
    ends = partition.end_snapshots.values()
    marks = [end["high_watermark"] or 0 for end in ends]
    if stable is None or stable >= max([*marks, partition.end_offset or 0]):
        return
    yield {
        "run": history.run,
        "partition_id": partition.partition_id,
        "offset": stable,
        "last_offset": None,
        "producer_id": None,
        "producer_epoch": None,
        "begun_ns": None,
        "read_ns": _asked_ns(runs, history, partition),
        "nodes": [],
    }


def _asked_ns(runs: JudgedRuns, history: RunHistory, partition: PartitionHistory) -> int:
    """When the last stable offset was asked for at the earliest, the last time."""
    answered_ns = [
        row["completed_ns"]
        for row in runs.tables.rows(FINAL_READS, history.run)
        if (row["topic"], row["partition"], row["event"]) == (partition.topic, partition.partition, "stable")
    ]
    if answered_ns:
        return max(answered_ns)
    waits_s = history.scenario.recovery_timeout_s if history.scenario is not None else 0.0
    read = [row["time_ns"] - int(waits_s * 1e9) for row in partition.end_snapshots.values()]
    activity = runs.tables.activity.get(history.run)
    return max([*read, (activity["last_ns"] or 0) if activity is not None else 0])


def _clients(runs: JudgedRuns, places: Sequence[_PlaceRow]) -> Mapping[tuple[int, int, int], _ClientRow]:
    """Whose record is at each place: by its answer, else by its value in a log."""
    columns = ("run", "partition_id", "offset")
    wanted = runs.frame(columns, [_key(place) for place in places]).distinct()
    there = (
        runs.tables.replica_log.join(sf.broadcast(wanted), [*columns])
        .select(*columns, sf.col("value").alias("there"))
        .distinct()
    )
    asked = wanted.withColumnRenamed("offset", "at").join(
        there.withColumnRenamed("offset", "at"), ["run", "partition_id", "at"], "left"
    )
    is_it = "transaction is not null and (offset <=> at or value <=> there)"
    found = (
        runs.tables.records.where("kind = 0")
        .join(sf.broadcast(asked), ["run", "partition_id"])
        .groupBy("run", "partition_id", sf.col("at").alias("offset"))
        .agg(
            sf.min(sf.expr(f"if({is_it}, transaction, null)")).alias("transaction"),
            sf.min(sf.expr(f"if({is_it} and offset is not null, completed_ns, null)")).alias("answered_ns"),
            sf.countDistinct(sf.expr("if(status = 0 and offset > at, offset, null)")).alias("above"),
        )
    )
    rows = typed(_ClientRow, found.toArrow())
    return {(row["run"], row["partition_id"], row["offset"]): row for row in rows}


def _key(place: _PlaceRow) -> dict[str, int]:
    return {"run": place["run"], "partition_id": place["partition_id"], "offset": place["offset"]}


# ---- what their coordinators know of them ---------------------------------------------------------------------------


class _Coordinators:
    """The logs of a run's transaction coordinators."""

    def __init__(self, runs: JudgedRuns, history: RunHistory) -> None:
        self._history = history
        self._tables = runs.tables
        logs = [row for row in runs.tables.rows(INTERNAL_SNAPSHOTS, history.run) if row["topic"] == TRANSACTIONS_TOPIC]
        self._logs = logs
        self._ends = {row["snapshot"] for row in logs if row["reason"] == "end"}
        rows = sorted(runs.tables.rows(TRANSACTION_STATE, history.run), key=lambda row: row["offset"])
        self._rows = [row for row in rows if row["time_ns"] is not None]

    def row(self, place: _PlaceRow, client: _ClientRow | None, own: TransactionRow | None) -> OpenRow:
        name = own["transactional_id"] if own is not None else None
        said = [row for row in self._rows if _is_of(row, place["producer_id"], name)]
        kept = [row for row in said if self._ends & set(row["snapshots"])]
        name = name or next((row["transactional_id"] for row in said if row["transactional_id"]), None)
        partition = self._history.partitions[place["partition_id"]]
        begun_ns = _begun_ns(place, own)
        course = _course(kept or said, partition, begun_ns)
        number = self._number(name, said)
        known = course.known if kept else self._unkept(number)
        decided_ns = course.decided_ns
        if decided_ns is None and own is not None and own["outcome"] != STATUS_INFO:
            decided_ns = own["completed_ns"]
            known = "decided" if known == "ongoing" else known
        row: OpenRow = {
            **place,
            "begun_ns": begun_ns,
            "transactional_id": name,
            "transaction": None if own is None else own["transaction"],
            "process": None if own is None else own["process"],
            "answered_ns": None if client is None else client["answered_ns"],
            "above": 0 if client is None else client["above"],
            "known": known,
            "state_partition": number,
            "state_ns": course.state_ns,
            "decided_ns": decided_ns,
            "complete_ns": course.complete_ns,
            "timeout_ms": course.timeout_ms,
            "due_ns": 0,
            "owed_ns": None,
        }
        return {**row, "due_ns": self._due_ns(row), "owed_ns": self._owed_ns(row)}

    def _number(self, name: str | None, said: Sequence[TransactionStateRow]) -> int | None:
        written = [each["partition"] for each in said]
        if name is None:
            return next(iter(written), None)
        return number_of(self._history, TRANSACTIONS_TOPIC, name, written)

    def _unkept(self, partition: int | None) -> Known:
        """What it says of a transaction that no log has at the end; of a long one only the newest records were kept."""
        own = [row for row in self._logs if partition in (None, row["partition"])]
        whole = all(row["kept_from"] <= row["log_start_offset"] for row in own if row["reason"] == "end")
        return "forgotten" if own and whole else "not-told"

    def _due_ns(self, row: OpenRow) -> int:
        since_ns = row["decided_ns"]
        if since_ns is None:
            begun_ns = row["begun_ns"] if row["begun_ns"] is not None else self._history.origin
            since_ns = begun_ns + (self._longest_ms(row, begun_ns) + self._setting_ms(_INTERVAL, begun_ns)) * _MS
        return self._leaders(row).for_long(since_ns, PENDING_NS)

    def _owed_ns(self, row: OpenRow) -> int | None:
        since_ns, state_ns = row["decided_ns"], row["state_ns"]
        if since_ns is None:
            if state_ns is None:
                return None
            recorded_ms = row["timeout_ms"]
            timeout_ms = self._setting_ms(_LONGEST, state_ns) if recorded_ms is None else recorded_ms
            since_ns = max(state_ns, row["begun_ns"] or 0) + (timeout_ms + self._setting_ms(_INTERVAL, state_ns)) * _MS
        return self._leaders(row).for_long(since_ns, PENDING_NS)

    def _leaders(self, row: OpenRow) -> LeadersKnown:
        """Of its coordinator's log, if it is known which that is, and of its partition: others hold its marker up there
        no more than any transaction does."""
        if row["state_partition"] is None:
            return LeadersKnown(self._history, self._tables)
        own = self._history.partitions[row["partition_id"]]
        return LeadersKnown(
            self._history,
            self._tables,
            {(TRANSACTIONS_TOPIC, row["state_partition"]), (own.topic, own.partition)},
        )

    def _longest_ms(self, row: OpenRow, begun_ns: int) -> int:
        recorded_ms = row["timeout_ms"]
        if row["known"] in ("unregistered", "forgotten"):
            return 0  # nobody will end it
        return recorded_ms if recorded_ms is not None else self._setting_ms(_LONGEST, begun_ns)

    def _setting_ms(self, key: str, time_ns: int) -> int:
        return self._history.settings.numbers(key, None, time_ns, time_ns)[-1]


def _begun_ns(place: _PlaceRow, own: TransactionRow | None) -> int | None:
    """Its log has the time that its client gave its first record, which the client may have taken from anywhere."""
    if own is None:
        return place["begun_ns"]
    recorded_ns = own["invoked_ns"] if place["begun_ns"] is None else place["begun_ns"]
    return min(max(recorded_ns, own["invoked_ns"]), own["completed_ns"])


@dataclass(kw_only=True)
class _Course:
    """How far a transaction had come, by its coordinator's log. state_ns: of the last row that is its own."""

    known: Known = "unregistered"
    state_ns: int | None = None
    decided_ns: int | None = None
    complete_ns: int | None = None
    timeout_ms: int | None = None


def _course(rows: Sequence[TransactionStateRow], partition: PartitionHistory, begun_ns: int | None) -> _Course:
    """rows: of its producer, in order. Of the producer's transactions with this partition it is the first that was not
    decided before its first record was made."""
    if begun_ns is None:
        return _Course(known="not-told")
    course = _Course()
    for row in rows:
        time_ns, state = row["time_ns"] or 0, row["state"]
        if course.known == "unregistered":
            if state == "Ongoing" and _has(row, partition):
                course = _Course(known="ongoing")
        elif state in _DECIDED:
            course.known, course.decided_ns = "decided", course.decided_ns or time_ns
        elif state != "Ongoing" or course.known == "decided":  # complete, or what follows on that
            course.known, course.complete_ns = "complete", time_ns
            course.decided_ns = course.decided_ns or time_ns
        if course.known != "unregistered":
            course.state_ns, course.timeout_ms = time_ns, row["timeout_ms"]
        if course.decided_ns is not None and course.decided_ns <= begun_ns:
            course = _Course()  # a predecessor
        if course.known == "complete":
            break
    return course


def _has(row: TransactionStateRow, partition: PartitionHistory) -> bool:
    places = row["partitions"]
    return places is None or any(
        (place["topic"], place["partition"]) == (partition.topic, partition.partition) for place in places
    )


def _is_of(row: TransactionStateRow, producer: int | None, name: str | None) -> bool:
    if producer is not None and row["producer_id"] is not None:
        return row["producer_id"] == producer
    return name is not None and row["transactional_id"] == name
