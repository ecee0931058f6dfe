"""What compaction took of a history, and what it had to leave: read from the chronicle."""

from collections.abc import Set

from tests.world.chronicle import Appended, Chronicle, Compacted, Cut, Node, Partition


def ever_compacts(chronicle: Chronicle, partition: Partition) -> bool:
    return any(topic == partition[0] and "compact" in value for _, topic, _, value in chronicle.configuration)


def last_of_keys(chronicle: Chronicle, partition: Partition) -> dict[int, int]:
    """The highest offset that the final read gave of each key, of a topic that compacted at any time."""
    if not ever_compacts(chronicle, partition):
        return {}
    return {
        chronicle.keys[entry.value]: offset
        for poll in chronicle.polls
        if poll.final
        for read in poll.reads
        if read.partition == partition
        for offset, entry in read.placed()
        if entry.value in chronicle.keys
    }


def compacted(chronicle: Chronicle, *, lawful: bool | None = None) -> set[tuple[int, int]]:
    """(offset, value) that some replica compacted away; of them only those that it might, or only the others. A record
    that was sent again may be gone from one of its places, and lost from another."""
    return {
        (offset, value)
        for each in chronicle.happenings
        if isinstance(each, Compacted)
        for offset, value, allowed in each.records
        if lawful in (None, allowed)
    }


def with_a_later_one(chronicle: Chronicle, partition: Partition, places: Set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those (offset, value) that some log ever had together with a record of the same key above it."""
    there: dict[tuple[Node, int], set[tuple[int, int]]] = {}  # by log and key
    found: set[tuple[int, int]] = set()
    for each in chronicle.happenings:
        if not isinstance(each, Appended | Cut) or each.partition != partition:
            continue
        if isinstance(each, Cut):
            for (node, _), below in there.items():
                if node == each.node:
                    below -= {place for place in below if place[0] >= each.to}
            continue
        for offset, entry in enumerate(each.entries, each.offset):
            if entry.value not in chronicle.keys:
                continue
            below = there.setdefault((each.node, chronicle.keys[entry.value]), set())
            found |= below
            if (offset, entry.value) in places:
                below.add((offset, entry.value))
    return found


def sends_by_key(chronicle: Chronicle, partition: Partition) -> dict[int, set[tuple[int, int]]]:
    """By key, where its records stood, as clients know, and when their sends began."""
    sent_ns = {value: send.invoked_ns for send in chronicle.sends for value in send.values}
    places = {
        (send.base + place, value)
        for send in chronicle.sends
        if send.partition == partition and send.base is not None
        for place, value in enumerate(send.values)
    }
    reads = (read for poll in chronicle.polls for read in poll.reads if read.partition == partition)
    places |= {(offset, entry.value) for read in reads for offset, entry in read.placed()}
    found: dict[int, set[tuple[int, int]]] = {}
    for offset, value in places:
        if value in chronicle.keys and value in sent_ns:
            found.setdefault(chronicle.keys[value], set()).add((offset, sent_ns[value]))
    return found
