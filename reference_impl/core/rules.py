"""The safety decisions of replication, each a small pure function, held in one frozen value.

The core calls these rules and has no switches: a planted flaw (flaws.py) replaces one of these functions, and `sound()`
is the correct broker. R7 means the seventh rule of docs/replication.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reference_impl.core.cleaning.cleaning_rules import CleaningRules
from reference_impl.core.controller.controller_rules import ControllerRules
from reference_impl.core.groups.group_rules import GroupRules
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.isr import IsrState
from reference_impl.core.partition_data import FetchPosition
from reference_impl.core.producer_rules import ProducerRules
from reference_impl.core.storage_rules import StorageRules
from reference_impl.core.transactions.transaction_rules import TransactionRules


@dataclass(frozen=True, kw_only=True)
class FollowerView:
    """What a leader knows of one remote replica when it decides on the high watermark."""

    log_end_offset: int  # -1: has not fetched from this leader yet
    in_maximal_isr: bool  # committed members and those of a pending expansion (KIP-497)
    in_committed_isr: bool
    caught_up: bool  # within replica.lag.time.max.ms
    eligible: bool  # registered, not shutting down, and the same incarnation as the one that fetched (KIP-903)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A follower outside the ISR at one of its fetches."""

    log_end_offset: int
    high_watermark: int  # the leader's
    leader_epoch_start_offset: int
    eligible: bool


def keep_log_at_start(log_end_offset: int, checkpointed_high_watermark: int) -> int:
    """R50, KIP-101: keeps what recovery left; only the leader's epochs can show what does not belong in the log."""
    assert log_end_offset >= 0
    return log_end_offset


def keep_log_on_follow(log_end_offset: int, high_watermark: int, has_leader_epochs: bool) -> int:
    """R6: fetches from the log end on; only a log without any epoch is truncated to its high watermark."""
    assert 0 <= high_watermark <= log_end_offset
    return log_end_offset if has_leader_epochs else high_watermark


def ask_by_last_epoch(latest_epoch: int) -> int:
    """R17, KIP-595: every fetch names the last epoch, so that the leader detects a divergence."""
    assert latest_epoch >= -1
    return latest_epoch


def keep_log_on_lead(log_end_offset: int, high_watermark: int) -> int:
    """R5: what an in-sync replica has may be committed, whatever its own high watermark says."""
    assert 0 <= high_watermark <= log_end_offset
    return log_end_offset


def note_epoch_at_election() -> bool:
    """R5, KAFKA-7415: else a follower that asks before the first record would find the epoch undefined."""
    return True


def name_found_epoch(found_epoch: int, asked_epoch: int) -> int:
    """R4, KIP-279: whoever asks learns that the asked epoch is not in this log."""
    assert found_epoch <= asked_epoch
    return found_epoch


def deposed(controller_epoch: int, known_epoch: int) -> bool:
    """R40: who has a successor is not obeyed."""
    return controller_epoch < known_epoch


def older_than_current(leader_epoch: int, current_leader_epoch: int) -> bool:
    """R16, KIP-320."""
    return leader_epoch < current_leader_epoch


def older_incarnation(broker_epoch: int, registered_broker_epoch: int) -> bool:
    """R16, KIP-903; -1: the fetch does not say."""
    return 0 <= broker_epoch < registered_broker_epoch


def same_history_only(is_diverging: bool, fetch_offset: int, log_end_offset: int) -> bool:
    """R17, KAFKA-13141: the offset of a fetch with another history does not prove what the follower has."""
    return not is_diverging


def answer_to_present_question(asked: FetchPosition, present: FetchPosition) -> bool:
    """R20, KAFKA-18991."""
    return asked == present


def reconcile_with_every_epoch(leader: int, leader_before: int) -> bool:
    """R17, KAFKA-7164: the same leader may have cut its log between two of its terms."""
    return True


def newer_than_told(batch_epoch: int, leader_epoch: int) -> bool:
    """R22, KAFKA-18723: a follower reconciles before it takes records of a later epoch than it was told of."""
    return batch_epoch > leader_epoch


def ignore_when_diverging() -> bool:
    """R14, KAFKA-14704: below the leader's high watermark the follower may still have other records."""
    return True


def leaders_range(own_end_offset: int, leader_start_offset: int, leader_end_offset: int) -> int:
    """R23, KAFKA-7414: cut to a leader's earlier end, begin anew behind the own end, or keep all."""
    if leader_end_offset < own_end_offset:
        return leader_end_offset
    return max(leader_start_offset, own_end_offset)


def lower_after_cut() -> bool:
    """R21, KAFKA-9491: nothing behind the end of the log is committed here."""
    return True


def unknown_after_term() -> ErrorCode:
    """R9: the next leader may have the records, or not."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def unknown_after_timeout() -> ErrorCode:
    """R9: the records may be committed later."""
    return ErrorCode.REQUEST_TIMED_OUT


def every_possible_member(isr: IsrState) -> frozenset[int]:
    """R27, KIP-497: until the controller has answered, either ISR may be in force."""
    return isr.maximal_isr


def look_again_with_new_isr() -> bool:
    """R11, KAFKA-13091: a smaller ISR may already have what the high watermark waits for."""
    return True


def acknowledge_when_committed(required_offset: int, high_watermark: int) -> bool:
    """R9: an acks=all write is acknowledged when every in-sync replica has it."""
    assert required_offset >= 0
    assert high_watermark >= 0
    return high_watermark >= required_offset


def enough_in_sync(isr_size: int, min_isr: int) -> bool:
    assert isr_size >= 0
    assert min_isr >= 1
    return isr_size >= min_isr


def smaller_of_setting_and_assignment(min_insync_replicas: int, replication_factor: int) -> int:
    """R8: min.insync.replicas cannot demand more replicas than the partition has."""
    assert min_insync_replicas >= 1
    assert replication_factor >= 1
    return min(min_insync_replicas, replication_factor)


def lowest_end_of_required(leader_end_offset: int, followers: Sequence[FollowerView]) -> int:
    """R11: every member of the maximal ISR, and every replica about to join that is able to join (KAFKA-15021)."""
    assert leader_end_offset >= 0
    required = (f.log_end_offset for f in followers if f.in_maximal_isr or (f.caught_up and f.eligible))
    return min(leader_end_offset, min(required, default=leader_end_offset))


def join_when_whole_epoch_reached(candidate: Candidate) -> bool:
    """R28: the high watermark is not enough: a new leader's may lag behind what is committed (KAFKA-7128)."""
    assert candidate.high_watermark >= 0
    assert candidate.leader_epoch_start_offset >= 0
    return (
        candidate.eligible
        and candidate.log_end_offset >= candidate.high_watermark
        and candidate.log_end_offset >= candidate.leader_epoch_start_offset
    )


def leave_when_behind_for_long(
    log_end_offset: int, leader_end_offset: int, behind_for_ms: float, lag_time_max_ms: int
) -> bool:
    """R29: a follower with an equal log is in sync, however long ago it fetched."""
    assert leader_end_offset >= 0
    assert lag_time_max_ms >= 0
    return log_end_offset != leader_end_offset and behind_for_ms > lag_time_max_ms


def committed_only(high_watermark: int, log_end_offset: int) -> int:
    """R25: consumers read up to the high watermark."""
    assert 0 <= high_watermark <= log_end_offset
    return high_watermark


def stable_only(last_stable_offset: int, high_watermark: int) -> int:
    """R68: readers of committed records read up to the first transaction that has not ended."""
    assert 0 <= last_stable_offset <= high_watermark
    return last_stable_offset


def once_own_epoch_committed(high_watermark: int, leader_epoch_start_offset: int) -> bool:
    """R15, KIP-207: a new leader knows the committed end only once it has committed up to the start of
    its own epoch."""
    assert high_watermark >= 0
    assert leader_epoch_start_offset >= 0
    return high_watermark >= leader_epoch_start_offset


def end_of_what_is_readable(readable_end: int, leader_epoch_start_offset: int) -> int:
    """R15: the latest offset is where readers end."""
    assert readable_end >= leader_epoch_start_offset >= 0
    return readable_end


def delete_committed_only(high_watermark: int, log_end_offset: int) -> int:
    """R54, R78, KAFKA-5634: what is not committed stays, whoever wants it deleted."""
    assert 0 <= high_watermark <= log_end_offset
    return high_watermark


_GROUP_RULES = GroupRules()
_CONTROLLER_RULES = ControllerRules()
_CLEANING_RULES = CleaningRules()
_PRODUCER_RULES = ProducerRules()
_STORAGE_RULES = StorageRules()
_TRANSACTION_RULES = TransactionRules()


@dataclass(frozen=True, kw_only=True)
class Rules:
    """startup_truncation and follow_truncation return the offset to truncate to (the log end: truncate nothing)."""

    startup_truncation: Callable[[int, int], int] = keep_log_at_start
    follow_truncation: Callable[[int, int, bool], int] = keep_log_on_follow
    lead_truncation: Callable[[int, int], int] = keep_log_on_lead
    notes_epoch: Callable[[], bool] = note_epoch_at_election
    found_epoch: Callable[[int, int], int] = name_found_epoch
    fences_controller: Callable[[int, int], bool] = deposed
    fences_leader_epoch: Callable[[int, int], bool] = older_than_current
    fences_incarnation: Callable[[int, int], bool] = older_incarnation
    is_progress: Callable[[bool, int, int], bool] = same_history_only
    fetch_epoch: Callable[[int], int] = ask_by_last_epoch
    reconciles: Callable[[int, int], bool] = reconcile_with_every_epoch
    takes_answer: Callable[[FetchPosition, FetchPosition], bool] = answer_to_present_question
    refuses_epoch: Callable[[int, int], bool] = newer_than_told
    ignores_high_watermark: Callable[[], bool] = ignore_when_diverging
    out_of_range: Callable[[int, int, int], int] = leaders_range
    lowers_high_watermark: Callable[[], bool] = lower_after_cut
    acknowledges: Callable[[int, int], bool] = acknowledge_when_committed
    after_term: Callable[[], ErrorCode] = unknown_after_term  # what acks=all is answered then
    after_timeout: Callable[[], ErrorCode] = unknown_after_timeout
    effective_min_isr: Callable[[int, int], int] = smaller_of_setting_and_assignment
    admits_append: Callable[[int, int], bool] = enough_in_sync  # acks=all, before anything is appended
    raises_high_watermark: Callable[[int, int], bool] = enough_in_sync  # strict min ISR (KIP-966)
    high_watermark: Callable[[int, Sequence[FollowerView]], int] = lowest_end_of_required
    isr_in_force: Callable[[IsrState], frozenset[int]] = every_possible_member
    looks_again: Callable[[], bool] = look_again_with_new_isr
    may_expand: Callable[[Candidate], bool] = join_when_whole_epoch_reached
    must_shrink: Callable[[int, int, float, int], bool] = leave_when_behind_for_long
    readable_end: Callable[[int, int], int] = committed_only
    stable_end: Callable[[int, int], int] = stable_only
    latest_is_known: Callable[[int, int], bool] = once_own_epoch_committed
    latest: Callable[[int, int], int] = end_of_what_is_readable
    deletable_end: Callable[[int, int], int] = delete_committed_only  # of retention and DeleteRecords
    controller: ControllerRules = _CONTROLLER_RULES  # core/controller/controller_rules.py
    cleaning: CleaningRules = _CLEANING_RULES  # core/cleaning/cleaning_rules.py
    producers: ProducerRules = _PRODUCER_RULES  # in the log: core/producer_rules.py
    storage: StorageRules = _STORAGE_RULES  # core/storage_rules.py
    transactions: TransactionRules = _TRANSACTION_RULES  # of coordinators: core/transactions/transaction_rules.py
    groups: GroupRules = _GROUP_RULES  # of coordinators: core/groups/group_rules.py


def sound() -> Rules:
    return Rules()
