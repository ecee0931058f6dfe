"""Corrupt records that were served: reads that a client rejected because of a batch's wrong checksum.

A disk may damage its data, and a broker may have to drop it, but must not send it to a client. Clients that do not test
checksums get values that nobody sent instead, which are phantoms.
"""

from collections.abc import Sequence

from harness.checks.contract.rulings import Cause, Class
from harness.checks.explaining.damage import Damages
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.schema.client_rows import OperationRow

CHECK = "corrupt-record"


def find(context: RunContext) -> list[Finding]:
    damages = Damages(context)
    groups: dict[tuple[Class, Cause], list[OperationRow]] = {}
    for read in context.corrupt_reads:
        groups.setdefault(_ruled(context, damages, read["completed_ns"]), []).append(read)
    return [_finding(context, reads, *ruled) for ruled, reads in groups.items()]


def _finding(context: RunContext, reads: Sequence[OperationRow], classification: Class, cause: Cause) -> Finding:
    first, last = min(row["completed_ns"] for row in reads), max(row["completed_ns"] for row in reads)
    clients = ", ".join(sorted({str(row["client"]) for row in reads}))
    sentence = (
        f"{plural(len(reads), 'read')} {plural(len(reads), 'was')} answered with a batch whose checksum does not hold, "
        f"the first {context.history.seconds(first)}, and the client refused it ({clients}): "
        f"{cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind="served",
        count=len(reads),
        sentence=sentence,
        cause=cause,
        operations=[row["operation"] for row in reads],
        first_ns=first,
        last_ns=last,
        faults=[row["fault"] for row in context.history.faults if row["kind"] == "damage"],
        evidence={"errors": sorted({str(row["error"]) for row in reads}), "clients": clients},
    )


def _ruled(context: RunContext, damages: Damages, time_ns: int) -> tuple[Class, Cause]:
    """Class and cause. The partition is not recorded: it may be one whose copies are all damaged."""
    if not damages.nodes:
        return "violation", Cause(code="no-disk-was-damaged")
    gone = [
        history
        for history in context.history.partitions.values()
        if history.final_isr and {*history.final_isr} <= damages.nodes
    ]
    for history in gone:
        if {*history.final_isr} & damages.unread(history, at=time_ns):
            return "permitted", Cause(code="every-copy-was-damaged", partitions=(history.name,))
    nodes = tuple(sorted(damages.nodes))
    if gone:
        return "violation", Cause(code="damaged-and-read-at-its-start", nodes=nodes)
    return "violation", Cause(code="damaged-and-others-sound", nodes=nodes)


FAMILY = Family(name="corrupt-record", find=find)
