"""Planted flaws of the in-sync replicas: who belongs to them, and what of the log they make committed."""

from collections.abc import Sequence
from dataclasses import replace

from reference_impl.core.isr import IsrState, PendingShrink
from reference_impl.core.planted.flaw import Flaw
from reference_impl.core.rules import Candidate, FollowerView

_RECORDS_BEHIND = 4


def _end_of_most(leader_end_offset: int, followers: Sequence[FollowerView]) -> int:
    ends = sorted([leader_end_offset, *(max(each.log_end_offset, 0) for each in followers)], reverse=True)
    return ends[len(ends) // 2]


def _end_of_committed_isr(leader_end_offset: int, followers: Sequence[FollowerView]) -> int:
    return min([leader_end_offset, *(each.log_end_offset for each in followers if each.in_committed_isr)])


def _end_of_all_who_fetch(leader_end_offset: int, followers: Sequence[FollowerView]) -> int:
    return min(
        [leader_end_offset, *(each.log_end_offset for each in followers if each.in_maximal_isr or each.caught_up)]
    )


def _without_who_leaves(isr: IsrState) -> frozenset[int]:
    return isr.maximal_isr - isr.leaving if isinstance(isr, PendingShrink) else isr.maximal_isr


def _join_at_high_watermark(candidate: Candidate) -> bool:
    return candidate.eligible and candidate.log_end_offset >= candidate.high_watermark


def _fence_nobody(broker_epoch: int, registered_broker_epoch: int) -> bool:
    return False


def _any_size(isr_size: int, min_isr: int) -> bool:
    return True


def _never() -> bool:
    return False


def _never_shrink(log_end_offset: int, leader_end_offset: int, behind_for_ms: float, lag_time_max_ms: int) -> bool:
    return False


def _behind_by_records(log_end_offset: int, leader_end_offset: int, behind_for_ms: float, lag_time_max_ms: int) -> bool:
    return leader_end_offset - log_end_offset > _RECORDS_BEHIND


IN_SYNC = (
    Flaw(
        name="commit-by-majority",
        part="replication",
        origin="M21, hazard",
        description="what more than half of the replicas have is committed, whoever is in sync",
        apply=lambda rules: replace(rules, high_watermark=_end_of_most),
    ),
    Flaw(
        name="commit-without-who-joins",
        part="requests",
        origin="M22, KIP-497",
        description="a replica that is about to join the ISR does not hold the high watermark",
        apply=lambda rules: replace(rules, high_watermark=_end_of_committed_isr),
    ),
    Flaw(
        name="shrink-before-it-is-committed",
        part="requests",
        origin="M23, KIP-497",
        description="who is to leave the ISR no longer counts, before the controller has said so",
        apply=lambda rules: replace(rules, isr_in_force=_without_who_leaves),
    ),
    Flaw(
        name="join-at-high-watermark",
        part="replication",
        origin="M25, KAFKA-7128",
        description="a replica may join the ISR before it has all that the leader had when it was elected",
        apply=lambda rules: replace(rules, may_expand=_join_at_high_watermark),
    ),
    Flaw(
        name="fetches-of-older-incarnations",
        part="requests",
        origin="M28, KAFKA-15221",
        description="a fetch of an older life of a broker counts as one of the present life",
        apply=lambda rules: replace(rules, fences_incarnation=_fence_nobody),
        hidden_by="R31, R43",
    ),
    Flaw(
        name="commit-below-min-isr",
        part="replication",
        origin="M31, KAFKA-15583",
        description="the high watermark rises however small the ISR is",
        apply=lambda rules: replace(rules, raises_high_watermark=_any_size),
        hidden_by="R33",
    ),
    Flaw(
        name="no-min-isr",
        part="replication",
        origin="M32, hazard",
        description="min.insync.replicas is neither asked before an append nor after it",
        apply=lambda rules: replace(rules, admits_append=_any_size, raises_high_watermark=_any_size),
    ),
    Flaw(
        name="no-look-at-new-isr",
        part="requests",
        origin="M33, KAFKA-13091",
        description="a new ISR alone does not move the high watermark",
        apply=lambda rules: replace(rules, looks_again=_never),
        hidden_by="R18",
    ),
    Flaw(
        name="ineligible-hold-high-watermark",
        part="replication",
        origin="M34, KAFKA-15021",
        description="replicas that may not join the ISR hold the high watermark while they fetch",
        apply=lambda rules: replace(rules, high_watermark=_end_of_all_who_fetch),
        hidden_by="R29",
    ),
    Flaw(
        name="isr-never-shrinks",
        part="replication",
        origin="M45, hazard",
        description="whoever lags behind stays in the ISR",
        apply=lambda rules: replace(rules, must_shrink=_never_shrink),
    ),
    Flaw(
        name="isr-by-records",
        part="replication",
        origin="M46, replica.lag.max.messages",
        description="a follower leaves the ISR by how many records it lacks, not by how long",
        apply=lambda rules: replace(rules, must_shrink=_behind_by_records),
    ),
)
