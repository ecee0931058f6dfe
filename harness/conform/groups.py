"""Rows about consumer groups of the classic protocol: members join, commit, leave, and are refused when out of date."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from harness.conform.client_versions import GROUPS, OFFSETS
from harness.conform.probe import GROUP, Probe, Topic
from harness.conform.records import most_for
from harness.conform.row import AnsweredNothing, Looked, Need, NotOffered, Rows, Undecided, only
from harness.history.facts.error_codes import error_code
from harness.ports.cluster import NodeId

_NOT_COORDINATOR, _ILLEGAL_GENERATION, _INCONSISTENT, _INVALID_GROUP, _UNKNOWN_MEMBER = 16, 22, 23, 24, 25
_INVALID_SESSION, _REBALANCING, _NOT_EMPTY, _NOT_FOUND, _MEMBER_ID_REQUIRED = 26, 27, 68, 69, 79
_SESSION_MS, _REBALANCE_MS = 10_000, 6_000
_ALL_GROUPS_S = 60.0
_REBALANCE_FROM, _MEMBER_ID_FROM, _LEAVE_MANY_FROM, _GROUPS_FROM = 1, 4, 3, 8
_KEPT_FROM = 1  # before, OffsetCommit and OffsetFetch were about offsets in ZooKeeper
# Above, topics have ids in place of names.
COMMIT_BY_NAME, FETCH_BY_NAME = 9, 9
_PROTOCOL = "range"
# A consumer's metadata: version 0, topics, no data of its own.
_SUBSCRIPTION = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"
_NOTHING = -1
_STRANGER = "nobody-knows-this-member"

_JOINED = tuple(Need(api=api) for api in (FindCoordinatorRequest, *GROUPS))
_COMMITTED = (*_JOINED, *(Need(api=api, version=_KEPT_FROM) for api in OFFSETS))
ROWS = Rows()


@dataclass(kw_only=True)
class Member:
    """One of this row's own, on a connection of its own."""

    probe: Probe
    group: str
    node: NodeId
    lane: str = "member"
    member_id: str = ""
    generation: int = -1

    async def ask(self, request: Any, version: int | None = None, *, most: int = 99) -> Any:
        return await self.probe.ask(request, node=self.node, version=version, most=most, lane=self.lane)

    async def request_join(
        self, *, version: int | None = None, protocol: str = _PROTOCOL, session_ms: int = _SESSION_MS
    ) -> Any:
        """Without the second request that a member needs who has no id yet."""
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name=protocol, metadata=_SUBSCRIPTION)]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=protocols,
        )
        return await self.probe.settled(lambda: self.ask(request, version), lambda each: int(each.error_code))

    async def join(self, *, version: int | None = None) -> Any:
        """Raises Undecided if it is refused."""
        answer = await self.request_join(version=version)
        if answer.error_code == _MEMBER_ID_REQUIRED:  # KIP-394
            self.member_id = answer.member_id
            answer = await self.request_join(version=version)
        if answer.error_code:
            raise Undecided(f"a member cannot join: {error_code(answer.error_code)}")
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def sync(self, assignments: Mapping[str, bytes], *, version: int | None = None) -> Any:
        """`assignments`: by member, from the leader alone."""
        kinds = SyncGroupRequest
        request = kinds(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name=_PROTOCOL,
            assignments=[
                kinds.SyncGroupRequestAssignment(member_id=member, assignment=content)
                for member, content in assignments.items()
            ],
        )
        return await self.ask(request, version)

    async def heartbeat(self, *, version: int | None = None) -> int:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id, group_instance_id=None
        )
        return int((await self.ask(request, version)).error_code)

    async def commit(self, topic: Topic, offset: int, *, version: int | None = None, words: str = "") -> int:
        kinds = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = kinds.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=words
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            retention_time_ms=-1,
            topics=[kinds(name=topic.name, partitions=[partition], **topic.id_field)],
        )

        async def ask() -> Any:
            answer = await self.ask(request, version, most=COMMIT_BY_NAME)
            return only(only(answer.topics, "topics").partitions, "partitions")

        return int((await self.probe.settled(ask, lambda each: int(each.error_code))).error_code)

    async def leave(self, *, version: int | None = None) -> int:
        """The error of the member, from 3 on beside that of the group."""
        identity = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=None)
        request = LeaveGroupRequest(group_id=self.group, member_id=self.member_id, members=[identity])
        version = self.probe.versions(LeaveGroupRequest, node=self.node)[-1] if version is None else version
        answer = await self.ask(request, version)
        if answer.error_code or version < _LEAVE_MANY_FROM:
            return int(answer.error_code)
        return int(only(answer.members, "members").error_code)


async def new_member(probe: Probe, group: str = "") -> Member:
    """Of a new group, unless it is named; it has not joined yet."""
    name = group or probe.name("group")
    probe.groups.append(name)
    return Member(probe=probe, group=name, node=await probe.coordinator(name, GROUP))


async def alone(probe: Probe) -> Member:
    """The one member of a stable group."""
    member = await new_member(probe)
    await member.join()
    answer = await member.sync({member.member_id: b"mine"})
    if answer.error_code:
        raise Undecided(f"a member gets no assignment: {error_code(answer.error_code)}")
    return member


@dataclass(frozen=True, kw_only=True)
class Committed:
    """What a coordinator has of partition 0; from 2 on a group's error stands for all of it."""

    error_code: int
    offset: int = _NOTHING
    metadata: str | None = None


async def committed(
    probe: Probe, group: str, node: NodeId, topic: Topic, *, version: int | None = None, stable: bool = False
) -> Committed:
    kinds = OffsetFetchRequest
    if version is None:
        version = probe.versions(kinds, node=node, least=_KEPT_FROM, most=FETCH_BY_NAME)[-1]
    of_group = kinds.OffsetFetchRequestGroup
    wanted = of_group.OffsetFetchRequestTopics(name=topic.name, partition_indexes=[0], **topic.id_field)
    request = kinds(
        group_id=group,
        topics=[kinds.OffsetFetchRequestTopic(name=topic.name, partition_indexes=[0])],
        groups=[of_group(group_id=group, member_id=None, member_epoch=-1, topics=[wanted])],
        require_stable=stable,
    )

    async def ask() -> Committed:
        answer = await probe.ask(request, node=node, version=version)
        found = only(answer.groups, "groups") if version >= _GROUPS_FROM else answer
        if found.error_code:
            return Committed(error_code=found.error_code)
        partition = only(only(found.topics, "topics").partitions, "partitions")
        return Committed(
            error_code=partition.error_code, offset=partition.committed_offset, metadata=partition.metadata
        )

    return await probe.settled(ask, lambda each: each.error_code)


async def delete_groups(probe: Probe) -> list[str]:
    """Deletes this run's groups, and returns which may be left and why. One with members is waited for: they are gone,
    and the group hears of it when their sessions are over."""
    left = []
    try:
        async with asyncio.timeout(_ALL_GROUPS_S):
            for group in dict.fromkeys(probe.groups):
                node = await probe.coordinator(group, GROUP)
                deletion = partial(_deletion, Member(probe=probe, group=group, node=node, lane="afterwards"))
                code = await probe.becomes(deletion, lambda code: code != _NOT_EMPTY)
                if code not in (0, _NOT_FOUND):
                    left.append(f"group {group!r} is left: {error_code(code)}")
    except NotOffered:
        return left  # they expire
    except (AnsweredNothing, Undecided, OSError, TimeoutError) as error:
        left.append(f"groups that begin with {probe.mark!r} may be left: {type(error).__name__} {error}".rstrip())
    return left


# -- rows -------------------------------------------------------------------------------------------------------------


@ROWS.row(
    "group-coordinator",
    expected="each version names the same broker, one of the metadata",
    follows="KIP-699, Protocol guide, FindCoordinator",
    needs=(Need(api=FindCoordinatorRequest), Need(api=JoinGroupRequest)),
)
async def _coordinator(probe: Probe, looked: Looked) -> str:
    versions = probe.versions(FindCoordinatorRequest)
    name = probe.name("group")
    nodes = [await probe.coordinator(name, GROUP, version=version) for version in versions]
    looked.same("different brokers", len(set(nodes)), 1)
    looked.note("the broker", nodes[0], nodes[0] in probe.addresses, "one of the metadata")
    return f"versions {versions[0]} to {versions[-1]}, broker {nodes[0]}"


@ROWS.row(
    "group-join",
    expected="MEMBER_ID_REQUIRED with an id, then a generation that the member leads, and its assignment",
    follows="KIP-394, Protocol guide, JoinGroup, SyncGroup",
    needs=_JOINED,
)
async def _join(probe: Probe, looked: Looked) -> str:
    member = await new_member(probe)
    version = probe.versions(JoinGroupRequest, node=member.node)[-1]
    first = await member.request_join()
    if version >= _MEMBER_ID_FROM:
        looked.code("without a member id", first.error_code, _MEMBER_ID_REQUIRED)
        looked.note("the member id that it is given", first.member_id, bool(first.member_id), "one")
        member.member_id = first.member_id
        first = await member.request_join()
    looked.code("error", first.error_code)
    looked.note("generation_id", first.generation_id, first.generation_id >= 0, "0 or more")
    looked.same("protocol_name", first.protocol_name, _PROTOCOL)
    looked.same("leader", first.leader, first.member_id)
    looked.same("members", str([each.member_id for each in first.members]), str([first.member_id]))
    looked.same("its metadata", [bytes(each.metadata) for each in first.members] == [_SUBSCRIPTION], True)
    member.member_id, member.generation = first.member_id, first.generation_id
    synced = await member.sync({member.member_id: b"mine"})
    looked.code("sync, error", synced.error_code)
    looked.same("sync, assignment", str(bytes(synced.assignment)), str(b"mine"))
    looked.code("heartbeat", await member.heartbeat())
    return f"generation {member.generation}, with the assignment that its leader sent"


@ROWS.row(
    "group-versions",
    expected="in each version: a generation when the leader joins again, what it assigned, heartbeats",
    follows="KIP-62, KIP-345, KIP-559, KIP-800",
    needs=(*_JOINED, Need(api=JoinGroupRequest, version=_REBALANCE_FROM)),
)
async def _joins_in_every_version(probe: Probe, looked: Looked) -> str:
    """A leader that joins again begins a new generation."""
    member = await new_member(probe)
    await member.join()
    joins = probe.versions(JoinGroupRequest, node=member.node, least=_REBALANCE_FROM)
    syncs = probe.versions(SyncGroupRequest, node=member.node)
    beats = probe.versions(HeartbeatRequest, node=member.node)
    for number in range(max(len(joins), len(syncs), len(beats))):
        join, sync, beat = (each[min(number, len(each) - 1)] for each in (joins, syncs, beats))
        before = member.generation
        content = f"assignment {number}".encode()
        synced = await member.sync({member.member_id: content}, version=sync)
        looked.code(f"SyncGroup version {sync}, error", synced.error_code)
        looked.same(f"SyncGroup version {sync}, assignment", str(bytes(synced.assignment or b"")), str(content))
        looked.code(f"Heartbeat version {beat}", await member.heartbeat(version=beat))
        await member.join(version=join)
        newer = member.generation > before
        looked.note(f"JoinGroup version {join}, generation", member.generation, newer, f"above {before}")
    return (
        f"JoinGroup {joins[0]} to {joins[-1]}, SyncGroup {syncs[0]} to {syncs[-1]}, Heartbeat {beats[0]} to {beats[-1]}"
    )


@ROWS.row(
    "group-offsets",
    expected="the offset and the metadata that were committed last; -1 where none was",
    follows="KIP-211, KIP-320, KIP-709, KIP-848",
    needs=_COMMITTED,
)
async def _offsets_in_every_version(probe: Probe, looked: Looked) -> str:
    topic, member = await probe.topic(), await alone(probe)
    commits = probe.versions(
        OffsetCommitRequest, node=member.node, least=_KEPT_FROM, most=most_for(topic, COMMIT_BY_NAME)
    )
    offset = 0
    for offset, version in enumerate(commits, start=100):
        looked.code(f"OffsetCommit version {version}", await member.commit(topic, offset, version=version, words="w"))
        found = await committed(probe, member.group, member.node, topic)
        looked.same(f"OffsetCommit version {version}, fetched", found.offset, offset)
        looked.same(f"OffsetCommit version {version}, metadata", found.metadata, "w")
    fetches = probe.versions(
        OffsetFetchRequest, node=member.node, least=_KEPT_FROM, most=most_for(topic, FETCH_BY_NAME)
    )
    other = await probe.topic("other")
    for version in fetches:
        found = await committed(probe, member.group, member.node, topic, version=version)
        looked.code(f"OffsetFetch version {version}", found.error_code)
        looked.same(f"OffsetFetch version {version}, offset", found.offset, offset)
        never = await committed(probe, member.group, member.node, other, version=version)
        looked.code(f"OffsetFetch version {version}, never committed", never.error_code)
        looked.same(f"OffsetFetch version {version}, never committed, offset", never.offset, _NOTHING)
    return f"OffsetCommit {commits[0]} to {commits[-1]}, OffsetFetch {fetches[0]} to {fetches[-1]}"


@ROWS.row(
    "group-old-generation",
    expected="ILLEGAL_GENERATION for a commit, a heartbeat and a sync, and the offset stays",
    follows="Protocol guide, OffsetCommit, Heartbeat, SyncGroup",
    needs=_COMMITTED,
)
async def _old_generation(probe: Probe, looked: Looked) -> str:
    topic, member = await probe.topic(), await alone(probe)
    looked.code("a commit of the generation", await member.commit(topic, 5))
    current, member.generation = member.generation, member.generation - 1
    looked.code("a commit of the one before", await member.commit(topic, 9), _ILLEGAL_GENERATION)
    looked.code("a heartbeat", await member.heartbeat(), _ILLEGAL_GENERATION)
    looked.code("a sync", (await member.sync({})).error_code, _ILLEGAL_GENERATION)
    found = await committed(probe, member.group, member.node, topic)
    looked.same("the offset afterwards", found.offset, 5)
    member.generation = current
    looked.code("a heartbeat of the generation", await member.heartbeat())
    return "ILLEGAL_GENERATION, and the offset stays"


@ROWS.row(
    "group-unknown-member",
    expected="UNKNOWN_MEMBER_ID, whatever the member asks for, and the offset stays",
    follows="Protocol guide, Group membership",
    needs=_COMMITTED,
)
async def _unknown_member(probe: Probe, looked: Looked) -> str:
    topic, member = await probe.topic(), await alone(probe)
    looked.code("a commit of the member", await member.commit(topic, 5))
    stranger = Member(probe=probe, group=member.group, node=member.node, member_id=_STRANGER, lane="stranger")
    stranger.generation = member.generation
    looked.code("a commit", await stranger.commit(topic, 9), _UNKNOWN_MEMBER)
    looked.code("a heartbeat", await stranger.heartbeat(), _UNKNOWN_MEMBER)
    looked.code("a sync", (await stranger.sync({})).error_code, _UNKNOWN_MEMBER)
    looked.code("joining again", (await stranger.request_join()).error_code, _UNKNOWN_MEMBER)
    looked.code("leaving", await stranger.leave(), _UNKNOWN_MEMBER)
    outside = Member(probe=probe, group=member.group, node=member.node, lane="stranger")
    looked.code("a commit without a member", await outside.commit(topic, 9), _UNKNOWN_MEMBER)
    found = await committed(probe, member.group, member.node, topic)
    looked.same("the offset afterwards", found.offset, 5)
    return "UNKNOWN_MEMBER_ID, and the offset stays"


@ROWS.row(
    "group-rebalance",
    expected="REBALANCE_IN_PROGRESS; then both in the next generation, each with its assignment",
    follows="KIP-62, Protocol guide, Heartbeat",
    needs=_COMMITTED,
)
async def _rebalance(probe: Probe, looked: Looked) -> str:
    topic, first = await probe.topic(), await alone(probe)
    old = first.generation
    second = Member(probe=probe, group=first.group, node=first.node, lane="second")
    joining = asyncio.create_task(second.join())
    try:
        code = await probe.becomes(first.heartbeat, lambda code: code != 0)
        looked.code("the first member's heartbeat", code, _REBALANCING)
        answers = [await first.join(), await joining]
    finally:
        joining.cancel()
    looked.same("generation of the first", first.generation, old + 1)
    looked.same("generation of the second", second.generation, old + 1)
    leaders = {answer.leader for answer in answers}
    looked.same("leaders", len(leaders), 1)
    leading, other = (first, second) if first.member_id in leaders else (second, first)
    members = {each.member_id for answer in answers for each in answer.members if answer.member_id == leading.member_id}
    looked.note("members told to the leader", len(members), members == {first.member_id, second.member_id}, "both")
    following = asyncio.create_task(other.sync({}))
    try:
        led = await leading.sync({leading.member_id: b"for-leader", other.member_id: b"for-other"})
        followed = await following
    finally:
        following.cancel()
    looked.same("the leader's assignment", str(bytes(led.assignment or b"")), str(b"for-leader"))
    looked.same("the other's assignment", str(bytes(followed.assignment or b"")), str(b"for-other"))
    looked.code("a commit of the new generation", await other.commit(topic, 3))
    return f"REBALANCE_IN_PROGRESS, then both in generation {first.generation}, each with its own assignment"


@ROWS.row(
    "group-leave",
    expected="no error, and the member is unknown afterwards",
    follows="KIP-345, Protocol guide, LeaveGroup",
    needs=_JOINED,
)
async def _left(probe: Probe, looked: Looked) -> str:
    versions = probe.versions(LeaveGroupRequest)
    for version in versions:
        member = await new_member(probe, probe.name(f"version-{version}"))
        await member.join()
        looked.code(f"version {version}, leaving", await member.leave(version=version))
        looked.code(f"version {version}, a heartbeat afterwards", await member.heartbeat(), _UNKNOWN_MEMBER)
    return f"versions {versions[0]} to {versions[-1]}, UNKNOWN_MEMBER_ID afterwards"


@ROWS.row(
    "group-refused",
    expected="INCONSISTENT_GROUP_PROTOCOL, INVALID_SESSION_TIMEOUT, INVALID_GROUP_ID, and the group stays",
    follows="Protocol guide, JoinGroup",
    needs=_JOINED,
)
async def _refused(probe: Probe, looked: Looked) -> str:
    member = await alone(probe)
    other = Member(probe=probe, group=member.group, node=member.node, lane="other")
    answer = await other.request_join(protocol="somebody-elses")
    looked.code("a protocol that the others do not have", answer.error_code, _INCONSISTENT)
    answer = await other.request_join(session_ms=1)
    looked.code("a session of a millisecond", answer.error_code, _INVALID_SESSION)
    nameless = Member(probe=probe, group="", node=member.node, lane="other")
    looked.code("a group without a name", (await nameless.request_join()).error_code, _INVALID_GROUP)
    looked.code("the member's heartbeat afterwards", await member.heartbeat())
    return "each with its error, and the group stays"


@ROWS.row(
    "group-without-members",
    expected="an offset that is committed without having joined is kept",
    follows="Protocol guide, OffsetCommit",
    needs=(Need(api=FindCoordinatorRequest), *(Need(api=api, version=_KEPT_FROM) for api in OFFSETS)),
)
async def _simple(probe: Probe, looked: Looked) -> str:
    """Whoever assigns partitions itself commits without having joined."""
    topic, outside = await probe.topic(), await new_member(probe)
    looked.code("a commit without a member", await outside.commit(topic, 7))
    found = await committed(probe, outside.group, outside.node, topic)
    looked.same("the offset", found.offset, 7)
    return "offset 7"


@ROWS.row(
    "group-deleted",
    expected="NON_EMPTY_GROUP while it has a member; then it is gone with its offsets",
    follows="KIP-229",
    needs=(*_COMMITTED, Need(api=DeleteGroupsRequest)),
)
async def _deleted(probe: Probe, looked: Looked) -> str:
    topic, member = await probe.topic(), await alone(probe)
    looked.code("a commit", await member.commit(topic, 5))
    looked.code("with a member", await _deletion(member), _NOT_EMPTY)
    looked.code("the member's heartbeat", await member.heartbeat())
    await member.leave()
    looked.code("without one", await _deletion(member))
    found = await committed(probe, member.group, member.node, topic)
    looked.code("fetching the offset afterwards", found.error_code)
    looked.same("the offset afterwards", found.offset, _NOTHING)
    looked.code("again", await _deletion(member), _NOT_FOUND)
    return "NON_EMPTY_GROUP, deleted once it is empty, then GROUP_ID_NOT_FOUND"


async def _deletion(member: Member) -> int:
    async def ask() -> Any:
        return only((await member.ask(DeleteGroupsRequest(groups_names=[member.group]))).results, "groups")

    return int((await member.probe.settled(ask, lambda each: int(each.error_code))).error_code)


@ROWS.row(
    "group-not-coordinator",
    expected="NOT_COORDINATOR from a broker that is not",
    follows="Protocol guide, FindCoordinator",
    needs=_JOINED,
    brokers=2,
)
async def _elsewhere(probe: Probe, looked: Looked) -> str:
    member = await alone(probe)
    other = next(node for node in sorted(probe.addresses) if node != member.node)
    lost = Member(probe=probe, group=member.group, node=other, member_id=member.member_id, lane="lost")
    lost.generation = member.generation
    looked.code("a heartbeat", await lost.heartbeat(), _NOT_COORDINATOR)
    return f"NOT_COORDINATOR from broker {other}; broker {member.node} is"
