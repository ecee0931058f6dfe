"""Removed by configuration: acknowledged records that retention or compaction took away, which are not lost.

Retention: the record lies below the log's start, the topic deletes, and either it was older than retention.ms when the
final read began, or enough lies above the log's start for retention.bytes. Segments go as a whole, by their youngest
record, so a record's own age is a necessary condition. Compaction: the topic compacts, and the log had a later record
of the same key; the last one of each key stays unless it is a tombstone. Every value that a setting ever had counts in
favour of the system. What neither allows is judged like any other loss.

A tombstone may go once delete.retention.ms has passed, and never before the earlier records of its key, which would
come back. Clients of the workloads send none: only histories that tell of them (`records.tombstone`) are so judged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import functions as sf

from harness.checks.detection import Flagged
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.rulings import Cause, CauseCode
from harness.checks.runs import Runs
from harness.checks.settings import Settings
from harness.checks.story import PartitionStory
from harness.checks.tables import Row
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural
from harness.history.finding_facts import Setting

NAME = "removal"
CHECK = "removed-by-configuration"
WITH_ITS_TOPIC = Cause(code="deletion-of-its-topic")
_WEEK_MS, _DAY_MS = str(7 * 24 * 3600 * 1000), str(24 * 3600 * 1000)
# What a record takes on disk beside its value and key, at the most: its own headers and a batch to itself.
_OVERHEAD_BYTES = 128
_KINDS: Mapping[CauseCode, str] = {
    "compaction-of-a-key": "compaction",
    "compaction-of-a-tombstone": "compaction",
    "retention-time": "retention",
    "retention-size": "retention",
    "deletion-of-its-topic": "deletion",
}


def query(runs: Runs) -> list[Row]:
    """run, tp, value, key, off, timestamp_ms, tombstone, t0, final_t, latest, oldest: what is known of records gone.

    Only for partitions that compact, or whose log does not start at 0. latest: the highest offset of the record's key;
    oldest: the lowest one at which the final log has it.
    """
    wanted = [
        {"run": row["run"], "tp": row["tp"]}
        for row in runs.rows("partitions")
        if (row["log_start"] or 0) > 0 or "compact" in (row["cleanup_policy"] or "")
    ]
    gone = {(row.run, row.tp, row.value) for rows in runs.detection.flagged.values() for row in rows
            if row.flags & {"lost", "unseen", "dirty", "duplicate"}}  # fmt: skip
    places = {(row["run"], row["tp"]) for row in wanted}
    rows = [{"run": run, "tp": tp, "value": value} for run, tp, value in sorted(gone) if (run, tp) in places]
    if not rows:
        return []
    place = {"run": pa.int32(), "tp": pa.int32()}
    records = runs.tables.records.join(sf.broadcast(runs.frame(place, wanted)), ["run", "tp"], "left_semi")
    known = records.groupBy("run", "tp", "value").agg(
        sf.max("key").alias("key"), sf.max(sf.expr("if(kind > 0 or status = 0, off, null)")).alias("off"),
        sf.min("timestamp_ms").alias("timestamp_ms"), sf.bool_or("tombstone").alias("tombstone"),
        sf.min(sf.expr("if(kind = 2 and replica is null, off, null)")).alias("kept"),
        sf.min(sf.expr("if(kind = 0, t0, null)")).alias("t0"),
    )  # fmt: skip
    latest = known.where("key is not null and off is not null").groupBy("run", "tp", "key").agg(
        sf.max("off").alias("latest"), sf.min("kept").alias("oldest")
    )  # fmt: skip
    ends = records.where("kind = 2").groupBy("run", "tp").agg(sf.min("t0").alias("final_t"))
    values = runs.frame({**place, "value": pa.int64()}, rows)
    found = (
        known.drop("kept")
        .join(values, ["run", "tp", "value"], "left_semi")
        .join(latest, ["run", "tp", "key"], "left")
        .join(sf.broadcast(ends), ["run", "tp"], "left")
    )
    return list(found.toArrow().to_pylist())


@dataclass(frozen=True, kw_only=True)
class _Policy:
    deletes: bool
    compacts: bool
    retention_ms: int | None  # the shortest that ever held; None: by time nothing is deleted
    retention_bytes: int | None
    delete_retention_ms: int  # the shortest that ever held
    stamped_by_client: bool


def _setting(key: str, value: int | str) -> Setting:
    return Setting(key=key, value=str(value), scope="topic")


class Removal:
    """Tells of one run's records why the configuration removed them, if it did."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._settings = Settings(context)
        self._rows: Mapping[tuple[int, int], Row] = {
            (row["tp"], row["value"]): row for row in context.rows.get(NAME, ())
        }
        self._policies: dict[int, _Policy] = {}

    def of(self, row: Flagged) -> Cause | None:
        """Why the record is lawfully gone; None where no setting takes it away."""
        return self._of(row.tp, row.value, row.off)

    def of_record(self, record: Row) -> Cause | None:
        return self._of(record["tp"], record["value"], record["off"])

    def compacts(self, story: PartitionStory) -> bool:
        return self._policy(story).compacts

    def _of(self, tp: int, value: int, off: int | None) -> Cause | None:
        known = self._rows.get((tp, value))
        if known is None:
            return None
        off = known["off"] if off is None else off
        story = self._context.partition(tp)
        policy = self._policy(story)
        below = off is not None and story.log_start is not None and off < story.log_start
        if below and policy.deletes and (why := self._deleted(story, policy, known)) is not None:
            return why
        if not policy.compacts or off is None or known["latest"] is None:
            return None
        if known["latest"] > off:
            return Cause(code="compaction-of-a-key", settings=(_setting("cleanup.policy", "compact"),))
        return self._deleted_for_good(policy, known)

    def _deleted_for_good(self, policy: _Policy, known: Row) -> Cause | None:
        """Of the last record of a key."""
        if not known["tombstone"] or known["oldest"] is not None:
            return None
        age_ms = self._age_ms(policy, known)
        if age_ms is not None and age_ms < policy.delete_retention_ms:
            return None
        setting = _setting("delete.retention.ms", policy.delete_retention_ms)
        return Cause(code="compaction-of-a-tombstone", settings=(setting,))

    def _deleted(self, story: PartitionStory, policy: _Policy, known: Row) -> Cause | None:
        age_ms = self._age_ms(policy, known)
        if policy.retention_ms is not None and (age_ms is None or age_ms >= policy.retention_ms):
            return Cause(code="retention-time", settings=(_setting("retention.ms", policy.retention_ms),))
        if policy.retention_bytes is not None and self._bytes_left(story) >= policy.retention_bytes:
            return Cause(code="retention-size", settings=(_setting("retention.bytes", policy.retention_bytes),))
        return None

    def _age_ms(self, policy: _Policy, known: Row) -> float | None:
        """When the final read began, at the most; None where nobody can tell."""
        wall = self._context.story.wall_ns
        stamp, t0, final_t = known["timestamp_ms"], known["t0"], known["final_t"]
        if final_t is None:
            return None
        if stamp is not None and wall is not None:
            return float(final_t + wall[1]) / 1e6 - float(stamp)
        # A record is stamped when it is sent, unless its producer says otherwise.
        told = t0 is not None and (stamp is None or not policy.stamped_by_client)
        return float(final_t - t0) / 1e6 if told else None

    def _bytes_left(self, story: PartitionStory) -> float:
        """At the most; without limit where a record's size is not known."""
        scenario = self._context.story.scenario
        if scenario is None or story.end_offset is None or story.log_start is None:
            return float("inf")
        return float((story.end_offset - story.log_start) * (scenario.workload.value_bytes + _OVERHEAD_BYTES))

    def _policy(self, story: PartitionStory) -> _Policy:
        if story.tp not in self._policies:
            stamps = self._settings.values("message.timestamp.type", topic=story.topic, default="CreateTime")
            policies = ",".join(self._settings.values("cleanup.policy", topic=story.topic, default="delete"))
            policies += f",{story.cleanup_policy or ''}"
            own = self._settings.numbers("retention.ms", topic=story.topic, default=_WEEK_MS)
            times = [*own, *self._broker_times()]
            sizes = self._settings.numbers("retention.bytes", topic=story.topic, default="-1")
            self._policies[story.tp] = _Policy(
                deletes="delete" in policies, compacts="compact" in policies,
                retention_ms=min((time for time in times if time >= 0), default=None),
                retention_bytes=min((size for size in sizes if size >= 0), default=None),
                delete_retention_ms=min(
                    self._settings.numbers("delete.retention.ms", topic=story.topic, default=_DAY_MS)
                ),
                stamped_by_client="LogAppendTime" not in stamps,
            )  # fmt: skip
        return self._policies[story.tp]

    def _broker_times(self) -> Sequence[int]:
        """The brokers' coarser words for retention.ms."""
        minutes = self._settings.numbers("log.retention.minutes", topic=None, default="-1")
        hours = self._settings.numbers("log.retention.hours", topic=None, default="-1")
        return [value * 60_000 for value in minutes] + [value * 3_600_000 for value in hours]


def removed(context: RunContext, story: PartitionStory, rows: Sequence[tuple[Flagged, Cause]]) -> list[Finding]:
    """One observation per reason: the records are accounted for."""
    groups: dict[Cause, list[Flagged]] = {}
    for row, cause in rows:
        groups.setdefault(cause, []).append(row)
    return [
        finding_of_rows(
            context, story, members, check=CHECK, classification="observation",
            kind=_KINDS[cause.code], cause=cause,
            sentence=f"{plural(len(members), 'acknowledged record')} {offsets_words(members)} of {story.name} "
            f"{plural(len(members), 'was')} removed by {cause_words(cause)}.",
            evidence={"log_start": story.log_start, "setting": cause_words(cause)},
        )
        for cause, members in groups.items()
    ]  # fmt: skip
