"""The errors that producers' requests were answered in a time, by code, and what in the run explains them.

Only what the clients' hooks recorded with its code (client_events) counts. An explanation is a fact of the run that
makes brokers answer so; without one, nothing that was recorded does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from harness.checks.findings import RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.words import nodes_words, plural
from harness.history.facts.error_codes import (
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    STORAGE_ERROR,
    UNKNOWN_PRODUCER_ID,
    UNKNOWN_TOPIC,
    ErrorCode,
    error_code,
)
from harness.history.facts.finding_facts import Setting
from harness.history.schema.client_rows import CLIENT_EVENTS, ClientEventRow

_RETENTION = ("retention.ms", "retention.bytes")
_UNLIMITED = -1


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """retention: it removed the producer's last record, and the log's start is at `offset`. isr: too few were in
    it, `nodes`. leader: it changed to `nodes`. deletion: of the topic. disk: a fault had the disk of `nodes`."""

    by: Literal["retention", "isr", "leader", "deletion", "disk"]
    partition: str
    nodes: tuple[int, ...] = ()
    offset: int | None = None
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Answered:
    """How often an error was answered between two moments."""

    error: ErrorCode
    count: int
    first_ns: int
    last_ns: int
    explanation: Explanation | None = None

    def as_dict(self) -> dict[str, Any]:
        by = self.explanation
        return {
            "code": self.error.code,
            "name": self.error.name,
            "count": self.count,
            "meaning": self.error.meaning,
            "explained_by": None if by is None else by.by,
        }


def answered(
    context: RunContext,
    *,
    begin_ns: int,
    end_ns: int,
    process: int | None = None,
    partition: PartitionHistory | None = None,
    last_offsets: Sequence[tuple[int, int | None]] = (),
) -> list[Answered]:
    """Of one producer, or in one partition; the most frequent ones first. last_offsets: by partition's number, where
    the producer's last acknowledged record was."""
    found: dict[int, list[ClientEventRow]] = {}
    for event in context.tables[CLIENT_EVENTS]:
        if event["event"] != "attempt_failed" or event["code"] is None or not begin_ns <= event["time_ns"] <= end_ns:
            continue
        is_there = partition is None or (event["topic"], event["partition"]) == (partition.topic, partition.partition)
        if process in (None, event["process"]) and is_there:
            found.setdefault(event["code"], []).append(event)
    offsets = dict(last_offsets)
    return sorted(
        (_answered(context, code, events, offsets) for code, events in found.items()),
        key=lambda each: (-each.count, each.error.code),
    )


def _answered(
    context: RunContext, code: int, events: Sequence[ClientEventRow], offsets: dict[int, int | None]
) -> Answered:
    times = [event["time_ns"] for event in events]
    answer = Answered(error=error_code(code), count=len(events), first_ns=min(times), last_ns=max(times))
    places = {(event["topic"], event["partition"]) for event in events}
    for history in context.history.partitions.values():
        if (history.topic, history.partition) in places:
            by = _explanation(context, history, answer, offsets.get(history.partition_id))
            if by is not None:
                return replace(answer, explanation=by)
    return answer


def _explanation(
    context: RunContext, history: PartitionHistory, answer: Answered, last_offset: int | None
) -> Explanation | None:
    code, name = answer.error.code, history.name
    if code in (UNKNOWN_PRODUCER_ID, OUT_OF_ORDER_SEQUENCE_NUMBER):
        return _by_retention(context, history, answer, last_offset)
    if code in (NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND):
        within = [row for row in history.states if answer.first_ns <= row["time_ns"] <= answer.last_ns]
        at_first = history.state_at(answer.first_ns)
        isrs = [tuple(row["isr"] or ()) for row in (*([] if at_first is None else [at_first]), *within)]
        fewest = min(isrs, key=len, default=None)
        least = context.history.settings.numbers("min.insync.replicas", history.topic, answer.first_ns, answer.last_ns)
        few = fewest is not None and len(fewest) < least[-1]
        setting = Setting(key="min.insync.replicas", value=str(least[-1]), scope="topic")
        return Explanation(by="isr", partition=name, nodes=fewest or (), settings=(setting,)) if few else None
    if code == NOT_LEADER:
        elected = [each for each in history.elections[1:] if each.earliest_t <= answer.last_ns]
        return Explanation(by="leader", partition=name, nodes=(elected[-1].leader,)) if elected else None
    if code == UNKNOWN_TOPIC:
        gone = history.deletion is not None and history.deletion.earliest_t <= answer.last_ns
        return Explanation(by="deletion", partition=name) if gone else None
    if code == STORAGE_ERROR:
        faults = history.faults_between(answer.first_ns, answer.last_ns)
        nodes = {node for fault in faults if fault["kind"] == "full" for node in fault["nodes"] or ()}
        return Explanation(by="disk", partition=name, nodes=tuple(sorted(nodes))) if nodes else None
    return None


def _by_retention(
    context: RunContext, history: PartitionHistory, answer: Answered, last_offset: int | None
) -> Explanation | None:
    """The last record of the producer lies below the log's start, and retention may have moved that. Of whichever
    producer, where all records were removed in the end."""
    settings, topic = context.history.settings, history.topic
    if last_offset is None and history.end_offset is not None:
        last_offset = history.end_offset - 1
    if last_offset is None or history.log_start is None or last_offset >= history.log_start:
        return None
    if "delete" not in settings.policies(topic, history.cleanup_policy, 0, answer.last_ns):
        return None
    limits = {key: settings.numbers(key, topic, 0, answer.last_ns) for key in _RETENTION}
    in_force = tuple(
        Setting(key=key, value=str(max(values)), scope="topic")
        for key, values in limits.items()
        if max(values) > _UNLIMITED
    )
    if not in_force:
        return None
    return Explanation(by="retention", partition=history.name, offset=history.log_start, settings=in_force)


# ---- in words -------------------------------------------------------------------------------------------------------


_NAMED_MAX = 3
_BY: Mapping[str, str] = {
    "retention": "retention removed the producer's last record ({setting}; {partition} begins at {offset})",
    "isr": "the ISR of {partition} was down to {nodes} ({setting})",
    "leader": "{partition} had gone to {nodes}",
    "deletion": "the topic of {partition} had been deleted",
    "disk": "a fault had the disk of {nodes}",
}


def answered_words(found: Sequence[Answered]) -> str:
    """ "" without any."""
    words = [_words_of(each) for each in found[:_NAMED_MAX]]
    if len(found) > _NAMED_MAX:
        words.append(plural(len(found) - _NAMED_MAX, "other error"))
    return "; ".join(words)


def _words_of(answer: Answered) -> str:
    said = f"{plural(answer.count, 'attempt')} {plural(answer.count, 'was')} answered {answer.error}"
    if answer.error.meaning:
        said += f": {answer.error.meaning}"
    return said if answer.explanation is None else f"{said}. What explains it: {_explained(answer.explanation)}"


def _explained(by: Explanation) -> str:
    return _BY[by.by].format(
        partition=by.partition,
        nodes=nodes_words(by.nodes) if by.nodes else "nobody",
        offset=by.offset,
        setting=", ".join(f"{setting.key}={setting.value}" for setting in by.settings),
    )
