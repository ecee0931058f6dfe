"""A record that outlived an event was not lost by it. Each story beside one in which nobody saw the record alive."""

from harness.checks.contract import Judge
from harness.checks.fates import Copy, EpochRead, Fate, epoch_of_copies
from harness.checks.rulings import Ruling
from harness.checks.story import PartitionStory, read_story
from tests.harness.checks import model
from tests.harness.checks.build import SECOND, History
from tests.harness.checks.test_contract_against_model import small_tables

LOG = [(off, 0, off) for off in range(10)]
LATE_S = 30.0


def told(history: History) -> PartitionStory:
    return read_story(small_tables(history), 0, history.scenario, 0).partitions[0]


def fate(history: History, value: int, *, acks: int = -1, read_at: float | None = None, at: float = 2.0) -> Fate:
    log = history.rows["replica_log"]
    copies = frozenset(Copy(*copy) for copy in model.copies(log, 0, value, value))
    return Fate(
        offset=value, epoch=0, acks=acks, t_acknowledged=int(at * SECOND), committed=read_at is not None,
        in_a_log=bool(copies), copies=copies,
        others=frozenset(Copy(*copy) for copy in model.copies_beside(log, 0, value, value)),
        t_last_read=None if read_at is None else int(read_at * SECOND),
    )  # fmt: skip


def ruled(history: History, lost: Fate, reads: list[EpochRead] | None = None) -> Ruling:
    return Judge(told(history), reads or []).rule(lost)


def led_by_1() -> History:
    """Broker 1 leads alone and dies with its records; broker 2 is elected uncleanly without the last three."""
    history = History()
    history.unclean_config("true")
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    history.fault("kill", [1], at=6, until=20)
    history.snapshot(1, LOG, at=6, reason="kill", epochs="0:0")
    return history


def back_and_lost_by_a_clean_election(*, again: bool) -> History:
    """Epoch 1 is unclean and lacks 8; in epoch 2 broker 1 leads again, with 8 or without; epoch 3 is clean."""
    history = led_by_1()
    history.state(2, 1, (2,), at=8, start=7)
    history.state(1, 2, (1,), at=21, start=10 if again else 7)
    if again:
        history.snapshot(1, LOG, at=25, reason="heal", epochs="0:0 2:10")
    history.state(1, 2, (1, 3), at=28)
    history.state(3, 3, (3,), at=40, start=7)
    return history


def test_what_a_later_leader_had_again_was_not_lost_by_the_unclean_election_before() -> None:
    history = back_and_lost_by_a_clean_election(again=True)
    ruling = ruled(history, fate(history, 8))
    assert (ruling.classification, ruling.cause_epoch) == ("violation", 3)


def test_what_no_later_leader_had_was() -> None:
    history = back_and_lost_by_a_clean_election(again=False)
    ruling = ruled(history, fate(history, 8))
    assert (ruling.classification, ruling.cause_epoch) == ("permitted", 1)


def test_a_deposed_and_dead_leaders_own_copy_proves_nothing() -> None:
    history = led_by_1()
    history.state(2, 1, (2,), at=8, start=7)
    history.snapshot(1, LOG, at=15, reason="restart", epochs="0:0")
    assert ruled(history, fate(history, 8)).classification == "permitted"


def test_what_was_read_long_after_an_unclean_election_was_not_lost_by_it() -> None:
    history = led_by_1()
    history.state(2, 1, (2,), at=8)
    read_late, read_before = fate(history, 8, read_at=LATE_S), fate(history, 8, read_at=4)
    assert ruled(history, read_late).classification == "violation"
    assert ruled(history, read_before).classification == "observation", "its log end is not known: an open question"


def test_a_record_between_others_of_its_epoch_in_the_final_log_was_not_lost_by_an_election() -> None:
    history = led_by_1()
    history.state(2, 1, (2,), at=8)
    beside = [EpochRead(epoch=0, is_final=True, first_offset=0, last_offset=9)]
    assert ruled(history, fate(history, 5), beside).classification == "violation"


def wiped(*, seen_at: float | None) -> History:
    """The only member of the ISR loses its disk at 10 s, and something is there again, or not."""
    history = History()
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    history.fault("wipe", [1], at=10, until=12)
    if seen_at is not None:
        history.snapshot(1, LOG, at=seen_at, reason="kill", epochs="0:0")
    history.state(1, 1, (1,), at=LATE_S, start=0)
    return history


def test_destruction_excuses_what_was_not_seen_afterwards() -> None:
    history = wiped(seen_at=None)
    assert ruled(history, fate(history, 4)).classification == "permitted"


def test_destruction_does_not_excuse_what_a_replica_in_sync_still_had_afterwards() -> None:
    history = wiped(seen_at=20)
    assert ruled(history, fate(history, 4)).classification == "violation"


def test_destruction_does_not_excuse_what_was_read_afterwards() -> None:
    history = wiped(seen_at=None)
    assert ruled(history, fate(history, 4, read_at=20)).classification == "violation"


def test_damage_of_one_batch_excuses_only_what_lay_in_it_or_was_cut_behind_it() -> None:
    for batch, wanted in (((3, 6), "permitted"), ((0, 2), "violation"), ((7, 9), "violation")):
        history = History()
        history.state(1, 0, (1, 2, 3), at=0, start=0)
        history.state(1, 0, (1,), at=3)
        history.damage(1, *batch, at=10)
        history.state(1, 1, (1,), at=14, start=3)
        assert ruled(history, fate(history, 4)).classification == wanted, batch


def test_what_an_election_came_after_it_was_gone_from_its_leaders_log_is_not_excused_by_it() -> None:
    history = led_by_1()
    history.snapshot(1, LOG[:4], at=7, reason="restart", epochs="0:0")
    history.rows["replica_log"] = [r for r in history.rows["replica_log"] if r["snapshot"] == 1]
    history.rows["replica_snapshots"] = history.rows["replica_snapshots"][1:]
    history.state(2, 1, (2,), at=8, start=4)
    ruling = ruled(history, fate(history, 8))
    assert (ruling.classification, ruling.election) == ("violation", None)


def test_the_acknowledged_copy_is_the_retrys_and_not_the_first_tries() -> None:
    history = led_by_1()
    history.state(2, 1, (2,), at=8, start=7)
    copies = frozenset({Copy(1, 0, 0), Copy(2, 1, 1)})
    story = told(history)
    assert epoch_of_copies(story, copies, int(12 * SECOND), None) == 1
    assert epoch_of_copies(story, copies, int(4 * SECOND), None) == 0


def test_a_high_watermark_above_it_that_its_own_leader_wrote_down_holds_acks_1_to_the_strict_promise() -> None:
    def failed_over(mark: int) -> Ruling:
        history = History()
        history.state(1, 0, (1, 2), at=0, start=0)
        history._add("broker_events", node=1, t=4 * SECOND, event="high_watermark_checkpoint", topic="t", part=0,
                     to_offset=mark)  # fmt: skip
        history.snapshot(1, LOG, at=6, reason="kill", epochs="0:0")
        history.state(2, 1, (2,), at=8, start=7)
        return ruled(history, fate(history, 8, acks=1))

    assert failed_over(9).classification == "violation"
    assert failed_over(8).classification == "permitted"
