"""Books against brokers: statements of the coordination log that contradict each other or the brokers' journals.

In an exact log epochs only increase, a partition is of one topic, only replicas are in sync, and every epoch exists
in which a broker led.
two_leaders.py handles two leaders of one epoch. A partition that is created again starts its epochs again.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from harness.checks.contract.rulings import Cause
from harness.checks.families.cluster.topic_ids import known
from harness.checks.families.evidence.disks_against_reads import CHECK
from harness.checks.findings import Finding, RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.words import nodes_words
from harness.history.schema.cluster_rows import (
    BROKER_EVENTS,
    PARTITION_STATES,
    REPLICA_SNAPSHOTS,
    TOPICS,
    PartitionStateRow,
)
from harness.history.schema.schemas import UNREADABLE_EVENT

_APART_NS = 1_000_000_000  # between the brokers' clocks and the books', at most
_STARTS = ("broker_start", "broker_registered")
_COUNTED: tuple[Literal["leader_epoch"], Literal["partition_epoch"]] = ("leader_epoch", "partition_epoch")


def find(context: RunContext) -> list[Finding]:
    findings = list(_unreadable(context))
    alive = _heard_of(context)
    exact = (row for row in context.tables[PARTITION_STATES] if row["exact"])
    written_until = max((row["time_ns"] - (row["uncertainty_ns"] or 0) for row in exact), default=0)
    for history in context.history.partitions.values():
        books = [row for row in history.states if row["exact"]]
        if not books:
            continue
        findings += _backwards(context, history, books)
        findings += _strangers(context, history, books, alive)
        findings += _two_topics(context, history, books)
        findings += _unknown_terms(context, history, books, written_until)
    return findings


def _heard_of(context: RunContext) -> frozenset[int]:
    """Brokers that the scenario names, or other evidence than the books; empty if none records the brokers' starts."""
    events = context.tables[BROKER_EVENTS]
    if not any(row["event"] in _STARTS for row in events):
        return frozenset()
    logs, states = context.tables[REPLICA_SNAPSHOTS], context.tables[PARTITION_STATES]
    scenario, placed = context.history.scenario, context.history.partitions.values()
    known = {row["observer"] for row in states if not row["exact"]} | {
        node for each in placed for node in each.replicas
    }
    known |= set() if scenario is None else set(map(int, scenario.cluster.brokers))
    return frozenset({row["node"] for row in events} | {row["node"] for row in logs} | known)


def _backwards(context: RunContext, history: PartitionHistory, books: Sequence[PartitionStateRow]) -> Iterable[Finding]:
    for before, after in itertools.pairwise(books):
        fell = [name for name in _COUNTED if (after[name] or 0) < (before[name] or 0)]
        if not fell or not (after["leader_epoch"] or after["partition_epoch"]):  # or the partition was created again
            continue
        words = " and ".join(f"the {name.replace('_', ' ')} from {before[name]} to {after[name]}" for name in fell)
        sentence = (
            f"The cluster's own books of {history.name} go back {context.history.seconds(after['time_ns'])}: {words}"
        )
        yield _finding(
            context,
            history,
            "epochs-go-back",
            sentence,
            time_ns=after["time_ns"],
            sides={"before": _state(before), "after": _state(after)},
        )
        return  # the first one is enough


def _two_topics(
    context: RunContext, history: PartitionHistory, books: Sequence[PartitionStateRow]
) -> Iterable[Finding]:
    """A topic keeps its id as long as it is there; one that is created again is another (incarnations.py)."""
    said = {row["topic"]: row["topic_id"] for row in context.tables[TOPICS]}
    own = [(row["time_ns"], topic_id) for row in books if (topic_id := known(row["topic_id"])) is not None]
    ids = sorted({topic_id for _, topic_id in own} | ({topic} if (topic := known(said.get(history.topic))) else set()))
    if len(ids) > 1:
        sentence = f"By the cluster's own books {history.name} is of {len(ids)} topics, {', '.join(ids)}"
        yield _finding(context, history, "two-topics", sentence, time_ns=own[0][0], sides={"topic_ids": ids[:50]})


def _strangers(
    context: RunContext, history: PartitionHistory, books: Sequence[PartitionStateRow], alive: frozenset[int]
) -> Iterable[Finding]:
    for row in books:
        isr, replicas = set(row["isr"] or ()), set(row["replicas"] or ())
        never = sorted(isr - alive) if alive else []
        outside = sorted(isr - replicas) if replicas else []
        if never:
            unknown = f"{nodes_words(never)}, of which nothing else in this run mentions"
        elif outside:
            unknown = (
                f"{nodes_words(outside)}, which {'is no replica' if len(outside) == 1 else 'are no replicas'} of it"
            )
        else:
            continue
        when = context.history.seconds(row["time_ns"])
        sentence = f"By the cluster's own books the ISR of {history.name} had {unknown}, {when}"
        yield _finding(
            context,
            history,
            "stranger-in-sync",
            sentence,
            time_ns=row["time_ns"],
            sides={"books": _state(row), "brokers": sorted(alive), "replicas": sorted(replicas)},
        )
        return


def _unknown_terms(
    context: RunContext, history: PartitionHistory, books: Sequence[PartitionStateRow], written_until: int
) -> Iterable[Finding]:
    """Epochs that a broker says it led in and that the books lack, though they have what came after.

    A controller writes an epoch before its leader hears of it. So the books have what came after if their last epoch of
    the partition is a later one, or if anything was written in them, of any partition, after the broker began to lead.
    """
    known = {row["leader_epoch"] for row in books}
    for event in history.events:
        epoch = event["leader_epoch"]
        if event["event"] != "leadership_start" or epoch is None or epoch in known:
            continue
        if epoch < max(known) or (
            event["time_ns"] + _APART_NS < written_until and not _is_anew_since(books, event["time_ns"])
        ):
            sentence = (
                f"Broker {event['node']} says that it led {history.name} in epoch {epoch}, "
                f"{context.history.seconds(event['time_ns'])}, and the cluster's own books have no such epoch"
            )
            yield _finding(
                context,
                history,
                "unknown-epoch",
                sentence,
                time_ns=event["time_ns"],
                sides={
                    "broker": {"node": event["node"], "leader_epoch": epoch, "t_ns": event["time_ns"]},
                    "books": sorted(known)[:50],
                },
            )
            return


def _is_anew_since(books: Sequence[PartitionStateRow], time_ns: int) -> bool:
    """Whether the partition was created again about then or later: the epochs before are of another one."""
    return any(
        not row["leader_epoch"] and not row["partition_epoch"] and row["time_ns"] + _APART_NS >= time_ns
        for row in books
    )


def _unreadable(context: RunContext) -> Iterable[Finding]:
    for event in context.tables[BROKER_EVENTS]:
        if event["event"] == UNREADABLE_EVENT:
            sentence = f"A line of broker {event['node']}'s own journal cannot be read ({event['detail_text']})"
            yield _finding(
                context,
                None,
                "unreadable-line",
                sentence,
                time_ns=event["time_ns"],
                sides={"node": event["node"], "place": event["detail_text"]},
            )


def _state(row: PartitionStateRow) -> Mapping[str, object]:
    return {
        "leader": row["leader"],
        "leader_epoch": row["leader_epoch"],
        "partition_epoch": row["partition_epoch"],
        "isr": row["isr"],
        "time_ns": row["time_ns"],
    }


def _finding(
    context: RunContext,
    history: PartitionHistory | None,
    kind: str,
    sentence: str,
    *,
    time_ns: int,
    sides: Mapping[str, object],
) -> Finding:
    return Finding(
        run=context.run,
        check=CHECK,
        classification="observation",
        kind=kind,
        topic=None if history is None else history.topic,
        partition=None if history is None else history.partition,
        count=1,
        sentence=f"{sentence}.",
        cause=Cause(code="books-contradict"),
        first_ns=time_ns,
        last_ns=time_ns,
        open_question=True,
        evidence=sides,
    )
