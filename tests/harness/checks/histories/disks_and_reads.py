"""Histories whose disks contradict what was read, each beside a lawful one (test_contradictions.py judges them)."""

from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, History, Stories
from tests.harness.checks.twins.twins import acknowledged

VIOLATION, PASS, OPEN = Verdict.VIOLATION, Verdict.PASS, Verdict.INCONCLUSIVE
NOTED, BAD = "observation", "violation"
STORIES = Stories()
expecting = STORIES.expecting
ALL = [(offset, 0, offset) for offset in range(10)]


def read_then_collected(
    logs: dict[int, list[tuple[int, int, int]]],
    *,
    at: float = 110,
    marks: dict[int, int] | None = None,
    exact: bool = True,
) -> History:
    """Ten records are acknowledged and read; then the logs of these brokers are read from disk."""
    history = acknowledged()
    if not exact:
        history.rows["partition_states"].clear()
    history.final([(offset, offset) for offset in range(10)])
    for node, log in logs.items():
        history.snapshot(node, log, at=at, high_watermark=(marks or {}).get(node, len(log)), epochs="0:0")
    return history


def with_another(offset: int) -> list[tuple[int, int, int]]:
    return [(each, epoch, 77 if each == offset else value) for each, epoch, value in ALL]


# ---- disks against reads


@expecting(PASS, set())
def disks_hold_what_was_read() -> History:
    return read_then_collected(dict.fromkeys(ISR, ALL))


@expecting(VIOLATION, {("reads-another-record", BAD)})
def disks_hold_another_value_than_was_read() -> History:
    return read_then_collected(dict.fromkeys(ISR, with_another(5)))


@expecting(OPEN, {("reads-another-record", NOTED)})
def disks_hold_another_value_and_nothing_tells_of_elections() -> History:
    return read_then_collected(dict.fromkeys(ISR, with_another(5)), exact=False)


@expecting(OPEN, {("reads-another-record", NOTED)})
def disks_that_were_read_before_the_reader_hold_another_value_than_was_acknowledged() -> History:
    return read_then_collected(dict.fromkeys(ISR, with_another(5)), at=90)


@expecting(OPEN, {("reads-another-record", NOTED)})
def only_a_followers_disk_was_read() -> History:
    return read_then_collected({2: with_another(5)})


@expecting(OPEN, {("reads-another-record", NOTED)})
def only_the_leaders_disk_was_read() -> History:
    return read_then_collected({1: with_another(5)})


@expecting(PASS, set())
def a_new_leader_wrote_another_value_there_before_the_disks_were_read() -> History:
    log = [(offset, int(offset >= 5), value) for offset, _, value in with_another(5)]
    return read_then_collected(dict.fromkeys(ISR, log)).state(2, 1, (2,), at=105, start=5)


@expecting(VIOLATION, {("reads-no-record", BAD)})
def disks_lack_a_record_that_was_read() -> History:
    return read_then_collected(
        {key: [each for each in ALL if each[0] != 5] for key in ISR}, marks=dict.fromkeys(ISR, 10)
    )


@expecting(PASS, set())
def disks_lack_a_record_of_a_compacted_topic() -> History:
    history = disks_lack_a_record_that_was_read()
    history.partition["cleanup_policy"] = "compact"
    return history


@expecting(PASS, set())
def a_record_was_removed_from_the_head_after_it_was_read() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL[3:]), marks=dict.fromkeys(ISR, 10))
    for row in history.rows["replica_snapshots"]:
        row["log_start_offset"] = 3
    return history


@expecting(OPEN, {("reads-beyond-the-logs", NOTED), ("high-watermark-told-to-readers", NOTED)})
def logs_end_before_what_was_read() -> History:
    return read_then_collected(dict.fromkeys(ISR, ALL[:8]))


@expecting(PASS, set())
def logs_end_before_what_was_read_since_power_was_lost() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL[:8]))
    for node in ISR:
        history.fault("power-loss", [node], at=104, until=106)
    return history


@expecting(OPEN, {("final-read-stops", NOTED)})
def the_final_read_stops_before_its_end() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL))
    history.rows["records"] = [row for row in history.rows["records"] if row["kind"] != 2 or row["offset"] < 7]
    return history


@expecting(VIOLATION, set())
def the_final_read_leaves_one_out() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL))
    history.rows["records"] = [row for row in history.rows["records"] if row["kind"] != 2 or row["offset"] != 7]
    return history
