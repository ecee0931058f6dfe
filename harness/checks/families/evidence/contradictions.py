"""Evidence against evidence: every contradiction is reported with both sides.

If only the system can have caused it, it is a violation; otherwise it is unknown which side is true, and the run is
inconclusive.
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
