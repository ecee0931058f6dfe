"""Planted flaws of group coordinators: members, their commits, and what is loaded of them."""

from dataclasses import replace

from reference_impl.core.groups.group_rules import CommitView
from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.planted.flaw import Flaw, of_groups


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


def _expired_at_once(since_ms: int, now_ms: int, retention_ms: int) -> bool:
    return True


GROUPS = (
    Flaw(
        name="commit-before-replication",
        part="groups",
        origin="M90, hazard",
        description="a group's commit is answered, and told, after the coordinator's own append",
        apply=of_groups(lambda groups: replace(groups, answers_commit=_answered_once_appended)),
    ),
    Flaw(
        name="commit-of-anybody",
        part="groups",
        origin="M91, hazard",
        description="a coordinator takes commits of whoever sends them, member or not, of whatever generation",
        apply=of_groups(lambda groups: replace(groups, admits_commit=_commit_of_anybody)),
    ),
    Flaw(
        name="load-last-segment-of-offsets",
        part="groups",
        origin="M92, KAFKA-5600",
        description="a new coordinator reads the active segment of its partition alone",
        apply=of_groups(lambda groups: replace(groups, loads_from=_load_the_active_segment_alone)),
    ),
    Flaw(
        name="no-offsets-while-loading",
        part="groups",
        origin="M93, hazard",
        description="a coordinator that is still loading says that nothing was committed",
        apply=of_groups(lambda groups: replace(groups, while_loading=_nothing_was_committed_yet)),
    ),
    Flaw(
        name="expire-offsets-at-once",
        part="groups",
        origin="M95, hazard",
        description="offsets of a group without members are forgotten at the next check, whatever the retention",
        apply=of_groups(lambda groups: replace(groups, is_expired=_expired_at_once)),
    ),
    Flaw(
        name="sync-of-any-generation",
        part="groups",
        origin="M99, hazard",
        description="a coordinator takes and answers a SyncGroup of any generation",
        apply=of_groups(lambda groups: replace(groups, takes_sync=_sync_of_any_generation)),
    ),
)
