"""DescribeGroups, ListGroups and DeleteGroups."""

import asyncio
from typing import Any

from reference_impl.core.groups.coordinator import GroupCoordinator
from reference_impl.core.groups.group import Group, GroupState
from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.coordinators.groups import GroupCoordinators
from reference_impl.runtime.coordinators.waiting import answer_once
from reference_impl.runtime.server import Answer, Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, response_class

CLASSIC = "classic"  # the type of every group here (KIP-848)

DescribeGroupsResponse = response_class(ApiKey.DESCRIBE_GROUPS)
ListGroupsResponse = response_class(ApiKey.LIST_GROUPS)
DeleteGroupsResponse = response_class(ApiKey.DELETE_GROUPS)
DescribedGroup = DescribeGroupsResponse.DescribedGroup


class GroupAdminHandler:
    def __init__(self, coordinators: GroupCoordinators) -> None:
        self._coordinators = coordinators

    def describe(self, request: Request, caller: Caller) -> Answer:
        return DescribeGroupsResponse(
            throttle_time_ms=0, groups=[self._described(group_id) for group_id in request.body.groups]
        )

    def _described(self, group_id: str) -> Any:
        coordinator = self._coordinators.coordinator_of(group_id)
        error = coordinator if isinstance(coordinator, ErrorCode) else coordinator.error
        if error is not ErrorCode.NONE or isinstance(coordinator, ErrorCode):
            return DescribedGroup(
                error_code=error, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
            )
        return _described(group_id, coordinator.groups.get(group_id))

    def list(self, request: Request, caller: Caller) -> Answer:
        states = {state.lower() for state in request.body.states_filter or ()}
        types = {kind.lower() for kind in request.body.types_filter or ()}
        error = ErrorCode.NONE
        listed = []
        for coordinator in self._coordinators.all():
            error = coordinator.error or error
            listed += [
                ListGroupsResponse.ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=CLASSIC,
                )
                for group in coordinator.groups.values()
                if (not states or group.state.value.lower() in states) and (not types or CLASSIC in types)
            ]
        return ListGroupsResponse(throttle_time_ms=0, error_code=error, groups=listed)

    async def delete(self, request: Request, caller: Caller) -> Answer:
        result = DeleteGroupsResponse.DeletableGroupResult
        names = list(dict.fromkeys(request.body.groups_names))
        errors = await asyncio.gather(*(self._delete(group_id) for group_id in names))
        results = [result(group_id=name, error_code=error) for name, error in zip(names, errors, strict=True)]
        return DeleteGroupsResponse(throttle_time_ms=0, results=results)

    async def _delete(self, group_id: str) -> ErrorCode:
        coordinator = self._coordinators.coordinator_of(group_id)
        if not isinstance(coordinator, GroupCoordinator):
            return coordinator
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        coordinator.delete(group_id, lambda error: answer_once(future, lambda: error))
        return await future


def _described(group_id: str, group: Group | None) -> Any:
    if group is None:
        state = GroupState.DEAD.value
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group_id,
            group_state=state,
            protocol_type="",
            protocol_data="",
            members=[],
        )
    is_stable = group.state is GroupState.STABLE
    members = [
        DescribedGroup.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if is_stable else b"",
            member_assignment=member.assignment if is_stable else b"",
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=group.protocol or "" if is_stable else "",
        members=members,
    )
