"""The offsets that groups committed: taken when their records are replicated, told to whoever asks, and forgotten.

Of two commits for one partition, the one whose record is later in the log counts (R65).
"""

from collections import Counter
from collections.abc import Callable, Iterable, KeysView, Mapping
from dataclasses import dataclass, field, replace

from reference_impl.core.groups.group import Group, GroupState
from reference_impl.core.groups.group_data import GroupClock, GroupSettings, Identity
from reference_impl.core.groups.group_rules import CommitView, GroupRules
from reference_impl.core.groups.membership import check_identity
from reference_impl.core.groups.rebalance import Rebalance
from reference_impl.core.groups.writes import Writes
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.wire.group_records import NO_TIME, TEXT_BYTES_MAX, CommittedOffset, OffsetKey, offset_record

Outcomes = Mapping[TopicPartition, ErrorCode]


@dataclass(kw_only=True)
class GroupOffsets:
    """One group's. Each with the offset of its record in the coordinator's log."""

    committed: dict[TopicPartition, tuple[int, CommittedOffset]] = field(default_factory=dict)
    pending: Counter[TopicPartition] = field(default_factory=Counter)  # of records that are not replicated yet

    def take(self, key: TopicPartition, record_offset: int, value: CommittedOffset | None) -> None:
        known = self.committed.get(key)
        if known is not None and known[0] > record_offset:
            return
        if value is None:
            self.committed.pop(key, None)
        else:
            self.committed[key] = record_offset, value

    def in_log(self) -> KeysView[TopicPartition]:
        """What the log may tell the next coordinator of: a record that is not replicated yet may be, still."""
        return dict.fromkeys([*self.committed, *self.pending]).keys()

    @property
    def is_empty(self) -> bool:
        return not self.committed and not self.pending


class OffsetCommits:
    def __init__(
        self, writes: Writes, rebalance: Rebalance, *, clock: GroupClock, settings: GroupSettings, rules: GroupRules
    ) -> None:
        self._writes = writes
        self._rebalance = rebalance
        self._clock = clock
        self._settings = settings
        self._rules = rules

    # Committing

    def commit(
        self,
        group: Group,
        offsets: GroupOffsets,
        identity: Identity,
        wanted: Mapping[TopicPartition, CommittedOffset],
        answer: Callable[[Outcomes], None],
    ) -> None:
        error = self._refused(group, identity)
        if error is not ErrorCode.NONE:
            answer(dict.fromkeys(wanted, error))
            return
        outcomes = {key: self._unfit(value) for key, value in wanted.items()}
        now_ms = self._clock.wall_clock_ms()
        taken = {
            key: replace(value, committed_ms=now_ms) for key, value in wanted.items() if outcomes[key] is ErrorCode.NONE
        }
        if not taken:
            answer(outcomes)
            return
        self._write(group.group_id, offsets, taken, lambda error: answer(outcomes | dict.fromkeys(taken, error)))

    def _refused(self, group: Group, identity: Identity) -> ErrorCode:
        """R64. Between two generations nobody commits: the partitions may be another's already."""
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        known = check_identity(group, identity)
        view = CommitView(
            is_member=known is ErrorCode.NONE,
            is_fenced=known is ErrorCode.FENCED_INSTANCE_ID,
            has_name=identity.generation >= 0 or bool(identity.member_id) or identity.instance_id is not None,
            generation=identity.generation,
            group_generation=group.generation,
            group_has_members=group.state is not GroupState.EMPTY,
        )
        error = self._rules.admits_commit(view)
        if error is ErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is ErrorCode.NONE and view.is_member:
            self._rebalance.heard(group.members[identity.member_id])
        return error

    def _unfit(self, value: CommittedOffset) -> ErrorCode:
        is_long = len(value.metadata.encode()) > min(self._settings.offset_metadata_max_bytes, TEXT_BYTES_MAX)
        return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_long else ErrorCode.NONE

    def _write(
        self,
        group_id: str,
        offsets: GroupOffsets,
        taken: Mapping[TopicPartition, CommittedOffset | None],
        answer: Callable[[ErrorCode], None],
    ) -> None:
        """R65. A value of None removes the offset."""
        records = [
            offset_record(OffsetKey(group_id=group_id, topic=key.topic, partition=key.partition), value)
            for key, value in taken.items()
        ]

        def take(first: int) -> None:
            for number, (key, value) in enumerate(taken.items()):
                offsets.take(key, first + number, value)

        def ended() -> None:
            offsets.pending -= keys

        keys = Counter(taken.keys())
        offsets.pending += keys
        if not self._rules.answers_commit(False):
            self._writes.append(
                records, committed=take, ended=ended, answered=lambda error: answer(offset_write_error(error))
            )
            return
        appended = self._writes.append(records, committed=take, ended=ended)
        if appended.error is ErrorCode.NONE:
            take(appended.offset)
        answer(offset_write_error(appended.error))

    # Removing

    def remove(
        self, group: Group, offsets: GroupOffsets, wanted: Iterable[TopicPartition], answer: Callable[[Outcomes], None]
    ) -> None:
        """R67, KIP-496: not those that a member reads."""
        keys = list(wanted)
        outcomes: dict[TopicPartition, ErrorCode] = dict.fromkeys(keys, ErrorCode.NONE)
        if group.state is not GroupState.EMPTY:
            topics = group.topics() or frozenset()
            read = {key: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC for key in keys if key.topic in topics}
            outcomes |= read
        stored = offsets.in_log()
        gone = [key for key in keys if outcomes[key] is ErrorCode.NONE and key in stored]
        if not gone:
            answer(outcomes)
            return
        self.forget(group.group_id, offsets, gone, lambda error: answer(outcomes | dict.fromkeys(gone, error)))

    def forget(
        self,
        group_id: str,
        offsets: GroupOffsets,
        keys: Iterable[TopicPartition],
        answer: Callable[[ErrorCode], None] = lambda error: None,
    ) -> None:
        self._write(group_id, offsets, dict.fromkeys(keys, None), answer)

    def expired(self, group: Group, offsets: GroupOffsets) -> list[TopicPartition]:
        """R66, KIP-211: what nobody reads any more, since the retention."""
        if group.state not in (GroupState.EMPTY, GroupState.STABLE):
            return []
        topics = group.topics()
        if group.state is GroupState.STABLE and topics is None:
            return []
        now_ms = self._clock.wall_clock_ms()
        return [
            key
            for key, (_, value) in offsets.committed.items()
            if not (topics is not None and group.state is GroupState.STABLE and key.topic in topics)
            and self._is_expired(group, value, now_ms)
        ]

    def _is_expired(self, group: Group, value: CommittedOffset, now_ms: int) -> bool:
        if value.expires_ms != NO_TIME:
            return now_ms >= value.expires_ms
        since_ms = value.committed_ms
        if group.state is GroupState.EMPTY and group.protocol_type is not None:
            since_ms = max(since_ms, group.state_since_ms)
        return self._rules.is_expired(since_ms, now_ms, self._settings.offsets_retention_ms)


def offset_write_error(error: ErrorCode) -> ErrorCode:
    """What who commits is told when the record could not be stored, or is not known to be. 15 and 16 leave open
    whether it is there."""
    return {
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }.get(error, error)
