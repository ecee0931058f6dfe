"""Applications that tell neither keys nor sizes nor timestamps of what they send, on topics that clean their logs; and
clients of them whose reset policy nobody knows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.history.schema.schemas import KIND_FINAL_POLL
from harness.ports.load import WorkloadSpec
from harness.scenario.model import StepSpec
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, REWOUND, SOME, VIOLATION, HistoryBuilder, case, led

READER = 9
REMOVED = "removed-by-configuration observation"
NOW = 1_700_000_000_000


def _application(count: int, settings: Mapping[str, str], *, system: str = "kafka:4.3.1", **own: Any) -> HistoryBuilder:
    history = HistoryBuilder(workload=WorkloadSpec(), system=system, topics={"t": settings})
    history.anchors = [{"monotonic_ns": 0, "wall_ns": NOW * 1_000_000}]
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.client(1, role="producer", acks=-1)
    for value in range(count):
        history.ack(value, at=1 + value / 10, **own)
    return history


def _left(
    history: HistoryBuilder, keep: Sequence[int], *, policy: str, start: int = 0, end: int = 10
) -> HistoryBuilder:
    history.log = [entry for entry in history.log if entry[2] in keep]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=start, cleanup_policy=policy, end_offset=end)
    return history


# ---- where an application has its reader begin -----------------------------------------------------------------------


def _rewound(*, sought: bool) -> HistoryBuilder:
    """A reader that starts at the beginning, has read all, and goes on at 5."""
    history = led(10, workload=WorkloadSpec())
    history.client(READER, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    history.poll([(offset, offset) for offset in range(10)], at=2.5)
    if sought:
        history.group("seek", at=3, process=READER, offset=None, name=None)
    return history.poll([(offset, offset) for offset in range(5, 10)], at=3.5, assignment=1).finish()


@case(
    "a reader of an application starts at the beginning, and seeks to where nobody recorded",
    PASS,
    why="the beginning was where it started, and a seek goes anywhere",
)
def sought_to_where_nobody_recorded() -> HistoryBuilder:
    return _rewound(sought=True)


@case(
    "the same, and it is only given the partition again",
    VIOLATION,
    {"head-skip violation": SOME},
    why="without a group and without a seek it starts at the beginning again",
)
def given_again_and_not_at_the_beginning() -> HistoryBuilder:
    return _rewound(sought=False)


# ---- what somebody had deleted ---------------------------------------------------------------------------------------


def _trimmed(
    *, workload: WorkloadSpec | None, asked_for: int | None = None, system: str = "kafka:4.3.1"
) -> HistoryBuilder:
    """Nothing is too old, and the log begins at 6. asked_for: where the leader says that a client had it begin."""
    history = led(10, system=system, topics={"t": {"retention.ms": "-1"}}, workload=workload)
    if asked_for is not None:
        place = {"node": 1, "topic": "t", "partition": 0, "leader_epoch": 0, "to_offset": asked_for}
        history._add("broker_events", time_ns=20 * SECOND, event="records_deleted", **place)
    return _left(history, range(6, 10), policy="delete", start=6)


@case(
    "an application: the log begins at 6, its leader says that a client asked for that (DeleteRecords)",
    PASS,
    {REMOVED: set(range(6))},
    why="it was asked for",
)
def trimmed_on_request() -> HistoryBuilder:
    return _trimmed(workload=WorkloadSpec(), asked_for=6)


@case(
    "the same, of a load of the harness, which never asks for it: somebody did",
    PASS,
    {REMOVED: set(range(6))},
    why="the leader moved the log's start for a request",
)
def trimmed_on_somebodys_request() -> HistoryBuilder:
    return _trimmed(workload=None, asked_for=6)


@case(
    "an application on Kafka 1.1: the log begins at 6",
    OPEN,
    {"lost-write observation": set(range(6))},
    why="its own clients may have asked for it; these brokers do not say why they move a log's start",
)
def trimmed_by_nobody_knows_whom() -> HistoryBuilder:
    return _trimmed(workload=WorkloadSpec(), system="kafka:1.1.1")


@case(
    "an application on Kafka 4.3: the log begins at 6, and its leader does not say that anybody asked for that",
    VIOLATION,
    {"lost-write violation": set(range(6))},
    why="it says so of each request",
)
def trimmed_and_nobody_asked() -> HistoryBuilder:
    return _trimmed(workload=WorkloadSpec())


@case(
    "a load of the harness: a client asked for a start of 3, and the log begins at 6",
    VIOLATION,
    {"lost-write violation": {3, 4, 5}, REMOVED: {0, 1, 2}},
    why="nobody asked for 3 to 5 to go",
)
def trimmed_further_than_asked_for() -> HistoryBuilder:
    return _trimmed(workload=None, asked_for=3)


@case(
    "an application on another system than Kafka, which an installed package starts: the log begins at 6",
    OPEN,
    {"lost-write observation": set(range(6))},
    why="its own clients may have asked for it; nobody knows whether this system's brokers would say so",
)
def trimmed_on_a_system_of_its_own() -> HistoryBuilder:
    return _trimmed(workload=WorkloadSpec(), system="another")


def _trimmed_and_assigned_again(*, wiped: float, asked: float, start: int = 0) -> HistoryBuilder:
    """A client has the log begin at 6 at second `asked`; all disks are lost at second `wiped`, and the offsets are
    assigned again. 103 is missing at the end, and the log begins at `start`."""
    history = led(10, system="kafka:4.3.1", topics={"t": {"retention.ms": "-1", "cleanup.policy": "compact,delete"}})
    place = {"node": 1, "topic": "t", "partition": 0, "leader_epoch": 0, "to_offset": 6}
    history._add("broker_events", time_ns=int(asked * SECOND), event="records_deleted", **place)
    for node in history.brokers:
        history.destroyed("wipe", node, "disk", at=wiped)
    history.state(-1, 1, history.brokers, at=wiped + 2)
    history.state(1, 2, history.brokers, at=wiped + 3, start=0)
    history.log = []
    for value in range(100, 110):
        history.ack(value, at=40 + value / 100, key=value)
    keep = [value for value in range(100, 110) if value != 103 and value - 100 >= start]
    return _left(history, keep, policy="compact,delete", start=start)


@case(
    "a client had the log begin at 6; then all disks are lost, and 3 is assigned again, acknowledged, and gone",
    VIOLATION,
    {"compacted-away violation": {103}, "lost-write permitted": set(range(10))},
    also=REWOUND["permitted"],
    why="what was asked for before the record was sent took nothing of it",
)
def assigned_again_after_a_request() -> HistoryBuilder:
    return _trimmed_and_assigned_again(wiped=25, asked=20)


@case(
    "the same, and in the end the log begins at 4",
    VIOLATION,
    {"compacted-away violation": {100, 101, 102, 103}, REMOVED: set(range(4)), "lost-write permitted": SOME},
    also=REWOUND["permitted"],
    why="nobody asked for the new ones to go",
)
def assigned_again_after_a_request_and_begun_above() -> HistoryBuilder:
    return _trimmed_and_assigned_again(wiped=25, asked=20, start=4)


@case(
    "all disks are lost, offsets are assigned again, and then a client has the log begin at 6",
    PASS,
    {REMOVED: {*range(6), *range(100, 106)}, "lost-write permitted": set(range(6, 10))},
    also=REWOUND["permitted"],
    why="the request took them",
)
def assigned_again_before_a_request() -> HistoryBuilder:
    return _trimmed_and_assigned_again(wiped=25, asked=50, start=6)


def _asked_and_passed(*, again: bool) -> HistoryBuilder:
    """A reader is to go on at 2, and goes on at 9; a client had the log begin at 6 before, and if `again` all disks
    were lost since, and the offsets assigned again."""
    history = led(10, system="kafka:4.3.1", topics={"t": {"retention.ms": "-1"}})
    history.client(READER, role="consumer", isolation="read_uncommitted", offset_reset="latest")
    place = {"node": 1, "topic": "t", "partition": 0, "leader_epoch": 0}
    history._add("broker_events", time_ns=20 * SECOND, event="records_deleted", to_offset=6, **place)
    if again:
        for node in history.brokers:
            history.destroyed("wipe", node, "disk", at=25)
        history.state(-1, 1, history.brokers, at=27)
        history.state(1, 2, history.brokers, at=28, start=0)
        history.log = []
        for value in range(100, 110):
            history.ack(value, at=29 + value / 100)
        history.poll([(0, 100), (1, 101)], at=35)
    else:
        history.poll([(0, 0), (1, 1)], at=2.5)
    history.poll([(9, 109 if again else 9)], at=62)
    history._add("broker_events", time_ns=80 * SECOND, event="records_deleted", to_offset=6, **place)
    return _left(history, [*range(6, 10), *range(106, 110)], policy="delete", start=6)


@case(
    "a client had the log begin at 6, and a reader that was to go on at 2 goes on at the end",
    PASS,
    {REMOVED: set(range(6)), "skipped-read permitted": SOME},
    why="its position is gone, and auto.offset.reset is latest",
)
def asked_for_and_passed_over() -> HistoryBuilder:
    return _asked_and_passed(again=False)


@case(
    "the same request; then all disks are lost, the offsets assigned again, and a reader passes over those that a "
    "second request takes afterwards",
    VIOLATION,
    {"skipped-read violation": SOME, REMOVED: {*range(6), *range(100, 106)}},
    also=("lost-write permitted", *REWOUND["permitted"]),
    why="when it went on nobody had asked for these to go",
)
def passed_over_between_two_requests() -> HistoryBuilder:
    return _asked_and_passed(again=True)


# ---- keys --------------------------------------------------------------------------------------------------------


@case(
    "a compacted topic of an application whose keys nobody recorded: three records are gone from the middle of the log",
    OPEN,
    {REMOVED: {3, 4, 5}},
    why="they may have been replaced, and nobody can say by what",
)
def compacted_and_no_keys_told() -> HistoryBuilder:
    return _left(_application(10, {"cleanup.policy": "compact"}), [0, 1, 2, 6, 7, 8, 9], policy="compact")


@case(
    "the same, and the last record of the log is gone, which no later one can have replaced",
    VIOLATION,
    also=("lost-write violation", "compacted-away violation"),
    why="whatever its key, nothing came after it",
)
def compacted_and_the_last_of_all_gone() -> HistoryBuilder:
    return _left(_application(10, {"cleanup.policy": "compact"}), range(9), policy="compact")


@case(
    "the same load with a step of its plan, so that every record is the harness's own, and has no key",
    VIOLATION,
    {"compacted-away violation": {3, 4, 5}},
    why="brokers refuse records without a key in such a topic, and the steps tell of each what it is",
)
def compacted_and_no_keys_of_steps() -> HistoryBuilder:
    history = _application(10, {"cleanup.policy": "compact"})
    step = StepSpec(kind="act", body={"produce": 10}, within_s=10.0, line=1, text="produce 10")
    history.scenario = replace(history.scenario, steps=(step,))
    return _left(history, [0, 1, 2, 6, 7, 8, 9], policy="compact")


@case(
    "the same topic deletes only: three records are gone from the middle of the log",
    VIOLATION,
    {"lost-write violation": {3, 4, 5}},
    why="nothing removes records from the middle of such a log",
)
def not_compacted_and_gone_from_the_middle() -> HistoryBuilder:
    return _left(_application(10, {"cleanup.policy": "delete"}), [0, 1, 2, 6, 7, 8, 9], policy="delete")


@case(
    "a compacted topic of an application whose keys nobody recorded: everything is there",
    PASS,
    why="compaction need not take anything",
)
def compacted_and_all_there() -> HistoryBuilder:
    return _left(_application(10, {"cleanup.policy": "compact"}), range(10), policy="compact")


@case(
    "keys of readers are known, and those of the sends are not: what was read and then replaced by a later record of "
    "its key is gone",
    PASS,
    {REMOVED: {0, 1}},
    why="a reader was told the key, and a later record has the same",
)
def compacted_and_keys_told_by_readers() -> HistoryBuilder:
    history = _application(4, {"cleanup.policy": "compact"})
    history.client(READER, role="consumer", isolation="read_uncommitted")
    history.poll([(value, value) for value in range(4)], at=5)
    history = _left(history, [2, 3], policy="compact", end=4)
    for row in history.rows["records"]:
        row["key"] = row["value"] % 2 if row["kind"] else None
    return history


# ---- sizes and timestamps ----------------------------------------------------------------------------------------


@case(
    "retention.bytes of 10,000, ten records of a size that nobody recorded: the first four are gone from the head",
    OPEN,
    {REMOVED: {0, 1, 2, 3}},
    why="six records of an application may well be more than 10,000 bytes",
)
def expired_by_bytes_of_unknown_records() -> HistoryBuilder:
    settings = {"retention.bytes": "10000", "segment.bytes": "1000000"}
    return _left(_application(10, settings), range(4, 10), policy="delete", start=4)


@case(
    "a week's retention: an application's records, whose timestamps nobody recorded, are gone from the head",
    OPEN,
    {REMOVED: {0, 1, 2, 3}},
    why="an application may stamp its records as it likes, a month back, too",
)
def expired_by_timestamps_that_nobody_told() -> HistoryBuilder:
    return _left(_application(10, {"retention.ms": "604800000"}), range(4, 10), policy="delete", start=4)


@case(
    "the same, and its producer was answered the timestamps, which are of today",
    VIOLATION,
    {"lost-write violation": {0, 1, 2, 3}},
    why="none was a week old",
)
def gone_though_stamped_today() -> HistoryBuilder:
    history = _application(10, {"retention.ms": "604800000"})
    for row in history.rows["records"]:
        row.update(timestamp_ms=NOW + row["invoked_ns"] // 1_000_000, log_append=False)
    history = _left(history, range(4, 10), policy="delete", start=4)
    for row in history.rows["records"]:
        if row["kind"] == KIND_FINAL_POLL:
            row.update(timestamp_ms=NOW + 1000 + 100 * row["value"], log_append=False)
    return history


@case(
    "the topic stamps with LogAppendTime: the same without any timestamp that was told",
    VIOLATION,
    {"lost-write violation": {0, 1, 2, 3}},
    why="the broker stamped them with its own time",
)
def gone_though_the_broker_stamps() -> HistoryBuilder:
    settings = {"retention.ms": "604800000", "message.timestamp.type": "LogAppendTime"}
    return _left(_application(10, settings), range(4, 10), policy="delete", start=4)


# ---- positions ---------------------------------------------------------------------------------------------------


def _overtaken(reset: str | None, *, system: str = "kafka:4.3.1", how: str = "polled") -> HistoryBuilder:
    """A reader is to go on at 2, and goes on at 9, a minute after retention may have taken all up to 6."""
    history = led(10, system=system, topics={"t": {"retention.ms": "1000"}}, workload=WorkloadSpec())
    history.client(READER, role="consumer", isolation="read_uncommitted", offset_reset=reset)
    if how == "polled":
        history.poll([(0, 0), (1, 1)], at=2.5)
    elif how == "sought":
        history.group("seek", at=61, process=READER, offset=2, name=None)
    history.poll([(9, 9)], at=62)
    return _left(history, range(6, 10), policy="delete", start=6)


@case(
    "retention overtook a reader of an application, whose reset policy nobody knows; it goes on at the end",
    PASS,
    {"skipped-read permitted": SOME, REMOVED: set(range(6))},
    why="`latest` is the default of most libraries",
)
def overtaken_with_an_unknown_policy() -> HistoryBuilder:
    return _overtaken(None)


@case(
    "a reader seeks to 2, which retention has taken, and with auto.offset.reset=latest goes on at the end",
    PASS,
    {"head-skip permitted": SOME, REMOVED: set(range(6))},
    why="the place that it sought does not exist",
)
def sought_what_was_taken() -> HistoryBuilder:
    return _overtaken("latest", how="sought")


@case(
    "the same with auto.offset.reset=earliest",
    VIOLATION,
    {"head-skip violation": SOME, REMOVED: set(range(6))},
    why="earliest means the log's start, and 6 to 8 are there",
)
def sought_what_was_taken_and_went_past_the_start() -> HistoryBuilder:
    return _overtaken("earliest", how="sought")


@case(
    "a week's retention, and in a cluster that somebody else runs the log's start moved above a reader's position; it "
    "goes on at the end",
    OPEN,
    {"skipped-read observation": SOME},
    also=("lost-write observation", "dirty-read observation", REMOVED),
    why="whoever may can delete records, and nobody knows whether it was lawful",
)
def overtaken_by_somebody_else() -> HistoryBuilder:
    history = led(10, system="attached", topics={"t": {"retention.ms": "604800000"}}, workload=WorkloadSpec())
    history.client(READER, role="consumer", isolation="read_uncommitted", offset_reset="latest")
    history.poll([(0, 0), (1, 1)], at=2.5)
    history.poll([(9, 9)], at=62)
    return _left(history, range(6, 10), policy="delete", start=6)


@case(
    "retention of a second in a cluster that somebody else runs: the same reader, nobody need have deleted it",
    PASS,
    {"skipped-read permitted": SOME, REMOVED: set(range(6))},
    why="what retention explains is no question",
)
def overtaken_by_retention_in_somebody_elses_cluster() -> HistoryBuilder:
    return _overtaken("latest", system="attached")


@case(
    "retention of 30 seconds: a reader skips at once what was written a moment ago, and later retention takes its head",
    VIOLATION,
    {"skipped-read violation": SOME, REMOVED: set(range(6))},
    why="nothing was old enough when it skipped",
)
def skipped_before_anything_was_old() -> HistoryBuilder:
    history = led(10, topics={"t": {"retention.ms": "30000"}}, system="kafka:3.9.1")
    history.client(READER, role="consumer", isolation="read_uncommitted", offset_reset="latest")
    history.poll([(0, 0)], at=1.2)
    history.poll([(9, 9)], at=2.0)
    return _left(history, range(6, 10), policy="delete", start=6)


@case(
    "retention of a second: a reader skips to the end after a minute, and another is given what it skipped after that",
    VIOLATION,
    {"skipped-read violation": SOME, REMOVED: set(range(6))},
    why="what another was given later was still there",
)
def skipped_what_another_was_given_later() -> HistoryBuilder:
    history = led(10, topics={"t": {"retention.ms": "1000"}}, system="kafka:3.9.1")
    for process in (READER, READER + 1):
        history.client(process, role="consumer", isolation="read_uncommitted", offset_reset="latest")
    history.poll([(0, 0), (1, 1)], at=2.5)
    history.poll([(9, 9)], at=62)
    history.poll([(offset, offset) for offset in range(10)], at=70, process=READER + 1)
    return _left(history, range(6, 10), policy="delete", start=6)


# ---- cuts --------------------------------------------------------------------------------------------------------


@case(
    "a group committed 10; an allowed unclean election cuts the log to 5; with auto.offset.reset=latest its next "
    "member goes on at the end of that time, and is given all that is written afterwards",
    PASS,
    {"unclean-election permitted": SOME, "lost-write permitted": set(range(5, 10)), "dirty-read permitted": SOME},
    also=[
        "group-redelivery observation",
        *(f"{check} permitted" for check in ("group-redelivery", "inconsistent-offsets", "reordering")),
        "acknowledged-regression permitted",
    ],
    why="its position did not exist any more",
)
def group_cut_and_on_at_the_end() -> HistoryBuilder:
    history = led(5, system="kafka:3.9.1", topics={"t": {"unclean.leader.election.enable": "true"}})
    history.state(1, 0, (1, 2), at=1.6)
    for value in range(5, 10):
        history.ack(value, at=2 + value / 100)
    history.members(11, 12, reset="latest")
    history.group("assigned", at=1.7, process=11, generation=1, offset=0)
    history.reads(11, range(10), at=3)
    history.group("committed", at=4, process=11, generation=1, offset=10)
    history.group("revoked", at=5, process=11, generation=1)
    for node in (1, 2):
        history.fault("kill", [node], at=8, until=20)
        history.replica(node, history.log, at=8, reason="kill", high_watermark=10)
    history.state(3, 1, (3,), at=10, start=5)
    history.log = history.log[:5]
    for node in (1, 2):
        history.started(node, at=20)
        history.truncation(node, 5, 10, epoch=1, at=21)
    history.state(3, 1, (1, 2, 3), at=24)
    history.group("fetched", at=30, process=12, offset=10)
    history.group("assigned", at=30.1, process=12, generation=3, offset=10)
    for value in range(50, 53):
        history.ack(value, at=40 + value / 100)
    return history.poll([(5 + number, 50 + number) for number in range(3)], at=50, process=12).finish()


# ---- what clients send that nobody recorded --------------------------------------------------------------------------


def _with_a_value_of_nobody(*, sent_elsewhere: bool) -> HistoryBuilder:
    """Of an application: a reader gets 50 behind what was sent to the partition."""
    history = led(3, workload=WorkloadSpec())
    if sent_elsewhere:
        history.place(1, "t", 1)
        history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
        history.send(50, 0, at=2, partition_id=1)
    history.log.append((3, 0, 50))
    history.poll([(0, 0), (1, 1), (2, 2), (3, 50)], at=2.9)
    history.finish()
    if sent_elsewhere:
        history.final([(0, 50)], partition_id=1)
    return history


@case(
    "a value is in the log of an application's topic that none of its recorded clients sent",
    OPEN,
    {"phantom observation": SOME},
    why="the application may have a producer that nobody recorded",
)
def of_a_producer_that_nobody_recorded() -> HistoryBuilder:
    return _with_a_value_of_nobody(sent_elsewhere=False)


@case(
    "a value that an application's recorded client sent to another partition is read in this one",
    VIOLATION,
    {"phantom violation": SOME},
    why="who sent it is known, and sent it elsewhere",
)
def of_an_application_in_the_wrong_partition() -> HistoryBuilder:
    return _with_a_value_of_nobody(sent_elsewhere=True)
