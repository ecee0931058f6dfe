"""One consumer group: its members, its state, and what it elects of them (leader, protocol).

It knows nothing of time-outs or logs: rebalance.py moves it from state to state, and membership.py answers its members
(docs/replication.md, R56 to R62).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from reference_impl.core.groups.group_data import JoinAnswer, JoinedMember, Protocols, SyncAnswer
from reference_impl.core.groups.subscription import subscribed_topics
from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.group_records import StoredGroup, StoredMember

CONSUMER = "consumer"  # the protocol type of Kafka's own consumers
NO_DEADLINE = float("inf")


class GroupState(Enum):
    """The names are those of DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False  # has not been told a generation yet
    heard_until_ms: float = NO_DEADLINE  # without a sign of life it is taken out then
    answer_join: Callable[[JoinAnswer], None] | None = None
    answer_sync: Callable[[SyncAnswer], None] | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def tell(self, error: ErrorCode) -> None:
        """Ends what it waits for, if it waits."""
        self.tell_joined(JoinAnswer(error=error, member_id=self.member_id))
        self.tell_synced(SyncAnswer(error=error))

    def tell_joined(self, answer: JoinAnswer) -> None:
        answer_join, self.answer_join = self.answer_join, None
        if answer_join is not None:
            answer_join(answer)

    def tell_synced(self, answer: SyncAnswer) -> None:
        answer_sync, self.answer_sync = self.answer_sync, None
        if answer_sync is not None:
            answer_sync(answer)

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")


@dataclass(kw_only=True)
class Group:
    group_id: str
    state_since_ms: int  # wall clock: the retention of an empty group's offsets counts from it
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)  # member ids given out (KIP-394), and until when
    not_synced: set[str] = field(default_factory=set)
    # The joining phase ends at `join_ends_ms`; the first one of a new group may be extended by `extendable_ms`.
    join_ends_ms: float = NO_DEADLINE
    sync_ends_ms: float = NO_DEADLINE
    is_first_join: bool = False
    extendable_ms: float = 0
    somebody_came: bool = False

    # Members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def static_member(self, instance_id: str) -> Member | None:
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.promised.pop(member.member_id, None)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        del self.members[member.member_id]
        self.not_synced.discard(member.member_id)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, member: Member, new_id: str) -> None:
        """A static member is back under another id (KIP-345); whoever waits under the old one is fenced."""
        member.tell(ErrorCode.FENCED_INSTANCE_ID)
        old_id, member.member_id = member.member_id, new_id
        self.members = {known.member_id: known for known in self.members.values()}
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.not_synced:
            self.not_synced.remove(old_id)
            self.not_synced.add(new_id)

    # Elections

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody with these protocols may join: one of them must be known to every member."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(name in common for name, _ in protocols)

    def elected_protocol(self) -> str:
        """R59: each member votes for the first of its protocols that all know; the one with most votes wins."""
        common = self._common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def _common_protocols(self) -> set[str]:
        known = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*known)

    def elect_leader_of_joined(self) -> bool:
        """The leader must have rejoined, else another who has takes its place. False if nobody has."""
        joined = [member.member_id for member in self.members.values() if member.answer_join is not None]
        if self.leader not in joined:
            if not joined:
                return False
            self.leader = joined[0]
        return True

    @property
    def all_joined(self) -> bool:
        return not self.promised and all(member.answer_join is not None for member in self.members.values())

    # Generations

    def begin_generation(self, wall_clock_ms: int) -> None:
        self.generation += 1
        self.join_ends_ms = NO_DEADLINE
        self.not_synced = set(self.members)
        if self.members:
            self.protocol = self.elected_protocol()
            self.enter(GroupState.COMPLETING_REBALANCE, wall_clock_ms)
        else:
            self.protocol = None
            self.enter(GroupState.EMPTY, wall_clock_ms)

    def enter(self, state: GroupState, wall_clock_ms: int) -> None:
        self.state = state
        self.state_since_ms = wall_clock_ms

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader is told, so that it can assign partitions."""
        return tuple(
            JoinedMember(
                member_id=member.member_id, instance_id=member.instance_id, metadata=member.metadata(self.protocol)
            )
            for member in self.members.values()
        )

    def topics(self) -> frozenset[str] | None:
        """The topics that its members subscribe to; None if that is not known (no consumers, or unreadable)."""
        if self.protocol_type != CONSUMER or self.protocol is None:
            return None
        found: set[str] = set()
        for member in self.members.values():
            topics = subscribed_topics(member.metadata(self.protocol))
            if topics is None:
                return None
            found |= topics
        return frozenset(found)

    # Records

    def stored(self, assignments: dict[str, bytes]) -> StoredGroup:
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_since_ms=self.state_since_ms,
            members=tuple(
                StoredMember(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    @classmethod
    def loaded(cls, group_id: str, stored: StoredGroup, *, now_ms: float) -> "Group":
        """R63: as the log has it; each member gets its whole session to be heard of again."""
        members = {member.member_id: _loaded(member, stored.protocol, now_ms) for member in stored.members}
        return cls(
            group_id=group_id,
            state=GroupState.STABLE if members else GroupState.EMPTY,
            state_since_ms=stored.state_since_ms,
            generation=stored.generation,
            protocol_type=stored.protocol_type or None,
            protocol=stored.protocol,
            leader=stored.leader if stored.leader in members else next(iter(members), None),
            members=members,
        )


def _loaded(stored: StoredMember, protocol: str | None, now_ms: float) -> Member:
    return Member(
        member_id=stored.member_id,
        instance_id=stored.instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout_ms,
        protocols=((protocol or "", stored.subscription),),
        assignment=stored.assignment,
        heard_until_ms=now_ms + stored.session_timeout_ms,
    )


def without_repetition(protocols: Iterable[tuple[str, bytes]]) -> Protocols:
    """A member's protocols, each once."""
    return tuple(dict(protocols).items())
