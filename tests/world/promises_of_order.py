"""The order of one producer's records in a partition, and that each stands there once: read from the chronicle.

What one task called after another, or anybody after the other call had returned or was answered, stands behind it,
whichever was answered first. That may be otherwise where a log was cut as the promise allows, and of a producer that is
not idempotent where something was sent again; a record may then be there twice, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from tests.world.broken import Broken
from tests.world.chronicle import Partition, Send
from tests.world.clients import DELIVERY_NS, OK
from tests.world.histories import History
from tests.world.truth import Lost, Verdict, fates, lost_records, perhaps_replaced

_WORST = (Verdict.VIOLATION, Verdict.UNSAID, Verdict.PERMITTED)


def broken_orders(history: History) -> Iterator[Broken]:
    """Of each record the worst that is true of it and of one that its process had sent before."""
    lanes: dict[tuple[int, Partition], list[Send]] = {}
    for send in sorted(history.chronicle.sends, key=lambda send: send.invoked_ns):
        lanes.setdefault((send.process, send.partition), []).append(send)
    lost = {each.value: each for each in lost_records(history.chronicle)}
    there = _places(history)
    yield from _doubled(history, there)
    yield from _copies_lost(history, there, list(lost.values()))
    for lane in lanes.values():
        overtaken: dict[int, list[tuple[Send, Verdict]]] = {}
        known = [record for send in lane for record in _records_of(send)]
        for earlier, later in combinations(known, 2):
            if _follows(earlier, later) and later.base <= earlier.base:  # type: ignore[operator]
                found = _verdict(history, lane, earlier, later, lost, there)
                overtaken.setdefault(id(later), []).append((earlier, found))
        for later in known:
            if id(later) not in overtaken:
                continue
            earlier, verdict = min(overtaken[id(later)], key=lambda pair: _WORST.index(pair[1]))
            for value in later.values:
                yield Broken(
                    kind="disorder",
                    checks=frozenset({"reordering"}),
                    partition=later.partition,
                    value=value,
                    verdict=verdict,
                    story=f"process {later.process} sent {value} after {earlier.values[0]}, and it stands at "
                    f"{later.base}, the other at {earlier.base}",
                )


def _records_of(send: Send) -> list[Send]:
    """Each of its records as if it were the only one of its batch, where it was acknowledged."""
    if send.status != OK or send.base is None:
        return []
    return [replace(send, values=[value], base=offset) for offset, value in enumerate(send.values, send.base)]


def _follows(earlier: Send, later: Send) -> bool:
    """Whether the one call was surely made after the other."""
    over = [earlier.completed_ns] if earlier.returned_ns is None else [earlier.completed_ns, earlier.returned_ns]
    return min(over) <= later.invoked_ns


def _verdict(
    history: History,
    lane: list[Send],
    earlier: Send,
    later: Send,
    lost: Mapping[int, Lost],
    there: Mapping[tuple[Partition, int], set[int]],
) -> Verdict:
    fates = [lost[send.values[0]].verdict if send.values[0] in lost else None for send in (earlier, later)]
    if any(fates) and history.setup.in_flight is None:
        return Verdict.UNSAID  # whoever waits for each answer has no order but the log's own
    as_promised = set(fates) <= {None, Verdict.PERMITTED}
    if any(fates) and not (as_promised and _stood_in_one_log(history, earlier, later)):
        return Verdict.PERMITTED if as_promised else Verdict.UNSAID
    stand = [send.base in there.get((send.partition, send.values[0]), ()) for send in (earlier, later)]
    if not all(fate or stands for fate, stands in zip(fates, stand, strict=True)):
        return Verdict.UNSAID  # one of them was moved, or nobody knows
    if earlier.idempotent or earlier.completed_ns <= later.invoked_ns:
        return Verdict.VIOLATION
    if earlier.failed:
        return Verdict.PERMITTED
    around = (earlier.invoked_ns - 2 * DELIVERY_NS, later.completed_ns + 2 * DELIVERY_NS)
    again = any(around[0] <= failed.time_ns <= around[1] for send in lane for failed in send.failed)
    return Verdict.UNSAID if again else Verdict.VIOLATION


def _stood_in_one_log(history: History, one: Send, other: Send) -> bool:
    """Whether a leader that cuts nothing while it leads has told both places in one epoch: what cut its log afterwards
    did not put them there."""
    if "drop-while-leading" in history.setup.flaws:
        return False
    return one.acknowledged_in is not None and one.acknowledged_in == other.acknowledged_in


def _places(history: History) -> dict[tuple[Partition, int], set[int]]:
    """Where each value stands in the last log."""
    places: dict[tuple[Partition, int], set[int]] = {}
    for poll in history.chronicle.polls:
        for read in poll.reads if poll.final else ():
            for offset, entry in read.placed():
                places.setdefault((read.partition, entry.value), set()).add(offset)
    for partition, final in history.chronicle.final.items():
        first = final.end if final.stable is None else final.log_start
        for place, entry in enumerate(final.unread):
            places.setdefault((partition, entry.value), set()).add((first or 0) + place)
    return places


def _doubled(history: History, there: Mapping[tuple[Partition, int], set[int]]) -> Iterator[Broken]:
    for send in history.chronicle.sends:
        for value in send.values:
            places = there.get((send.partition, value), set())
            end = history.chronicle.final[send.partition].end or 0
            if send.transaction is None and len([place for place in places if place < end]) > 1:
                again = not send.idempotent and any(not each.refused for each in send.failed)
                yield Broken(
                    kind="doubled",
                    checks=frozenset({"duplicate"}),
                    partition=send.partition,
                    value=value,
                    verdict=Verdict.PERMITTED if again else Verdict.VIOLATION if send.idempotent else Verdict.UNSAID,
                    story=f"{value} stands at {sorted(places)}",
                )


def _copies_lost(
    history: History, there: Mapping[tuple[Partition, int], set[int]], missing: Sequence[Lost]
) -> Iterator[Broken]:
    """Of a record that stands elsewhere too: one that was read, or acknowledged, where it is no more."""
    chronicle = history.chronicle
    sends = {value: send for send in chronicle.sends for value in send.values if send.transaction is None}
    copies: dict[Partition, dict[tuple[int, int], Send]] = {}
    for send in sends.values():
        for copy in _records_of(send):
            copies.setdefault(send.partition, {})[copy.values[0], copy.base or 0] = copy
    for poll in chronicle.polls:
        for read in () if poll.final else poll.reads:
            for offset, entry in read.placed():
                if entry.value in sends:
                    copy = replace(
                        sends[entry.value],
                        values=[entry.value],
                        acks=-1,
                        status=OK,
                        base=offset,
                        below_minimum=False,
                        acknowledged_by=read.node,
                        acknowledged_in=entry.epoch,
                        completed_ns=poll.completed_ns,
                    )
                    copies.setdefault(read.partition, {})[entry.value, offset] = copy
    for partition, found in copies.items():
        final = chronicle.final[partition]
        moved = [
            copy
            for (value, offset), copy in found.items()
            if (places := there.get((partition, value), set())) and offset not in places
        ]
        if not final.read_to_end:
            continue
        cut = fates(chronicle, partition, moved, set(), final.log_start or 0)
        gone = list(perhaps_replaced(chronicle, partition, cut, missing=missing))
        broken = {lost.value for lost in gone if lost.verdict is Verdict.VIOLATION}
        for lost in gone:
            # What tells of a value's loss tells all the places where it stood.
            beside = lost.verdict is Verdict.PERMITTED and lost.value in broken
            yield Broken(
                kind="copy lost",
                checks=frozenset({"duplicate", "inconsistent-offsets"}),
                partition=partition,
                value=lost.value,
                offset=lost.offset,
                verdict=Verdict.UNSAID if beside else lost.verdict,
                story=f"it stood at {lost.offset} too: {lost.fate}: {lost.story}",
            )
