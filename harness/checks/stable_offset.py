"""Last stable offset: a read_committed reader passed the first record of a transaction that was still open (KIP-98).

Such a reader sees nothing at or above the first offset of any open transaction. A transaction was certainly open until
the last of its sends was answered, because it is ended only after that; its first record lay in the log before whatever
lies above it. So a record is one too many when the poll that returned it had ended before that answer. A log that was
lawfully rewound under the reader excuses it.
"""

import pyarrow as pa
from pyspark.sql import functions as sf

from harness.checks.contract import lawful_rewind
from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import NOTHING_PERMITS_IT, Cause, Class
from harness.checks.runs import Runs
from harness.checks.tables import Row
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, ranges

CHECK = "last-stable-offset"
_ROWS_MAX = 20_000


def query(runs: Runs) -> list[Row]:
    strict = [
        {"run": run, "process": process}
        for (run, process), row in runs.processes().items()
        if row["isolation"] == "read_committed"
    ]
    if not strict or not runs.rows("transactions"):
        return []
    sent = runs.tables.records.where("kind = 0 and txn is not null and off is not null")
    ends = sent.groupBy("run", "txn").agg(sf.max("t1").alias("open_until"))
    begins = (
        sent.groupBy("run", "tp", "txn")
        .agg(sf.min("off").alias("off"))
        .join(ends, ["run", "txn"])
        .selectExpr("run", "tp", "off", "txn", "open_until", "cast(null as bigint) as value",
                    "cast(null as bigint) as op", "cast(null as int) as process", "cast(null as bigint) as t1",
                    "cast(null as int) as epoch")
    )  # fmt: skip
    readers = sf.broadcast(runs.frame({"run": pa.int32(), "process": pa.int32()}, strict))
    reads = (
        runs.tables.records.where("kind > 0")
        .join(readers, ["run", "process"], "left_semi")
        .selectExpr("run", "tp", "off", "cast(null as bigint) as txn", "cast(null as bigint) as open_until", "value",
                    "op", "process", "t1", "epoch")
    )  # fmt: skip
    below = "partition by run, tp order by off range between unbounded preceding and current row"
    found = (
        begins.unionByName(reads)
        .selectExpr("*", f"max(struct(open_until, txn)) over ({below}) as opened")
        .where("value is not null and t1 < opened.open_until")
        .selectExpr("run", "tp", "off", "value", "op", "process", "t1", "epoch", "opened.txn as txn",
                    "opened.open_until as open_until", "count(*) over (partition by run, tp) as total")
    )  # fmt: skip
    return list(found.orderBy("run", "tp", "off").limit(_ROWS_MAX).toArrow().to_pylist())


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[int, Cause], list[Row]] = {}
    for row in context.rows.get(CHECK, ()):
        rewind = lawful_rewind(
            context.partition(row["tp"]), offset=row["off"], epoch=None, t=row["open_until"], strict=True
        )
        lawful = Cause(code="rewound-under-the-reader", epoch=rewind.epoch) if rewind is not None else None
        groups.setdefault((row["tp"], lawful or NOTHING_PERMITS_IT), []).append(row)
    found = []
    for (tp, cause), rows in groups.items():
        classification: Class = "violation" if cause == NOTHING_PERMITS_IT else "permitted"
        story, count = context.partition(tp), len(rows) if len(rows) < _ROWS_MAX else rows[0]["total"]
        sentence = (
            f"{plural(count, 'record')} of {story.name} (at {ranges(row['off'] for row in rows)}) "
            f"{plural(count, 'was')} returned to read_committed readers while a transaction with an earlier record "
            f"there was still open (first to process {rows[0]['process']}, past transaction {rows[0]['txn']}): "
            f"{cause_words(cause)}."
        )
        found.append(
            Finding(
                run=context.run, check=CHECK, classification=classification, kind="passed",
                topic=story.topic, part=story.part, count=count, sentence=sentence, cause=cause,
                offsets=[row["off"] for row in rows], values=[row["value"] for row in rows],
                operations=sorted({row["op"] for row in rows}), t_first=min(row["t1"] for row in rows),
                t_last=max(row["t1"] for row in rows),
                evidence={"transactions": sorted({row["txn"] for row in rows})[:20],
                          "open_until_ns": max(row["open_until"] for row in rows)},
            )
        )  # fmt: skip
    return found
