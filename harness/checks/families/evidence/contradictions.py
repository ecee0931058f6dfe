"""Evidence against evidence: what contradicts itself is told with both sides, and is never passed over.

Where nothing but the system can have parted the two sides it is a violation; else nobody can tell which of them is
true, and the run is inconclusive.
"""

from harness.checks.families.evidence import books_against_brokers, disks_against_reads, marks_against_logs
from harness.checks.findings import Finding, RunContext

CHECK = disks_against_reads.CHECK
query = disks_against_reads.query


def find(context: RunContext) -> list[Finding]:
    answers = context.rows[disks_against_reads.ANSWER]
    read_at = {read["partition_id"]: read["invoked_ns"] for row in answers if (read := row["read"]) is not None}
    return [
        *disks_against_reads.find(context),
        *marks_against_logs.find(context, read_at),
        *books_against_brokers.find(context),
    ]
