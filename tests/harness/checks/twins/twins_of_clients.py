"""Tiny histories about where clients begin, what there is to judge at all, timestamps, retention and compaction."""

from collections.abc import Mapping

from harness.scenario.model import TopicSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import SECOND, History, Stories, scenario
from tests.harness.checks.twins.twins import acknowledged

STORIES = Stories()
story, expecting = STORIES.story, STORIES.expecting
VIOLATION, PASS = Verdict.VIOLATION, Verdict.PASS
INCONCLUSIVE, VACUOUS = Verdict.INCONCLUSIVE, Verdict.VACUOUS
BAD, LAWFUL, NOTED = "violation", "permitted", "observation"


LOG = [(offset, offset) for offset in range(10)]

# ---- where a consumer begins ----------------------------------------------------------------------------------------


def _began_at(first: int, **client: str) -> History:
    history = acknowledged().client(9, **client)
    history.poll(LOG[first:], at=3)
    return history.final(LOG)


@expecting(VIOLATION, {("head-skip", "first-poll", BAD): 2})
def first_poll_skips_the_head() -> History:
    return _began_at(2, offset_reset="earliest")


@expecting(VIOLATION, {("head-skip", "first-poll", BAD): 2})
def first_poll_skips_the_head_after_an_assignment_from_the_beginning() -> History:
    return _began_at(2, offset_reset="none")


@expecting(PASS, {})
def first_poll_begins_at_the_head() -> History:
    return _began_at(0, offset_reset="earliest")


@expecting(PASS, {})
def first_poll_of_a_consumer_that_starts_at_the_end() -> History:
    return _began_at(2, offset_reset="latest")


@expecting(PASS, {})
def first_poll_begins_above_a_hole() -> History:
    """Offsets 0 and 1 hold transaction markers, say: nothing in the final log lies there."""
    history = History().state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(2, 10):
        history.send(value, value, at=1 + value / 10)
    history.client(9, offset_reset="earliest")
    history.poll(LOG[2:], at=3)
    return history.final(LOG[2:])


@expecting(PASS, {})
def first_poll_where_it_had_sought_to() -> History:
    return _began_at(4, offset_reset="earliest").group("seek", at=2.5, process=9, offset=4, name=None)


@expecting(VIOLATION, {("head-skip", "first-poll", BAD): 2})
def first_poll_beyond_where_it_had_sought_to() -> History:
    return _began_at(6, offset_reset="earliest").group("seek", at=2.5, process=9, offset=4, name=None)


@expecting(PASS, {})
def read_again_after_a_seek() -> History:
    history = _began_at(0, offset_reset="earliest").group("seek", at=3.5, process=9, offset=0, name=None)
    return history.poll(LOG, at=4, assignment=1)


@expecting(PASS, {})
def skipped_after_a_rebalance() -> History:
    """Partition 0 went to another consumer meanwhile, and came back at a later position."""
    history = acknowledged()
    history.poll(LOG[:3], at=3, process=8)
    history.poll(LOG[3:7], at=4, process=9)
    history.poll(LOG[7:], at=5, process=8, assignment=1)
    return history.final(LOG)


@expecting(VIOLATION, {("skipped-read", "external", BAD): 1})
def skipped_without_a_rebalance() -> History:
    history = acknowledged()
    history.poll(LOG[:3], at=3, process=8)
    history.poll(LOG[7:], at=5, process=8)
    return history.final(LOG)


# ---- what there is to judge -----------------------------------------------------------------------------------------


@expecting(VACUOUS, {})
def nothing_at_all() -> History:
    return History()


@expecting(VACUOUS, {})
def all_sends_failed() -> History:
    history = History()
    for value in range(3):
        history.send(value, at=1 + value / 10, status=1)
    return history.final([])


@expecting(INCONCLUSIVE, {("unseen-tail", "unseen", NOTED): 2})
def nothing_was_read() -> History:
    history = acknowledged(2)
    history.rows["partitions"].clear()
    return history


@expecting(PASS, {})
def an_empty_poll_says_nothing() -> History:
    history = acknowledged()
    history._add(
        "operations",
        operation=77,
        process=9,
        client="consumer-1",
        function="poll",
        status=0,
        invoked_ns=SECOND,
        completed_ns=2 * SECOND,
        count=0,
    )
    return history.final(LOG)


@expecting(PASS, {})
def only_the_last_read_saw_an_unknown_send() -> History:
    return acknowledged().send(50, at=2.5, status=2).final([*LOG, (10, 50)])


@expecting(PASS, {})
def acknowledged_without_an_offset_and_read() -> History:
    return acknowledged(9).send(9, None, at=2.5).final(LOG)


@expecting(VIOLATION, {("lost-write", "lost", BAD): 1})
def acknowledged_without_an_offset_and_gone() -> History:
    return acknowledged(9).send(9, None, at=2.5).final(LOG[:9])


@expecting(VIOLATION, {("lost-write", "lost", BAD): 2})
def the_tail_is_gone_though_the_log_was_read_to_its_end() -> History:
    return acknowledged().final(LOG[:8])


@expecting(VIOLATION, {("lost-write", "lost", BAD): 1, ("dirty-read", "vanished", BAD): 1})
def seen_only_by_a_poll_that_failed() -> History:
    return acknowledged().poll(LOG[:4], at=3, status=1).final(LOG[:3] + LOG[4:])


@expecting(PASS, {})
def read_by_a_poll_that_failed_and_there() -> History:
    return acknowledged().poll(LOG[:4], at=3, status=1).final(LOG)


@expecting(VIOLATION, {("aborted-read", "failed-send", BAD): 1, ("dirty-read", "vanished", BAD): 1})
def refused_and_read_by_a_poll_that_failed() -> History:
    history = acknowledged(3).send(50, at=1.8, status=1)
    history.poll([(3, 50)], at=3, status=1)
    return history.final(LOG[:3])


@expecting(PASS, {})
def offsets_far_apart() -> History:
    """Two records with thirty million offsets between them, as after a compaction."""
    history = acknowledged(1).send(50, 30_000_000, at=2)
    history.poll([(0, 0), (30_000_000, 50)], at=3)
    return history.final([(0, 0), (30_000_000, 50)])


# ---- timestamps -----------------------------------------------------------------------------------------------------


def _stamped(final_ms: Mapping[int, int], *, log_append: bool, epochs: Mapping[int, int] | None = None) -> History:
    """Records 0 to 2, sent and answered with 1000, 1001 and 1002 ms."""
    history = History().client(1, acks=-1)
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    for offset, epoch in (epochs or {}).items():
        history.state(2, epoch, (1, 2, 3), at=1 + offset / 10 - 0.05, start=offset)
    for value in range(3):
        stamp = final_ms[value] if log_append else 1000 + value
        history.send(value, value, at=1 + value / 10, timestamp_ms=stamp)
    for offset in range(3):
        history.final(
            [(offset, offset)],
            timestamp_ms=final_ms[offset],
            log_append=log_append,
            epoch=(epochs or {}).get(offset, 0),
        )
    return history


@expecting(PASS, {})
def stamped_as_it_was_sent() -> History:
    return _stamped({0: 1000, 1: 1001, 2: 1002}, log_append=False)


@expecting(VIOLATION, {("timestamps", "changed", BAD): 1})
def stamped_otherwise_than_it_was_sent() -> History:
    return _stamped({0: 1000, 1: 1005, 2: 1002}, log_append=False)


@expecting(PASS, {})
def stamped_by_the_broker_in_order() -> History:
    return _stamped({0: 1000, 1: 1000, 2: 1002}, log_append=True)


@expecting(VIOLATION, {("timestamps", "backwards", BAD): 1})
def stamped_by_one_leader_backwards() -> History:
    return _stamped({0: 1000, 1: 1003, 2: 1002}, log_append=True)


@expecting(PASS, {("timestamps", "backwards-across-leaders", NOTED): 1})
def stamped_backwards_by_the_next_leader() -> History:
    return _stamped({0: 1000, 1: 1003, 2: 1002}, log_append=True, epochs={2: 1})


def _clocked(answered_ms: int, read_ms: int, *, log_append: bool) -> History:
    """Value 0, sent at 1.0 s and acknowledged at 1.1 s by a wall clock that began with the run."""
    history = History().client(1, acks=-1)
    history.anchors.append({"monotonic_ns": 0, "wall_ns": 0})
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.send(0, 0, at=1, timestamp_ms=answered_ms)
    return history.final([(0, 0)], timestamp_ms=read_ms, log_append=log_append)


@expecting(PASS, {})
def answered_with_the_last_timestamp_of_its_batch() -> History:
    return _clocked(1050, 1001, log_append=False)


@expecting(VIOLATION, {("timestamps", "answered", BAD): 1})
def answered_in_nanoseconds() -> History:
    return _clocked(1_050_000_000, 1050, log_append=False)


@expecting(VIOLATION, {("timestamps", "answered", BAD): 1})
def answered_a_little_before_its_send() -> History:
    return _clocked(900, 1050, log_append=False)


@expecting(VIOLATION, {("timestamps", "changed", BAD): 1})
def stamped_before_its_send() -> History:
    return _clocked(1050, 900, log_append=False)


@expecting(PASS, {})
def stamped_by_the_broker_while_it_was_sent() -> History:
    return _clocked(1050, 1050, log_append=True)


@expecting(VIOLATION, {("timestamps", "out-of-time", BAD): 1})
def stamped_by_the_broker_out_of_time() -> History:
    return _clocked(5000, 5000, log_append=True)


# ---- retention and compaction ---------------------------------------------------------------------------------------


def _kept_from(log_start: int, settings: Mapping[str, str], *, keys: Mapping[int, int] | None = None) -> History:
    """Records 0 to 9 of about 1 to 2 s; the final read at 100 s begins at `log_start`."""
    history = History(scenario_=scenario())
    history.scenario = _with_topic(settings)
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(10):
        history.send(value, value, at=1 + value / 10, key=(keys or {}).get(value))
    history.partition["log_start_offset"] = log_start
    return history


def _with_topic(settings: Mapping[str, str]):  # type: ignore[no-untyped-def]  # a Scenario
    import dataclasses

    return dataclasses.replace(scenario(), topics=(TopicSpec(name="t", settings=settings),))


@expecting(PASS, {("removed-by-configuration", "retention", NOTED): 4})
def removed_by_retention_time() -> History:
    return _kept_from(4, {"retention.ms": "60000"}).poll(LOG, at=3).final(LOG[4:])


@expecting(VIOLATION, {("lost-write", "lost", BAD): 4})
def removed_before_its_retention_time() -> History:
    return _kept_from(4, {"retention.ms": "600000"}).final(LOG[4:])


@expecting(VIOLATION, {("removed-by-configuration", "retention", NOTED): 4, ("lost-write", "lost", BAD): 1})
def removed_above_the_log_start() -> History:
    return _kept_from(4, {"retention.ms": "60000"}).final([*LOG[4:6], *LOG[7:]])


@expecting(PASS, {("removed-by-configuration", "retention", NOTED): 4})
def removed_by_retention_size() -> History:
    return _kept_from(4, {"retention.bytes": "500"}).final(LOG[4:])


@expecting(VIOLATION, {("lost-write", "lost", BAD): 4})
def removed_beyond_its_retention_size() -> History:
    return _kept_from(4, {"retention.bytes": "1000000"}).final(LOG[4:])


@expecting(PASS, {("removed-by-configuration", "compaction", NOTED): 6})
def removed_by_compaction() -> History:
    """Values 0 to 9 have keys 0 to 2 in turn: the last of each key are 7, 8 and 9."""
    history = _kept_from(0, {"cleanup.policy": "compact"}, keys={value: value % 3 for value in range(10)})
    history.partition["cleanup_policy"] = "compact"
    history.poll(LOG[:5], at=3)
    return history.final([(1, 1), *LOG[7:]])


@expecting(
    VIOLATION, {("removed-by-configuration", "compaction", NOTED): 6, ("compacted-away", "last-of-its-key", BAD): 1}
)
def the_last_of_a_key_was_compacted_away() -> History:
    history = removed_by_compaction()
    history.rows["records"] = [r for r in history.rows["records"] if not (r["kind"] == 2 and r["value"] == 8)]
    return history


@expecting(
    VIOLATION, {("removed-by-configuration", "compaction", NOTED): 6, ("compacted-away", "last-of-its-key", BAD): 1}
)
def the_last_of_a_key_was_compacted_away_for_an_aborted_one() -> History:
    """Value 10 came after 8 with its key and was aborted, though read: compaction leaves what was committed last."""
    history = the_last_of_a_key_was_compacted_away().client(1, transactional_id="id", acks=-1, idempotent=True)
    history.transaction(7, 1, at=2.0, until=2.5)
    history.send(10, 10, at=2.2, status=1, transaction=7, key=2)
    history.client(7, isolation="read_uncommitted", offset_reset="latest")
    return history.poll([(9, 9), (10, 10)], at=2.4, process=7)


@expecting(PASS, {("removed-by-configuration", "compaction", NOTED): 6})
def polled_over_what_was_compacted() -> History:
    return removed_by_compaction().poll([(1, 1), *LOG[7:]], at=50, process=7)
