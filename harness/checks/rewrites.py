"""Where a log was written anew within one leader's epoch, as clients saw it: what was sent after a record was last
known stands at its place or below, and in its epoch.

A leader gives each offset of its epoch once, and the next one higher: its log had been cut by then. Which leader's log
that was, the line's or that of one who had been deposed, decides what it shows (contract/absence.py).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.checks.model.lost_records import Rewrite
from harness.checks.spark.detection import Flagged

_MOST = 100  # of one epoch, and at one place: the first of them show what the others would
_Known = tuple[int, int]  # when a record was first known to stand somewhere, and at which offset


class _Place(NamedTuple):
    offset: int
    written: Rewrite


class Rewrites:
    """Of a run's flagged records: one that stands below what was known before it was sent is among them."""

    def __init__(self, flagged: Iterable[Flagged]) -> None:
        by_epoch: dict[tuple[int, int | None], list[_Place]] = {}
        known: dict[tuple[int, int | None], list[_Known]] = {}
        self._at: dict[tuple[int, int], list[_Place]] = {}
        for row in flagged:
            epoch, seen_ns = _only_epoch(row), _first_known(row)
            if row.offset is None or seen_ns is None:
                continue
            known.setdefault((row.partition_id, epoch), []).append((seen_ns, row.offset))
            if epoch is not None and row.invoked_ns is not None:
                written = Rewrite(epoch=epoch, sent_ns=row.invoked_ns, seen_ns=seen_ns, copies=row.copies)
                place = _Place(offset=row.offset, written=written)
                by_epoch.setdefault((row.partition_id, epoch), []).append(place)
                self._at.setdefault((row.partition_id, place.offset), []).append(place)
        self._lowest: dict[int, list[_Place]] = {}
        for (partition_id, epoch), places in by_epoch.items():
            before = (*known[partition_id, epoch], *known.get((partition_id, None), ()))
            self._lowest.setdefault(partition_id, []).extend(_lowest(places, sorted(before)))
        for places in self._at.values():
            places.sort(key=_sent_ns)

    def of(self, row: Flagged, epoch: int | None) -> tuple[Rewrite, ...]:
        """What was sent after clients last knew of it, and stands at its place or below; of its epoch, if that is
        known."""
        since, offset = row.known_until_ns, row.offset
        if since is None or offset is None or row.tries > 1:
            return ()
        below = [each for each in self._lowest.get(row.partition_id, ()) if each.offset <= offset]
        at = self._at.get((row.partition_id, offset), ())
        first = bisect_right(at, since, key=_sent_ns)
        found = {each.written for each in (*below, *at[first : first + _MOST]) if each.written.sent_ns > since}
        return tuple(sorted((each for each in found if epoch in (None, each.epoch)), key=_in_order))


def _sent_ns(place: _Place) -> int:
    return place.written.sent_ns


def _in_order(written: Rewrite) -> tuple[int, int, int]:
    return written.epoch, written.sent_ns, written.seen_ns


def _only_epoch(row: Flagged) -> int | None:
    """The only epoch in which it was seen there."""
    epochs = {copy.epoch for copy in row.copies} | {row.read_epoch}
    return row.epoch if len(epochs - {None}) == 1 else None


def _first_known(row: Flagged) -> int | None:
    answered_ns = row.completed_ns if row.answered else None
    return min((t for t in (answered_ns, row.read_first) if t is not None), default=None)


def _lowest(places: Sequence[_Place], known: Sequence[_Known]) -> list[_Place]:
    """Each that stands at or below what was known before it was sent; of those that follow one another upwards the
    first, which was sent before the others. known: in order of time; of its epoch, or of nobody knows which."""
    found: list[_Place] = []
    top, next_known = -1, 0
    for place in sorted(places, key=_sent_ns):
        while next_known < len(known) and known[next_known][0] < place.written.sent_ns:
            top = max(top, known[next_known][1])
            next_known += 1
        if place.offset <= top and len(found) < _MOST:
            found.append(place)
            top = place.offset - 1
    return found
