"""Corrupt records that were served: reads that a client refused, because a batch's checksum did not hold.

A disk may damage what lies on it, and a broker may have to do without; handing it to a client is another matter.
Clients that do not look at checksums get values that nobody sent instead, which are phantoms.
"""

from collections.abc import Sequence

from harness.checks.damage import Damages
from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Cause, Class
from harness.checks.tables import Row
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural

CHECK = "corrupt-record"


def find(context: RunContext) -> list[Finding]:
    damages = Damages(context)
    groups: dict[tuple[Class, Cause], list[Row]] = {}
    for read in context.corrupt_reads:
        groups.setdefault(_ruled(context, damages, read["t1"]), []).append(read)
    return [_finding(context, reads, *ruled) for ruled, reads in groups.items()]


def _finding(context: RunContext, reads: Sequence[Row], classification: Class, cause: Cause) -> Finding:
    first, last = min(row["t1"] for row in reads), max(row["t1"] for row in reads)
    clients = ", ".join(sorted({str(row["client"]) for row in reads}))
    sentence = (
        f"{plural(len(reads), 'read')} {plural(len(reads), 'was')} answered with a batch whose checksum does not hold, "
        f"the first {context.story.seconds(first)}, and the client refused it ({clients}): "
        f"{cause_words(cause)}."
    )
    return Finding(
        run=context.run, check=CHECK, classification=classification, kind="served", count=len(reads),
        sentence=sentence, cause=cause, operations=[row["op"] for row in reads], t_first=first, t_last=last,
        faults=[row["fault"] for row in context.story.faults if row["kind"] == "damage"],
        evidence={"errors": sorted({str(row["error"]) for row in reads}), "clients": clients},
    )  # fmt: skip


def _ruled(context: RunContext, damages: Damages, t: int) -> tuple[Class, Cause]:
    """Which partition was read nobody says: one whose copies all are damaged may have been it."""
    if not damages.nodes:
        return "violation", Cause(code="no-disk-was-damaged")
    gone = [
        story for story in context.story.partitions.values() if story.final_isr and {*story.final_isr} <= damages.nodes
    ]
    for story in gone:
        if {*story.final_isr} & damages.unread(story, at=t):
            return "permitted", Cause(code="every-copy-was-damaged", partitions=(story.name,))
    nodes = tuple(sorted(damages.nodes))
    if gone:
        return "violation", Cause(code="damaged-and-read-at-its-start", nodes=nodes)
    return "violation", Cause(code="damaged-and-others-sound", nodes=nodes)
