"""Two leaders in one epoch: an epoch has one leader, or its offsets mean two things.

By the cluster's books, by what brokers journalled of themselves, and by what they answered when they were asked. Two
leaders in different epochs are lawful: the older one has not heard yet.
"""

from collections.abc import Iterable

from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Cause
from harness.checks.story import PartitionStory
from harness.checks.tables import Row
from harness.checks.wording.words import nodes_words

CHECK = "two-leaders"


def find(context: RunContext) -> list[Finding]:
    observed: dict[tuple[str, int], list[Row]] = {}
    for row in context.tables.get("partition_states", ()):
        observed.setdefault((row["topic"], row["part"]), []).append(row)
    return [
        _finding(context, story, epoch, leaders)
        for story in context.story.partitions.values()
        for epoch, leaders in sorted(_leaders(story, observed.get((story.topic, story.part), ())).items())
        if len(leaders) > 1
    ]


def _leaders(story: PartitionStory, observed: Iterable[Row]) -> dict[int, dict[int, tuple[int, str]]]:
    """Epoch -> leader -> (when it was first said to lead in it, by whom)."""
    told: list[tuple[int, int, int, str]] = []
    for row in observed:
        if row["leader"] >= 0 and (row["leader_epoch"] or 0) >= 0 and row["leader_epoch"] is not None:
            source = "the cluster's own books" if row["exact"] else f"broker {row['observer']}"
            told.append((row["t"], row["leader_epoch"], row["leader"], source))
    for row in story.events:
        if row["event"] == "leadership_start" and row["epoch"] is not None:
            told.append((row["t"], row["epoch"], row["node"], f"broker {row['node']} of itself"))
    found: dict[int, dict[int, tuple[int, str]]] = {}
    for t, epoch, leader, source in sorted(told):
        found.setdefault(epoch, {}).setdefault(leader, (t, source))
    return found


def _finding(context: RunContext, story: PartitionStory, epoch: int, leaders: dict[int, tuple[int, str]]) -> Finding:
    said = "; ".join(
        f"broker {leader} by the word of {source}, first {context.story.seconds(t)}"
        for leader, (t, source) in leaders.items()
    )
    times = [t for t, _ in leaders.values()]
    return Finding(
        run=context.run, check=CHECK, classification="violation", kind="one-epoch", topic=story.topic, part=story.part,
        count=len(leaders), epoch=epoch, t_first=min(times), t_last=max(times), cause=Cause(code="two-leaders"),
        sentence=f"{nodes_words(sorted(leaders)).capitalize()} led {story.name} in one epoch, {epoch}: {said}.",
        evidence={"epoch": epoch, "leaders": sorted(leaders)},
    )  # fmt: skip
