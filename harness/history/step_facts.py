"""What the steps of a plan asked of the cluster, as facts: an election of which partition, and whether it was granted.

A run tells the act and its arguments in columns. Runs that were stored before tell them only in a step's words; they
are read here, once, and what they do not tell stays unknown.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_ELECT = re.compile(r"(?:expect )?elect (?P<kind>preferred|unclean)(?: \((?P<more>.*)\))?$")
Granted = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, kw_only=True)
class ElectionAsked:
    """An operator's request for an election. topic, part: None where nobody recorded which; t0, t1: asked, answered."""

    kind: str  # preferred | unclean
    topic: str | None
    part: int | None
    t0: int
    t1: int | None
    granted: Granted

    def may_concern(self, topic: str, part: int) -> bool:
        return self.topic in (None, topic) and self.part in (None, part)

    def surely_concerns(self, topic: str, part: int) -> bool:
        return (self.topic, self.part) == (topic, part)


@dataclass(frozen=True, kw_only=True)
class DeletionAsked:
    """A step's request to delete a topic; one that was not answered may have been carried out all the same."""

    topic: str
    t0: int


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """How a step's arguments are stored."""
    return json.dumps(arguments, sort_keys=True, default=str)


def elections_asked(rows: Iterable[Mapping[str, Any]], topics: Sequence[str]) -> tuple[ElectionAsked, ...]:
    """Of the rows of `steps`; topics: the scenario's, in order, for a step without a topic means the first."""
    asked = []
    for row in rows:
        arguments = _arguments(row) if row["kind"] in ("act", "expect") and row["t0"] is not None else None
        if arguments is None or "elect" not in arguments:
            continue
        topic = arguments.get("topic", topics[0] if topics else None)
        asked.append(
            ElectionAsked(
                kind=str(arguments["elect"]), topic=topic, part=int(arguments.get("partition", 0)), t0=row["t0"],
                t1=row["t1"], granted=_granted(row, int(arguments.get("error", 0))),
            )
        )  # fmt: skip
    return tuple(asked)


def deletions_asked(rows: Iterable[Mapping[str, Any]]) -> tuple[DeletionAsked, ...]:
    """Of the rows of `steps`."""
    stored = [
        (row["t0"], json.loads(row["arguments"]))
        for row in rows
        if row["kind"] == "act" and row["t0"] is not None and row["arguments"] is not None
    ]
    return tuple(
        DeletionAsked(topic=str(arguments["delete_topic"]), t0=t0)
        for t0, arguments in stored
        if "delete_topic" in arguments
    )


def _arguments(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if row["arguments"] is not None:
        stored: dict[str, Any] = json.loads(row["arguments"])
        return stored
    found = _ELECT.fullmatch(str(row["text"] or "").lower())
    if found is None:
        return None
    pairs = (piece.split(" ", maxsplit=1) for piece in (found["more"] or "").split(", ") if " " in piece)
    return {"elect": found["kind"], **{key: value for key, value in pairs if key in ("topic", "partition", "error")}}


def _granted(row: Mapping[str, Any], error: int) -> Granted:
    """A step that failed to be answered in time may have been granted all the same."""
    if row["outcome"] == "ok":
        return "no" if error else "yes"
    return "unknown"
