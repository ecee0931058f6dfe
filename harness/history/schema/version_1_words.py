"""Extracts facts that schema version 1 stored as words only: links, the acts of steps, what was destroyed on a disk.

No other module parses the words of a run. Words in another form than version 1 wrote mean that the fact is unknown; it
is never guessed.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.history.schema.cluster_rows import DiskEventRow, FaultRow

_LINK = re.compile(r"(?:(?P<client>c\d+)|n?(?P<source>\d+))>n?(?P<target>\d+)")
_ELECT = re.compile(r"elect (?P<kind>preferred|unclean)(?: \((?P<more>.*)\))?", re.IGNORECASE)
_TAIL = re.compile(
    r"the log of (?P<topic>\S+)-(?P<partition>\d+) on .*? ends at (?P<from>\d+) and no longer at (?P<end>\d+)"
)
_BATCH = re.compile(
    r"the log of (?P<topic>\S+)-(?P<partition>\d+) on .*? is damaged: .*?"
    r"the batch with offsets (?P<from>\d+) to (?P<last>\d+) does not hold"
)
_PARTLY: Mapping[str, tuple[str, re.Pattern[str]]] = {"power-loss": ("tail", _TAIL), "damage": ("batch", _BATCH)}
_MOST = 2**63 - 1


def links_of(text: str | None) -> list[dict[str, int | None]] | None:
    """Parses "n2>n1 c1>n1" and "2>1"; None if a part is invalid."""
    found = [_LINK.fullmatch(piece) for piece in (text or "").split()]
    links = [
        {
            "source": None if link["source"] is None else int(link["source"]),
            "client": None if link["client"] is None else int(link["client"][1:]),
            "target": int(link["target"]),
        }
        for link in found
        if link is not None
    ]
    sound = all(-(2**31) <= end < 2**31 for link in links for end in link.values() if end is not None)
    return links if sound and len(links) == len(found) else None


def step_words(kind: str | None, text: str | None) -> str | None:
    """A step's words without its kind, which version 1 wrote before those of waits and expectations."""
    if text is None or kind in (None, "act"):
        return text
    return text[len(kind) + 1 :] if text.lower().startswith(f"{kind} ") else text


def arguments_of(words: str | None) -> str | None:
    """The arguments of an election as JSON; no others were ever used for decisions."""
    found = _ELECT.fullmatch(words or "")
    if found is None:
        return None
    pairs = (piece.split(" ", maxsplit=1) for piece in (found["more"] or "").split(", ") if " " in piece)
    parsed: dict[str, Any] = {"elect": found["kind"].lower()}
    parsed |= {key: value for key, value in pairs if key in ("topic", "partition", "error")}
    return json.dumps(parsed, sort_keys=True)


def act_of(words: str | None, arguments: str | None) -> str | None:
    """The argument that the words begin with; None if there is none."""
    try:
        parsed = json.loads(arguments) if arguments is not None else {}
    except ValueError:
        return None
    said = (words or "").lower()
    names = [name for name in parsed if said.startswith(name.replace("_", " "))] if isinstance(parsed, dict) else []
    return max(names, key=len, default=None)


def disk_events(faults: Sequence[FaultRow], recorded: Iterable[int | None]) -> list[DiskEventRow]:
    """Rows of `disk_events` for faults without such rows, as far as their proofs say what was destroyed where.

    faults: rows in the current columns.
    """
    events: list[DiskEventRow] = []
    known = set(recorded)
    for fault in faults:
        nodes: Sequence[int] = fault["nodes"] or ()
        partly = _PARTLY.get(fault["kind"] or "")
        begin_ns = fault["begin_ns"]
        if partly is None or begin_ns is None or fault["fault"] in known:
            continue
        extent, pattern = partly
        found = pattern.search(fault["proof_text"] or "")
        if found is None or len(nodes) != 1:  # for several victims the sentence does not say whose offsets these are
            continue
        begin = int(found["from"])
        end = int(found["last"]) + 1 if extent == "batch" else None
        if max(begin, end or 0) > _MOST:
            continue
        events.append(
            {
                "run": fault["run"], "node": nodes[0], "time_ns": begin_ns, "fault": fault["fault"],
                "extent": extent, "topic": found["topic"], "partition": int(found["partition"]), "from_offset": begin,
                "to_offset": end,
            }
        )  # fmt: skip
    return events
