"""Tiny histories of a final read that was told where the log ends: too low, or lawfully less than somebody knows."""

import dataclasses

from harness.scenario.model import ClusterSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, SECOND, History
from tests.harness.checks.twins.twins_of_clients import LOG, expecting

BAD, LAWFUL, NOTED = "violation", "permitted", "observation"
CHECK = "end-told-too-low"
UNREADABLE = ("unreadable", "unreadable", NOTED)
ASKED = 99.0


def _log(*, acks: int = -1, system: str = "kafka:4.3.1") -> History:
    """Records 0 to 9 of about 1 to 2 s, by broker 1 in epoch 0."""
    history = History()
    history.scenario = dataclasses.replace(history.scenario, cluster=ClusterSpec(system=system))
    history.state(1, 0, ISR, at=0, start=0)
    for offset, value in LOG:
        history.send(value, offset, at=1 + value / 10, acks=acks)
    return history


def _disks(history: History, *, high_watermark: int, epoch: int = 0, at: float = 110.0) -> History:
    for node in ISR:
        records = [(offset, epoch, value) for offset, value in LOG]
        history.snapshot(node, records, high_watermark=high_watermark, epochs=f"{epoch}:0", at=at)
    return history


def _not_read(*, high_watermark: int, acks: int = -1, system: str = "kafka:4.3.1") -> History:
    """The final read ends at the told 8; the disks have all ten. The table final_reads is empty, as it was in runs of
    before."""
    history = _log(acks=acks, system=system).final(LOG[:8], epoch=0)
    return _disks(history, high_watermark=high_watermark)


def _answered(history: History, end: int, *, at: float = ASKED, came_to: int = 0, node: int | None = 1) -> None:
    history.final_read("end", at=at, elapsed_s=0.1, node=node, from_offset=came_to, to_offset=end)


def _read_again(history: History, *, found: int) -> None:
    """Offsets 8 and 9 are asked for half a minute later."""
    known = {"node": None, "since_ns": 101 * SECOND, "known": 2}
    history.final_read("again", at=132, elapsed_s=1, from_offset=8, to_offset=10, found=found, **known)


def _read_on(history: History, *, at: float = ASKED, node: int | None = 1, epoch: int = 0) -> History:
    """Told 8, and read to 10."""
    _answered(history, 8, at=at, came_to=10, node=node)
    history.final(LOG, epoch=epoch)
    history.partition["end_offset"] = 8
    return _disks(history, high_watermark=10, epoch=epoch)


# ---- not read, as in runs that were sealed before the answers were recorded


@expecting(Verdict.VIOLATION, {(CHECK, "not-read", BAD): 2, UNREADABLE: 2})
def end_below_what_acks_all_was_answered_for() -> History:
    return _not_read(high_watermark=10)


@expecting(Verdict.PASS, {(CHECK, "not-read", NOTED): 2, UNREADABLE: 2})
def end_below_what_acks_all_was_answered_for_before_kip_207() -> History:
    return _not_read(high_watermark=10, system="kafka:1.1.1")


@expecting(Verdict.VIOLATION, {(CHECK, "not-read", BAD): 2, UNREADABLE: 2})
def end_below_what_acks_all_was_answered_for_on_the_reference() -> History:
    return _not_read(high_watermark=10, system="reference")


@expecting(Verdict.INCONCLUSIVE, {(CHECK, "not-read", NOTED): 2, UNREADABLE: 2})
def end_below_what_acks_all_was_answered_for_by_an_unknown_release() -> History:
    return _not_read(high_watermark=10, system="attached")


@expecting(Verdict.PASS, {UNREADABLE: 2})
def end_below_what_acks_1_was_answered_for_and_no_mark_above() -> History:
    return _not_read(high_watermark=8, acks=1)


@expecting(Verdict.INCONCLUSIVE, {(CHECK, "not-read", NOTED): 2, UNREADABLE: 2})
def end_below_a_mark_that_may_have_risen_later() -> History:
    return _not_read(high_watermark=10, acks=1)


@expecting(Verdict.VIOLATION, {(CHECK, "not-read", BAD): 2, UNREADABLE: 2})
def end_below_what_a_consumer_had_been_given() -> History:
    history = _log(acks=1).poll(LOG, at=3, epoch=0)
    history.final(LOG[:8], epoch=0)
    return _disks(history, high_watermark=10)


@expecting(Verdict.INCONCLUSIVE, {(CHECK, "not-read", NOTED): 2, UNREADABLE: 2})
def end_that_may_be_the_last_stable_offset() -> History:
    """A transaction may hold read_committed back there; then the log's own end is nowhere recorded."""
    history = _not_read(high_watermark=10)
    history.partition["last_stable_offset"] = 8
    return history


@expecting(Verdict.VIOLATION, {(CHECK, "not-read", BAD): 2, UNREADABLE: 2})
def end_above_the_last_stable_offset_and_below_the_committed_end() -> History:
    history = _not_read(high_watermark=10)
    history.partition["last_stable_offset"] = 7
    return history


@expecting(Verdict.PASS, {("lost-write", "lost", LAWFUL): 2})
def end_below_what_a_dead_leader_alone_had_acknowledged() -> History:
    """acks=1, a fail-over to a log that ends at 8: nothing survives above the told end."""
    history = _log(acks=1).fault("kill", [1], at=50, until=60)
    history.state(2, 1, (2, 3), at=51, start=8)
    history.state(2, 1, ISR, at=65)
    _answered(history, 8, came_to=8, node=2)
    history.final(LOG[:8], epoch=0)
    for node in ISR:
        records = [(offset, 0, value) for offset, value in LOG[:8]]
        history.snapshot(node, records, high_watermark=8, epochs="0:0 1:8", at=110)
    return history


# ---- read on


@expecting(Verdict.VIOLATION, {(CHECK, "read-on", BAD): 2})
def end_told_too_low_and_read_past() -> History:
    return _read_on(_log())


@expecting(Verdict.VIOLATION, {(CHECK, "read-on", BAD): 2})
def end_told_right_the_second_time() -> History:
    history = _log()
    _answered(history, 8, came_to=8)
    _answered(history, 10, at=ASKED + 0.6, came_to=10)
    history.final(LOG, epoch=0)
    return _disks(history, high_watermark=10)


@expecting(Verdict.PASS, {})
def end_told_right_the_first_time() -> History:
    history = _log()
    _answered(history, 10, came_to=10)
    history.final(LOG, epoch=0)
    return _disks(history, high_watermark=10)


@expecting(Verdict.PASS, {(CHECK, "read-on", NOTED): 2})
def end_told_before_acks_1_was_replicated() -> History:
    return _read_on(_log(acks=1))


@expecting(Verdict.VIOLATION, {(CHECK, "read-on", BAD): 2})
def end_told_below_the_start_of_the_leaders_own_epoch() -> History:
    """acks=1, and the new leader has them: they are below the start of its epoch, so it has to know."""
    history = _log(acks=1).fault("kill", [1], at=50, until=60)
    history.state(2, 1, (2, 3), at=51, start=10)
    history.state(2, 1, ISR, at=65)
    return _read_on(history, node=2)


@expecting(Verdict.PASS, {(CHECK, "read-on", NOTED): 2})
def end_told_by_a_leader_that_was_deposed() -> History:
    history = _log().state(2, 1, ISR, at=50, start=10)
    return _read_on(history, node=1)


@expecting(Verdict.INCONCLUSIVE, {(CHECK, "read-on", NOTED): 2})
def end_told_while_the_leadership_changed() -> History:
    history = _log().state(2, 1, ISR, at=ASKED, start=10)
    return _read_on(history, node=None)


@expecting(Verdict.PASS, {})
def end_told_before_they_were_sent() -> History:
    history = _log()
    _answered(history, 10, at=99, came_to=12)
    for value in (10, 11):
        history.send(value, value, at=99.5)
    history.final([*LOG, (10, 10), (11, 11)], at=100, epoch=0)
    history.partition["end_offset"] = 10
    return history


@expecting(Verdict.PASS, {})
def committed_end_held_back_by_an_open_transaction() -> History:
    """read_committed ends at the last stable offset: that is no end of the log."""
    history = _log()
    _answered(history, 10, came_to=10)
    history.final(LOG, epoch=0)
    history.partition["last_stable_offset"] = 8
    return _disks(history, high_watermark=10)


# ---- late


@expecting(Verdict.PASS, {("late-record", "read-again", NOTED): 2})
def readable_half_a_minute_later() -> History:
    history = _log()
    _answered(history, 10, came_to=10)
    _read_again(history, found=2)
    history.final(LOG[:8], epoch=0)
    history.final(LOG[8:], at=132.5, epoch=0)
    return _disks(history, high_watermark=10, at=140)


@expecting(Verdict.VIOLATION, {("lost-write", "lost", BAD): 2})
def not_there_half_a_minute_later_either() -> History:
    history = _log()
    _answered(history, 8, came_to=8)
    _read_again(history, found=0)
    history.final(LOG[:8], epoch=0)
    for node in ISR:
        records = [(offset, 0, value) for offset, value in LOG[:8]]
        history.snapshot(node, records, high_watermark=8, epochs="0:0", at=140)
    return history
