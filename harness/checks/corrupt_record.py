"""Corrupt records that were served: reads that a client refused, because a batch's checksum did not hold.

A disk may damage what lies on it, and a broker may have to do without; handing it to a client is another matter.
Clients that do not look at checksums get values that nobody sent instead, which are phantoms.
"""

from collections.abc import Sequence

from harness.checks.contract import Class
from harness.checks.findings import Finding, RunContext, nodes_words, plural
from harness.checks.tables import Row

CHECK = "corrupt-record"


def damaged_nodes(faults: Sequence[Row]) -> set[int]:
    """Whose logs had bits flipped under them, as was seen."""
    return {node for row in faults if row["kind"] == "damage" and row["proof"] for node in row["nodes"] or ()}


def find(context: RunContext) -> list[Finding]:
    reads = context.corrupt_reads
    if not reads:
        return []
    first, last = min(row["t1"] for row in reads), max(row["t1"] for row in reads)
    classification, cause = _ruled(context)
    clients = ", ".join(sorted({str(row["client"]) for row in reads}))
    sentence = (
        f"{plural(len(reads), 'read')} {plural(len(reads), 'was')} answered with a batch whose checksum does not hold, "
        f"the first {context.story.seconds(first)}, and the client refused it ({clients}): {cause}."
    )
    return [
        Finding(
            run=context.run, check=CHECK, classification=classification, kind="served", count=len(reads),
            sentence=sentence, cause=cause, operations=[row["op"] for row in reads], t_first=first, t_last=last,
            faults=[row["fault"] for row in context.story.faults if row["kind"] == "damage"],
            evidence={"errors": sorted({str(row["error"]) for row in reads}), "clients": clients},
        )
    ]  # fmt: skip


def _ruled(context: RunContext) -> tuple[Class, str]:
    damaged = damaged_nodes(context.story.faults)
    if not damaged:
        return "violation", "a broker served a damaged record, and no disk was damaged by a fault"
    for story in context.story.partitions.values():
        if story.final_isr and set(story.final_isr) <= damaged:
            return "permitted", f"every in-sync copy of {story.name} had been damaged"
    return (
        "violation",
        f"the log of {nodes_words(sorted(damaged))} had been damaged, and other in-sync copies were sound",
    )
