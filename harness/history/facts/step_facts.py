"""Requests that a plan's steps sent to the cluster: elections with their partition and result, deletions of topics.
A fault may ask for an unclean election as well.

The columns `act` and `arguments` contain them; a step without them requested nothing that is known.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.history.schema.cluster_rows import FaultRow, StepRow

UNCLEAN_ELECTION = "unclean-election"  # what the table `faults` calls it
Granted = Literal["yes", "no", "unknown"]
# (a fault's number in the schedule, its number in the steps) -> its options as the plan has them; None: unknown
OptionsOf = Callable[[int | None, int | None], Mapping[str, Any] | None]


@dataclass(frozen=True, kw_only=True)
class ElectionAsked:
    """An operator's request for an election. topic, partition: None if unknown.

    begin_ns, end_ns: times of request and answer.
    """

    kind: str  # preferred | unclean
    topic: str | None
    partition: int | None
    begin_ns: int
    end_ns: int | None
    granted: Granted

    def may_concern(self, topic: str, partition: int) -> bool:
        return self.topic in (None, topic) and self.partition in (None, partition)

    def surely_concerns(self, topic: str, partition: int) -> bool:
        return (self.topic, self.partition) == (topic, partition)


@dataclass(frozen=True, kw_only=True)
class DeletionAsked:
    """A step's request to delete a topic; without an answer it may still have been executed."""

    topic: str
    begin_ns: int


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """The stored form of a step's arguments."""
    return json.dumps(arguments, sort_keys=True, default=str)


def elections_asked(rows: Iterable[StepRow], topics: Sequence[str]) -> tuple[ElectionAsked, ...]:
    """From the rows of `steps`; topics: the scenario's, in order, because a step without a topic means the first."""
    asked = []
    for row, begin_ns, arguments in _acts(rows, "elect", ("act", "expect")):
        topic = arguments.get("topic", topics[0] if topics else None)
        asked.append(
            ElectionAsked(
                kind=str(arguments["elect"]),
                topic=topic,
                partition=int(arguments.get("partition", 0)),
                begin_ns=begin_ns,
                end_ns=row["end_ns"],
                granted=_granted(row, int(arguments.get("error", 0))),
            )
        )
    return tuple(asked)


def unclean_elections_asked(
    rows: Iterable[FaultRow], topics: Sequence[str], options_of: OptionsOf
) -> tuple[ElectionAsked, ...]:
    """Those that faults asked for, from the rows of `faults`. One without an answer may have been carried out all the
    same. topics: as above. options_of: the options of a fault, which say its partition."""
    asked = []
    for row in rows:
        if row["kind"] != UNCLEAN_ELECTION or row["asked_ns"] is None:
            continue
        topic, partition = _partition_of(options_of(row["scheduled"], row["step"]), topics)
        asked.append(
            ElectionAsked(
                kind="unclean",
                topic=topic,
                partition=partition,
                begin_ns=row["asked_ns"],
                end_ns=row["begin_ns"] or row["asked_ns"],
                granted="yes" if row["proved"] else "unknown",
            )
        )
    return tuple(asked)


def _partition_of(options: Mapping[str, Any] | None, topics: Sequence[str]) -> tuple[str | None, int | None]:
    """(topic, partition) of a fault with these options; None: unknown."""
    if options is None:
        return None, None
    topic = options.get("topic") or (topics[0] if topics else None)
    partition = options.get("partition", 0)
    return topic if isinstance(topic, str) else None, partition if isinstance(partition, int) else None


def deletions_asked(rows: Iterable[StepRow]) -> tuple[DeletionAsked, ...]:
    """From the rows of `steps`."""
    return tuple(
        DeletionAsked(topic=str(arguments["delete_topic"]), begin_ns=begin_ns)
        for _, begin_ns, arguments in _acts(rows, "delete_topic", ("act",))
    )


def _acts(rows: Iterable[StepRow], act: str, kinds: Sequence[str]) -> Iterator[tuple[StepRow, int, Mapping[str, Any]]]:
    """The steps of this act that were begun, each with its arguments."""
    for row in rows:
        begin_ns, arguments = row["begin_ns"], row["arguments"]
        if row["act"] == act and row["kind"] in kinds and begin_ns is not None and arguments is not None:
            yield row, begin_ns, json.loads(arguments)


def _granted(row: StepRow, error: int) -> Granted:
    """A step without a timely answer may have succeeded all the same: None."""
    if row["outcome"] == "ok":
        return "no" if error else "yes"
    return "unknown"
