"""The offsets that groups committed: taken when their records are replicated, told to whoever asks, and forgotten.

Of two commits for one partition, the one whose record is later in the log counts (R65).
"""

from collections import Counter
from collections.abc import Callable, Iterable, KeysView, Mapping
from dataclasses import dataclass, field, replace

from reference_impl.core.coordinator_log import CoordinatorClock, Writes, write_error
from reference_impl.core.groups.group import Group, GroupState
from reference_impl.core.groups.group_data import GroupSettings, Identity
from reference_impl.core.groups.group_rules import CommitView, GroupRules
from reference_impl.core.groups.membership import check_identity
from reference_impl.core.groups.rebalance import Rebalance
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.wire.group_records import NO_TIME, CommittedOffset, OffsetKey, offset_record
from reference_impl.wire.key_values import KeyValue, Producer
from reference_impl.wire.record_fields import TEXT_BYTES_MAX

Outcomes = Mapping[TopicPartition, ErrorCode]
Recorded = tuple[int, CommittedOffset]


@dataclass(kw_only=True)
class GroupOffsets:
    """One group's. Each with the offset of its record in the coordinator's log."""

    committed: dict[TopicPartition, Recorded] = field(default_factory=dict)
    pending: Counter[TopicPartition] = field(default_factory=Counter)  # of records that are not replicated yet
    in_transactions: dict[int, dict[TopicPartition, Recorded]] = field(default_factory=dict)  # open ones, by producer
    pending_in_transactions: Counter[TopicPartition] = field(default_factory=Counter)

    def take(self, key: TopicPartition, record_offset: int, value: CommittedOffset | None) -> None:
        if value is None:
            self._remove_from_transactions(key, record_offset)
        known = self.committed.get(key)
        if known is not None and known[0] > record_offset:
            return
        if value is None:
            self.committed.pop(key, None)
        else:
            self.committed[key] = record_offset, value

    def _remove_from_transactions(self, key: TopicPartition, record_offset: int) -> None:
        """What is removed comes back with no marker of a transaction that wrote it before (R67)."""
        for producer_id, written in list(self.in_transactions.items()):
            if key in written and written[key][0] < record_offset:
                del written[key]
                if not written:
                    del self.in_transactions[producer_id]

    def take_in_transaction(
        self, producer_id: int, key: TopicPartition, record_offset: int, value: CommittedOffset
    ) -> None:
        self.in_transactions.setdefault(producer_id, {})[key] = record_offset, value

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> bool:
        """R77. Of two commits the one whose record is later in the log counts, whenever its transaction ended. True if
        something was committed."""
        ended = self.in_transactions.pop(producer_id, {})
        if is_commit:
            for key, (record_offset, value) in ended.items():
                self.take(key, record_offset, value)
        return is_commit and bool(ended)

    def is_changing(self, key: TopicPartition) -> bool:
        """Whether a newer commit is on its way, which a tombstone written now would remove with the old one."""
        return key in self.pending or self.is_unstable(key)

    def is_unstable(self, key: TopicPartition) -> bool:
        """Whether a transaction that has not ended may change what is committed."""
        return key in self.pending_in_transactions or any(key in each for each in self.in_transactions.values())

    def in_log(self) -> KeysView[TopicPartition]:
        """What the log may tell the next coordinator of: a record that is not replicated yet may be, still, and an open
        transaction may be committed."""
        in_transactions = [key for written in self.in_transactions.values() for key in written]
        found = [*self.committed, *self.pending, *in_transactions, *self.pending_in_transactions]
        return dict.fromkeys(found).keys()

    @property
    def is_empty(self) -> bool:
        return not self.committed and not self.pending and not self.has_transactions

    @property
    def has_transactions(self) -> bool:
        return bool(self.in_transactions) or bool(self.pending_in_transactions)


class OffsetCommits:
    def __init__(
        self,
        writes: Writes,
        rebalance: Rebalance,
        *,
        clock: CoordinatorClock,
        settings: GroupSettings,
        rules: GroupRules,
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
        outcomes, taken = self._fit(wanted, error)
        if not taken:
            answer(outcomes)
            return
        self._write(group.group_id, offsets, taken, lambda error: answer(outcomes | dict.fromkeys(taken, error)))

    def commit_in_transaction(
        self,
        group: Group,
        offsets: GroupOffsets,
        identity: Identity,
        producer: Producer,
        wanted: Mapping[TopicPartition, CommittedOffset],
        answer: Callable[[Outcomes], None],
    ) -> None:
        """R77: counts when the transaction's marker commits it."""
        outcomes, taken = self._fit(wanted, self._refused(group, identity, in_transaction=True))
        if not taken:
            answer(outcomes)
            return
        keys = Counter(taken.keys())

        def take(first: int) -> None:
            for number, (key, value) in enumerate(taken.items()):
                if self._rules.counts_in_transaction(False):
                    offsets.take(key, first + number, value)
                else:
                    offsets.take_in_transaction(producer.producer_id, key, first + number, value)

        def ended() -> None:
            offsets.pending_in_transactions -= keys

        offsets.pending_in_transactions += keys
        self._writes.append(
            _records(group.group_id, taken),
            committed=take,
            ended=ended,
            answered=lambda error: answer(outcomes | dict.fromkeys(taken, offset_write_error(error))),
            producer=producer,
        )

    def _fit(
        self, wanted: Mapping[TopicPartition, CommittedOffset], error: ErrorCode
    ) -> tuple[dict[TopicPartition, ErrorCode], dict[TopicPartition, CommittedOffset]]:
        """The outcome of each that is refused, and what is to be written of the others."""
        outcomes = {key: error or self._unfit(value) for key, value in wanted.items()}
        now_ms = self._clock.wall_clock_ms()
        return outcomes, {
            key: replace(value, committed_ms=now_ms) for key, value in wanted.items() if outcomes[key] is ErrorCode.NONE
        }

    def _refused(self, group: Group, identity: Identity, *, in_transaction: bool = False) -> ErrorCode:
        """R64. Between two generations nobody commits: the partitions may be another's already. A producer that names
        no member is held to nothing: its transactional id fences it (KIP-447)."""
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        known = check_identity(group, identity)
        view = CommitView(
            is_member=known is ErrorCode.NONE,
            is_fenced=known is ErrorCode.FENCED_INSTANCE_ID,
            has_name=identity.generation >= 0 or bool(identity.member_id) or identity.instance_id is not None,
            generation=identity.generation,
            group_generation=group.generation,
            group_has_members=group.state is not GroupState.EMPTY and not in_transaction,
        )
        error = self._rules.admits_commit(view)
        if error is ErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE and not in_transaction:
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
        records = _records(group_id, taken)

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
            if not offsets.is_changing(key)
            and not (topics is not None and group.state is GroupState.STABLE and key.topic in topics)
            and self._is_expired(group, value, now_ms)
        ]

    def _is_expired(self, group: Group, value: CommittedOffset, now_ms: int) -> bool:
        if value.expires_ms != NO_TIME:
            return now_ms >= value.expires_ms
        since_ms = value.committed_ms
        if group.state is GroupState.EMPTY and group.protocol_type is not None:
            since_ms = max(since_ms, group.state_since_ms)
        return self._rules.is_expired(since_ms, now_ms, self._settings.offsets_retention_ms)


def _records(group_id: str, values: Mapping[TopicPartition, CommittedOffset | None]) -> list[KeyValue]:
    return [
        offset_record(OffsetKey(group_id=group_id, topic=key.topic, partition=key.partition), value)
        for key, value in values.items()
    ]


def offset_write_error(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error is ErrorCode.MESSAGE_TOO_LARGE else write_error(error)
