"""What coordinators had written and all in sync had acknowledged, and what took it: as of a client's records."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.world.chronicle import Entry, Kept, Partition
from tests.world.histories import History
from tests.world.truth import Verdict, fates


@dataclass(frozen=True, kw_only=True)
class LostWrite:
    entry: Entry
    partition: Partition
    verdict: Verdict
    time_ns: int


def lost_writes(history: History) -> Iterator[LostWrite]:
    """UNSAID where no log of a leader shows at the end what is still there."""
    chronicle = history.chronicle
    written: dict[Partition, list[Kept]] = {}
    for kept in chronicle.kept:
        written.setdefault(kept.send.partition, []).append(kept)
    for partition, those in written.items():
        last = chronicle.last_logs.get(partition)
        final = chronicle.final.get(partition)
        if last is None and (final is None or final.end is None):
            for kept in those:
                yield LostWrite(entry=_entry(kept), partition=partition, verdict=Verdict.UNSAID, time_ns=0)
            continue
        there = {entry.value for entry in (last if last is not None else final.unread if final else ())}
        entries = {kept.send.values[0]: _entry(kept) for kept in those}
        start = final.log_start or 0 if final is not None else 0
        for lost in fates(chronicle, partition, [kept.send for kept in those], there, start):
            yield LostWrite(entry=entries[lost.value], partition=partition, verdict=lost.verdict, time_ns=lost.time_ns)


def _entry(kept: Kept) -> Entry:
    assert isinstance(kept.what, Entry)
    return kept.what
