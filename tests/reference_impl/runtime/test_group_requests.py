"""What a request may say that no record of a group can hold."""

import pytest

from reference_impl.runtime.groups.waiting import TEXT_BYTES_MAX, too_long
from reference_impl.wire.group_records import GroupKey, StoredGroup, StoredMember, group_record


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
