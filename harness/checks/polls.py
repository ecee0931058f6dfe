"""Polls that go back or skip, inside one poll or between two of the same assignment of the same process.

A skip counts only over records that the final log has. A consumer may be thrown back or forward when its position no
longer exists, so a permitted cut of *committed* records excuses it; a clean fail-over does not. The cut has to lie
between the poll before and this one: an election that the consumer had long been past explains nothing.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as sf

from harness.checks.contract import lawful_rewind
from harness.checks.detection import Flagged
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.rulings import NOTHING_PERMITS_IT, Cause
from harness.checks.runs import Runs
from harness.checks.story import PartitionStory
from harness.checks.tables import Row
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural

NAME = "polls"
Span = tuple[int | None, int | None]  # when the poll before began, and when this one ended

# flag -> (check, kind, what happened)
_KINDS = {
    "back_inside": ("nonmonotonic-read", "internal", "came at or below the offset read just before in the same poll"),
    "back_between": ("nonmonotonic-read", "external", "came at or below the end of the same consumer's poll before"),
    "skip_inside": ("skipped-read", "internal", "came after a jump over existing records inside one poll"),
    "skip_between": ("skipped-read", "external", "came after a jump over existing records between two polls"),
}


def query(runs: Runs) -> list[Row]:
    """since, until of the polls onto flagged rows: of several consumers that jumped there, the widest."""
    wanted = [
        {"run": row.run, "tp": row.tp, "value": row.value, "off": row.off}
        for rows in runs.detection.flagged.values()
        for row in rows
        if row.flags & _KINDS.keys() and row.off is not None
    ]
    if not wanted:
        return []
    place = {"run": pa.int32(), "tp": pa.int32()}
    flagged = sf.broadcast(runs.frame({**place, "value": pa.int64(), "off": pa.int64()}, wanted))
    before = Window.partitionBy("run", "tp", "process").orderBy("op", "i")
    found = (
        runs.tables.records.where("kind = 1")
        .join(sf.broadcast(flagged.select(*place).distinct()), [*place], "left_semi")
        .select("run", "tp", "value", "off", "t1", sf.lag("off").over(before).alias("came_from"),
                sf.lag("t0").over(before).alias("since"))
        .where("off <> came_from + 1")
        .join(flagged, [*place, "value", "off"], "left_semi")
        .groupBy(*place, "value", "off")
        .agg(sf.min("since").alias("since"), sf.max("t1").alias("until"))
    )  # fmt: skip
    return list(found.toArrow().to_pylist())


def find(context: RunContext) -> list[Finding]:
    findings = []
    spans = {(row["tp"], row["value"], row["off"]): (row["since"], row["until"]) for row in context.rows.get(NAME, ())}
    for flag, (check, kind, what) in _KINDS.items():
        for story, rows in context.by_partition(flag):
            groups: dict[Cause, list[Flagged]] = {}
            for row in rows:
                groups.setdefault(_excuse(story, row, spans), []).append(row)
            for cause, members in groups.items():
                sentence = (
                    f"{plural(len(members), 'read record')} {offsets_words(members)} of {story.name} {what}: "
                    f"{cause_words(cause)}."
                )
                findings.append(
                    finding_of_rows(
                        context, story, members, check=check, kind=kind, sentence=sentence, cause=cause,
                        classification="violation" if cause == NOTHING_PERMITS_IT else "permitted",
                    )
                )  # fmt: skip
    return findings


def _excuse(story: PartitionStory, row: Flagged, spans: Mapping[tuple[int, int, int | None], Span]) -> Cause:
    if row.off is None or row.step is None:
        return NOTHING_PERMITS_IT
    came_from = row.off - row.step
    since, until = spans.get((row.tp, row.value, row.off), (None, None))
    rewind = lawful_rewind(story, offset=came_from, epoch=row.read_epoch, t=until, strict=True, since=since)
    if rewind is None:
        return NOTHING_PERMITS_IT
    return Cause(code="rewound-under-the-consumer", epoch=rewind.epoch, offset=rewind.start)
