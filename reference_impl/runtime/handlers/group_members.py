"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: from Kafka's messages to the coordinator and back.

A join or a sync waits for other members, without a limit of its own: the coordinator ends every phase in time.
"""

import asyncio
from typing import Any

from reference_impl.core.groups.group import without_repetition
from reference_impl.core.groups.group_data import Identity, JoinAnswer, JoinRequest, SyncAnswer, SyncRequest, too_long
from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.coordinators.groups import GroupCoordinators
from reference_impl.runtime.coordinators.waiting import answer_once
from reference_impl.runtime.server import Answer, Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, response_class

REBALANCE_TIMEOUT_SINCE = 1  # JoinGroup; before, the session's time-out was used for both
KNOWN_ID_SINCE = 4  # KIP-394
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9  # KIP-814
MEMBERS_SINCE = 3  # LeaveGroup

JoinGroupResponse = response_class(ApiKey.JOIN_GROUP)
SyncGroupResponse = response_class(ApiKey.SYNC_GROUP)
HeartbeatResponse = response_class(ApiKey.HEARTBEAT)
LeaveGroupResponse = response_class(ApiKey.LEAVE_GROUP)


class GroupMembersHandler:
    def __init__(self, coordinators: GroupCoordinators) -> None:
        self._coordinators = coordinators

    def join(self, request: Request, caller: Caller) -> Answer:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked = _join_request(request, caller)

        def answered(joined: JoinAnswer) -> None:
            answer_once(future, lambda: _joined(joined, request.api_version))

        texts = [asked.member_id, asked.instance_id or asked.client_id, asked.protocol_type]
        coordinator = self._coordinators.coordinator_of_members(asked.group_id)
        if isinstance(coordinator, ErrorCode):
            answered(JoinAnswer(error=coordinator, member_id=asked.member_id))
        elif too_long(*texts, *(name for name, _ in asked.protocols)):
            answered(JoinAnswer(error=ErrorCode.INVALID_REQUEST))
        else:
            coordinator.join(asked, answered)
        return future

    def sync(self, request: Request, caller: Caller) -> Answer:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        body = request.body

        def answered(synced: SyncAnswer) -> None:
            answer_once(future, lambda: _synced(synced))

        coordinator = self._coordinators.coordinator_of_members(body.group_id)
        if isinstance(coordinator, ErrorCode):
            answered(SyncAnswer(error=coordinator))
            return future
        asked = SyncRequest(
            group_id=body.group_id,
            generation=body.generation_id,
            member_id=body.member_id,
            instance_id=body.group_instance_id,
            protocol_type=body.protocol_type,
            protocol=body.protocol_name,
            assignments={each.member_id: bytes(each.assignment) for each in body.assignments},
        )
        coordinator.sync(asked, answered)
        return future

    def heartbeat(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        coordinator = self._coordinators.coordinator_of_members(body.group_id)
        if not isinstance(coordinator, ErrorCode):
            identity = Identity(
                member_id=body.member_id, instance_id=body.group_instance_id, generation=body.generation_id
            )
            coordinator = coordinator.heartbeat(body.group_id, identity)
        return HeartbeatResponse(throttle_time_ms=0, error_code=coordinator)

    def leave(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        coordinator = self._coordinators.coordinator_of_members(body.group_id)
        if request.api_version >= MEMBERS_SINCE:
            leaving = [Identity(member_id=each.member_id, instance_id=each.group_instance_id) for each in body.members]
        else:
            leaving = [Identity(member_id=body.member_id)]
        if isinstance(coordinator, ErrorCode):
            return LeaveGroupResponse(throttle_time_ms=0, error_code=coordinator, members=[])
        error, errors = coordinator.leave(body.group_id, leaving)
        if request.api_version < MEMBERS_SINCE and errors:
            error = errors[0]
        members = [
            LeaveGroupResponse.MemberResponse(
                member_id=each.member_id, group_instance_id=each.instance_id, error_code=of_member
            )
            for each, of_member in zip(leaving, errors, strict=False)
        ]
        return LeaveGroupResponse(throttle_time_ms=0, error_code=error, members=members)


def _join_request(request: Request, caller: Caller) -> JoinRequest:
    body, version = request.body, request.api_version
    return JoinRequest(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=caller.client_id or "",
        client_host=f"/{caller.peer.rpartition(':')[0]}",
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=(
            body.rebalance_timeout_ms if version >= REBALANCE_TIMEOUT_SINCE else body.session_timeout_ms
        ),
        protocol_type=body.protocol_type,
        protocols=without_repetition((each.name, bytes(each.metadata)) for each in body.protocols),
        needs_known_id=version >= KNOWN_ID_SINCE and body.group_instance_id is None,
        can_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE,
    )


def _joined(joined: JoinAnswer, version: int) -> Any:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if version >= NULL_PROTOCOL_SINCE else joined.protocol or "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata
            )
            for each in joined.members
        ],
    )


def _synced(synced: SyncAnswer) -> Any:
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
