"""Torn transactions: some records of one transaction are in the final log, and others are not (KIP-98, atomicity).

A transaction that was committed is there as a whole, one that was aborted not at all, and one whose outcome nobody
knows is one or the other. A record that is missing from a partition which was not read that far makes a candidate only,
which is an observation; one that the configuration removed or allowed to be lost does not count. Not judged: unknown
outcomes where the final reader was read_uncommitted, since it sees what was never committed.
"""

from collections.abc import Sequence

from pyspark.sql import functions as sf

from harness.checks.fates import Fate
from harness.checks.findings import Finding, RunContext
from harness.checks.removal import Removal
from harness.checks.rulings import NOTHING_PERMITS_IT, Cause, Class
from harness.checks.runs import Runs
from harness.checks.tables import Row
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.schemas import STATUS_OK

CHECK = "torn-transaction"
_ROWS_MAX = 20_000


def query(runs: Runs) -> list[Row]:
    """Transactions that the final log has in part: how many records of each, and the missing ones."""
    if not runs.rows("transactions"):
        return []
    sent = runs.tables.records.where("kind = 0 and txn is not null and status <> 1").select(
        "run", "tp", "value", "txn", "off", "t1", "key", "acks", "timestamp_ms"
    )
    final = runs.tables.records.where("kind = 2 and replica is null").select("run", "tp", "value", "process", "off")
    ends = final.groupBy("run", "tp").agg(sf.max("off").alias("final_end"))
    seen = final.groupBy("run", "tp", "value").agg(sf.min("process").alias("reader"))
    missing = sf.struct("tp", "value", "off", "t1", "key", "acks", "timestamp_ms", "final_end")
    found = (
        sent.join(seen, ["run", "tp", "value"], "left")
        .join(sf.broadcast(ends), ["run", "tp"], "left")
        .groupBy("run", "txn")
        .agg(
            sf.count("*").alias("sent"), sf.count("reader").alias("visible"), sf.min("reader").alias("reader"),
            sf.collect_list(sf.when(sf.col("reader").isNull(), missing)).alias("missing"),
        )
        .where("visible > 0 and visible < sent")
    )  # fmt: skip
    transactions = {(row["run"], row["txn"]): row for row in runs.rows("transactions")}
    clients = runs.processes()
    rows: list[Row] = []
    for row in found.limit(_ROWS_MAX).toArrow().to_pylist():
        transaction = transactions.get((row["run"], row["txn"]))
        reader = clients.get((row["run"], row["reader"]))
        if transaction is None:
            continue
        certain = transaction["outcome"] == STATUS_OK
        if certain or (reader is not None and reader["isolation"] == "read_committed"):
            rows.append({**row, "certain": certain, "transaction": transaction})
    return rows


def find(context: RunContext) -> list[Finding]:
    removal = Removal(context)
    groups: dict[tuple[Class, Cause, bool], list[tuple[Row, list[Row]]]] = {}
    for row in sorted(context.rows.get(CHECK, ()), key=lambda row: row["txn"]):
        missing = [record for record in row["missing"] if removal.of_record(record) is None]
        if missing:
            classification, cause = _ruled(context, missing)
            groups.setdefault((classification, cause, row["certain"]), []).append((row, missing))
    return [_finding(context, *key, torn) for key, torn in groups.items()]


def _ruled(context: RunContext, missing: Sequence[Row]) -> tuple[Class, Cause]:
    rulings = []
    for record in missing:
        story = context.partition(record["tp"])
        read_to_end = story.read_to_end or story.deletion is not None
        if not read_to_end and (record["off"] is None or record["off"] > (record["final_end"] or -1)):
            continue
        fate = Fate(offset=record["off"], epoch=None, acks=record["acks"], t_acknowledged=record["t1"],
                    committed=False, in_a_log=False)  # fmt: skip
        rulings.append(context.judge(story).rule(fate))
    if not rulings:
        return "observation", Cause(code="not-read-that-far")
    if any(ruling.classification == "violation" for ruling in rulings):
        return "violation", NOTHING_PERMITS_IT
    if any(ruling.undecided for ruling in rulings):
        undecided = next(ruling.undecided for ruling in rulings if ruling.undecided)
        return "observation", Cause(code="missing-in-doubt", doubt=undecided)
    return "permitted", Cause(code="missing-by-a-loss", by=rulings[0].cause)


def _finding(
    context: RunContext, classification: Class, cause: Cause, certain: bool, torn: Sequence[tuple[Row, list[Row]]]
) -> Finding:
    records = [record for _, missing in torn for record in missing]
    sent, visible = sum(row["sent"] for row, _ in torn), sum(row["visible"] for row, _ in torn)
    what = "committed transaction" if certain else "transaction"
    unknown = "" if certain else " of unknown outcome"
    places = sorted({context.partition(record["tp"]).name for record in records})
    one = places[0] if len(places) == 1 else None
    story = context.partition(records[0]["tp"])
    sentence = (
        f"{plural(len(torn), what)}{unknown} {plural(len(torn), 'is')} in the final log in part: {visible} of {sent} "
        f"records are there, {len(records)} are not ({', '.join(places[:5])}): {cause_words(cause)}."
    )
    transactions = [row["transaction"] for row, _ in torn]
    return Finding(
        run=context.run, check=CHECK, classification=classification,
        kind="candidate" if classification == "observation" else "torn", count=len(torn),
        topic=story.topic if one else None, part=story.part if one else None, sentence=sentence, cause=cause,
        values=[record["value"] for record in records], apart="committed" if certain else "unknown",
        offsets=[record["off"] for record in records if record["off"] is not None],
        t_first=min(row["t0"] for row in transactions), t_last=max(row["t1"] for row in transactions),
        evidence={
            "transactions": [
                {"txn": row["txn"], "process": row["transaction"]["process"], "sent": row["sent"],
                 "visible": row["visible"], "error": row["transaction"]["error"],
                 "missing": [{name: record[name] for name in ("tp", "value", "off")} for record in missing[:20]]}
                for row, missing in torn[:20]
            ]
        },
    )  # fmt: skip
