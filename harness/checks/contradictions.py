"""Evidence against evidence: what contradicts itself is told with both sides, and is never passed over.

Where nothing but the system can have parted the two sides it is a violation; else nobody can tell which of them is
true, and the run is inconclusive.
"""

from harness.checks import books_against_brokers, disks_against_reads, marks_against_logs
from harness.checks.findings import Finding, RunContext

CHECK = disks_against_reads.CHECK
query = disks_against_reads.query


def find(context: RunContext) -> list[Finding]:
    rows = context.rows.get(CHECK, ())
    read_at = {row["tp"]: row["t0"] for row in rows if row["value"] is None}
    return [
        *disks_against_reads.find(context, rows),
        *marks_against_logs.find(context, read_at),
        *books_against_brokers.find(context),
    ]
