"""Removed by configuration: acknowledged records that retention or compaction removed, which are not lost.

Retention: the record is below the log's start, the topic deletes, and either it was older than retention.ms when the
final read began, or there is enough data above the log's start for retention.bytes. Segments are removed whole, by
their youngest record, so a record's own age is a necessary condition. Compaction: the topic compacts, and the log had a
later record of the same key that was not aborted; the last such one stays unless it is a tombstone. Every value that a
setting ever had counts in favour of the system. What neither allows is judged like any other loss; so is what a poll
had passed over before it was old enough, or before its key had a later record.

A tombstone may be removed after delete.retention.ms, and never before the earlier records of its key, which would
reappear. Clients of the workloads send none: this applies only to histories with tombstones (`records.tombstone`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks import passed_over
from harness.checks.contract.rulings import Cause, CauseCode
from harness.checks.families.transactions.isolation import ABORTED_SQL
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.model.settings import Settings
from harness.checks.spark.detection import Flagged
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural
from harness.history.facts.finding_facts import Setting
from harness.history.schema.cluster_rows import PARTITIONS
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "removal"
CHECK = "removed-by-configuration"
WITH_ITS_TOPIC = Cause(code="deletion-of-its-topic")
_WEEK_MS, _DAY_MS = str(7 * 24 * 3600 * 1000), str(24 * 3600 * 1000)
# What a record needs on disk at most, in addition to its value and key: its own headers and a batch of its own.
_OVERHEAD_BYTES = 128
_KINDS: Mapping[CauseCode, str] = {
    "compaction-of-a-key": "compaction",
    "compaction-of-a-tombstone": "compaction",
    "retention-time": "retention",
    "retention-size": "retention",
    "deletion-of-its-topic": "deletion",
}


class GoneRow(TypedDict):
    """What is known of a missing record.

    latest: its key's highest offset; oldest: the lowest one in the final log; later_ns: when the first record of its
    key that lies above it was sent.
    """

    run: int
    partition_id: int
    value: int
    key: int | None
    offset: int | None
    timestamp_ms: int | None
    tombstone: bool | None
    invoked_ns: int | None
    latest: int | None
    oldest: int | None
    later_ns: int | None
    final_t: int | None


ANSWER = RowsOf(NAME, GoneRow)


def query(runs: JudgedRuns) -> list[GoneRow]:
    """The missing records of partitions that compact, or whose log does not start at 0."""
    wanted = [
        {"run": row["run"], "partition_id": row["partition_id"]}
        for row in runs.rows(PARTITIONS)
        if (row["log_start_offset"] or 0) > 0 or "compact" in (row["cleanup_policy"] or "")
    ]
    gone = {(row.run, row.partition_id, row.value) for rows in runs.detection.flagged.values() for row in rows
            if row.flags & {"lost", "unseen", "dirty", "duplicate"}}  # fmt: skip
    places = {(row["run"], row["partition_id"]) for row in wanted}
    rows = [
        {"run": run, "partition_id": partition_id, "value": value}
        for run, partition_id, value in sorted(gone)
        if (run, partition_id) in places
    ]
    if not rows:
        return []
    place = {"run": pa.int32(), "partition_id": pa.int32()}
    records = runs.tables.records.join(sf.broadcast(runs.frame(place, wanted)), ["run", "partition_id"], "left_semi")
    known = records.groupBy("run", "partition_id", "value").agg(
        sf.max("key").alias("key"), sf.max("offset").alias("offset"),
        sf.min("timestamp_ms").alias("timestamp_ms"), sf.bool_or("tombstone").alias("tombstone"),
        sf.min(sf.expr("if(kind = 2 and replica is null, offset, null)")).alias("kept"),
        sf.min(sf.expr("if(kind = 0, invoked_ns, null)")).alias("invoked_ns"),
        sf.bool_or(sf.expr(ABORTED_SQL)).alias("aborted"),
    )  # fmt: skip
    ends = records.where("kind = 2").groupBy("run", "partition_id").agg(sf.min("invoked_ns").alias("final_t"))
    values = runs.frame({**place, "value": pa.int64()}, rows)
    found = (
        known.join(sf.broadcast(values), ["run", "partition_id", "value"], "left_semi")
        .drop("kept", "aborted")
        .join(_of_its_key(known), ["run", "partition_id", "value"], "left")
        .join(sf.broadcast(ends), ["run", "partition_id"], "left")
    )
    return typed(GoneRow, found.toArrow())


def _of_its_key(known: DataFrame) -> DataFrame:
    """By value, of the records with its key that were not aborted: `latest`, `oldest` and `later_ns` (GoneRow)."""
    by_key = "partition by run, partition_id, key"
    later = f"{by_key} order by offset desc range between unbounded preceding and 1 preceding"
    return known.where("key is not null and offset is not null").selectExpr(
        "run", "partition_id", "value",
        f"max(if(aborted, null, offset)) over ({by_key}) as latest",
        f"min(if(aborted, null, kept)) over ({by_key}) as oldest",
        f"min(if(aborted, null, coalesce(invoked_ns, 0))) over ({later}) as later_ns",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Policy:
    deletes: bool
    compacts: bool
    retention_ms: int | None  # the shortest ever in force; None: nothing is deleted by time
    retention_bytes: int | None
    delete_retention_ms: int  # the shortest ever in force
    stamped_by_client: bool


def _setting(key: str, value: int | str) -> Setting:
    return Setting(key=key, value=str(value), scope="topic")


class Removal:
    """Decides for one run's records whether the configuration removed them, and why."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._settings = Settings(context)
        self._rows: Mapping[tuple[int, int], GoneRow] = {
            (row["partition_id"], row["value"]): row for row in context.rows[ANSWER]
        }
        self._passed: Mapping[tuple[int, int], int] = {
            (row["partition_id"], row["value"]): row["passed_ns"] for row in context.rows[passed_over.ANSWER]
        }
        self._policies: dict[int, _Policy] = {}

    def of(self, row: Flagged) -> Cause | None:
        """Why the record was removed; None if no setting removes it."""
        return self._of(row.partition_id, row.value, row.offset)

    def of_record(self, partition_id: int, value: int, offset: int | None) -> Cause | None:
        return self._of(partition_id, value, offset)

    def compacts(self, history: PartitionHistory) -> bool:
        return self._policy(history).compacts

    def _of(self, partition_id: int, value: int, offset: int | None) -> Cause | None:
        known = self._rows.get((partition_id, value))
        if known is None:
            return None
        offset = known["offset"] if offset is None else offset
        history = self._context.partition(partition_id)
        policy = self._policy(history)
        below = offset is not None and history.log_start is not None and offset < history.log_start
        if below and policy.deletes and (why := self._deleted(history, policy, known)) is not None:
            return why
        if not policy.compacts or offset is None or known["latest"] is None:
            return None
        if known["latest"] > offset and not self._was_gone_before(known, known["later_ns"]):
            return Cause(code="compaction-of-a-key", settings=(_setting("cleanup.policy", "compact"),))
        return self._deleted_for_good(policy, known)

    def _passed_ns(self, known: GoneRow) -> int | None:
        """When a poll had passed over it."""
        return self._passed.get((known["partition_id"], known["value"]))

    def _was_gone_before(self, known: GoneRow, time_ns: int | None) -> bool:
        passed_ns = self._passed_ns(known)
        return time_ns is not None and passed_ns is not None and passed_ns < time_ns

    def _deleted_for_good(self, policy: _Policy, known: GoneRow) -> Cause | None:
        """The cause for the last record of a key: a tombstone whose time is over."""
        if not known["tombstone"] or known["oldest"] is not None:
            return None
        age_ms = self._age_ms(policy, known)
        if age_ms is not None and age_ms < policy.delete_retention_ms:
            return None
        setting = _setting("delete.retention.ms", policy.delete_retention_ms)
        return Cause(code="compaction-of-a-tombstone", settings=(setting,))

    def _deleted(self, history: PartitionHistory, policy: _Policy, known: GoneRow) -> Cause | None:
        age_ms = self._age_ms(policy, known)
        if policy.retention_ms is not None and (age_ms is None or age_ms >= policy.retention_ms):
            return Cause(code="retention-time", settings=(_setting("retention.ms", policy.retention_ms),))
        if policy.retention_bytes is not None and self._bytes_left(history) >= policy.retention_bytes:
            return Cause(code="retention-size", settings=(_setting("retention.bytes", policy.retention_bytes),))
        return None

    def _age_ms(self, policy: _Policy, known: GoneRow) -> float | None:
        """The greatest possible age when it was first seen to be gone, at last by the final read; None if unknown."""
        wall = self._context.history.wall_ns
        stamp, t0, final_t = known["timestamp_ms"], known["invoked_ns"], known["final_t"]
        if final_t is None:
            return None
        final_t = min(final_t, self._passed_ns(known) or final_t)
        if stamp is not None and wall is not None:
            return float(final_t + wall[1]) / 1e6 - float(stamp)
        # A record is stamped when it is sent, unless its producer says otherwise.
        if t0 is None or (stamp is not None and policy.stamped_by_client):
            return None
        return float(final_t - t0) / 1e6

    def _bytes_left(self, history: PartitionHistory) -> float:
        """The greatest possible number of bytes; infinite if a record's size is unknown."""
        scenario = self._context.history.scenario
        if scenario is None or history.end_offset is None or history.log_start is None:
            return float("inf")
        return float((history.end_offset - history.log_start) * (scenario.workload.facts.value_bytes + _OVERHEAD_BYTES))

    def _policy(self, history: PartitionHistory) -> _Policy:
        if history.partition_id not in self._policies:
            stamps = self._settings.values("message.timestamp.type", topic=history.topic, default="CreateTime")
            policies = ",".join(self._settings.values("cleanup.policy", topic=history.topic, default="delete"))
            policies += f",{history.cleanup_policy or ''}"
            own = self._settings.numbers("retention.ms", topic=history.topic, default=_WEEK_MS)
            times = [*own, *self._broker_times()]
            sizes = self._settings.numbers("retention.bytes", topic=history.topic, default="-1")
            self._policies[history.partition_id] = _Policy(
                deletes="delete" in policies, compacts="compact" in policies,
                retention_ms=min((time for time in times if time >= 0), default=None),
                retention_bytes=min((size for size in sizes if size >= 0), default=None),
                delete_retention_ms=min(
                    self._settings.numbers("delete.retention.ms", topic=history.topic, default=_DAY_MS)
                ),
                stamped_by_client="LogAppendTime" not in stamps,
            )  # fmt: skip
        return self._policies[history.partition_id]

    def _broker_times(self) -> Sequence[int]:
        """The values of the brokers' coarser settings for retention.ms."""
        minutes = self._settings.numbers("log.retention.minutes", topic=None, default="-1")
        hours = self._settings.numbers("log.retention.hours", topic=None, default="-1")
        return [value * 60_000 for value in minutes] + [value * 3_600_000 for value in hours]


def removed(context: RunContext, history: PartitionHistory, rows: Sequence[tuple[Flagged, Cause]]) -> list[Finding]:
    """One observation per reason: the records are accounted for."""
    groups: dict[Cause, list[Flagged]] = {}
    for row, cause in rows:
        groups.setdefault(cause, []).append(row)
    return [
        finding_of_rows(
            context, history, members, check=CHECK, classification="observation",
            kind=_KINDS[cause.code], cause=cause,
            sentence=f"{plural(len(members), 'acknowledged record')} {offsets_words(members)} of {history.name} "
            f"{plural(len(members), 'was')} removed by {cause_words(cause)}.",
            evidence={"log_start_offset": history.log_start, "setting": cause_words(cause)},
        )
        for cause, members in groups.items()
    ]  # fmt: skip
