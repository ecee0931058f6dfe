"""What compaction took although it must not: read from the chronicle. A record that any replica compacted lawfully was
removed by configuration, whatever became of it elsewhere."""

from collections.abc import Iterator, Mapping

from tests.world.broken import Broken
from tests.world.chronicle import Chronicle, Compacted, Partition
from tests.world.clients import OK
from tests.world.compaction import compacted
from tests.world.histories import History
from tests.world.truth import Verdict, last_that_count, lost_records


def broken_by_cleaning(history: History) -> Iterator[Broken]:
    chronicle = history.chronicle
    lost, went = lost_records(chronicle), _last_that_went(chronicle)
    given = {e.value for poll in chronicle.polls if poll.final for read in poll.reads for e in read.entries}
    taken = compacted(chronicle, lawful=False) - compacted(chronicle, lawful=True)
    for partition, final in chronicle.final.items():
        last = last_that_count(chronicle, partition, lost)
        for send in chronicle.sends if final.read_to_end else ():
            if send.partition != partition or send.status != OK or send.base is None:
                continue
            for offset, value in enumerate(send.values, send.base):
                if (offset, value) not in taken or value in given or offset < (final.log_start or 0):
                    continue
                # Where a later one of its key counts, compaction might have taken it some time.
                key = chronicle.keys[value]
                replaced = max(last.get(key, -1), went.get((partition, key), -1)) > offset
                yield Broken(
                    kind="compacted",
                    checks=frozenset({"lost-write", "compacted-away"}),
                    partition=partition,
                    value=value,
                    verdict=Verdict.UNSAID if replaced or send.acks != -1 else Verdict.VIOLATION,
                    story=f"value {value} was compacted against its topic's policy, or as the last of its key",
                )


def _last_that_went(chronicle: Chronicle) -> Mapping[tuple[Partition, int], int]:
    """The highest offset of each key that was compacted lawfully."""
    found: dict[tuple[Partition, int], int] = {}
    for each in chronicle.happenings:
        for offset, value, allowed in each.records if isinstance(each, Compacted) else ():
            if allowed and isinstance(each, Compacted):
                of_key = (each.partition, chronicle.keys[value])
                found[of_key] = max(found.get(of_key, -1), offset)
    return found
