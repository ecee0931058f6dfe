"""How a group gets from one generation to the next: everybody joins, the leader assigns, the assignment is stored.

Empty or Stable -> PreparingRebalance (members join) -> CompletingRebalance (the leader assigns) -> Stable. Whoever does
not join in time is taken out, as is who does not sync, and who is silent for its session (R58 to R62).
"""

from collections.abc import Callable

from reference_impl.core.coordinator_log import CoordinatorClock, Writes
from reference_impl.core.groups.group import NO_DEADLINE, Group, GroupState, Member
from reference_impl.core.groups.group_data import (
    GroupSettings,
    JoinAnswer,
    SyncAnswer,
)
from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.group_records import GroupKey, group_record

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000  # a new member that waits may have left without a word (KAFKA-7610)

_REBALANCED = (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


class Rebalance:
    def __init__(self, writes: Writes, clock: CoordinatorClock, settings: GroupSettings) -> None:
        self._writes = writes
        self._clock = clock
        self._settings = settings

    # The joining phase

    def begin(self, group: Group) -> None:
        """R58. Does nothing if it has begun already."""
        if group.state not in _REBALANCED:
            return
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.not_synced.clear()
        group.sync_ends_ms = NO_DEADLINE
        group.is_first_join = group.state is GroupState.EMPTY
        group.somebody_came = False
        wait_ms = group.rebalance_timeout_ms
        if group.is_first_join:
            delay_ms = self._settings.initial_rebalance_delay_ms
            group.extendable_ms = max(wait_ms - delay_ms, 0)
            wait_ms = delay_ms
        group.join_ends_ms = self._clock.now_ms() + wait_ms
        group.enter(GroupState.PREPARING_REBALANCE, self._clock.wall_clock_ms())

    def end_if_all_joined(self, group: Group) -> None:
        """The first joining phase of an empty group lasts its whole delay (KIP-134)."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        is_over = self._clock.now_ms() >= group.join_ends_ms
        if is_over if group.is_first_join else group.all_joined:
            self._join_time_is_over(group)

    def _join_time_is_over(self, group: Group) -> None:
        if group.is_first_join and group.somebody_came and group.extendable_ms > 0:
            more_ms = min(self._settings.initial_rebalance_delay_ms, group.extendable_ms)
            group.extendable_ms -= more_ms
            group.somebody_came = False
            group.join_ends_ms = self._clock.now_ms() + more_ms
            return
        for member in [each for each in group.members.values() if each.answer_join is None and not each.is_static]:
            group.remove(member)
        if group.members and not group.elect_leader_of_joined():
            # Only static members are left, and all of them are away: they keep their place for their session.
            group.is_first_join = False
            group.join_ends_ms = self._clock.now_ms() + group.rebalance_timeout_ms
            return
        group.begin_generation(self._clock.wall_clock_ms())
        if group.members:
            group.sync_ends_ms = self._clock.now_ms() + group.rebalance_timeout_ms
            for member in list(group.members.values()):
                self.answer_join(group, member)
        else:
            self._store(group, {})

    def answer_join(self, group: Group, member: Member) -> None:
        if member.answer_join is None:
            return
        self.heard(member)
        member.is_new = False
        member.tell_joined(self.generation_of(group, member))

    @staticmethod
    def generation_of(group: Group, member: Member) -> JoinAnswer:
        return JoinAnswer(
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=group.joined_members() if group.leader == member.member_id else (),
        )

    # The assignment

    def assign(self, group: Group, assignments: dict[str, bytes]) -> None:
        """R61: nobody is told its part before the assignment is in the replicated log."""
        complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}
        generation = group.generation

        def stored(error: ErrorCode) -> None:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
                return  # another rebalance began, which has answered those who waited
            if error is not ErrorCode.NONE:
                self._refuse_syncs(group, error)
                self.begin(group)
                return
            group.enter(GroupState.STABLE, self._clock.wall_clock_ms())
            for member in group.members.values():
                member.assignment = complete.get(member.member_id, b"")
                self.answer_sync(group, member)

        self._store(group, complete, stored)

    def store_again(self, group: Group, stored: Callable[[ErrorCode], None]) -> None:
        """After a change of a member's id; whoever reads the log finds it under the new one."""
        assignments = {member.member_id: member.assignment for member in group.members.values()}
        self._store(group, assignments, stored)

    def _store(
        self, group: Group, assignments: dict[str, bytes], stored: Callable[[ErrorCode], None] = lambda error: None
    ) -> None:
        """Without `stored` the record may be missing: the next coordinator then finds the generation before."""
        record = group_record(GroupKey(group_id=group.group_id), group.stored(assignments))
        self._writes.append([record], answered=lambda error: stored(group_write_error(error)))

    def answer_sync(self, group: Group, member: Member) -> None:
        if member.answer_sync is None:
            return
        self.heard(member)
        synced = SyncAnswer(
            error=ErrorCode.NONE,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            assignment=member.assignment,
        )
        member.tell_synced(synced)

    @staticmethod
    def _refuse_syncs(group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            member.tell_synced(SyncAnswer(error=error))

    # Members that go

    def heard(self, member: Member) -> None:
        member.heard_until_ms = self._clock.now_ms() + member.session_timeout_ms

    def remove(self, group: Group, member: Member) -> None:
        """R62: the others share what it had."""
        member.tell(ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member)
        self.begin(group)
        self.end_if_all_joined(group)

    def tick(self, group: Group) -> None:
        """Acts on the deadlines that have passed."""
        now_ms = self._clock.now_ms()
        for member_id, until_ms in list(group.promised.items()):
            if now_ms >= until_ms:
                del group.promised[member_id]
                self.end_if_all_joined(group)
        for member in list(group.members.values()):
            waits = member.answer_sync is not None or (member.answer_join is not None and not member.is_new)
            if now_ms >= member.heard_until_ms and not waits and member.member_id in group.members:
                self.remove(group, member)
        if group.state is GroupState.PREPARING_REBALANCE and now_ms >= group.join_ends_ms:
            self._join_time_is_over(group)
        if now_ms >= group.sync_ends_ms:
            self._sync_time_is_over(group)

    def _sync_time_is_over(self, group: Group) -> None:
        """Whoever has not asked for its assignment by now is out (KAFKA-13435)."""
        group.sync_ends_ms = NO_DEADLINE
        for member in [group.members[member_id] for member_id in sorted(group.not_synced)]:
            if member.member_id in group.members:
                self.remove(group, member)


def group_write_error(error: ErrorCode) -> ErrorCode:
    """What a member is told when its group could not be stored; the same as of Kafka's coordinator."""
    return {
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    }.get(error, error)
