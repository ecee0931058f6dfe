"""A record is gone, and a later one of its epoch is still there: what cuts a log's end takes both, or the later one."""

from tests.outsiders.history_builder import OPEN, VIOLATION, HistoryBuilder, case, led

UNCLEAN = {"t": {"unclean.leader.election.enable": "true"}}
BESIDE = (
    "dirty-read violation",
    "skipped-read violation",
    "unclean-election observation",
    "unclean-election permitted",
)


def _ten(*, starts_at: int | None = 0, read: bool = True, acks: int = -1, unclean: bool = True) -> HistoryBuilder:
    """Values 0 to 9 at offsets 0 to 9, of epoch 0."""
    history = led(acks=acks, topics=UNCLEAN if unclean else None)
    history.partition["log_start_offset"] = starts_at
    if read:
        history.poll([(offset, value) for offset, _, value in history.log], at=3, epoch=0)
    return history


def _without(history: HistoryBuilder, *values: int) -> None:
    """The leader's log, and every one that is read from now on, lacks them."""
    history.log = [entry for entry in history.log if entry[2] not in values]


def _uncleanly_led_by_2(history: HistoryBuilder) -> None:
    history.state(1, 0, (1,), at=4)
    history.fail_over(2, kept=10, at=8, isr=(2,))


def _polled_only(history: HistoryBuilder) -> None:
    for row in history.rows["partition_states"]:
        row |= {"exact": False, "observer": 2, "isr_before": None, "leader_before": None, "unclean": None}
    history.rows["broker_events"] = []


def _nothing_told_of_starts(history: HistoryBuilder) -> None:
    for row in history.rows["replica_snapshots"]:
        row["log_start_offset"] = None


@case(
    "an allowed unclean election; the first record is gone, nine later ones of its epoch are there, and the log "
    "starts at 0",
    VIOLATION,
    {"lost-write violation": {0}},
    also=BESIDE,
    why="a leader with the nine had the first one too",
)
def first_record_gone_below_its_successors() -> HistoryBuilder:
    history = _ten()
    _without(history, 0)
    _uncleanly_led_by_2(history)
    history.send(20, 10, at=20)
    history.log.append((10, 1, 20))
    return history.finish()


@case(
    "the same, and nobody knows where the log starts",
    OPEN,
    {"lost-write observation": {0}},
    also=(*BESIDE, "dirty-read observation"),
    why="somebody may have deleted what lies below",
)
def first_record_gone_and_nobody_knows_where_the_log_starts() -> HistoryBuilder:
    history = first_record_gone_below_its_successors()
    history.partition["log_start_offset"] = None
    _nothing_told_of_starts(history)
    return history


@case(
    "leaders were only polled, and unclean elections are allowed; a record between two of its epoch is gone",
    VIOLATION,
    {"lost-write violation": {5}},
    also=BESIDE,
    why="whatever election nobody saw, it did not take one of three",
)
def polled_and_the_middle_one_gone() -> HistoryBuilder:
    history = _ten()
    _without(history, 5)
    _uncleanly_led_by_2(history)
    history.finish()
    _polled_only(history)
    return history


@case(
    "the same with the last one gone instead",
    OPEN,
    {"lost-write observation": {9}},
    also=(*BESIDE, "dirty-read observation"),
    why="nothing stands above it, and the election may have been unclean",
)
def polled_and_the_last_one_gone() -> HistoryBuilder:
    history = _ten()
    _without(history, 9)
    _uncleanly_led_by_2(history)
    history.finish()
    _polled_only(history)
    return history


@case(
    "leaders were only polled and no log was read; of three records acknowledged with acks=1 the middle one is gone",
    VIOLATION,
    {"lost-write violation": {5}},
    also=BESIDE,
    why="a fail-over costs the end of a log, and nothing in its middle",
)
def polled_and_the_middle_one_gone_with_acks_1() -> HistoryBuilder:
    history = _ten(acks=1, unclean=False)
    _without(history, 5)
    history.fail_over(2, kept=10, at=8)
    history.finish()
    history.rows["replica_snapshots"], history.rows["replica_log"] = [], []
    _polled_only(history)
    return history


@case(
    "no log ever held the record and nobody read it; broker 1 led all the while, and was replaced by an allowed "
    "unclean election long after; what it wrote later is there",
    VIOLATION,
    {"lost-write violation": {5}},
    also=BESIDE,
    why="only the leader of epoch 0 can have acknowledged it",
)
def in_no_log_below_its_successors() -> HistoryBuilder:
    history = _ten(read=False)
    _without(history, 5)
    _uncleanly_led_by_2(history)
    return history.finish()


@case(
    "readers tell no epochs; the logs at the end have later records of its epoch by their checkpoints",
    VIOLATION,
    {"lost-write violation": {5}},
    also=BESIDE,
    why="a log with the later one had the earlier one too",
)
def gone_below_what_the_logs_hold() -> HistoryBuilder:
    history = in_no_log_below_its_successors()
    for row in history.rows["records"]:
        row["leader_epoch"] = None
    return history


@case(
    "the only disk in sync was lost after the answer; later records of the epoch are there",
    VIOLATION,
    {"lost-write violation": {2}},
    also=(*BESIDE, "evidence observation"),
    why="a lost disk leaves nothing of that epoch above it",
)
def disk_lost_below_what_is_there() -> HistoryBuilder:
    history = _ten(unclean=False).state(1, 0, (1,), at=4)
    history.destroyed("wipe", 1, "disk", at=10)
    history.state(1, 1, (1,), at=12)
    _without(history, 2)
    return history.state(1, 1, (1, 2, 3), at=15).finish()


@case(
    "a batch in the middle was damaged on the only broker in sync, and is gone; later ones are there",
    OPEN,
    {"lost-write observation": {2}},
    also=("dirty-read observation",),
    why="damage takes a record, and may spare those above it",
)
def damaged_below_what_is_there() -> HistoryBuilder:
    history = _ten(unclean=False).state(1, 0, (1,), at=4)
    history.destroyed("damage", 1, "batch", at=10, first=2, end=3, partition_id=0)
    history.state(1, 1, (1,), at=12)
    _without(history, 2)
    return history.state(1, 1, (1, 2, 3), at=15).finish()


@case(
    "in somebody else's cluster the log starts at 4, and the first four are gone",
    OPEN,
    {"lost-write observation": {0, 1, 2, 3}},
    why="any client may move a log's start",
)
def below_a_start_that_somebody_moved() -> HistoryBuilder:
    history = led(system="attached")
    history.partition["log_start_offset"] = 4
    _without(history, 0, 1, 2, 3)
    history.finish()
    for row in history.rows["replica_snapshots"]:
        row["log_start_offset"] = 4
    return history


@case(
    "broker 1, deposed before, may have acknowledged the record with acks=1; those around it are its successor's",
    OPEN,
    {"lost-write observation": {50}},
    also=("acknowledged-regression permitted",),
    why="what stands above need not be of its epoch",
)
def acknowledged_perhaps_by_a_deposed_leader() -> HistoryBuilder:
    history = led(5, acks=1)
    history.partition["log_start_offset"] = 0
    history.fault("cut", [1], at=3, until=12)
    history.state(2, 1, (2, 3), at=5, start=5)
    for value, offset in ((49, 5), (51, 7), (52, 8)):
        history.send(value, offset, at=5.1 + offset / 100, acks=1, process=2)
        history.log.append((offset, 1, value))
    history.send(50, 6, at=5.9, acks=1)
    history.truncation(1, 5, 7, epoch=1, at=12.5)
    return history.state(2, 1, (1, 2, 3), at=14).finish()
