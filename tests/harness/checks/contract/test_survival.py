"""A record that outlived an event was not lost by it. Each story beside one in which nobody saw the record alive."""

from dataclasses import replace

import pytest

from harness.checks.contract.destruction import Destruction
from harness.checks.contract.rule import Judge
from harness.checks.contract.rulings import Ruling
from harness.checks.model.lost_records import LostRecord, epoch_of_copies
from harness.checks.model.partition_history import PartitionHistory, read_run_history
from harness.checks.spark.detection import Copy, EpochRead
from tests.harness.checks.contract.test_contract_against_model import small_tables
from tests.harness.checks.histories import model
from tests.harness.checks.histories.build import SECOND, History

LOG = [(offset, 0, offset) for offset in range(10)]
LATE_S = 30.0


def partition_of(history: History) -> PartitionHistory:
    return read_run_history(small_tables(history), 0, history.scenario, 0).partitions[0]


def fate(history: History, value: int, *, acks: int = -1, read_at: float | None = None, at: float = 2.0) -> LostRecord:
    log = history.rows["replica_log"]
    copies = frozenset(Copy(*copy) for copy in model.copies(log, 0, value, value))
    return LostRecord(
        offset=value,
        epoch=0,
        acks=acks,
        t_acknowledged=int(at * SECOND),
        committed=read_at is not None,
        in_a_log=bool(copies),
        copies=copies,
        others=frozenset(Copy(*copy) for copy in model.copies_beside(log, 0, value, value)),
        t_last_read=None if read_at is None else int(read_at * SECOND),
    )


def ruled(history: History, lost: LostRecord, reads: list[EpochRead] | None = None) -> Ruling:
    return Judge(partition_of(history), reads or []).rule(lost)


def led_by_1() -> History:
    """Broker 1 leads alone and dies with its records; broker 2 is elected uncleanly without the last three."""
    history = History().unclean_config("true")
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    history.fault("kill", [1], at=6, until=20)
    return history.snapshot(1, LOG, at=6, reason="kill", epochs="0:0")


def back_and_lost_by_a_clean_election(*, again: bool) -> History:
    """Epoch 1 is unclean and lacks 8; in epoch 2 broker 1 leads again, with 8 or without; epoch 3 is clean."""
    history = led_by_1()
    history.state(2, 1, (2,), at=8, start=7)
    history.state(1, 2, (1,), at=21, start=10 if again else 7)
    if again:
        history.snapshot(1, LOG, at=25, reason="heal", epochs="0:0 2:10")
    history.state(1, 2, (1, 3), at=28)
    return history.state(3, 3, (3,), at=40, start=7)


def test_what_a_later_leader_had_again_was_not_lost_by_the_unclean_election_before() -> None:
    history = back_and_lost_by_a_clean_election(again=True)
    ruling = ruled(history, fate(history, 8))
    assert (ruling.classification, ruling.cause_epoch) == ("violation", 3)


def test_what_no_later_leader_had_was() -> None:
    history = back_and_lost_by_a_clean_election(again=False)
    ruling = ruled(history, fate(history, 8))
    assert (ruling.classification, ruling.cause_epoch) == ("permitted", 1)


def test_a_deposed_and_dead_leaders_own_copy_proves_nothing() -> None:
    history = led_by_1().state(2, 1, (2,), at=8, start=7)
    history.snapshot(1, LOG, at=15, reason="restart", epochs="0:0")
    assert ruled(history, fate(history, 8)).classification == "permitted"


def test_what_was_read_long_after_an_unclean_election_was_not_lost_by_it() -> None:
    history = led_by_1().state(2, 1, (2,), at=8)
    read_late, read_before = fate(history, 8, read_at=LATE_S), fate(history, 8, read_at=4)
    assert ruled(history, read_late).classification == "violation"
    assert ruled(history, read_before).classification == "observation", "its log end is not known: an open question"


def test_a_leader_in_between_of_whose_log_nothing_is_known_excuses_nothing_that_the_next_one_lost_before_it_led() -> (
    None
):
    """It was read under the leader of epoch 1; broker 3 was seen with it, and led without it in epoch 2."""

    def between(*, seen: bool) -> Ruling:
        history = led_by_1().state(2, 1, (2,), at=8)
        if seen:
            history.snapshot(3, LOG, at=9, reason="heal", epochs="0:0")
        history.state(3, 2, (3,), at=40, start=7)
        return ruled(history, fate(history, 8, read_at=20))

    assert between(seen=False).classification == "permitted"
    ruling = between(seen=True)
    assert ruling.classification == "observation"
    assert ruling.undecided is not None
    assert ruling.undecided.code == "lost-before-it-led"


def test_a_record_between_others_of_its_epoch_in_the_final_log_was_not_lost_by_an_election() -> None:
    history = led_by_1().state(2, 1, (2,), at=8)
    beside = [EpochRead(epoch=0, is_final=True, first_offset=0, last_offset=9)]
    assert ruled(history, fate(history, 5), beside).classification == "violation"
    polled = [beside[0]._replace(is_final=False)]
    assert ruled(history, fate(history, 5), polled).classification == "observation", "only what is there at the end"


def test_what_the_leader_cut_itself_no_later_election_cost() -> None:
    """Others are in sync with it: what one of them cuts, it has still. Brokers may have any numbers."""

    def cut_by(node: int) -> Ruling:
        history = History().unclean_config("true")
        history.state(1001, 0, (1001, 2), at=0, start=0)
        history.truncation(node, 5, 10, epoch=0, at=5)
        history.state(3, 1, (3,), at=8, start=4)
        return ruled(history, fate(history, 8))

    own = cut_by(int("1001"))  # as if read from another table: equal, and not the same object
    assert (own.classification, own.election) == ("violation", None)
    assert cut_by(2).classification == "permitted"


def test_a_cut_before_the_record_was_written_says_nothing_of_it() -> None:
    """Where the books were only polled, a cut after it shows that it may have been gone before the election seen."""

    def cut_at(t: float, epoch: int = 0) -> str:
        history = History().unclean_config("true")
        history.state(1, 0, (1, 2, 3), at=0, start=0)
        history.state(1, 0, (1, 2), at=1)
        history.truncation(3, 5, 10, epoch=epoch, at=t)
        history.state(3, 1, (3,), at=8, start=4)
        for row in history.rows["partition_states"]:
            row |= {"exact": False, "observer": 2}
        return ruled(history, fate(history, 8)).classification

    assert cut_at(1.5) == "permitted"
    assert cut_at(4) == "observation"
    assert cut_at(4, epoch=1) == "permitted", "it was cut to the new leader's log"
    assert cut_at(9) == "permitted"


def test_a_cut_puts_no_excuse_in_doubt_that_needs_no_election_nor_place() -> None:
    """Polled books: the only copy in sync was destroyed; or nobody knows where the record lay that a fail-over cost."""
    destroyed = wiped(seen_at=None)
    destroyed.rows["partition_states"].pop()
    failed_over = History()
    failed_over.state(1, 0, (1, 2, 3), at=0, start=0)
    failed_over.state(2, 1, (2, 3), at=8, start=7)
    for history in (destroyed, failed_over):
        history.truncation(3, 5, 10, epoch=0, at=4)
        for row in history.rows["partition_states"]:
            row |= {"exact": False, "observer": 2}
    assert ruled(destroyed, fate(destroyed, 8)).classification == "permitted"
    unplaced = replace(fate(failed_over, 8, acks=1), offset=None)
    assert ruled(failed_over, unplaced).classification != "violation"


def wiped(*, seen_at: float | None, on: int = 1) -> History:
    """The only member of the ISR loses its disk at 10 s, and something is there again, or on another broker, or not."""
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    history.fault("wipe", [1], at=10, until=12)
    if seen_at is not None:
        history.snapshot(on, LOG, at=seen_at, reason="kill", epochs="0:0")
    return history.state(1, 1, (1,), at=LATE_S, start=0)


def test_destruction_excuses_what_was_not_seen_afterwards() -> None:
    history = wiped(seen_at=None)
    ruling = ruled(history, fate(history, 4))
    assert (ruling.classification, ruling.cause) == ("permitted", "destruction")
    reported = ruling.rules[-1].evidence
    assert isinstance(reported, Destruction)
    assert (reported.isr, reported.elr, reported.alone) == ((1,), (), None), "it says whose copies these were"


def test_destruction_does_not_excuse_what_a_replica_in_sync_still_had_afterwards() -> None:
    history = wiped(seen_at=20)
    assert ruled(history, fate(history, 4)).classification == "violation"


def test_a_lost_disk_excuses_nothing_while_nobody_knows_who_had_to_have_a_copy() -> None:
    """The ISR had run empty, and whom the system held eligible is not told: of no copies, all are destroyed."""
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    history.state(-1, 0, (), at=6)
    history.fault("wipe", [3], at=10, until=12)
    history.state(1, 1, (1,), at=LATE_S, start=0)
    assert ruled(history, fate(history, 4)).classification == "violation"


def test_a_copy_on_a_replica_that_left_the_isr_saves_nothing() -> None:
    history = wiped(seen_at=20, on=3)
    assert ruled(history, fate(history, 4)).classification == "permitted"
    history.state(1, 1, (1, 3), at=LATE_S + 5)
    history.snapshot(3, LOG, at=LATE_S + 10, reason="heal", epochs="0:0")
    assert ruled(history, fate(history, 4)).classification == "violation", "it is in sync again, and has it"


def test_another_record_of_the_same_value_that_is_seen_afterwards_is_not_the_one_that_was_destroyed() -> None:
    """Its retry got the same place from the next leader."""
    history = wiped(seen_at=None)
    history.snapshot(1, [(offset, 1, offset) for offset in range(10)], at=LATE_S + 5, reason="kill", epochs="1:0")
    assert ruled(history, fate(history, 4)).classification == "permitted"


def test_what_a_replica_in_sync_cut_away_does_not_tell_how_long_it_was_there() -> None:
    history = wiped(seen_at=None).snapshot(1, LOG, at=20, reason="truncation", epochs="0:0")
    assert ruled(history, fate(history, 4)).classification == "permitted"


def test_destruction_does_not_excuse_what_was_read_afterwards() -> None:
    history = wiped(seen_at=None)
    assert ruled(history, fate(history, 4, read_at=20)).classification == "violation"


def test_destruction_does_not_excuse_what_lay_between_others_of_its_epoch_that_are_still_there() -> None:
    history = wiped(seen_at=None)
    beside = [EpochRead(epoch=0, is_final=True, first_offset=0, last_offset=9)]
    assert ruled(history, fate(history, 4), beside).classification == "violation"
    above = [EpochRead(epoch=0, is_final=True, first_offset=5, last_offset=9)]
    assert ruled(history, fate(history, 4), above).classification == "permitted"


def test_a_copy_in_a_log_that_nobody_describes_says_nothing() -> None:
    history = wiped(seen_at=None)
    stray = replace(fate(history, 4), copies=frozenset({Copy(1, 99, 0)}), in_a_log=True)
    assert ruled(history, stray).classification == "permitted"


def test_damage_of_one_batch_excuses_only_what_lay_in_it_or_was_cut_behind_it() -> None:
    for batch, wanted in (((3, 6), "permitted"), ((0, 2), "violation"), ((7, 9), "violation")):
        history = History()
        history.state(1, 0, (1, 2, 3), at=0, start=0)
        history.state(1, 0, (1,), at=3)
        history.damage(1, *batch, at=10)
        history.state(1, 1, (1,), at=14, start=3)
        assert ruled(history, fate(history, 4)).classification == wanted, batch


def test_what_lay_behind_a_damaged_batch_went_with_it_only_if_the_broker_cut_its_log_there() -> None:
    def damaged(*, start: int | None, cut: bool = False, placed: bool = True, again: bool = True) -> str:
        history = History()
        history.state(1, 0, (1, 2, 3), at=0, start=0)
        history.state(1, 0, (1,), at=3)
        history.damage(1, 3, 6, at=10)
        if cut:
            history.truncation(1, 3, 10, epoch=1, at=13)
        if again:
            history.state(1, 1, (1,), at=14, start=start)
        lost = fate(history, 8)
        return ruled(history, lost if placed else replace(lost, offset=None)).classification

    assert damaged(start=3) == "permitted"
    assert damaged(start=10) == "violation"
    assert damaged(start=None) == "observation", "nobody knows where its log ended"
    assert damaged(start=None, cut=True) == "permitted"
    assert damaged(start=3, placed=False) == "observation", "it may have lain before the batch"
    assert damaged(start=None, cut=True, placed=False, again=False) == "observation"


def test_a_cut_above_the_record_does_not_tell_that_an_unknown_harm_took_it() -> None:
    def harmed(cut_to: int) -> str:
        history = History()
        history.state(1, 0, (1, 2, 3), at=0, start=0)
        history.state(1, 0, (1,), at=3)
        history.damage(1, 0, 9, at=10)
        history.rows["disk_events"][-1]["extent"] = "unknown"
        history.truncation(1, cut_to, 10, epoch=0, at=13)
        return ruled(history, fate(history, 4)).classification

    assert harmed(4) == "permitted"
    assert harmed(7) == "observation"


def test_what_an_election_came_after_it_was_gone_from_its_leaders_log_is_not_excused_by_it() -> None:
    history = led_by_1().snapshot(1, LOG[:4], at=7, reason="restart", epochs="0:0")
    history.rows["replica_log"] = [r for r in history.rows["replica_log"] if r["snapshot"] == 1]
    history.rows["replica_snapshots"] = history.rows["replica_snapshots"][1:]
    history.state(2, 1, (2,), at=8, start=4)
    ruling = ruled(history, fate(history, 8))
    assert (ruling.classification, ruling.election) == ("violation", None)


def test_the_acknowledged_copy_is_the_retrys_and_not_the_first_tries() -> None:
    history = led_by_1().state(2, 1, (2,), at=8, start=7)
    copies = frozenset({Copy(1, 0, 0), Copy(2, 1, 1)})
    story = partition_of(history)
    assert epoch_of_copies(story, copies, int(12 * SECOND), None) == 1
    assert epoch_of_copies(story, copies, int(4 * SECOND), None) == 0


def test_a_high_watermark_above_it_that_its_own_leader_wrote_down_holds_acks_1_to_the_strict_promise() -> None:
    def failed_over(mark: int, *, node: int = 1, at: float = 4) -> str:
        history = History().state(1, 0, (1, 2), at=0, start=0)
        history.wrote_down(node, mark, at=at)
        history.snapshot(1, LOG, at=6, reason="kill", epochs="0:0")
        history.state(2, 1, (2,), at=8, start=7)
        return ruled(history, fate(history, 8, acks=1)).classification

    assert failed_over(9) == "violation"
    assert failed_over(8) == "permitted", "it may end below the record"
    assert failed_over(9, node=2) == "violation", "who is in sync has its mark from the leader"
    assert failed_over(9, node=3) == "observation", "who is not may have the mark of another log"
    assert failed_over(9, at=1) == "permitted", "before the record was acknowledged it was another's"
    assert failed_over(9, node=2, at=12) == "permitted", "of the next reign: its log has other records there"


def test_acks_1_below_what_a_reader_was_given_of_its_epoch_is_held_to_the_strict_promise() -> None:
    """A consumer gets nothing above the high watermark; what the final log shows was said later."""

    def failed_over(*, last: int, epoch: int = 0, is_final: bool = False, matched: bool = True) -> str:
        history = History().state(1, 0, (1, 2), at=0, start=0)
        history.snapshot(1, LOG, at=6, reason="kill", epochs="0:0")
        history.state(2, 1, (2,), at=8, start=7)
        read = EpochRead(epoch=epoch, is_final=is_final, first_offset=last, last_offset=last)
        lost = replace(fate(history, 8, acks=1), matched=matched)
        return ruled(history, lost, [read]).classification

    assert failed_over(last=8) == "violation"
    assert failed_over(last=9) == "violation"
    assert failed_over(last=7) == "permitted"
    assert failed_over(last=9, epoch=1) == "permitted", "of the next leader's"
    assert failed_over(last=9, is_final=True) == "permitted"
    assert failed_over(last=9, matched=False) == "permitted", "its log was damaged, and tells nothing of it"


def test_acks_1_below_the_high_watermark_of_a_log_that_held_it_is_held_to_the_strict_promise() -> None:
    def failed_over(mark: int | None, *, reason: str = "kill", cut_at: float | None = None, cut_to: int = 5) -> str:
        history = History().state(1, 0, (1, 2), at=0, start=0)
        if cut_at is not None:
            history.truncation(3, cut_to, 12, epoch=0, at=cut_at)
        history.snapshot(3, LOG, at=26, reason=reason, epochs="0:0", high_watermark=mark)
        history.state(2, 1, (2,), at=28, start=7)
        return ruled(history, fate(history, 8, acks=1)).classification

    assert failed_over(9) == failed_over(10) == "violation"
    assert failed_over(None) == failed_over(8) == "permitted"
    assert failed_over(11) == "permitted", "it ends below its mark: the mark is of another log"
    assert failed_over(9, reason="truncation") == "permitted", "what was cut had no mark of its own"
    assert failed_over(9, cut_at=20) == "permitted", "the mark may be older than the cut"
    assert failed_over(9, cut_at=15) == "violation", "it has been written down anew since"
    assert failed_over(9, cut_at=20, cut_to=9) == "violation", "the cut was above the record"
    assert failed_over(9, cut_at=27) == "violation", "the mark was read before it"


def test_what_was_sent_to_a_deposed_leader_after_its_successor_had_begun_that_one_never_had() -> None:
    """Broker 1 had dropped the end of its log: what it then acknowledged stands below its successor's start."""

    def sent_at(t: float) -> Ruling:
        history = History().state(1, 0, (1, 2), at=0, start=0)
        history.fault("cut", [1], at=3, until=20)
        history.state(2, 1, (2,), at=8, start=10)
        history.snapshot(1, LOG, at=15, reason="truncation", epochs="0:0")
        return ruled(history, replace(fate(history, 8, acks=1, at=t + 0.1), t_sent=int(t * SECOND)))

    after = sent_at(9)
    assert (after.classification, after.cause) == ("permitted", "fail-over")
    assert sent_at(5).classification == "observation", "it may have been fetched before"


def elected_uncleanly_with_a_mark(mark: int, *, in_sync: bool = True) -> Ruling:
    """Broker 2 wrote a high watermark down while in sync with broker 1, and was elected uncleanly with log end 7."""
    history = History().unclean_config("true")
    history.state(1, 0, (1, 2) if in_sync else (1,), at=0, start=0)
    history.wrote_down(2, mark, at=3)
    history.state(1, 0, (1,), at=4)
    history.snapshot(1, LOG, at=6, reason="kill", epochs="0:0")
    history.state(2, 1, (2,), at=8, start=7)
    return ruled(history, fate(history, 8))


def test_an_unclean_leader_whose_own_mark_was_above_the_record_lost_it_before_it_led() -> None:
    ruling = elected_uncleanly_with_a_mark(9)
    assert ruling.undecided is not None
    assert (ruling.classification, ruling.undecided.code) == ("observation", "lost-before-it-led")
    assert elected_uncleanly_with_a_mark(8).classification == "permitted", "below the record"
    assert elected_uncleanly_with_a_mark(9, in_sync=False).classification == "permitted", "it may be of another log"


@pytest.mark.parametrize(("start", "expected"), [(8, "observation"), (7, "permitted")])
def test_who_wrote_it_and_leads_again_without_having_followed_anybody_lost_it_himself(
    start: int, expected: str
) -> None:
    """Broker 1 leads again from `start`; broker 2 in between began at 7, which it would have followed to."""
    history = led_by_1()
    history.rows["replica_log"].clear()
    history.rows["replica_snapshots"].clear()
    history.state(2, 1, (2,), at=8, start=7)
    history.state(1, 2, (1,), at=21, start=start)
    assert ruled(history, replace(fate(history, 8), epoch=0)).classification == expected
