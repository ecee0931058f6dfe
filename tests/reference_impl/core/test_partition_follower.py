"""A follower accepts only answers to its current request, and its log ends up equal to its leader's."""

from dataclasses import replace

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.partition import Applied, FetchedPartition
from tests.reference_impl.core.memory_log import MemoryLog, batch
from tests.reference_impl.core.replication_world import World, visible


def with_tails() -> World:
    """1 led epoch 0 and has an uncommitted tail; 2 leads epoch 1 and has written over it; 1 is back."""
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.write("x", "y", acks=1)
    world.kill(1)
    world.notice_deaths()
    world.tell()
    world.write("b")
    world.fetch(3, rounds=2)
    world.start(1)
    world.tell()
    return world


def test_records_are_taken_verbatim_with_epochs_and_producers() -> None:
    world = World()
    numbered = batch("a", producer_id=7, producer_epoch=0, sequence=0)
    retry = bytearray(numbered)
    world.leader.append(numbered, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms)
    assert world.fetch(2, 3, rounds=2) is Applied.NOTHING
    assert world.logs[2].all_batches() == world.logs[1].all_batches()
    assert world.logs[2].leader_epochs.entries == ((0, 0),)
    world.elect(2)
    world.tell()
    result = world.leader.append(retry, acks=-1, now_ms=world.now_ms, wall_clock_ms=world.wall_clock_ms)
    assert result.duplicate  # R47: the retry after a fail-over finds its first copy


def test_an_uncommitted_tail_gives_way_to_the_new_leaders_records() -> None:
    world = with_tails()
    assert world.values(1) == ["a", "x", "y"]
    assert world.fetch(1) is Applied.TRUNCATED
    assert world.values(1) == ["a"]
    world.fetch(1, rounds=2)
    assert world.logs[1].records == world.logs[2].records
    (truncation,) = world.evidence[1].truncations
    assert (truncation.from_offset, truncation.to_offset, truncation.epoch) == (3, 1, 1)
    assert truncation.cut == ("x", "y")
    assert truncation.reason == "diverged: the leader's epoch 0 ends at 1"


def test_a_diverging_answer_moves_no_high_watermark() -> None:
    """KAFKA-14704: the leader's high watermark says nothing of records that are about to be cut."""
    world = with_tails()
    fetch = world.ask(1)
    assert fetch is not None
    assert fetch.answer.high_watermark == 2
    before = world.partitions[1].high_watermark
    world.deliver(fetch)
    assert world.partitions[1].high_watermark == before


def test_fast_leader_changes_need_several_steps_back() -> None:
    """KIP-279: two replicas that lack each other's epochs find the last one they share."""
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.write("b0", acks=1)
    world.elect(2)
    world.tell(2)
    world.write("c1", "d1", acks=1)
    world.elect(1)
    world.tell(1)
    world.write("e2", acks=1)
    world.tell()
    assert world.fetch(2) is Applied.TRUNCATED
    assert world.values(2) == ["a"]
    world.fetch(2, rounds=2)
    assert world.logs[2].records == world.logs[1].records
    assert world.logs[2].leader_epochs.entries == world.logs[1].leader_epochs.entries


def test_an_epoch_without_records_does_not_keep_a_follower_from_fetching() -> None:
    """R3, KAFKA-10706: an entry at the log end goes although there is nothing to cut."""
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=2)
    world.elect(2)
    world.tell(2)
    world.elect(1)
    world.tell()
    world.write("b")
    world.fetch(2, 3, rounds=3)
    assert world.values(2) == ["a", "b"]
    assert world.evidence[2].truncations == []
    assert world.logs[2].leader_epochs.entries == ((0, 0), (2, 1))


def test_an_answer_to_an_earlier_question_is_stale() -> None:
    """KAFKA-18991."""
    world = World()
    world.write("a")
    late = world.ask(3)
    assert late is not None
    assert world.fetch(3) is Applied.APPENDED
    assert world.deliver(late) is Applied.STALE
    late = world.ask(3)
    assert late is not None
    world.elect(2)
    world.tell(3)
    assert world.deliver(late) is Applied.STALE
    world.tell()
    assert world.partitions[2].apply_fetched(late.position, late.answer, now_ms=world.now_ms) is Applied.STALE


def test_a_gap_or_an_overlap_stops_the_follower_until_a_newer_epoch() -> None:
    world = World()
    world.write("a")
    fetch = world.ask(2)
    assert fetch is not None
    shifted = MemoryLog()
    shifted.append(*_stamped("z", offset=4, epoch=0))
    assert world.deliver(replace(fetch, answer=replace(fetch.answer, records=shifted.all_batches()))) is Applied.FAILED
    assert world.fetch(2) is Applied.FAILED
    assert world.values(2) == []
    world.elect(1)
    world.tell()
    world.fetch(2)
    assert world.values(2) == ["a"]


def test_batches_of_an_epoch_not_known_yet_are_not_appended() -> None:
    """KAFKA-18723."""
    world = World()
    fetch = world.ask(2)
    assert fetch is not None
    old, _ = _stamped("a", offset=0, epoch=0)
    new, _ = _stamped("b", offset=1, epoch=1)
    answer = replace(fetch.answer, records=bytes(old + new), high_watermark=2)
    assert world.deliver(replace(fetch, answer=answer)) is Applied.APPENDED
    assert world.values(2) == ["a"]
    assert world.partitions[2].high_watermark == 1


def test_a_batch_of_an_epoch_that_nobody_leads_is_refused_by_name_and_asked_for_again_later() -> None:
    """Not at once for ever, and not silently: the leader's disk may hold nothing else."""
    world = World()
    world.write("a")
    fetch = world.ask(2)
    assert fetch is not None
    damaged, _ = _stamped("a", offset=0, epoch=1 << 20)
    answer = replace(fetch.answer, records=bytes(damaged), high_watermark=1)
    assert world.deliver(replace(fetch, answer=answer)) is Applied.RETRY_LATER
    assert world.partitions[2].fetch_refusal == (
        "the batch at offset 0 is of leader epoch 1048576, and the leader leads in epoch 0"
    )
    assert world.fetch(2) is Applied.APPENDED
    assert world.partitions[2].fetch_refusal == ""


def test_a_damaged_answer_is_asked_for_again() -> None:
    world = World()
    world.write("a")
    fetch = world.ask(2)
    assert fetch is not None
    damaged = fetch.answer.records[:-1] + b"?"
    assert world.deliver(replace(fetch, answer=replace(fetch.answer, records=damaged))) is Applied.RETRY_LATER
    assert world.logs[2].log_end_offset == 0


def test_what_an_error_means_for_the_next_fetch() -> None:
    world = World()
    follower = world.partitions[2]

    def applied(error: ErrorCode) -> Applied:
        return follower.apply_fetched(follower.fetch_position(), FetchedPartition(error=error), now_ms=world.now_ms)

    assert applied(ErrorCode.UNKNOWN_LEADER_EPOCH) is Applied.RETRY_LATER
    assert applied(ErrorCode.NOT_LEADER_OR_FOLLOWER) is Applied.RETRY_LATER
    assert applied(ErrorCode.OFFSET_OUT_OF_RANGE) is Applied.OUT_OF_RANGE
    assert applied(ErrorCode.FENCED_LEADER_EPOCH) is Applied.FAILED
    assert applied(ErrorCode.NONE) is Applied.FAILED


def test_out_of_range_never_wipes_a_log_that_is_within_the_leaders() -> None:
    """R23: only a shorter leader's log, or one that starts beyond our end, changes ours."""
    world = World()
    world.write("a")
    world.write("b")
    world.fetch(2, 3, rounds=2)
    follower = world.partitions[2]
    follower.truncate_out_of_range(0, 2, leader_epoch=0)
    follower.truncate_out_of_range(0, 1, leader_epoch=7)
    assert world.values(2) == ["a", "b"]
    follower.truncate_out_of_range(0, 1, leader_epoch=0)
    assert world.values(2) == ["a"]
    follower.truncate_out_of_range(9, 12)
    assert (world.logs[2].log_start_offset, world.logs[2].log_end_offset, follower.high_watermark) == (9, 9, 9)
    assert [truncation.cut for truncation in world.evidence[2].truncations] == [("b",), ("a",)]


def test_a_leader_ignores_what_is_meant_for_a_follower() -> None:
    """R23, KAFKA-13207."""
    world = World()
    world.write("a")
    world.leader.truncate_out_of_range(0, 0)
    assert world.values(1) == ["a"]


def test_a_log_without_epochs_falls_back_on_its_high_watermark() -> None:
    world = World()
    for follower in (2, 3):
        world.kill(follower)
    bare, next_offset = _stamped("z", offset=0, epoch=-1)
    world.logs[2].append(bare, next_offset)
    world.start(2)
    assert world.values(2) == ["z"]
    world.tell(2)
    assert world.values(2) == []
    assert world.evidence[2].truncations[0].reason == "high watermark on becoming follower"


def test_without_a_leader_the_log_stays_as_it_is() -> None:
    world = World()
    bare, next_offset = _stamped("z", offset=0, epoch=-1)
    world.logs[2].append(bare, next_offset)
    nobody = replace(world.state, leader=-1, leader_epoch=1, partition_epoch=1)
    assert world.partitions[2].become_follower(nobody, now_ms=world.now_ms)
    assert world.values(2) == ["z"]


def test_only_a_higher_leader_epoch_restarts_the_fetcher() -> None:
    world = World()
    follower = world.partitions[3]
    smaller_isr = replace(world.state, isr=(1, 2), partition_epoch=1)
    assert not follower.become_follower(smaller_isr, now_ms=world.now_ms)
    assert follower.become_follower(replace(smaller_isr, leader=2, leader_epoch=1), now_ms=world.now_ms)


def test_the_high_watermark_comes_back_from_the_checkpoint_clamped_into_the_log() -> None:
    world = World()
    world.write("a")
    world.fetch(2, 3, rounds=3)
    world.checkpoint()
    world.checkpoints[3] = 40
    for broker in (1, 2, 3):
        world.kill(broker)
    world.start(2)
    world.start(3)
    world.tell()
    assert world.partitions[3].high_watermark == 1
    assert world.partitions[2].high_watermark == 1
    assert world.state.leader in (2, 3)
    assert visible(world.leader) == ["a"]


def _stamped(value: str, *, offset: int, epoch: int) -> tuple[bytearray, int]:
    from reference_impl.wire.record_batches import stamp

    one = batch(value)
    stamp(one, 0, offset, epoch)
    return one, offset + 1
