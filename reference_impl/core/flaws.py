"""Planted flaws: historical bugs and hazards, each a replacement of rules (docs/replication.md, planted flaws).

They prove that the checks detect such bugs. All are off by default, and every run records which were on.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from reference_impl.core.cleaning.cleaning_rules import CleaningRules
from reference_impl.core.groups.group_rules import CommitView, GroupRules
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.producer_rules import ProducerRules
from reference_impl.core.rules import Rules, sound
from reference_impl.core.transactions.transaction_rules import TransactionRules

__all__ = ["FLAWS", "Flaw", "sound", "with_flaws"]


@dataclass(frozen=True, kw_only=True)
class Flaw:
    name: str
    origin: str
    description: str
    apply: Callable[[Rules], Rules]


def _acknowledge_at_once(required_offset: int, high_watermark: int) -> bool:
    return True


def _cut_to_high_watermark_on_follow(log_end_offset: int, high_watermark: int, has_leader_epochs: bool) -> int:
    return high_watermark


def _ask_without_epoch(latest_epoch: int) -> int:
    return -1


def _cut_to_high_watermark_at_start(log_end_offset: int, checkpointed_high_watermark: int) -> int:
    return min(log_end_offset, checkpointed_high_watermark)


def _end_as_it_took_over(readable_end: int, leader_epoch_start_offset: int) -> int:
    return min(readable_end, leader_epoch_start_offset)


def _answered_once_appended(is_committed: bool) -> bool:
    return True


def _commit_of_anybody(view: CommitView) -> ErrorCode:
    return ErrorCode.NONE


def _load_the_active_segment_alone(log_start_offset: int, active_segment_offset: int) -> int:
    return active_segment_offset


def _nothing_was_committed_yet() -> ErrorCode:
    return ErrorCode.NONE


def _sync_of_any_generation(generation: int, group_generation: int) -> bool:
    return True


def _end_at_high_watermark(last_stable_offset: int, high_watermark: int) -> int:
    return high_watermark


def _count_at_once(is_ended: bool) -> bool:
    return True


def _expired_at_once(since_ms: int, now_ms: int, retention_ms: int) -> bool:
    return True


def _list_none_aborted() -> bool:
    return False


def _fences_nobody(epoch: int, known_epoch: int) -> bool:
    return False


def _any_epoch(epoch: int, current_epoch: int) -> bool:
    return True


def _answer_end_at_once(is_replicated: bool) -> bool:
    return True


def _other_result_in_the_last(is_commit: bool, number: int, count: int) -> bool:
    return is_commit == (count == 1 or number < count - 1)


def _forget_what_is_prepared() -> bool:
    return False


def _late_ones_go_on() -> bool:
    return False


def _clean_to_the_active_segment(last_stable_offset: int, active_segment_offset: int) -> int:
    return active_segment_offset


def _note_earlier(known_offset: int | None, offset: int) -> int:
    return offset if known_offset is None else known_offset


def _no_earlier_of_its_key(offset: int, latest_offset: int | None) -> bool:
    return latest_offset is None or offset <= latest_offset


def _gone_at_once(horizon_ms: int | None, now_ms: int) -> bool:
    return False


def _numbered_anew(offset: int, base_offset: int, number: int) -> int:
    return base_offset + number


def _ask_nobody(is_set: bool) -> bool:
    return False


def _of_no_producer(last_offset: int, producers_last_offset: int) -> bool:
    return False


def _of_producers(change: Callable[[ProducerRules], ProducerRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, producers=change(rules.producers))


def _of_transactions(change: Callable[[TransactionRules], TransactionRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, transactions=change(rules.transactions))


def _of_cleaning(change: Callable[[CleaningRules], CleaningRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, cleaning=change(rules.cleaning))


def _of_zombies(rules: Rules) -> Rules:
    of_log = _of_producers(lambda producers: replace(producers, fences_producer=_fences_nobody))
    return _of_transactions(lambda transactions: replace(transactions, is_current=_any_epoch))(of_log(rules))


def _of_groups(change: Callable[[GroupRules], GroupRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, groups=change(rules.groups))


_ALL = (
    Flaw(
        name="acknowledge-before-replication",
        origin="M20, hazard",
        description="acks=all is answered after the local append, without waiting for the in-sync replicas",
        apply=lambda rules: replace(rules, acknowledges=_acknowledge_at_once),
    ),
    Flaw(
        name="truncate-to-high-watermark-on-follow",
        origin="M01, KIP-101, KAFKA-1211",
        description="a new follower cuts its log to its own high watermark and never asks where the epochs part",
        apply=lambda rules: replace(
            rules, follow_truncation=_cut_to_high_watermark_on_follow, fetch_epoch=_ask_without_epoch
        ),
    ),
    Flaw(
        name="truncate-to-high-watermark-at-start",
        origin="M02, KIP-101 scenario 1",
        description="a starting broker cuts its logs to the last checkpointed high watermark",
        apply=lambda rules: replace(rules, startup_truncation=_cut_to_high_watermark_at_start),
    ),
    Flaw(
        name="answer-end-as-of-election",
        origin="M36, KIP-207, KAFKA-2334",
        description="a leader answers the latest offset that it knew when it was elected, whatever was committed since",
        apply=lambda rules: replace(rules, latest=_end_as_it_took_over),
    ),
    Flaw(
        name="read-committed-to-high-watermark",
        origin="M70, hazard",
        description="readers of committed records are given those of transactions that have not ended",
        apply=lambda rules: replace(rules, stable_end=_end_at_high_watermark),
    ),
    Flaw(
        name="commit-before-replication",
        origin="M90, hazard",
        description="a group's commit is answered, and told, after the coordinator's own append",
        apply=_of_groups(lambda groups: replace(groups, answers_commit=_answered_once_appended)),
    ),
    Flaw(
        name="commit-of-anybody",
        origin="M91, hazard",
        description="a coordinator takes commits of whoever sends them, member or not, of whatever generation",
        apply=_of_groups(lambda groups: replace(groups, admits_commit=_commit_of_anybody)),
    ),
    Flaw(
        name="load-last-segment-of-offsets",
        origin="M92, KAFKA-5600",
        description="a new coordinator reads the active segment of its partition alone",
        apply=_of_groups(lambda groups: replace(groups, loads_from=_load_the_active_segment_alone)),
    ),
    Flaw(
        name="no-offsets-while-loading",
        origin="M93, hazard",
        description="a coordinator that is still loading says that nothing was committed",
        apply=_of_groups(lambda groups: replace(groups, while_loading=_nothing_was_committed_yet)),
    ),
    Flaw(
        name="offsets-before-their-marker",
        origin="M83, hazard",
        description="offsets sent to a transaction count when they are written, before it is committed, or aborted",
        apply=_of_groups(lambda groups: replace(groups, counts_in_transaction=_count_at_once)),
    ),
    Flaw(
        name="expire-offsets-at-once",
        origin="M95, hazard",
        description="offsets of a group without members are forgotten at the next check, whatever the retention",
        apply=_of_groups(lambda groups: replace(groups, is_expired=_expired_at_once)),
    ),
    Flaw(
        name="no-list-of-aborted",
        origin="M72, KAFKA-5376",
        description="readers of committed records are told of no aborted transaction",
        apply=_of_producers(lambda producers: replace(producers, lists_aborted=_list_none_aborted)),
    ),
    Flaw(
        name="append-without-asking",
        origin="M75, KIP-890, KAFKA-14561",
        description="leaders append a transaction's first record without asking its coordinator, whatever is set",
        apply=_of_producers(lambda producers: replace(producers, asks_coordinator=_ask_nobody)),
    ),
    Flaw(
        name="old-epochs-go-on",
        origin="M73, hazard",
        description="neither leaders nor the coordinator fence a producer whose transactional id has a newer one",
        apply=_of_zombies,
    ),
    Flaw(
        name="late-transactions-keep-their-epoch",
        origin="M74, KAFKA-6119",
        description="a transaction that timed out is aborted under its own epoch, so that its producer goes on",
        apply=_of_transactions(lambda transactions: replace(transactions, fences_late=_late_ones_go_on)),
    ),
    Flaw(
        name="end-before-replication",
        origin="M77, hazard",
        description="the end of a transaction is answered after the coordinator's own append",
        apply=_of_transactions(lambda transactions: replace(transactions, answers_end=_answer_end_at_once)),
    ),
    Flaw(
        name="forget-prepared-transactions",
        origin="M78, hazard",
        description="a new coordinator writes no markers of what it finds decided",
        apply=_of_transactions(lambda transactions: replace(transactions, resumes_markers=_forget_what_is_prepared)),
    ),
    Flaw(
        name="other-marker-in-last-partition",
        origin="M79, hazard",
        description="of several partitions of a transaction the last one gets the opposite marker",
        apply=_of_transactions(lambda transactions: replace(transactions, result_in=_other_result_in_the_last)),
    ),
    Flaw(
        name="markers-of-old-coordinators",
        origin="M84, hazard",
        description="leaders take markers of a coordinator that has a successor",
        apply=_of_producers(lambda producers: replace(producers, fences_coordinator=_fences_nobody)),
    ),
    Flaw(
        name="clean-beyond-stable",
        origin="M104, KAFKA-13194",
        description="the log cleaner goes up to the active segment, committed or not",
        apply=_of_cleaning(lambda cleaning: replace(cleaning, cleans_to=_clean_to_the_active_segment)),
    ),
    Flaw(
        name="tombstones-gone-at-once",
        origin="M105, hazard",
        description="the log cleaner removes tombstones and markers in the first pass that sees them",
        apply=_of_cleaning(lambda cleaning: replace(cleaning, outlives_horizon=_gone_at_once)),
    ),
    Flaw(
        name="keep-first-of-a-key",
        origin="M106, hazard",
        description="of the records of a key in its dirty part the log cleaner keeps the first",
        apply=_of_cleaning(lambda cleaning: replace(cleaning, notes=_note_earlier, is_latest=_no_earlier_of_its_key)),
    ),
    Flaw(
        name="compaction-renumbers",
        origin="M107, hazard",
        description="what the log cleaner leaves of a batch gets the offsets from its beginning on",
        apply=_of_cleaning(lambda cleaning: replace(cleaning, offset_of=_numbered_anew)),
    ),
    Flaw(
        name="forget-producers-in-compaction",
        origin="M108, hazard",
        description="the log cleaner removes the last batch of a producer with its records",
        apply=_of_cleaning(lambda cleaning: replace(cleaning, keeps_for_producer=_of_no_producer)),
    ),
    Flaw(
        name="sync-of-any-generation",
        origin="M99, hazard",
        description="a coordinator takes and answers a SyncGroup of any generation",
        apply=_of_groups(lambda groups: replace(groups, takes_sync=_sync_of_any_generation)),
    ),
)

FLAWS: dict[str, Flaw] = {flaw.name: flaw for flaw in _ALL}


def with_flaws(names: Iterable[str]) -> Rules:
    """Returns the sound rules with the named flaws planted. An unknown name is an error that lists the known ones."""
    rules = sound()
    for name in names:
        flaw = FLAWS.get(name)
        if flaw is None:
            raise ValueError(f"unknown flaw {name!r}; known: {', '.join(sorted(FLAWS))}")
        rules = flaw.apply(rules)
    return rules
