"""Tiny histories whose log does not begin at 0 in the end: who moved its start, or nobody knows."""

import dataclasses
from collections.abc import Mapping

from harness.scenario.model import ClusterSpec, TopicSpec
from tests.harness.checks.histories.build import ISR, History, scenario
from tests.harness.checks.twins.twins_of_clients import LOG, stamped_by_the_broker_out_of_time, story


def _begun_at_four(settings: Mapping[str, str], *, system: str = "attached") -> History:
    """Records 0 to 9 of about 1 to 2 s; the final read at 100 s begins at 4."""
    history = History(scenario_=scenario(topics=(TopicSpec(name="t", settings=settings),)))
    history.scenario = dataclasses.replace(history.scenario, cluster=ClusterSpec(system=system))
    history.state(1, 0, ISR, at=0, start=0)
    for offset, value in LOG:
        history.send(value, offset, at=1 + value / 10)
    history.partition |= {"log_start_offset": 4, "cleanup_policy": settings.get("cleanup.policy")}
    return history.final(LOG[4:])


@story
def removed_by_nobody_knows_whom_in_somebody_elses_cluster() -> History:
    return _begun_at_four({"retention.ms": "600000"})


@story
def removed_and_read_before_by_nobody_knows_whom() -> History:
    return _begun_at_four({"retention.ms": "600000"}).poll(LOG, at=3)


@story
def removed_by_nobody_knows_whom_and_one_more_above_the_start() -> History:
    history = _begun_at_four({"retention.ms": "600000"})
    history.rows["records"] = [row for row in history.rows["records"] if (row["kind"], row["value"]) != (2, 6)]
    return history


@story
def removed_in_a_cluster_where_only_the_harness_could_have_asked_for_it() -> History:
    return _begun_at_four({"retention.ms": "600000"}, system="kafka:4.3.1")


@story
def removed_where_brokers_refuse_to_remove_anything() -> History:
    """A broker refuses DeleteRecords in a topic that only compacts."""
    return _begun_at_four({"cleanup.policy": "compact"})


@story
def removed_by_retention_in_somebody_elses_cluster() -> History:
    return _begun_at_four({"retention.ms": "60000"})


def _deleted_key(settings: Mapping[str, str], *, kept: int | None = None) -> History:
    """Values 0 to 9 have keys 0 to 2 in turn, and 9 is a tombstone; of its key the final log has nothing, or `kept`."""
    policy = {"cleanup.policy": "compact", **settings}
    history = History(scenario_=scenario(topics=(TopicSpec(name="t", settings=policy),)))
    history.state(1, 0, ISR, at=0, start=0)
    for offset, value in LOG:
        history.send(value, offset, at=1 + value / 10, key=value % 3, tombstone=True if value == 9 else None)
    history.partition |= {"log_start_offset": 0, "cleanup_policy": "compact"}
    return history.final(([] if kept is None else [LOG[kept]]) + LOG[7:9])


@story
def tombstone_removed_in_its_time() -> History:
    return _deleted_key({"delete.retention.ms": "60000"})


@story
def tombstone_removed_before_its_time() -> History:
    return _deleted_key({"delete.retention.ms": "600000"})


@story
def tombstone_removed_before_what_it_deletes() -> History:
    return _deleted_key({"delete.retention.ms": "60000"}, kept=3)


def _passed_over(
    *,
    at: float,
    settings: Mapping[str, str],
    later: float | None = None,
    reset: str = "earliest",
    retried: bool = False,
) -> History:
    """A poll at `at` returns offsets 2 and 4, not 3; a record of 3's key is sent at `later`; the final log lacks 3."""
    compacts = "cleanup.policy" in settings
    history = History(scenario_=scenario(topics=(TopicSpec(name="t", settings=settings),)))
    history.state(1, 0, ISR, at=0, start=0)
    history.client(9, offset_reset=reset)
    for offset, value in LOG:
        elapsed_s = 1.8 if retried and offset == 3 else 0.1
        history.send(value, offset, at=1 + value / 10, elapsed_s=elapsed_s, key=value)
    history.poll([*LOG[:3], *LOG[4:]], at=at)
    history.partition |= {"log_start_offset": 0 if compacts else 4, "cleanup_policy": "compact" if compacts else None}
    log = [*LOG[:3], *LOG[4:]] if compacts else LOG[4:]
    if later is not None:
        history.send(60, 10, at=later, key=3)
        log = [*log, (10, 60)]
    return history.final(log)


_MINUTE, _COMPACT = {"retention.ms": "60000"}, {"cleanup.policy": "compact"}


@story
def passed_over_long_before_its_retention_time() -> History:
    return _passed_over(at=3, settings=_MINUTE)


@story
def passed_over_after_its_retention_time() -> History:
    return _passed_over(at=70, settings=_MINUTE)


@story
def passed_over_by_a_consumer_that_starts_anew_at_the_end() -> History:
    return _passed_over(at=3, settings=_MINUTE, reset="latest")


@story
def passed_over_before_its_producer_got_an_answer() -> History:
    """A first attempt may not have been there yet."""
    return _passed_over(at=3, settings=_MINUTE, retried=True)


@story
def passed_over_before_its_key_had_a_later_record() -> History:
    return _passed_over(at=3, settings=_COMPACT, later=50)


@story
def passed_over_after_its_key_had_a_later_record() -> History:
    return _passed_over(at=60, settings=_COMPACT, later=50)


def _lost_with_the_later_one(*, log_end: int, cut: bool, sent_again: bool = False) -> History:
    """Values 0 to 6 have keys of their own; 8, with the key of 7 and acks=1, replaces it where the log is compacted.

    Broker 1 alone was in sync, and another one is elected though that is forbidden. cut: broker 1 tells what it cut.
    sent_again: 8 was acknowledged by all, and an attempt before that stands at 6 to the end.
    """
    history = History(scenario_=scenario(topics=(TopicSpec(name="t", settings=_COMPACT),)))
    history.state(1, 0, (1,), at=0, start=0)
    history.unclean_config("false")
    kept = [*LOG[:6], (6, 8)] if sent_again else LOG[:7]
    for offset, value in kept[: 6 if sent_again else 7]:
        history.send(value, offset, at=1 + value / 10, key=value)
    history.send(7, 7, at=2, key=100)
    if sent_again:
        history.send(8, 8, at=1.7, elapsed_s=1, process=2, key=100)
    else:
        history.send(8, 8, at=3, acks=1, key=100)
    history.state(2, 1, (2,), at=8, start=log_end)
    if cut:
        history.truncation(1, 7, 9, epoch=1, at=9)
        history.snapshot(1, [(7, 0, 7), (8, 0, 8)], at=9, reason="truncation")
    history.partition |= {"cleanup_policy": "compact"}
    return history.final(kept)


def _replaced_in_the_next_epoch(*, sent_at: float) -> History:
    """Value 7 was acknowledged at 2.1 s; 9, of its key, stands at 8 in the end, in the log of an elected one that never
    had 7."""
    history = History(scenario_=scenario(topics=(TopicSpec(name="t", settings=_COMPACT),)))
    history.state(1, 0, (1,), at=0, start=0)
    history.unclean_config("false")
    for offset, value in LOG[:7]:
        history.send(value, offset, at=1 + value / 10, key=value)
    history.send(7, 7, at=2, key=100)
    history.state(2, 1, (2,), at=3, start=7)
    history.send(8, 7, at=4, key=101, process=2)
    history.send(9, 8, at=sent_at, elapsed_s=4.5 - sent_at, key=100, process=3)
    history.partition |= {"cleanup_policy": "compact"}
    return history.final([*LOG[:7], (7, 8), (8, 9)])


@story
def lost_before_the_later_one_of_its_key_was_sent() -> History:
    return _replaced_in_the_next_epoch(sent_at=4.1)


@story
def lost_when_the_later_one_of_its_key_was_on_its_way() -> History:
    return _replaced_in_the_next_epoch(sent_at=2.5)


@story
def lost_with_a_copy_of_the_later_one_of_its_key_and_still_there_when_another_was_elected() -> History:
    return _lost_with_the_later_one(log_end=7, cut=True, sent_again=True)


@story
def lost_with_a_copy_of_the_later_one_of_its_key_and_never_seen_again() -> History:
    return _lost_with_the_later_one(log_end=7, cut=False, sent_again=True)


@story
def lost_with_the_later_one_of_its_key_and_still_there_when_another_was_elected() -> History:
    return _lost_with_the_later_one(log_end=7, cut=True)


@story
def lost_with_the_later_one_of_its_key_and_never_seen_again() -> History:
    return _lost_with_the_later_one(log_end=7, cut=False)


@story
def lost_with_the_later_one_of_its_key_by_one_that_may_have_compacted_it() -> History:
    return _lost_with_the_later_one(log_end=8, cut=True)


@story
def stamped_out_of_time_by_a_machine_whose_clock_nobody_knows() -> History:
    history = stamped_by_the_broker_out_of_time()
    history.scenario = dataclasses.replace(history.scenario, cluster=ClusterSpec(system="attached"))
    return history
