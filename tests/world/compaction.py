"""What compaction took of a history, and what it had to leave: read from the chronicle."""

from tests.world.chronicle import Chronicle, Compacted, Partition


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
