"""Tools that nobody recorded, coordinators that answer on, clocks that are set, log starts that go back, lone logs."""

from collections.abc import Sequence
from typing import Any

from harness.ports.load import WorkloadSpec
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import OPEN, PASS, REWOUND, SOME, VIOLATION, HistoryBuilder, case, led

A, B = 11, 12
KEPT = ("__consumer_offsets", 3)  # where group g belongs
AGAIN = "group-redelivery observation"
KAFKA = "kafka:4.3.1"
NOW = 1_700_000_000_000
EARLIEST = {"role": "consumer", "isolation": "read_uncommitted", "offset_reset": "earliest"}
BROKEN = {"lost-group-offset violation": SOME, "group-redelivery violation": SOME}


# ---- what a tool committed ----------------------------------------------------------------------------------------


def _set_by_a_tool(
    offset: int,
    *,
    answered: int,
    read: int = 10,
    begins: int | None = None,
    at: float = 20,
    sent_by_a: bool = False,
    workload: WorkloadSpec | None = None,
    **more: Any,
) -> HistoryBuilder:
    """A reads to `read` and commits that; by the group's log somebody committed `offset` then; B gets `answered`, and
    begins there or elsewhere. sent_by_a: A had asked for that commit, and was not answered."""
    history = group_of(A, B, system=KAFKA, workload=workload, **more).kept_state(KEPT, 2, 0, (1, 2, 3), at=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(read), at=3)
    history.group("committed", at=4, process=A, offset=read, generation=1)
    if sent_by_a:
        history.group("committed", at=4.5, process=A, offset=offset, generation=1, status=2)
    history.group("revoked", at=5, process=A, generation=1)
    history.group("fetched", at=40, process=B, offset=answered)
    history.group("assigned", at=40.1, process=B, generation=2, offset=answered)
    history.reads(B, range(answered if begins is None else begins, 10), at=41)
    history.group("committed", at=42, process=B, offset=10, generation=2)
    for node in history.brokers:
        history.kept_log(KEPT, node, 3)
    for stored_at, committed in sorted([(4.005, read), (at, offset), (42.005, 10)]):
        history.kept_offset(KEPT[1], committed, at=stored_at, transactional=False)
    return history.finish()


@case(
    "an application's tool sets an empty group back to 3, which no client recorded; the next member is given "
    "3 to 9 again",
    PASS,
    also=[AGAIN, "lost-group-offset permitted", "group-redelivery permitted"],
    why="the group's log has the commit of 3 behind that of 10: it is what was committed last",
)
def set_back_by_a_tool() -> HistoryBuilder:
    return _set_by_a_tool(3, answered=3, workload=WorkloadSpec())


@case(
    "an application's tool sets an empty group ahead from 5 to 8, which no client recorded; the next member "
    "begins at 8",
    (PASS, OPEN),
    also=[
        "lost-group-offset permitted",
        "head-skip permitted",
        "head-skip observation",
        "group-skip observation",
        "group-skip permitted",
    ],
    why="kafka-consumer-groups --reset-offsets --shift-by 3: whoever did that wanted it so",
)
def set_ahead_by_a_tool() -> HistoryBuilder:
    return _set_by_a_tool(8, answered=8, read=5, workload=WorkloadSpec())


@case(
    "the tool set it back to 3, and the next member is told 1",
    VIOLATION,
    {"lost-group-offset violation": SOME},
    also=[AGAIN, "group-redelivery violation", "group-redelivery permitted"],
    why="nobody ever committed 1",
)
def told_less_than_a_tool_set() -> HistoryBuilder:
    return _set_by_a_tool(3, answered=1, workload=WorkloadSpec())


@case(
    "a load of the harness: the group's log has a commit of 3 that nobody sent, and the next member is told that",
    VIOLATION,
    BROKEN,
    also=[AGAIN],
    why="there is nobody else",
)
def committed_by_nobody() -> HistoryBuilder:
    return _set_by_a_tool(3, answered=3)


@case(
    "the tool set it back to 3, and the next member is told that, and reads from 0",
    VIOLATION,
    {"group-redelivery violation": SOME},
    also=[AGAIN, "lost-group-offset permitted"],
    why="nobody ever set it below 3",
)
def read_from_below_what_a_tool_set() -> HistoryBuilder:
    return _set_by_a_tool(3, answered=3, begins=0, workload=WorkloadSpec())


@case(
    "the tool set it from 5 to 3, and the next member, with auto.offset.reset=latest, begins at 8",
    VIOLATION,
    {"head-skip violation": SOME},
    also=["lost-group-offset permitted"],
    why="it had to begin at 3",
)
def begun_above_what_a_tool_set() -> HistoryBuilder:
    return _set_by_a_tool(3, answered=3, begins=8, read=5, workload=WorkloadSpec(), reset="latest")


@case(
    "a member begins at 8 where its group had committed 5, and commits 10; later somebody sets the group to 8",
    VIOLATION,
    {"head-skip violation": SOME, "group-skip violation": SOME},
    why="what is committed afterwards moves nobody before it",
)
def set_ahead_only_after_the_skip() -> HistoryBuilder:
    return _set_by_a_tool(8, answered=5, begins=8, read=5, at=60, workload=WorkloadSpec())


@case(
    "a member reads to 5 and asks for a commit of 8, is not answered, and the coordinator appends it only at 20",
    VIOLATION,
    {"group-skip violation": SOME},
    why="the group's own member committed past what nobody read",
)
def set_ahead_by_a_member_that_was_not_answered() -> HistoryBuilder:
    return _set_by_a_tool(8, answered=8, read=5, sent_by_a=True, workload=WorkloadSpec())


# ---- a coordinator that was deposed ---------------------------------------------------------------------------------


def _replaced(
    fault: str | None, *, until: float, at: float, answered: int, elapsed_s: float = 0.01, known: bool = True
) -> HistoryBuilder:
    """Broker 1 coordinates until 14, when 2 takes over, which answers a commit of 10 at 16; B gets `answered`, and
    reads on from there. known: somebody recorded who coordinates."""
    history = group_of(A, B, system=KAFKA)
    if known:
        history.kept_state(KEPT, 1, 0, (1, 2, 3), at=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    history.group("committed", at=4, process=A, offset=5, generation=1)
    if fault is not None:
        history.fault(fault, [1], at=10, until=until)
    history.state(2, 1, (2, 3), at=14, start=10)
    if known:
        history.kept_state(KEPT, 2, 1, (2, 3), at=14)
    history.group("committed", at=16, process=A, offset=10, generation=1)
    history.group("fetched", at=at, process=B, offset=answered, elapsed_s=elapsed_s)
    return history.reads(B, range(max(answered, 0), 10), at=at + 1).finish()


@case(
    "a paused coordinator goes on at 30 and answers a fetch at 30.4 with what it knew; its successor had taken 10",
    (PASS, OPEN),
    also=["lost-group-offset observation", AGAIN],
    why="it hears of its successor in a moment, not at once; and who is told 5 reads on from there",
)
def told_by_a_coordinator_that_was_paused() -> HistoryBuilder:
    return _replaced("pause", until=30, at=30.4, answered=5)


@case(
    "a fetch waits in a paused coordinator's socket from 29.9 on, and is answered when it goes on at 30",
    (PASS, OPEN),
    also=["lost-group-offset observation", AGAIN],
    why="it answers from memory before it has heard of its successor",
)
def told_by_a_coordinator_that_was_paused_when_it_was_asked() -> HistoryBuilder:
    return _replaced("pause", until=30, at=29.9, answered=5, elapsed_s=0.2)


@case(
    "nobody recorded who coordinates; a broker is cut off while 10 is taken, and then 5 is answered, which was before",
    (PASS, OPEN),
    also=["lost-group-offset observation", AGAIN],
    why="the one that was cut off may have been the coordinator",
)
def told_by_whom_while_a_broker_is_cut_off() -> HistoryBuilder:
    return _replaced("cut", until=50, at=40, answered=5, known=False)


@case(
    "the same, half a minute after the broker was connected again",
    VIOLATION,
    BROKEN,
    also=[AGAIN],
    why="by then every broker has heard",
)
def told_by_whom_long_after_a_broker_was_cut_off() -> HistoryBuilder:
    return _replaced("cut", until=20, at=50, answered=5, known=False)


@case(
    "nobody recorded who coordinates; a broker is cut off, and it is answered that there is no offset",
    VIOLATION,
    BROKEN,
    also=[AGAIN],
    why="every broker that may coordinate had 5 before",
)
def told_nothing_by_whom_while_a_broker_is_cut_off() -> HistoryBuilder:
    return _replaced("cut", until=50, at=40, answered=-1, known=False)


@case(
    "a coordinator that is cut off answers that there is no offset, though it had taken 5 itself",
    VIOLATION,
    BROKEN,
    also=[AGAIN],
    why="it has in memory what it answered",
)
def told_nothing_by_a_deposed_coordinator() -> HistoryBuilder:
    return _replaced("cut", until=50, at=40, answered=-1)


@case(
    "a coordinator is replaced without any fault; half a minute later 5 is answered, and 10 had been taken by "
    "the new one",
    VIOLATION,
    BROKEN,
    also=[AGAIN],
    why="KAFKA-10614: nothing kept it from hearing",
)
def told_by_a_coordinator_nobody_held_up() -> HistoryBuilder:
    return _replaced(None, until=0, at=44, answered=5)


def _told_none(fault: str | None) -> HistoryBuilder:
    """The first commit, 10, is taken by the successor; at 30.4 B is told that there is none, and begins at the end."""
    history = group_of(A, B, system=KAFKA, reset="latest").kept_state(KEPT, 1, 0, (1, 2, 3), at=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    if fault is not None:
        history.fault(fault, [3], at=10, until=30)
    history.kept_state(KEPT, 3, 1, (1, 2, 3), at=5)
    history.kept_state(KEPT, 2, 2, (1, 2), at=14)
    history.group("committed", at=16, process=A, offset=10, generation=1)
    for value in (10, 11, 12):
        history.ack(value, at=20 + value / 10)
    history.group("fetched", at=30.4, process=B, offset=-1)
    history.group("assigned", at=30.5, process=B, generation=2)
    return history.reads(B, [12], at=31).finish()


@case(
    "a paused coordinator goes on and tells a member that nothing was committed, as it was when it was replaced; with "
    "auto.offset.reset=latest it begins at the end, behind what its group had committed",
    (PASS, OPEN),
    also=["lost-group-offset observation", "head-skip observation"],
    why="it answers from memory, and who is told that there is none begins where it may",
)
def begun_at_the_end_by_the_word_of_a_deposed_coordinator() -> HistoryBuilder:
    return _told_none("pause")


@case(
    "the same, and nothing kept that coordinator from hearing of its successor",
    VIOLATION,
    {"lost-group-offset violation": SOME, "head-skip violation": SOME},
    why="10 had been committed",
)
def begun_at_the_end_by_the_word_of_a_coordinator_nobody_held_up() -> HistoryBuilder:
    return _told_none(None)


# ---- clocks --------------------------------------------------------------------------------------------------------


def _set_back(system: str, *, by_s: float, stamps_back_s: float) -> HistoryBuilder:
    """LogAppendTime: what is appended after 40 is stamped so much earlier; by_s: how far the clock was set back."""
    history = led(0, system=system, topics={"t": {"message.timestamp.type": "LogAppendTime"}})
    history.anchors = [
        {"monotonic_ns": 0, "wall_ns": NOW * 10**6},
        {"monotonic_ns": 39 * SECOND, "wall_ns": NOW * 10**6 + int((39 - by_s) * SECOND)},
    ]
    stamps = {}
    for value in range(10):
        at = 1 + 8 * value
        stamps[value] = NOW + int(1000 * (at + 0.05 - (stamps_back_s if at > 40 else 0)))
        history.ack(value, at=at, timestamp_ms=stamps[value], log_append=True)
    history.finish()
    for row in history.rows["records"]:
        if row["kind"] == 2:
            row |= {"timestamp_ms": stamps[row["value"]], "log_append": True}
    return history


@case(
    "the machine's clock is set back by a minute, and times in the log go back by an hour under one leader",
    VIOLATION,
    {"timestamps violation": SOME},
    also=["timestamps observation"],
    why="the clock does not explain it",
)
def append_times_back_by_more_than_the_clock() -> HistoryBuilder:
    return _set_back(KAFKA, by_s=60, stamps_back_s=3_600)


@case(
    "somebody else's cluster: times in the log go back by ten seconds under one leader",
    OPEN,
    {"timestamps observation": SOME},
    why="its machine's clock may have been set back, and nobody knows",
)
def append_times_back_in_somebody_elses_cluster() -> HistoryBuilder:
    return _set_back("attached", by_s=0, stamps_back_s=10)


# ---- log starts that go back ---------------------------------------------------------------------------------------


def _overtaken(
    polls: Sequence[Sequence[int]], *, retention_ms: str = "1000", fails_over: bool = True, group: str | None = None
) -> HistoryBuilder:
    """A reader is given these from second 10 on; a moment later broker 2 leads, whose log begins at 0."""
    history = led(10, system=KAFKA, topics={"t": {"retention.ms": retention_ms}}).client(9, group=group, **EARLIEST)
    if group is not None:
        history.group("assigned", at=2, process=9, generation=1, offset=0)
        history.poll([(0, 0), (1, 1)], at=2.6)
        history.group("committed", at=3, process=9, generation=1, offset=2)
        history.group("assigned", at=9, process=9, generation=2, offset=2)
    for number, offsets in enumerate(polls):
        at = (3 if len(polls) > 1 else 10) + 7 * number
        history.poll([(offset, offset) for offset in offsets], at=at, assignment=0 if group is None else 1)
    if fails_over:
        history.fail_over(2, at=12.5)
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=0, cleanup_policy="delete", end_offset=10)
    return history


BACK = ["skipped-read permitted", "skipped-read observation", "head-skip permitted", "head-skip observation"]


@case(
    "a reader had 0 and 1, retention overtook it, and it goes on at its leader's log start, 5; the next "
    "leader's begins at 0",
    (PASS, OPEN),
    also=BACK,
    why="auto.offset.reset=earliest leads to where the leader's log begins, and each replica deletes in its own time",
)
def overtaken_before_the_log_start_goes_back() -> HistoryBuilder:
    return _overtaken([(0, 1), range(5, 10)])


@case(
    "the same, and nobody else ever led",
    VIOLATION,
    {"skipped-read violation": SOME},
    why="a leader's log start never goes back, and its log has 2 to 4 at the end",
)
def skipped_under_one_leader() -> HistoryBuilder:
    return _overtaken([(0, 1), range(5, 10)], fails_over=False)


@case(
    "the same as the first, and retention is a week",
    VIOLATION,
    {"skipped-read violation": SOME},
    why="nothing was old enough to go from any log",
)
def skipped_within_a_weeks_retention() -> HistoryBuilder:
    return _overtaken([(0, 1), range(5, 10)], retention_ms="604800000")


@case(
    "a group had committed 2, and its member begins at its leader's log start, 5; the next leader's log begins at 0",
    (PASS, OPEN),
    also=[*BACK, "group-skip observation"],
    why="its place was gone, and earliest is where that leader's log began",
)
def group_overtaken_before_the_log_start_goes_back() -> HistoryBuilder:
    return _overtaken([range(5, 10)], group="g")


# ---- one log of three --------------------------------------------------------------------------------------------


def _one_log(node: int, log: Sequence[tuple[int, int]], *, mark: int, isr: Sequence[int] = (1, 2, 3)) -> HistoryBuilder:
    history = led(10)
    if tuple(isr) != (1, 2, 3):
        history.state(1, 0, isr, at=0.5)
    history.send(77, None, at=0.5, status=2, process=3)
    history.replica(node, [(offset, 0, value) for offset, value in log], high_watermark=mark, at=120)
    return history.finish(snapshots=False)


TEN = [(n, n) for n in range(10)]


@case(
    "one log was read, that of a follower in sync; it has no record at 5, and goes on behind it",
    (VIOLATION, OPEN),
    also=["evidence observation", "evidence violation", "replica-divergence violation"],
    why="below its high watermark it has what its leader has",
)
def a_hole_in_the_only_log() -> HistoryBuilder:
    return _one_log(2, [entry for entry in TEN if entry[0] != 5], mark=10)


@case(
    "one log was read, that of a follower out of sync; it has another record at 5",
    PASS,
    why="it may have been cut since, and will be when it is back",
)
def another_record_in_a_log_out_of_sync() -> HistoryBuilder:
    return _one_log(3, [(n, 77 if n == 5 else n) for n in range(10)], mark=5, isr=(1, 2))


# ---- power at a part ---------------------------------------------------------------------------------------------


def _power(nodes: Sequence[int], *, one_by_one: bool) -> HistoryBuilder:
    """5 and 10 were committed, at 0 and 1 of the group's log on 1, 2, 3; power takes all from 1 on, of these."""
    history = group_of(A, B).kept_state(KEPT, 2, 0, (1, 2, 3), at=0)
    history.group("assigned", at=2.5, process=A, generation=1, offset=0)
    history.reads(A, range(10), at=3)
    for at, offset in ((3.5, 5), (4, 10)):
        history.group("committed", at=at, process=A, offset=offset, generation=1)
    history.group("revoked", at=5, process=A, generation=1)
    for number, node in enumerate(nodes):
        at = 20 + (10 * number if one_by_one else 0)
        history.fault("power-loss", [node], at=at, until=at + 3)
        history.disk_event(node, "tail", 1, None, at=at, place=KEPT)
        history.started(node, at=at + 3)
        if one_by_one:
            history.kept_state(KEPT, 3 if node != 3 else 1, number + 1, [n for n in (1, 2, 3) if n != node], at=at + 1)
            history.kept_state(KEPT, 3 if node != 3 else 1, number + 1, (1, 2, 3), at=at + 5)
    history.group("fetched", at=60, process=B, offset=5)
    history.group("assigned", at=60.1, process=B, generation=2, offset=5)
    return history.reads(B, range(5, 10), at=61).finish()


@case(
    "power takes the end of the group's log on two of three brokers in sync, and its last commit is gone",
    VIOLATION,
    BROKEN,
    also=[AGAIN],
    why="the third one had it",
)
def power_at_two_of_three() -> HistoryBuilder:
    return _power((1, 2), one_by_one=False)


@case(
    "power takes the end of the group's log on one broker after the other, each in sync again before the next",
    VIOLATION,
    BROKEN,
    also=[AGAIN],
    why="each had fetched it again from the others",
)
def power_at_one_after_the_other() -> HistoryBuilder:
    return _power((1, 2, 3), one_by_one=True)


# ---- an eligible replica that had been away ----------------------------------------------------------------------


@case(
    "Kafka 4.3: a replica out of sync, whose log still begins at 0, is elected uncleanly, as is allowed; a reader had "
    "begun at 5, where retention had led its leader's log",
    PASS,
    {"lost-write permitted": {8, 9}, "unclean-election permitted": SOME},
    also=[*REWOUND["permitted"], *BACK, "dirty-read permitted"],
    why="the setting allowed the election, and the elected one's log begins where it begins",
)
def elected_uncleanly_with_an_older_start() -> HistoryBuilder:
    history = led(8, system=KAFKA, topics={"t": {"retention.ms": "1000"}}).unclean_config("true")
    history.state(1, 0, (1,), at=4)
    for value in (8, 9):
        history.ack(value, at=5 + value / 100)
    history.client(9, **EARLIEST)
    history.poll([(offset, offset) for offset in range(5, 10)], at=9)
    history.fault("kill", [1], at=10, until=20)
    history.state(-1, 1, (1,), at=11)
    history.state(2, 2, (2,), at=12, start=8)
    history.log = history.log[:8]
    history.started(1, at=20)
    history.truncation(1, 8, 10, epoch=2, at=21)
    history.state(2, 2, (1, 2, 3), at=22)
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=0, cleanup_policy="delete", end_offset=8)
    return history
