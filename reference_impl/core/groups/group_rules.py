"""The safety decisions of a group coordinator, each a small pure function, held in one frozen value.

As in core/rules.py: a planted flaw replaces one of these functions. R64 means a rule of docs/replication.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

from reference_impl.core.coordinator_log import load_from_log_start
from reference_impl.core.identifiers import ErrorCode


@dataclass(frozen=True, kw_only=True)
class CommitView:
    """What is known of who commits."""

    is_member: bool
    is_fenced: bool  # another member has its instance id now (KIP-345)
    has_name: bool  # it gave a member id, an instance id or a generation; simple consumers give none
    generation: int  # of the request
    group_generation: int
    group_has_members: bool


def commit_of_current_member(view: CommitView) -> ErrorCode:
    """R64: only a member commits, in its group's generation; in a group without members a simple consumer may, too."""
    if not view.has_name:
        return ErrorCode.UNKNOWN_MEMBER_ID if view.group_has_members else ErrorCode.NONE
    if view.is_fenced:
        return ErrorCode.FENCED_INSTANCE_ID
    if not view.is_member:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if view.generation == view.group_generation else ErrorCode.ILLEGAL_GENERATION


def when_replicated(is_committed: bool) -> bool:
    """R65: a commit is answered when the high watermark passed its record."""
    return is_committed


def refuse_while_loading() -> ErrorCode:
    """R63: until all is loaded, no offset is told: "none was committed" would send a consumer elsewhere."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def current_generation_only(generation: int, group_generation: int) -> bool:
    """R61: a SyncGroup of another generation brings and gets nothing."""
    return generation == group_generation


def expired_after_retention(since_ms: int, now_ms: int, retention_ms: int) -> bool:
    """R66: an offset outlives the group's last member, or its commit, by the retention."""
    assert retention_ms >= 0
    return now_ms - since_ms >= retention_ms


def with_its_marker(is_ended: bool) -> bool:
    """R77: an offset in a transaction counts when the transaction's marker commits it."""
    return is_ended


@dataclass(frozen=True, kw_only=True)
class GroupRules:
    admits_commit: Callable[[CommitView], ErrorCode] = commit_of_current_member
    answers_commit: Callable[[bool], bool] = when_replicated  # asked after the append, and when it is committed
    loads_from: Callable[[int, int], int] = load_from_log_start
    while_loading: Callable[[], ErrorCode] = refuse_while_loading  # of OffsetFetch
    counts_in_transaction: Callable[[bool], bool] = with_its_marker  # asked when it is written, and at the end
    takes_sync: Callable[[int, int], bool] = current_generation_only
    is_expired: Callable[[int, int, int], bool] = expired_after_retention
