"""Evidence against evidence: every contradiction is reported with both sides.

If only the system can have caused it, it is a violation; otherwise it is unknown which side is true, and the run is
inconclusive.
"""

from harness.checks.families.evidence import (
    books_against_brokers,
    disks_against_reads,
    killed_members,
    marks_against_logs,
)
from harness.checks.families.evidence.read_rows import EvidenceAnswer
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns

CHECK = disks_against_reads.CHECK


def query(runs: JudgedRuns) -> list[EvidenceAnswer]:
    return [*disks_against_reads.query(runs), *killed_members.query(runs)]


def find(context: RunContext) -> list[Finding]:
    return [
        *disks_against_reads.find(context),
        *marks_against_logs.find(context, disks_against_reads.read_since(context)),
        *books_against_brokers.find(context),
    ]


FAMILY = Family(name=CHECK, find=find, query=query)
