"""Topic ids: the log that a replica in sync kept is, by its own file, of another topic than the partition is.

A topic that is deleted and created again under its name has another id, and a broker neither serves nor follows with
the log of the one before (KIP-516: INCONSISTENT_TOPIC_ID; at its start it removes what is left of it). A broker that
was away while that happened has the old log until it is back; so has, perhaps, one that is not known to be in sync.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.checks.contract.rulings import Cause
from harness.checks.families.evidence.disks_against_reads import NEAR_NS
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import nodes_words
from harness.history.facts.incarnations import client_name
from harness.history.schema.cluster_rows import TOPICS, SnapshotRow
from harness.history.schema.internal_rows import INTERNAL_SNAPSHOTS, InternalSnapshotRow

CHECK = "inconsistent-topic-id"
_NO_ID = "A" * 22  # Uuid.ZERO_UUID


@dataclass(frozen=True, kw_only=True)
class _Log:
    """A log that was read, of another topic than the partition. serves: the broker had it in sync by then."""

    node: int
    time_ns: int
    topic_id: str
    serves: bool


def find(context: RunContext) -> list[Finding]:
    said = {row["topic"]: row["topic_id"] for row in context.tables[TOPICS]}
    findings = []
    for history, logs in _places(context):
        ids = {each for row in history.states if row["exact"] and (each := known(row["topic_id"]))}
        if (own := known(said.get(history.topic))) is not None:
            ids.add(own)
        if len(ids) > 1:  # books_against_brokers.py speaks of them
            continue
        topic_id, source = (ids.pop(), "the cluster's own books") if ids else _of_its_leader(history, logs)
        others = [] if topic_id is None else list(_others(history, topic_id, logs))
        for serves in (True, False):
            if topic_id is not None and (found := [log for log in others if log.serves is serves]):
                findings.append(_finding(context, history, topic_id, source, found))
    return findings


def _of_its_leader(
    history: PartitionHistory, logs: Iterable[SnapshotRow | InternalSnapshotRow]
) -> tuple[str | None, str]:
    """Where the books have no ids: by the last log of its last leader."""
    leader = history.states[-1]["leader"] if history.states else None
    of_leader = [log for log in logs if log["node"] == leader and known(log["topic_id"]) is not None]
    if not of_leader or len({log["topic_id"] for log in of_leader}) > 1:
        return None, ""
    return of_leader[0]["topic_id"], f"the log of its leader, broker {leader}"


def known(topic_id: str | None) -> str | None:
    return None if topic_id in (None, "", _NO_ID) else topic_id


def _places(
    context: RunContext,
) -> Iterator[tuple[PartitionHistory, Sequence[SnapshotRow] | Sequence[InternalSnapshotRow]]]:
    """Each partition with the logs that were read as it."""
    before: dict[tuple[str, int], list[PartitionHistory]] = {}
    for history in context.history.partitions.values():
        if (name := client_name(history.topic)) != history.topic:
            before.setdefault((name, history.partition), []).append(history)
    for history in context.history.partitions.values():
        earlier = before.get((history.topic, history.partition), ())
        yield history, [*history.snapshots, *_left_in_its_place(history, earlier)]
    for (topic, partition), history in context.history.internal.items():
        rows = context.tables[INTERNAL_SNAPSHOTS]
        yield history, [row for row in rows if (row["topic"], row["partition"]) == (topic, partition)]


def _left_in_its_place(history: PartitionHistory, before: Iterable[PartitionHistory]) -> Iterator[SnapshotRow]:
    """At the end, the logs of topics that had its name before, of brokers that have no other and are in sync."""
    for earlier in before:
        for node, log in earlier.end_snapshots.items():
            if node not in history.end_snapshots and _serves(history, node, log["time_ns"]):
                yield log


def _others(
    history: PartitionHistory, topic_id: str, logs: Iterable[SnapshotRow | InternalSnapshotRow]
) -> Iterator[_Log]:
    for log in logs:
        recorded = known(log["topic_id"])
        if recorded is not None and recorded != topic_id:
            serves = _serves(history, log["node"], log["time_ns"])
            yield _Log(node=log["node"], time_ns=log["time_ns"], topic_id=recorded, serves=serves)


def _serves(history: PartitionHistory, node: int, time_ns: int) -> bool:
    """Whether the broker had been in sync for a while, and was there since it had to take the topic's own log: nothing
    kept it from hearing that the topic is a new one, or it has joined the ISR since."""
    settled_ns = time_ns - NEAR_NS
    if not history.exact or not history.is_in_sync(node, settled_ns):
        return False
    joined_ns = history.joined(node, settled_ns)
    if joined_ns > history.states[0]["time_ns"]:
        return True
    struck = any(node in (fault["nodes"] or (node,)) for fault in history.faults_between(joined_ns, settled_ns))
    return not struck and not any(end["node"] == node for end in history.ends_between(joined_ns, settled_ns))


def _finding(
    context: RunContext, history: PartitionHistory, topic_id: str, source: str, logs: Sequence[_Log]
) -> Finding:
    first = min(logs, key=lambda log: log.time_ns)
    nodes = sorted({log.node for log in logs})
    cause = Cause(code="log-of-another-topic" if first.serves else "log-left-behind", nodes=tuple(nodes))
    in_sync = ", in sync," if first.serves else ""
    sentence = (
        f"The log of {history.name} on {nodes_words(nodes)}{in_sync} is of topic {first.topic_id} by its own file, and "
        f"the partition is of topic {topic_id} by {source}, "
        f"{context.history.seconds(first.time_ns)}: {cause_words(cause)}."
    )
    is_internal = history.partition_id < 0
    return Finding(
        run=context.run,
        check=CHECK,
        classification="violation" if first.serves else "observation",
        kind="in-sync" if first.serves else "left-behind",
        topic=None if is_internal else history.topic,
        partition=None if is_internal else history.partition,
        count=len(nodes),
        sentence=sentence,
        cause=cause,
        first_ns=first.time_ns,
        last_ns=max(log.time_ns for log in logs),
        evidence={"partition": history.name, "topic_id": topic_id, "logs": [_side(log) for log in logs[:20]]},
    )


def _side(log: _Log) -> Mapping[str, object]:
    return {"node": log.node, "topic_id": log.topic_id, "t_ns": log.time_ns}


FAMILY = Family(name=CHECK, find=find)
