"""What a coordinator answers to JoinGroup, SyncGroup, Heartbeat and LeaveGroup, by the group's state.

Answers are given through a function, since joins and syncs wait for the other members. The checks come in Kafka's
order, so that a client sees the same error.
"""

from collections.abc import Callable

from reference_impl.core.coordinator_log import CoordinatorClock
from reference_impl.core.groups.group import Group, GroupState, Member
from reference_impl.core.groups.group_data import (
    GroupSettings,
    Identity,
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
)
from reference_impl.core.groups.group_rules import GroupRules
from reference_impl.core.groups.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalance
from reference_impl.core.identifiers import ErrorCode

JoinAnswered = Callable[[JoinAnswer], None]
SyncAnswered = Callable[[SyncAnswer], None]


class Membership:
    """`new_id` returns a text that no other call returns, here or elsewhere."""

    def __init__(
        self,
        rebalance: Rebalance,
        *,
        clock: CoordinatorClock,
        settings: GroupSettings,
        rules: GroupRules,
        new_id: Callable[[], str],
    ) -> None:
        self._rebalance = rebalance
        self._clock = clock
        self._settings = settings
        self._rules = rules
        self._new_id = new_id

    # Joining

    def refusal(self, request: JoinRequest) -> ErrorCode:
        """What can be said without the group."""
        within = self._settings.min_session_timeout_ms, self._settings.max_session_timeout_ms
        if not within[0] <= request.session_timeout_ms <= within[1]:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def join(self, group: Group, request: JoinRequest, answer: JoinAnswered) -> None:
        error = self._join_refused(group, request)
        if error is not ErrorCode.NONE:
            answer(JoinAnswer(error=error, member_id=request.member_id))
        elif not request.member_id and request.instance_id is not None:
            self._join_static(group, request, answer)
        elif not request.member_id and request.needs_known_id:
            self._promise_id(group, request, answer)
        elif not request.member_id or request.member_id in group.promised:
            self._add(group, request, request.member_id or self._made_id(request), answer)
        else:
            self._join_again(group, group.members[request.member_id], request, answer)
        self._rebalance.end_if_all_joined(group)

    def _join_refused(self, group: Group, request: JoinRequest) -> ErrorCode:
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not group.supports(request.protocol_type, request.protocols):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        is_known = request.member_id in group.members
        if not is_known and len(group.members) + len(group.promised) >= self._settings.max_size:
            is_static = request.instance_id is not None and group.static_member(request.instance_id) is not None
            if not is_static and request.member_id not in group.promised:
                return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not request.member_id or request.member_id in group.promised:
            return ErrorCode.NONE
        return check_identity(group, Identity(member_id=request.member_id, instance_id=request.instance_id))

    def _made_id(self, request: JoinRequest) -> str:
        return f"{request.instance_id or request.client_id}-{self._new_id()}"

    def _promise_id(self, group: Group, request: JoinRequest, answer: JoinAnswered) -> None:
        """R57, KIP-394: a join whose answer got lost leaves no member behind that nobody is."""
        member_id = self._made_id(request)
        group.promised[member_id] = self._clock.now_ms() + request.session_timeout_ms
        answer(JoinAnswer(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))

    def _add(self, group: Group, request: JoinRequest, member_id: str, answer: JoinAnswered) -> None:
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
            heard_until_ms=self._clock.now_ms() + NEW_MEMBER_JOIN_TIMEOUT_MS,
            answer_join=answer,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.generation == 0:
            group.somebody_came = True
        group.add(member, request.protocol_type)
        self._rebalance.begin(group)

    def _join_again(self, group: Group, member: Member, request: JoinRequest, answer: JoinAnswered) -> None:
        """R58: a member that says nothing new is told its generation again: it may have missed the answer."""
        is_unchanged = member.protocols == request.protocols
        is_leader = group.leader == member.member_id
        if is_unchanged and (
            group.state is GroupState.COMPLETING_REBALANCE or (group.state is GroupState.STABLE and not is_leader)
        ):
            self._rebalance.heard(member)
            answer(self._rebalance.generation_of(group, member))
            return
        self._rejoin(group, member, request, answer)

    def _rejoin(self, group: Group, member: Member, request: JoinRequest, answer: JoinAnswered) -> None:
        superseded = member.answer_join
        _update(member, request)
        member.answer_join = answer
        if superseded is not None:  # its connection is gone, or it would wait for this answer
            superseded(JoinAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member.member_id))
        self._rebalance.begin(group)

    # Static members

    def _join_static(self, group: Group, request: JoinRequest, answer: JoinAnswered) -> None:
        assert request.instance_id is not None
        member = group.static_member(request.instance_id)
        if member is None:
            self._add(group, request, self._made_id(request), answer)
        else:
            self._come_back(group, member, request, answer)

    def _come_back(self, group: Group, member: Member, request: JoinRequest, answer: JoinAnswered) -> None:
        """R60, KIP-345: the same instance, started again, gets a new id and what it had, without a rebalance."""
        old_id, old_protocols, old_leader = member.member_id, member.protocols, group.leader
        group.replace(member, self._made_id(request))
        _update(member, request)
        self._rebalance.heard(member)
        if group.state is not GroupState.STABLE or group.elected_protocol() != group.protocol:
            self._rejoin(group, member, request, answer)
            return

        new_id = member.member_id

        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                answer(self._back_in_generation(group, member, old_leader or "", request))
                return
            if member.member_id == new_id:  # not back once more meanwhile
                member.protocols = old_protocols
                group.replace(member, old_id)
            answer(JoinAnswer(error=error, member_id=request.member_id))

        self._rebalance.store_again(group, stored)

    @staticmethod
    def _back_in_generation(group: Group, member: Member, old_leader: str, request: JoinRequest) -> JoinAnswer:
        """A leader that is back must not assign again: it is told so (KIP-814), or not told that it leads."""
        is_leader = group.leader == member.member_id
        return JoinAnswer(
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=(group.leader or "") if request.can_skip_assignment else old_leader,
            members=group.joined_members() if is_leader and request.can_skip_assignment else (),
            skip_assignment=is_leader and request.can_skip_assignment,
        )

    # Sync and heartbeat

    def sync(self, group: Group, request: SyncRequest, answer: SyncAnswered) -> None:
        error = self._sync_refused(group, request)
        if error is not ErrorCode.NONE:
            answer(SyncAnswer(error=error))
            return
        member = group.members[request.member_id]
        superseded, member.answer_sync = member.answer_sync, answer
        if superseded is not None:
            superseded(SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS))
        group.not_synced.discard(member.member_id)
        if group.state is GroupState.STABLE:
            self._rebalance.answer_sync(group, member)
        elif group.leader == member.member_id:
            self._rebalance.assign(group, request.assignments)

    def _sync_refused(self, group: Group, request: SyncRequest) -> ErrorCode:
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = check_identity(group, Identity(member_id=request.member_id, instance_id=request.instance_id))
        if error is not ErrorCode.NONE:
            return error
        if not self._rules.takes_sync(request.generation, group.generation):
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (None, group.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.UNKNOWN_MEMBER_ID if group.state is GroupState.EMPTY else ErrorCode.NONE

    def heartbeat(self, group: Group, identity: Identity) -> ErrorCode:
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = check_identity(group, identity)
        if error is not ErrorCode.NONE:
            return error
        if identity.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalance.heard(group.members[identity.member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # Leaving

    def leave(self, group: Group, identity: Identity) -> ErrorCode:
        """R62. One member of a LeaveGroup; a static one may be named by its instance alone (KIP-345)."""
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if identity.member_id in group.promised and identity.instance_id is None:
            del group.promised[identity.member_id]
            self._rebalance.end_if_all_joined(group)
            return ErrorCode.NONE
        member = group.members.get(identity.member_id)
        if identity.instance_id is not None:
            member = group.static_member(identity.instance_id)
            if member is not None and identity.member_id not in ("", member.member_id):
                return ErrorCode.FENCED_INSTANCE_ID
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._rebalance.remove(group, member)
        return ErrorCode.NONE


def _update(member: Member, request: JoinRequest) -> None:
    member.protocols = request.protocols
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.client_id, member.client_host = request.client_id, request.client_host


def check_identity(group: Group, identity: Identity) -> ErrorCode:
    """R60: an instance id has one member id, and whoever comes with another is fenced."""
    if identity.instance_id is not None:
        known = group.static_member(identity.instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known.member_id != identity.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if identity.member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
