"""Leader epochs and high watermarks that go back where no client saw it, each beside what is lawful and looks alike."""

from collections.abc import Sequence

from tests.outsiders.history_builder import OPEN, PASS, VIOLATION, Entry, HistoryBuilder, case, led

AFTER = 120.0  # the logs are read after the final read, which is at 100
OFFSETS = ("__consumer_offsets", 7)
UNCLEAN = "unclean.leader.election.enable"
LOST = ("lost-write permitted", "dirty-read permitted", "unclean-election permitted", "replica-divergence permitted")


# ---- leader epochs --------------------------------------------------------------------------------------------------


def _later(history: HistoryBuilder, epochs: Sequence[int | None], *, process: int = 2) -> HistoryBuilder:
    """What the leader takes from second 15 on, stamped with these epochs."""
    for number, epoch in enumerate(epochs):
        history.ack(20 + number, at=15 + number, process=process)
        history.log[-1] = (len(history.log) - 1, epoch, 20 + number)  # type: ignore[assignment]
    return history


@case(
    "batches of an old message format carry no epoch, before a fail-over and behind it",
    PASS,
    why="format 1 has no place for an epoch",
)
def no_epochs_in_old_formats() -> HistoryBuilder:
    history = led(0)
    for value in range(5):
        history.ack(value, at=1 + value / 10)
        history.log[-1] = (value, None, value)  # type: ignore[assignment]
    history.fail_over(2)
    _later(history, (None, None)).finish()
    for row in history.rows["replica_snapshots"]:
        row["leader_epochs"] = ""
    return history


@case(
    "the epochs fall in the log of one follower only, which lags in sync behind two sound ones",
    VIOLATION,
    {"leader-epochs violation": 1},
    also=["replica-divergence violation", "inconsistent-offsets violation"],
    why="followers keep the stamp of their leader",
)
def epochs_fall_on_one_follower() -> HistoryBuilder:
    history = led().fail_over(2)
    _later(history, (1, 1, 1))
    odd: list[Entry] = [*history.log[:11], (11, 0, 21), (12, 1, 22)]
    return history.finish(logs={3: odd})


@case(
    "a log from before the last fail-over, read when its broker was killed, has epochs that fall",
    VIOLATION,
    {"leader-epochs violation": 1},
    also=["replica-divergence violation", "inconsistent-offsets violation"],
    why="a log need not be the last one to show it",
)
def epochs_fell_before_a_kill() -> HistoryBuilder:
    history = led().fail_over(2)
    _later(history, (1, 1))
    history.replica(3, [*history.log[:10], (10, 1, 20), (11, 0, 21)], at=20, reason="kill", high_watermark=12)
    return history.finish()


@case(
    "two replicas with tails of their own: one leads in epoch 1, dies, and the other is elected uncleanly with records "
    "of epoch 0 above the first one's start, which that one takes over",
    PASS,
    also=LOST,
    why="those records came with a leader whose own epoch begins above them",
)
def older_records_came_with_a_later_leader() -> HistoryBuilder:
    history = led(10, settings={UNCLEAN: "true"}, acks=1)
    full = list(history.log)
    history.state(1, 0, (1, 2, 3), at=3)
    # Broker 2 has only seven of them when it leads in epoch 1, and takes nothing.
    history.fault("kill", [1], at=4, until=30)
    history.state(2, 1, (2, 3), at=6, start=7)
    history.fault("kill", [2], at=10, until=40)
    history.replica(2, full[:7], at=10, reason="kill", high_watermark=7)
    history.state(3, 2, (3,), at=12, start=10)  # in sync, with all ten
    history.started(1, at=30)
    history.started(2, at=40)
    history.log = full
    history._leader, history._epoch = 3, 2
    history.state(3, 2, (3, 1, 2), at=50)
    for number in range(3):
        history.ack(30 + number, at=55 + number)
    return history.finish()


@case(
    "a replica that was cut off keeps a tail of the old epoch above the new leader's start, and is not in sync",
    PASS,
    also=LOST,
    why="it has not yet followed the new leader",
)
def a_tail_that_has_not_been_cut_yet() -> HistoryBuilder:
    history = led(10).sends([(18, None, 2), (19, None, 2)], at=5)
    history.fault("kill", [1], at=6, until=None)
    history.state(2, 1, (2, 3), at=8, start=10)
    history._epoch = 1
    _later(history, (1, 1))
    own = [*history.log[:10], (10, 0, 18), (11, 0, 19)]
    history.finish(logs={1: own}, only=(2, 3))
    return history.replica(1, own, high_watermark=10)


@case(
    "the epochs fall in a log whose batches a fault had damaged",
    (PASS, VIOLATION),
    {"leader-epochs observation": 1},
    also=["replica-divergence violation"],
    why="no checksum covers the epoch of a batch",
)
def epochs_of_a_damaged_batch() -> HistoryBuilder:
    history = led().fail_over(2)
    _later(history, (1, 1, 1))
    history.destroyed("damage", 3, "batch", at=25, first=11, end=12, partition_id=0)
    return history.finish(logs={3: [*history.log[:11], (11, 0, 21), (12, 1, 22)]})


@case(
    "the same fall on Kafka 1.1.1, on a follower",
    (PASS, VIOLATION),
    {"leader-epochs observation": 1},
    also=["replica-divergence violation", "inconsistent-offsets violation"],
    why="before KIP-279 a follower might be cut to its high watermark",
)
def epochs_fall_before_kip_279() -> HistoryBuilder:
    history = led(system="kafka:1.1.1").fail_over(2)
    _later(history, (1, 1, 1))
    return history.finish(logs={3: [*history.log[:11], (11, 0, 21), (12, 1, 22)]})


@case(
    "nobody read a log from disk, and the final read was given a record of epoch 0 behind one of epoch 1",
    VIOLATION,
    {"leader-epochs violation": 1},
    why="the leader's log is what it gives to readers",
)
def epochs_fall_in_the_final_read() -> HistoryBuilder:
    history = led().fail_over(2)
    return _later(history, (1, 0)).finish(snapshots=False)


@case(
    "the coordinator's log of a group has a record of epoch 0 behind one of epoch 2",
    VIOLATION,
    {"leader-epochs violation": 1},
    why="KIP-101 holds for internal topics as well",
)
def epochs_fall_in_a_coordinators_log() -> HistoryBuilder:
    history = led().place(1, "t", 1)
    history.kept_state(OFFSETS, 1, 2, (1, 2, 3), at=0)
    history.kept_log(OFFSETS, 1, 2)
    for at, committed in ((4, 3), (5, 5)):
        history.kept_offset(OFFSETS[1], committed, at=at)
    history.rows["consumer_offsets"][0]["leader_epoch"] = 2
    return history.finish()


@case(
    "a new leader's epoch begins at ten, and the five records before that carry it, on all three logs",
    VIOLATION,
    {"leader-epochs violation": 1},
    why="they were appended before that epoch was",
)
def stamped_with_the_epoch_after() -> HistoryBuilder:
    history = led().fail_over(2)
    _later(history, (1, 1))
    history.log[5:10] = [(offset, 1, value) for offset, _, value in history.log[5:10]]
    return history.finish()


@case(
    "a leader loses power, is back within its session with a shorter log, and goes on in its epoch below its own start",
    PASS,
    why="what it takes now is of its epoch, wherever it stands",
)
def a_leader_goes_on_below_its_start() -> HistoryBuilder:
    history = led(8).sends([(18, None, 2), (19, None, 2)], at=5)
    history.log += [(8, 0, 18), (9, 0, 19)]
    history.fail_over(2)
    history.destroyed("power-loss", 2, "tail", at=13, until=14, first=8, partition_id=0)
    history.started(2, at=14)
    history.log = history.log[:8]
    return _later(history, (1, 1)).finish()


@case(
    "without journals: in the leader's checkpoint its first epoch begins where retention has moved the log",
    PASS,
    why="a checkpoint keeps no start below that of its log; the other replica's log has still all of that epoch",
)
def a_checkpoint_that_went_up_with_its_log() -> HistoryBuilder:
    history = led(10).finish()
    history.rows["broker_events"].clear()
    own = history.rows["replica_snapshots"][0]
    own["log_start_offset"], own["leader_epochs"] = 6, "0:6"
    snapshot, kept = own["snapshot"], history.rows["replica_log"]
    history.rows["replica_log"] = [row for row in kept if row["snapshot"] != snapshot or row["offset"] >= 6]
    return history


@case(
    "records are stamped with an epoch that the cluster's own books do not have",
    OPEN,
    {"evidence observation": 1},
    why="either somebody led in it, or nobody stamped them with it",
)
def stamped_with_an_unknown_epoch() -> HistoryBuilder:
    history = led().fail_over(2)
    return _later(history, (4, 4)).finish()


# ---- the high watermark ---------------------------------------------------------------------------------------------


def _marks(history: HistoryBuilder, *marks: tuple[int, float, int]) -> HistoryBuilder:
    """(node, seconds, offset) as brokers journalled them."""
    for node, at, offset in marks:
        history.wrote_down(node, offset, at=at)
    return history


def _read(history: HistoryBuilder, *, lagging: int | None = None, mark: int = 10) -> HistoryBuilder:
    """The logs at the end; lagging: the mark that is on the disk of broker 1."""
    for node in (1, 2, 3):
        mine = lagging if node == 1 and lagging is not None else mark
        history.replica(node, history.log, at=AFTER, high_watermark=mine)
    return history.finish(snapshots=False)


@case("a leader's marks rise", PASS, why="that is what they do")
def marks_that_rise() -> HistoryBuilder:
    return _read(_marks(led(), (1, 5, 4), (1, 10, 10), (2, 11, 8), (1, 60, 10)))


@case(
    "a leader was killed and started while it led, within its session, and writes down an older mark at first",
    PASS,
    why="a new process begins at its checkpoint",
)
def mark_of_a_new_process() -> HistoryBuilder:
    history = _marks(led(), (1, 20, 10)).fault("kill", [1], at=22, until=24)
    history.started(1, at=24)
    return _read(_marks(history, (1, 25, 6), (1, 60, 10)))


@case(
    "a new leader's mark is lower than its predecessor's was",
    PASS,
    why="KIP-101: a follower's lags behind by a fetch, and it is another epoch",
)
def mark_of_a_new_leader() -> HistoryBuilder:
    history = _marks(led(), (1, 4, 10), (2, 4, 9)).fail_over(2)
    return _read(_marks(history, (2, 9, 9), (2, 60, 10)))


@case(
    "a follower writes down a lower mark than before, in one epoch",
    PASS,
    why="followers take their leader's word, and a new leader's may be lower",
)
def mark_of_a_follower() -> HistoryBuilder:
    history = _marks(led(), (3, 4, 10)).fail_over(2)
    return _read(_marks(history, (3, 9, 10), (3, 11, 8), (3, 60, 10)))


@case(
    "the mark on the leader's disk was 10 while a pause ended at second 40, and is 6 at the end, with no restart",
    VIOLATION,
    {"high-watermark-regression violation": 1},
    why="a process that was paused is the same one",
)
def mark_on_disk_goes_back() -> HistoryBuilder:
    history = led().fault("pause", [1], at=35, until=40)
    history.replica(1, history.log, at=40, reason="heal", high_watermark=10)
    return _read(history, lagging=6)


@case(
    "the same, and the leader's disk was emptied in between",
    (PASS, OPEN),
    also=["evidence observation"],
    why="its process and its checkpoint are new ones",
)
def mark_of_an_emptied_disk() -> HistoryBuilder:
    history = led()
    history.replica(1, history.log, at=40, reason="wipe", high_watermark=10)
    history.destroyed("wipe", 1, "disk", at=41, until=45)
    history.started(1, at=45)
    return _read(history, lagging=6)


@case(
    "a leader's own log says that it lowered its high watermark, twenty seconds after it had begun to lead",
    VIOLATION,
    {"high-watermark-regression violation": 1},
    why="a leader never lowers it",
)
def a_leader_says_that_it_lowered_it() -> HistoryBuilder:
    history = led().broker_event(1, "high_watermark_lowered", at=20, leader_epoch=0, from_offset=10, to_offset=6)
    return _read(history)


@case(
    "a follower's own log says that it lowered its high watermark",
    PASS,
    why="a follower that cuts its log lowers it",
)
def a_follower_says_that_it_lowered_it() -> HistoryBuilder:
    history = led().broker_event(3, "high_watermark_lowered", at=20, leader_epoch=0, from_offset=10, to_offset=6)
    return _read(history)
