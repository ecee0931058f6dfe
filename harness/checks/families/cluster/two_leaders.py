"""Two leaders in one epoch: an epoch must have one leader, or its offsets are ambiguous.

Sources are the cluster's books, the brokers' own journals, and the brokers' answers to requests. Two leaders in
different epochs are permitted: the older one does not know its successor yet.
"""

from collections.abc import Iterable

from harness.checks.contract.rulings import Cause
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.words import nodes_words
from harness.history.schema.cluster_rows import PARTITION_STATES, PartitionStateRow

CHECK = "two-leaders"


def find(context: RunContext) -> list[Finding]:
    observed: dict[tuple[str, int], list[PartitionStateRow]] = {}
    for row in context.tables[PARTITION_STATES]:
        observed.setdefault((row["topic"], row["partition"]), []).append(row)
    return [
        _finding(context, history, epoch, leaders)
        for history in context.history.partitions.values()
        for epoch, leaders in sorted(_leaders(history, observed.get((history.topic, history.partition), ())).items())
        if len(leaders) > 1
    ]


def _leaders(history: PartitionHistory, observed: Iterable[PartitionStateRow]) -> dict[int, dict[int, tuple[int, str]]]:
    """Epoch -> leader -> (time of the first statement that it leads in it, the source)."""
    reported: list[tuple[int, int, int, str]] = []
    for row in observed:
        if row["leader"] >= 0 and (row["leader_epoch"] or 0) >= 0 and row["leader_epoch"] is not None:
            source = "the cluster's own books" if row["exact"] else f"broker {row['observer']}"
            reported.append((row["time_ns"], row["leader_epoch"], row["leader"], source))
    for event in history.events:
        if event["event"] == "leadership_start" and event["leader_epoch"] is not None:
            node = event["node"]
            reported.append((event["time_ns"], event["leader_epoch"], node, f"broker {node} of itself"))
    found: dict[int, dict[int, tuple[int, str]]] = {}
    for t, epoch, leader, source in sorted(reported):
        found.setdefault(epoch, {}).setdefault(leader, (t, source))
    return found


def _finding(
    context: RunContext, history: PartitionHistory, epoch: int, leaders: dict[int, tuple[int, str]]
) -> Finding:
    said = "; ".join(
        f"broker {leader} by the word of {source}, first {context.history.seconds(t)}"
        for leader, (t, source) in leaders.items()
    )
    times = [t for t, _ in leaders.values()]
    return Finding(
        run=context.run,
        check=CHECK,
        classification="violation",
        kind="one-epoch",
        topic=history.topic,
        partition=history.partition,
        count=len(leaders),
        epoch=epoch,
        first_ns=min(times),
        last_ns=max(times),
        cause=Cause(code="two-leaders"),
        sentence=f"{nodes_words(sorted(leaders)).capitalize()} led {history.name} in one epoch, {epoch}: {said}.",
        evidence={"leader_epoch": epoch, "leaders": sorted(leaders)},
    )


FAMILY = Family(name=CHECK, find=find)
