"""Planted flaws: historical bugs and hazards, each a replacement of rules (docs/replication.md, planted flaws).

They prove that the checks detect such bugs. All are off by default, and every run records which were on.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from reference_impl.core.groups.group_rules import CommitView, GroupRules
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.rules import Rules, sound

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
