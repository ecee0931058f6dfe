"""Which offsets hold records by what clients were told: acknowledged, or given to a reader; from the run's journals.

The final read looks for them. A record in a transaction counts if that was committed; where the final log is the
committed one, what read_uncommitted readers saw counts for nothing.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.history.facts.offset_ranges import OffsetRanges
from harness.history.journals.journal import OUTCOME, STATUS, Declare, End, Invoke, Process, Read, Sent
from harness.history.journals.journal_files import UnfitLine, journal_paths, lines_in
from harness.history.journals.merging import TopicPart

_PIECE_BYTES = 1_000_000
_TAKEN = {b'["D"', b'["E"', b'["I"', b'["P"', b'["R"', b'["S"'}
_OK, _COMMITTED = STATUS["ok"], OUTCOME["committed"]
KnownOffsets = dict[TopicPart, OffsetRanges]


def known_offsets(history: Path, *, committed_only: bool) -> KnownOffsets:
    """Reads the journals piece by piece. One that no writer of ours left is read as far as it can be: the seal says
    what is wrong with it, and with which line."""
    known: KnownOffsets = {}
    for path in journal_paths(history):
        journal = _Journal(known, committed_only=committed_only)
        with path.open("rb") as file:
            while piece := file.readlines(_PIECE_BYTES):
                try:
                    lines, _ = lines_in(b"".join(line for line in piece if line[:4] in _TAKEN))
                    for line in lines:
                        journal.take(line)
                except (UnfitLine, LookupError, ValueError):
                    break
    return known


class _Journal:
    def __init__(self, known: KnownOffsets, *, committed_only: bool) -> None:
        self._known = known
        self._committed_only = committed_only
        self._isolation: str | None = None
        self._places: dict[int, TopicPart] = {}
        self._asked: dict[int, Invoke] = {}
        self._open: dict[int, list[tuple[TopicPart, int]]] = {}  # by transaction

    def take(self, line: Any) -> None:
        match line:
            case Process():
                self._isolation = line.isolation
            case Declare():
                self._places[line.number] = (line.topic, line.partition)
            case Invoke():
                self._asked[line.operation] = line
            case Sent():
                self._sent(self._asked.pop(line.operation), line)
            case Read():
                del self._asked[line.operation]
                if not (self._committed_only and self._isolation != "read_committed"):
                    for part in line.parts:
                        self._add(self._places[part.partition_id], part.offsets)
            case End():
                ended = self._open.pop(line.transaction, [])
                for place, offset in ended if line.outcome == _COMMITTED else ():
                    self._add(place, [offset])

    def _sent(self, asked: Invoke, answer: Sent) -> None:
        for number, status, offset in zip(asked.partition_ids, answer.statuses, answer.offsets, strict=True):
            if status != _OK or offset is None:
                continue
            if asked.transaction is None:
                self._add(self._places[number], [offset])
            else:
                self._open.setdefault(asked.transaction, []).append((self._places[number], offset))

    def _add(self, place: TopicPart, offsets: Iterable[int]) -> None:
        self._known.setdefault(place, OffsetRanges()).add(offsets)
