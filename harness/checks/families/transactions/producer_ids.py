"""Producer ids: one that two transactional ids were given (KIP-98: a producer id is handed out once).

Brokers tell producers apart by that number alone: they take the records of the one for repetitions of the other, and a
marker for the one ends the transaction of the other. The coordinators' logs name the id of each transactional id, in
whatever order they came, and also where they were cut later. A producer id may be handed out anew only if the cluster's
metadata, where the next free one stands, was lost.
"""

from collections.abc import Sequence
from typing import TypeAlias

from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.model.partition_history import RunHistory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.schema.internal_rows import TRANSACTION_STATE, TransactionStateRow
from harness.ports.cluster import COORDINATION

CHECK = "shared-producer-id"
_TAKES_METADATA = ("wipe", "disk-loss", "power-loss", "damage")
_EXAMPLES_MAX = 20

Holder: TypeAlias = tuple[str, TransactionStateRow]  # a transactional id, and the first record that gives it the id


def find(context: RunContext) -> list[Finding]:
    return [
        _finding(context, producer_id, holders)
        for producer_id, holders in sorted(_holders(context.tables[TRANSACTION_STATE]).items())
        if len(holders) > 1
    ]


def _holders(records: Sequence[TransactionStateRow]) -> dict[int, list[Holder]]:
    """Producer id -> who has it; the first record of each is told."""
    found: dict[int, dict[str, TransactionStateRow]] = {}
    for row in sorted(records, key=lambda row: (row["partition"], row["offset"])):
        producer_id, name = row["producer_id"], row["transactional_id"]
        if producer_id is not None and producer_id >= 0 and name is not None and not row["removed"]:
            found.setdefault(producer_id, {}).setdefault(name, row)
    return {producer_id: sorted(rows.items()) for producer_id, rows in found.items()}


def _finding(context: RunContext, producer_id: int, holders: Sequence[Holder]) -> Finding:
    classification, cause = _ruled(context.history)
    times = [row["time_ns"] for _, row in holders if row["time_ns"] is not None]
    named = " and ".join(f"“{name}”" for name, _ in holders[:3])
    more = f" and {len(holders) - 3} more" if len(holders) > 3 else ""
    sentence = (
        f"{plural(len(holders), 'transactional id')} have one producer id, {producer_id}: {named}{more}: "
        f"{cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind="two-transactional-ids",
        count=len(holders),
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        first_ns=min(times, default=None),
        last_ns=max(times, default=None),
        evidence={"producer_id": producer_id, "holders": [_side(holder) for holder in holders[:_EXAMPLES_MAX]]},
    )


def _side(holder: Holder) -> dict[str, object]:
    name, row = holder
    return {
        "transactional_id": name,
        "producer_epoch": row["producer_epoch"],
        "partition": row["partition"],
        "offset": row["offset"],
        "t_ns": row["time_ns"],
    }


def _ruled(history: RunHistory) -> tuple[Class, Cause]:
    """Of a cluster that somebody else runs nobody knows whether it remembers what it handed out."""
    scenario = history.scenario
    is_known = scenario is not None and not scenario.cluster.is_foreign
    if is_known and not any(_takes_metadata(history, fault["kind"], fault["nodes"]) for fault in history.faults):
        return "violation", NOTHING_PERMITS_IT
    return "observation", Cause(code="producer-ids-in-doubt", doubt=Doubt(code="producer-ids-in-doubt"))


def _takes_metadata(history: RunHistory, kind: str, nodes: Sequence[int]) -> bool:
    """Whether it may have taken records of the coordination service, or of a controller."""
    scenario = history.scenario
    combined = scenario is None or scenario.cluster.layout == "kraft-combined"
    return kind in _TAKES_METADATA and (combined or any(node >= COORDINATION for node in nodes))


FAMILY = Family(name=CHECK, find=find)
