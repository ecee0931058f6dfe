"""What compaction took although it must not: read from the chronicle. A record that any replica compacted lawfully was
removed by configuration, whatever became of it elsewhere."""

from collections.abc import Iterator

from tests.world.broken import Broken
from tests.world.chronicle import Chronicle, Compacted, Partition
from tests.world.clients import OK
from tests.world.compaction import compacted, last_of_keys
from tests.world.histories import History
from tests.world.truth import Verdict


def broken_by_cleaning(history: History) -> Iterator[Broken]:
    chronicle = history.chronicle
    lawful = compacted(chronicle, lawful=True)
    given = {e.value for poll in chronicle.polls if poll.final for read in poll.reads for e in read.entries}
    taken = {value: partition for partition, value in _unlawful(chronicle)}
    went: dict[tuple[Partition, int], int] = {}  # the highest offset of each key that was compacted lawfully
    for each in chronicle.happenings:
        for offset, value, allowed in each.records if isinstance(each, Compacted) else ():
            if allowed and isinstance(each, Compacted):
                of_key = (each.partition, chronicle.keys[value])
                went[of_key] = max(went.get(of_key, -1), offset)
    for send in chronicle.sends:
        final = chronicle.final[send.partition]
        for place, value in enumerate(send.values):
            if value not in taken or value in given or value in lawful or send.status != OK or send.base is None:
                continue
            if not final.read_to_end or send.base + place < (final.log_start or 0):
                continue
            # Where a later one of its key is there, or went lawfully itself, compaction might have taken it some time.
            key = chronicle.keys[value]
            later = {last_of_keys(chronicle, send.partition).get(key, -1), went.get((send.partition, key), -1)}
            replaced = max(later) > send.base + place
            yield Broken(
                kind="compacted",
                checks=frozenset({"lost-write", "compacted-away"}),
                partition=send.partition,
                value=value,
                verdict=Verdict.UNSAID if replaced or send.acks != -1 else Verdict.VIOLATION,
                story=f"value {value} was compacted against its topic's policy, or as the last of its key",
            )


def _unlawful(chronicle: Chronicle) -> Iterator[tuple[Partition, int]]:
    for each in chronicle.happenings:
        if isinstance(each, Compacted):
            yield from ((each.partition, value) for _, value, lawful in each.records if not lawful)
