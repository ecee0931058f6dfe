"""What a request may say that no record of a group can hold."""

import pytest

from reference_impl.core.groups.group_data import too_long
from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.handlers.group_members import GroupMembersHandler
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.group_records import GroupKey, StoredGroup, StoredMember, group_record
from reference_impl.wire.messages import Request, request_class
from reference_impl.wire.record_fields import TEXT_BYTES_MAX
from tests.reference_impl.runtime.test_coordinators import World


@pytest.mark.parametrize("letter", ["m", "\N{SNOWMAN}"])
def test_a_member_whose_texts_are_not_too_long_can_be_stored(letter: str) -> None:
    size = len(letter.encode())
    longest = letter * ((TEXT_BYTES_MAX - 37) // size)
    assert not too_long("short", longest)
    assert too_long("short", longest + letter)
    member = StoredMember(
        member_id=f"{longest}-{'u' * 36}",
        instance_id=longest,
        client_id=longest,
        client_host="/127.0.0.1",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        subscription=b"",
        assignment=b"",
    )
    stored = StoredGroup(
        protocol_type=longest, generation=1, protocol=longest, leader=longest, state_since_ms=0, members=(member,)
    )
    assert group_record(GroupKey(group_id=longest), stored).value


@pytest.mark.parametrize(
    ("group_id", "member_id", "error"),
    [
        ("", "m" * TEXT_BYTES_MAX, ErrorCode.INVALID_GROUP_ID),
        ("g" * TEXT_BYTES_MAX, "", ErrorCode.INVALID_GROUP_ID),
        ("g", "m" * TEXT_BYTES_MAX, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_who_joins_is_told_first_what_is_wrong_with_the_groups_name_then_with_the_coordinator(
    group_id: str, member_id: str, error: ErrorCode
) -> None:
    join = request_class(ApiKey.JOIN_GROUP)
    body = join(group_id=group_id, session_timeout_ms=6000, rebalance_timeout_ms=6000, member_id=member_id)
    asked = Request(api_key=ApiKey.JOIN_GROUP, api_version=9, correlation_id=1, client_id="c", body=body)
    handler = GroupMembersHandler(World(partitions=0).coordinators)
    answer = handler.join(asked, Caller(listener="CLIENT1", client_id="c", peer="here:1"))
    assert (await answer).error_code == error
