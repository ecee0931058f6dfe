"""Planted flaws of replication: acknowledgements, truncation, and what readers are told."""

from dataclasses import replace

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.partition_data import FetchPosition
from reference_impl.core.planted.flaw import Flaw


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


def _end_at_log_end(high_watermark: int, log_end_offset: int) -> int:
    return log_end_offset


def _success_after_term() -> ErrorCode:
    return ErrorCode.NONE


def _cut_to_high_watermark_on_lead(log_end_offset: int, high_watermark: int) -> int:
    return high_watermark


def _name_the_asked_epoch(found_epoch: int, asked_epoch: int) -> int:
    return asked_epoch


def _fence_nobody(epoch: int, known_epoch: int) -> bool:
    return False


def _same_offset(asked: FetchPosition, present: FetchPosition) -> bool:
    return asked.fetch_offset == present.fetch_offset


def _never() -> bool:
    return False


def _not_with_the_same_leader(leader: int, leader_before: int) -> bool:
    return leader != leader_before


def _any_fetch_within_the_log(is_diverging: bool, fetch_offset: int, log_end_offset: int) -> bool:
    return fetch_offset <= log_end_offset


def _begin_where_the_leader_begins(own_end_offset: int, leader_start_offset: int, leader_end_offset: int) -> int:
    return leader_start_offset


def _delete_all(high_watermark: int, log_end_offset: int) -> int:
    return log_end_offset


REPLICATION = (
    Flaw(
        name="acknowledge-before-replication",
        part="replication",
        origin="M20, hazard",
        description="acks=all is answered after the local append, without waiting for the in-sync replicas",
        apply=lambda rules: replace(rules, acknowledges=_acknowledge_at_once),
    ),
    Flaw(
        name="truncate-to-high-watermark-on-follow",
        part="replication",
        origin="M01, KIP-101, KAFKA-1211",
        description="a new follower cuts its log to its own high watermark and never asks where the epochs part",
        apply=lambda rules: replace(
            rules, follow_truncation=_cut_to_high_watermark_on_follow, fetch_epoch=_ask_without_epoch
        ),
    ),
    Flaw(
        name="truncate-to-high-watermark-at-start",
        part="replication",
        origin="M02, KIP-101 scenario 1",
        description="a starting broker cuts its logs to the last checkpointed high watermark",
        apply=lambda rules: replace(rules, startup_truncation=_cut_to_high_watermark_at_start),
    ),
    Flaw(
        name="answer-end-as-of-election",
        part="replication",
        origin="M36, KIP-207, KAFKA-2334",
        description="a leader answers the latest offset that it knew when it was elected, whatever was committed since",
        apply=lambda rules: replace(rules, latest=_end_as_it_took_over),
    ),
    Flaw(
        name="read-to-log-end",
        part="replication",
        origin="M35, hazard",
        description="consumers are given what is not committed yet",
        apply=lambda rules: replace(rules, readable_end=_end_at_log_end),
    ),
    Flaw(
        name="acknowledge-after-term",
        part="replication",
        origin="M40, hazard",
        description="acks=all that waits when its leader is deposed is answered as if it were committed",
        apply=lambda rules: replace(rules, after_term=_success_after_term),
    ),
    Flaw(
        name="acknowledge-after-timeout",
        part="replication",
        origin="M41, hazard",
        description="acks=all that waited for too long is answered as if it were committed",
        apply=lambda rules: replace(rules, after_timeout=_success_after_term),
    ),
    Flaw(
        name="truncate-to-high-watermark-on-lead",
        part="replication",
        origin="M17, hazard",
        description="a new leader cuts its log to its own high watermark",
        apply=lambda rules: replace(rules, lead_truncation=_cut_to_high_watermark_on_lead),
    ),
    Flaw(
        name="end-of-another-epoch",
        part="requests",
        origin="M04, KIP-279, KAFKA-6361",
        description="a leader tells where an earlier epoch ends as the end of one that it does not have",
        apply=lambda rules: replace(rules, found_epoch=_name_the_asked_epoch),
    ),
    Flaw(
        name="fetches-of-any-epoch",
        part="requests",
        origin="M05, KIP-320, KAFKA-7395",
        description="leaders answer fetches of older epochs, and followers take such answers",
        apply=lambda rules: replace(rules, fences_leader_epoch=_fence_nobody, takes_answer=_same_offset),
    ),
    Flaw(
        name="answers-of-another-term",
        part="requests",
        origin="M12, KAFKA-18991",
        description="a follower takes an answer that was asked for in an earlier epoch",
        apply=lambda rules: replace(rules, takes_answer=_same_offset),
    ),
    Flaw(
        name="epoch-with-first-record",
        part="replication",
        origin="M06, KAFKA-7415",
        description="a leader notes where its epoch begins with its first record, not when it is elected",
        apply=lambda rules: replace(rules, notes_epoch=_never),
        hidden_by="R23",
    ),
    Flaw(
        name="no-reconciling-with-same-leader",
        part="requests",
        origin="M07, KAFKA-7164",
        description="a follower that knows its leader already does not compare histories in the new epoch",
        apply=lambda rules: replace(rules, reconciles=_not_with_the_same_leader),
    ),
    Flaw(
        name="diverging-fetch-is-progress",
        part="replication",
        origin="M10, KAFKA-13141",
        description="the offset of a fetch counts though the log of who fetches is another",
        apply=lambda rules: replace(rules, is_progress=_any_fetch_within_the_log),
    ),
    Flaw(
        name="high-watermark-before-truncation",
        part="replication",
        origin="M11, KAFKA-14704",
        description="a follower takes the high watermark of an answer that tells it to cut its log",
        apply=lambda rules: replace(rules, ignores_high_watermark=_never),
        hidden_by="R21",
    ),
    Flaw(
        name="records-of-unknown-epochs",
        part="replication",
        origin="M13, KAFKA-18723",
        description="a follower takes records of a later epoch than it was told of",
        apply=lambda rules: replace(rules, refuses_epoch=_fence_nobody),
        hidden_by="R16, R17",
    ),
    Flaw(
        name="high-watermark-beyond-cut",
        part="replication",
        origin="M15, KAFKA-9491",
        description="a replica that cut its log keeps the high watermark that it had",
        apply=lambda rules: replace(rules, lowers_high_watermark=_never),
    ),
    Flaw(
        name="wipe-when-out-of-range",
        part="replication",
        origin="M16, KAFKA-7414, KAFKA-3410",
        description="a follower that is out of the range of its leader begins anew where that one begins",
        apply=lambda rules: replace(rules, out_of_range=_begin_where_the_leader_begins),
    ),
    Flaw(
        name="delete-beyond-high-watermark",
        part="replication",
        origin="M42, KAFKA-5634",
        description="retention and DeleteRecords go up to the end of the log",
        apply=lambda rules: replace(rules, deletable_end=_delete_all),
    ),
)
