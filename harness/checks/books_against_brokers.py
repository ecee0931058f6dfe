"""Books against brokers: what the coordination log says cannot be so, by itself or by what brokers tell.

An exact log counts its epochs upwards, names only replicas as in sync, and has every epoch that a broker led in. Two
leaders of one epoch are two_leaders.py's. A partition that is created anew begins its epochs anew.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.checks.disks_against_reads import CHECK
from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Cause
from harness.checks.story import PartitionStory
from harness.checks.tables import Row
from harness.checks.wording.words import nodes_words
from harness.history.schemas import UNREADABLE_EVENT

_STARTS = ("broker_start", "broker_registered")


def find(context: RunContext) -> list[Finding]:
    findings = list(_unreadable(context))
    alive = _heard_of(context)
    for story in context.story.partitions.values():
        books = [row for row in story.states if row["exact"]]
        if not books:
            continue
        findings += _backwards(context, story, books)
        findings += _strangers(context, story, books, alive)
        findings += _unknown_terms(context, story, books)
    return findings


def _heard_of(context: RunContext) -> frozenset[int]:
    """Brokers of which anything tells but the books; none at all where nothing tells when brokers start."""
    events = context.tables.get("broker_events", ())
    if not any(row["event"] in _STARTS for row in events):
        return frozenset()
    logs, states = context.tables.get("replica_snapshots", ()), context.tables.get("partition_states", ())
    polled = {row["observer"] for row in states if not row["exact"]}
    return frozenset({row["node"] for row in events} | {row["node"] for row in logs} | polled)


def _backwards(context: RunContext, story: PartitionStory, books: Sequence[Row]) -> Iterable[Finding]:
    for before, after in itertools.pairwise(books):
        fell = [name for name in ("leader_epoch", "partition_epoch") if (after[name] or 0) < (before[name] or 0)]
        if not fell or not (after["leader_epoch"] or after["partition_epoch"]):  # or the partition was created anew
            continue
        words = " and ".join(f"the {name.replace('_', ' ')} from {before[name]} to {after[name]}" for name in fell)
        sentence = f"The cluster's own books of {story.name} go back {context.story.seconds(after['t'])}: {words}"
        yield _finding(
            context, story, "epochs-go-back", sentence, t=after["t"],
            sides={"before": _state(before), "after": _state(after)},
        )  # fmt: skip
        return  # the first one tells it


def _strangers(
    context: RunContext, story: PartitionStory, books: Sequence[Row], alive: frozenset[int]
) -> Iterable[Finding]:
    for row in books:
        isr, replicas = set(row["isr"] or ()), set(row["replicas"] or ())
        never = sorted(isr - alive - replicas - set(story.replicas)) if alive else []
        outside = sorted(isr - replicas) if replicas else []
        if never:
            told = f"{nodes_words(never)}, of which nothing else in this run tells"
        elif outside:
            told = f"{nodes_words(outside)}, which {'is no replica' if len(outside) == 1 else 'are no replicas'} of it"
        else:
            continue
        sentence = f"By the cluster's own books the ISR of {story.name} had {told}, {context.story.seconds(row['t'])}"
        yield _finding(
            context, story, "stranger-in-sync", sentence, t=row["t"],
            sides={"books": _state(row), "brokers": sorted(alive), "replicas": sorted(replicas)},
        )  # fmt: skip
        return


def _unknown_terms(context: RunContext, story: PartitionStory, books: Sequence[Row]) -> Iterable[Finding]:
    """Epochs that a broker says it led in, below the last of the books, which do not have them."""
    known = {row["leader_epoch"] for row in books}
    for event in story.events:
        epoch = event["epoch"]
        if event["event"] == "leadership_start" and epoch is not None and epoch not in known and epoch < max(known):
            sentence = (
                f"Broker {event['node']} says that it led {story.name} in epoch {epoch}, "
                f"{context.story.seconds(event['t'])}, and the cluster's own books have no such epoch"
            )
            yield _finding(
                context, story, "unknown-epoch", sentence, t=event["t"],
                sides={
                    "broker": {"node": event["node"], "epoch": epoch, "t_ns": event["t"]},
                    "books": sorted(known)[:50],
                },
            )  # fmt: skip
            return


def _unreadable(context: RunContext) -> Iterable[Finding]:
    for event in context.tables.get("broker_events", ()):
        if event["event"] == UNREADABLE_EVENT:
            sentence = f"A line of broker {event['node']}'s own journal cannot be read ({event['detail']})"
            yield _finding(
                context, None, "unreadable-line", sentence, t=event["t"],
                sides={"node": event["node"], "place": event["detail"]},
            )  # fmt: skip


def _state(row: Row) -> Mapping[str, Any]:
    names = ("leader", "leader_epoch", "partition_epoch", "isr", "t")
    return {name: row[name] for name in names}


def _finding(
    context: RunContext, story: PartitionStory | None, kind: str, sentence: str, *, t: int, sides: Mapping[str, Any]
) -> Finding:
    return Finding(
        run=context.run, check=CHECK, classification="observation", kind=kind,
        topic=None if story is None else story.topic, part=None if story is None else story.part, count=1,
        sentence=f"{sentence}.", cause=Cause(code="books-contradict"), t_first=t, t_last=t, open_question=True,
        evidence=sides,
    )  # fmt: skip
