"""What transactions leave in a log: markers that get lost, records that come late, writes that interleave."""

from tests.outsiders.histories_of_transactions import COMMITTED
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case

UNCLEAN = {"t": {"unclean.leader.election.enable": "true"}}


def _one(*, unclean: bool = True, isolation: str = "read_committed") -> HistoryBuilder:
    """t-0, led by broker 1; a transactional producer 1, plain ones 2 and 3, a reader 9 and the final reader 99."""
    history = HistoryBuilder(topics=UNCLEAN if unclean else None).state(1, 0, (1, 2, 3), at=0, start=0)
    history.client(1, role="producer", acks=-1, idempotent=True, transactional_id="id", tells_attempts=True)
    for process in (2, 3):
        history.client(process, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    history.client(9, role="consumer", isolation=isolation, offset_reset="earliest")
    return history.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")


def _hidden(*, unclean: bool, election: bool) -> HistoryBuilder:
    """Value 5 is committed at offset 0 and its marker is at 1; the new leader's log ends at 1, below the marker."""
    history = _one(unclean=unclean).send(5, 0, at=1, transaction=1)
    history.transaction(1, COMMITTED, at=0.9, until=1.5)
    if election:
        history.state(1, 0, (1,), at=4)
        history.fault("kill", [1], at=5, until=12)
        history.state(2, 1, (2,), at=6, start=1)
        history.state(2, 1, (1, 2, 3), at=14)
    epoch = 1 if election else 0
    history.send(8, 3, at=20, process=2)
    log = [(0, 0, 5), (3, epoch, 8)]
    for node in (1, 2, 3):
        history.replica(node, log, high_watermark=4)
    history.final([(3, 8)])
    for row in history.rows["partitions"]:
        row["end_offset"] = 4
    return history


@case(
    "an allowed unclean election takes the marker of a committed transaction, and leaves its record: the next marker "
    "of its producer aborts it",
    OPEN,
    {"lost-write observation": {5}},
    also=("unclean-election permitted", "unclean-election observation"),
    why="the log may lawfully have ended below the marker, which nobody recorded",
)
def marker_lost_with_an_unclean_election() -> HistoryBuilder:
    return _hidden(unclean=True, election=True)


@case(
    "a committed transaction's record stands in every log and is given to nobody, and nothing happened",
    VIOLATION,
    {"lost-write violation": {5}},
    why="nothing took its marker",
)
def hidden_without_a_cause() -> HistoryBuilder:
    return _hidden(unclean=True, election=False)


def _jumps(*, epoch: int, isolation: str) -> HistoryBuilder:
    """The reader goes from 0 to 4 before an unclean election rewinds the log to 1, and it is filled anew."""
    history = _one(isolation=isolation).send(3, 0, at=1, process=2)
    history.send(7, 4, at=2, process=2)
    history.poll([(0, 3)], at=3, process=9, assignment=0)
    history.poll([(4, 7)], at=3.5, process=9, assignment=0)
    history.state(1, 0, (1,), at=4)
    history.fault("kill", [1], at=5, until=12)
    history.state(2, 1, (2,), at=6, start=1)
    history.state(2, 1, (1, 2, 3), at=14)
    log = [(0, 0, 3)]
    for offset in range(1, 6):
        history.send(20 + offset, offset, at=15 + offset, process=3)
        log.append((offset, 1, 20 + offset))
    for node in (1, 2, 3):
        history.replica(node, log, high_watermark=6)
    history.final([(offset, value) for offset, _, value in log])
    for row in history.rows["records"]:
        if row["kind"] == 1:
            row["leader_epoch"] = epoch
        if row["kind"] == 2:
            row["leader_epoch"] = 0 if row["offset"] == 0 else 1
    return history


@case(
    "read_committed goes over aborted records; later an allowed unclean election rewinds the log, and others are "
    "written there",
    PASS,
    {"lost-write permitted": {7}},
    also=(
        "unclean-election permitted",
        "inconsistent-offsets permitted",
        "dirty-read permitted",
        "acknowledged-regression permitted",
        "cycle permitted",
        "cycle violation",
    ),
    why="what stands there now was not there when the poll was answered",
)
def jump_over_what_came_later() -> HistoryBuilder:
    return _jumps(epoch=0, isolation="read_committed")


@case(
    "read_uncommitted goes over markers; later an allowed unclean election rewinds the log, and others are written "
    "there",
    PASS,
    {"lost-write permitted": {7}},
    also=(
        "unclean-election permitted",
        "inconsistent-offsets permitted",
        "dirty-read permitted",
        "acknowledged-regression permitted",
        "cycle permitted",
        "cycle violation",
    ),
    why="a marker has an offset and is given to nobody",
)
def jump_over_markers_before_a_rewind() -> HistoryBuilder:
    return _jumps(epoch=0, isolation="read_uncommitted")


def _two_partitions(*, late: bool) -> HistoryBuilder:
    """A transaction writes to t-1 and later to t-0; between these, a plain record comes behind it in t-1, and after
    that another before it in t-0."""
    history = _one(unclean=False).place(1, "t", 1)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.send(5, 0, at=1, partition_id=1, transaction=1)
    history.send(8, 1, at=2, partition_id=1, process=2)
    history.send(9, 0, at=3, process=3)
    history.send(6, 1, at=4, transaction=1)
    history.transaction(1, COMMITTED, at=0.5, until=5)
    first, second = [(0, 0, 9), (1, 0, 6)], [(0, 0, 5), (1, 0, 8)]
    if late:  # the second record of the transaction takes the place before what had been acknowledged
        history.rows["records"][-1]["offset"], history.rows["records"][-2]["offset"] = 0, 1
        first = [(0, 0, 6), (1, 0, 9)]
    for node in (1, 2, 3):
        history.replica(node, first, high_watermark=2)
        history.replica(node, second, high_watermark=2, partition_id=1)
    history.final([(offset, value) for offset, _, value in first])
    return history.final([(offset, value) for offset, _, value in second], partition_id=1)


@case(
    "a transaction's writes to two partitions lie around two plain records, sent one after the other",
    PASS,
    also=("cycle permitted",),
    why="writes are appended one by one, and not isolated",
)
def writes_of_a_transaction_interleave() -> HistoryBuilder:
    return _two_partitions(late=False)


@case(
    "the later write of a transaction stands before a record that was acknowledged before it was sent",
    VIOLATION,
    {"acknowledged-regression violation": SOME},
    also=("cycle permitted",),
    why="an acknowledged record has its offset",
)
def a_late_write_stands_first() -> HistoryBuilder:
    return _two_partitions(late=True)


@case(
    "a committed transaction's record is given to nobody though the reader came past it; above, another transaction "
    "hangs",
    VIOLATION,
    {"lost-write violation": {5}},
    also=("insufficient-evidence observation",),
    why="that the partition cannot be read to its end explains nothing of what lies below",
)
def hidden_below_a_hanging_one() -> HistoryBuilder:
    history = _hidden(unclean=False, election=False)
    for row in history.rows["partitions"]:
        row.update(read_to_end=False, end_offset=7, last_stable_offset=4)
    return history
