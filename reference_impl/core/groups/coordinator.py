"""The coordinator of the groups in one partition of __consumer_offsets, for one term of that partition's leader.

Made when the term begins, it is told the whole log (`replay`), then `loaded`; it ends with the term. It is synchronous
and takes the time from its clock, so the same calls always end in the same state (docs/replication.md, R56 to R67).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reference_impl.core.coordinator_log import CoordinatorClock, CoordinatorLog, LoadedBatch, Phase, Writes
from reference_impl.core.groups.group import Group, GroupState
from reference_impl.core.groups.group_data import (
    GroupSettings,
    Identity,
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
)
from reference_impl.core.groups.group_rules import GroupRules
from reference_impl.core.groups.membership import JoinAnswered, Membership, SyncAnswered
from reference_impl.core.groups.offsets import GroupOffsets, OffsetCommits, Outcomes, offset_write_error
from reference_impl.core.groups.rebalance import Rebalance
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.wire.group_records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    decode,
    group_record,
    offset_record,
)
from reference_impl.wire.key_values import KeyValue, Producer, StoredKeyValue
from reference_impl.wire.record_batches import NO_PRODUCER_ID

AnsweredOffsets = Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, kw_only=True)
class FetchedOffsets:
    error: ErrorCode
    offsets: AnsweredOffsets
    unstable: frozenset[TopicPartition] = frozenset()  # a transaction that has not ended may change them


class GroupCoordinator:
    def __init__(
        self,
        log: CoordinatorLog,
        *,
        clock: CoordinatorClock,
        settings: GroupSettings,
        rules: GroupRules,
        new_id: Callable[[], str],
    ) -> None:
        self.groups: dict[str, Group] = {}
        self.phase = Phase.LOADING
        self._offsets: dict[str, GroupOffsets] = {}
        self._clock = clock
        self._rules = rules
        self._writes = Writes(log, clock, timeout_ms=settings.offsets_commit_timeout_ms)
        self._rebalance = Rebalance(self._writes, clock, settings)
        self._membership = Membership(self._rebalance, clock=clock, settings=settings, rules=rules, new_id=new_id)
        self._commits = OffsetCommits(self._writes, self._rebalance, clock=clock, settings=settings, rules=rules)
        self._loaded_groups: dict[str, StoredGroup] = {}

    # The term

    def replay(self, batches: Iterable[LoadedBatch]) -> None:
        """R63. Of each key the last record counts. Raises UnreadableRecord."""
        assert self.phase is Phase.LOADING
        for records, producer_id, marker in batches:
            if marker is not None:
                for offsets in self._offsets.values():
                    offsets.end_transaction(producer_id, is_commit=marker.is_commit)
            self._take(records, producer_id)

    def _take(self, records: Iterable[StoredKeyValue], producer_id: int) -> None:
        for offset, key, value in records:
            decoded = decode(key, value)
            if isinstance(decoded[0], OffsetKey):
                where, committed = decoded[0], decoded[1]
                assert committed is None or isinstance(committed, CommittedOffset)
                partition = TopicPartition(where.topic, where.partition)
                offsets = self._offsets.setdefault(where.group_id, GroupOffsets())
                if producer_id == NO_PRODUCER_ID:
                    offsets.take(partition, offset, committed)
                elif committed is not None:
                    offsets.take_in_transaction(producer_id, partition, offset, committed)
            elif isinstance(decoded[1], StoredGroup):
                self._loaded_groups[decoded[0].group_id] = decoded[1]
            else:
                self._loaded_groups.pop(decoded[0].group_id, None)

    def loaded(self) -> None:
        """From now on groups are served, with what `replay` was told."""
        now_ms = self._clock.now_ms()
        self._offsets = {group_id: offsets for group_id, offsets in self._offsets.items() if not offsets.is_empty}
        for group_id, stored in self._loaded_groups.items():
            self.groups[group_id] = Group.loaded(group_id, stored, now_ms=now_ms)
        for group_id in self._offsets:
            self._group_of_simple_consumers(group_id)
        self._loaded_groups.clear()
        self.phase = Phase.ACTIVE

    def failed(self) -> None:
        self.phase = Phase.FAILED

    def end(self) -> None:
        """The term is over: whoever waits looks for the next coordinator."""
        self.phase = Phase.ENDED
        for group in self.groups.values():
            group.state = GroupState.DEAD
            for member in group.members.values():
                member.tell(ErrorCode.NOT_COORDINATOR)
        self.groups.clear()

    @property
    def error(self) -> ErrorCode:
        return self.phase.error

    def tick(self) -> None:
        """Acts on deadlines; called often."""
        self._writes.tick()
        if self.phase is Phase.ACTIVE:
            for group in list(self.groups.values()):
                self._rebalance.tick(group)

    # Members

    def join(self, request: JoinRequest, answer: JoinAnswered) -> None:
        error = self._membership.refusal(request) or self.error
        group = self.groups.get(request.group_id)
        if error is not ErrorCode.NONE:
            answer(JoinAnswer(error=error, member_id=request.member_id))
        elif group is not None:
            self._membership.join(group, request, answer)
        elif request.member_id:
            answer(JoinAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
        else:
            self._membership.join(self._new_group(request.group_id), request, answer)

    def _new_group(self, group_id: str) -> Group:
        group = Group(group_id=group_id, state_since_ms=self._clock.wall_clock_ms())
        self.groups[group_id] = group
        return group

    def _group_of_simple_consumers(self, group_id: str) -> Group:
        return self.groups.get(group_id) or self._new_group(group_id)

    def sync(self, request: SyncRequest, answer: SyncAnswered) -> None:
        error, group = self._served(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.REBALANCE_IN_PROGRESS  # the rebalance was lost with the last coordinator: join again
        if error is not ErrorCode.NONE or group is None:
            answer(SyncAnswer(error=error or ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._membership.sync(group, request, answer)

    def heartbeat(self, group_id: str, identity: Identity) -> ErrorCode:
        error, group = self._served(group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE  # it cannot be told from a good one yet, and loading gives it a whole session
        if error is not ErrorCode.NONE:
            return error
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._membership.heartbeat(group, identity)

    def leave(self, group_id: str, identities: Sequence[Identity]) -> tuple[ErrorCode, list[ErrorCode]]:
        """Returns the error of all, and of each."""
        error, group = self._served(group_id)
        if error is not ErrorCode.NONE:
            return error, []
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        return error, [unknown if group is None else self._membership.leave(group, each) for each in identities]

    def _served(self, group_id: str) -> tuple[ErrorCode, Group | None]:
        return self.error, self.groups.get(group_id)

    # Offsets

    def commit(
        self,
        group_id: str,
        identity: Identity,
        wanted: Mapping[TopicPartition, CommittedOffset],
        answer: Callable[[Outcomes], None],
    ) -> None:
        error, group = self._committing(group_id, identity)
        if group is None:
            answer(dict.fromkeys(wanted, error))
            return
        self._commits.commit(group, self._offsets.setdefault(group_id, GroupOffsets()), identity, wanted, answer)

    def commit_in_transaction(
        self,
        group_id: str,
        identity: Identity,
        producer: Producer,
        wanted: Mapping[TopicPartition, CommittedOffset],
        answer: Callable[[Outcomes], None],
    ) -> None:
        error, group = self._committing(group_id, identity)
        if group is None:
            answer(dict.fromkeys(wanted, error))
            return
        offsets = self._offsets.setdefault(group_id, GroupOffsets())
        self._commits.commit_in_transaction(group, offsets, identity, producer, wanted, answer)

    def _committing(self, group_id: str, identity: Identity) -> tuple[ErrorCode, Group | None]:
        """An error comes without a group."""
        group = self.groups.get(group_id)
        if self.error is not ErrorCode.NONE:
            return self.error, None
        if group is None and identity.generation >= 0:
            return ErrorCode.ILLEGAL_GENERATION, None
        return ErrorCode.NONE, group or self._group_of_simple_consumers(group_id)

    def transaction_ended(self, producer_id: int, *, is_commit: bool) -> None:
        """R77: the producer's marker is replicated in this partition."""
        if self.phase is not Phase.ACTIVE:
            return
        for group_id, offsets in self._offsets.items():
            if offsets.end_transaction(producer_id, is_commit=is_commit):
                self._group_of_simple_consumers(group_id)

    def fetch(self, group_id: str, wanted: Sequence[TopicPartition] | None) -> FetchedOffsets:
        """None: all that the group has. A partition that is not in the answer has no committed offset."""
        error, offsets = self.error, self._offsets.get(group_id, GroupOffsets())
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error, offsets = self._rules.while_loading(), GroupOffsets()  # what is read may not be committed
        if error is not ErrorCode.NONE:
            return FetchedOffsets(error=error, offsets={})
        known = offsets.committed
        keys = known if wanted is None else [key for key in wanted if key in known]
        unstable = frozenset(key for key in (known if wanted is None else wanted) if offsets.is_unstable(key))
        return FetchedOffsets(error=error, offsets={key: known[key][1] for key in keys}, unstable=unstable)

    def remove_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition], answer: Callable[[ErrorCode, Outcomes], None]
    ) -> None:
        """OffsetDelete (R67)."""
        group = self.groups.get(group_id)
        error = self.error or (ErrorCode.GROUP_ID_NOT_FOUND if group is None else ErrorCode.NONE)
        if error is ErrorCode.NONE and group is not None and group.members and group.topics() is None:
            error = ErrorCode.NON_EMPTY_GROUP  # what its members read is not known
        if error is not ErrorCode.NONE or group is None:
            answer(error, {})
            return
        offsets = self._offsets.setdefault(group_id, GroupOffsets())
        self._commits.remove(group, offsets, wanted, lambda outcomes: answer(ErrorCode.NONE, outcomes))

    # Groups that go

    def delete(self, group_id: str, answer: Callable[[ErrorCode], None]) -> None:
        """DeleteGroups (R67): only a group without members."""
        group = self.groups.get(group_id)
        error = self.error or (ErrorCode.GROUP_ID_NOT_FOUND if group is None else ErrorCode.NONE)
        if error is ErrorCode.NONE and group is not None and (group.members or group.promised):
            error = ErrorCode.NON_EMPTY_GROUP
        if error is not ErrorCode.NONE or group is None:
            answer(error)
            return
        self._forget_group(group, lambda error: answer(offset_write_error(error)))

    def _forget_group(self, group: Group, answered: Callable[[ErrorCode], None] = lambda error: None) -> None:
        """Its offsets and itself leave the log; in memory they are gone when that is certain."""
        group_id, offsets = group.group_id, self._offsets.get(group.group_id, GroupOffsets())
        keys = [OffsetKey(group_id=group_id, topic=key.topic, partition=key.partition) for key in offsets.in_log()]
        records: list[KeyValue] = [offset_record(key, None) for key in keys]
        records.append(group_record(GroupKey(group_id=group_id), None))
        was, group.state = group.state, GroupState.DEAD  # nobody joins or commits meanwhile

        def committed(_: int) -> None:
            self.groups.pop(group_id, None)
            self._offsets.pop(group_id, None)

        def ended() -> None:
            if self.groups.get(group_id) is group:
                group.state = was

        self._writes.append(records, committed=committed, ended=ended, answered=answered)

    def topics_deleted(self, topics: frozenset[str]) -> None:
        """What was committed of a deleted topic says nothing of one that is created anew."""
        if self.phase is not Phase.ACTIVE:
            return
        for group_id, offsets in self._offsets.items():
            gone = [key for key in offsets.in_log() if key.topic in topics]
            if gone:
                self._commits.forget(group_id, offsets, gone)

    def expire(self) -> None:
        """R66: called every offsets.retention.check.interval.ms."""
        if self.phase is not Phase.ACTIVE:
            return
        for group in list(self.groups.values()):
            offsets = self._offsets.setdefault(group.group_id, GroupOffsets())
            gone = self._commits.expired(group, offsets)
            is_unused = group.state is GroupState.EMPTY and not group.promised and not offsets.pending
            is_unused = is_unused and not offsets.has_transactions
            if is_unused and len(gone) == len(offsets.committed):
                self._forget_group(group)
            elif gone:
                self._commits.forget(group.group_id, offsets, gone)
