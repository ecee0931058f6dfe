"""The coordinator of the transactions in one partition of __transaction_state, for one term of its leader.

Made when the term begins, it is told the whole log (`replay`), then `loaded`; it ends with the term. Every change is
replicated before anybody is told of it, or acts on it: until then the id is in transit, and whoever asks is told to
come again. It is synchronous and takes the time from its clock, so the same calls always end in the same state
(docs/replication.md, R71 to R76, R87).
"""

from collections.abc import Callable, Iterable

from reference_impl.core.coordinator_log import (
    CoordinatorClock,
    CoordinatorLog,
    LoadedBatch,
    Phase,
    Writes,
    write_error,
)
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.transactions.transaction import EPOCH_OF_EACH, Transaction, TransactionState
from reference_impl.core.transactions.transaction_data import (
    NO_PRODUCER,
    EndRequest,
    InitAnswer,
    InitRequest,
    MarkerWriter,
    Speaker,
    TransactionMarkers,
    TransactionSettings,
)
from reference_impl.core.transactions.transaction_rules import TransactionRules
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import Producer
from reference_impl.wire.transaction_records import decode, transaction_record

Answered = Callable[[ErrorCode], None]


class TransactionCoordinator:
    def __init__(
        self,
        log: CoordinatorLog,
        markers: MarkerWriter,
        *,
        clock: CoordinatorClock,
        settings: TransactionSettings,
        rules: TransactionRules,
    ) -> None:
        self.phase = Phase.LOADING
        self.transactions: dict[str, Transaction] = {}
        self._epoch = log.leader_epoch  # the term's, in each marker
        self._markers = markers
        self._clock = clock
        self._settings = settings
        self._rules = rules
        self._writes = Writes(log, clock, timeout_ms=settings.write_timeout_ms)
        self._in_transit: dict[str, Transaction | None] = {}  # to what; None: it will be forgotten
        self._markers_left: dict[str, set[TopicPartition]] = {}  # of the prepared ones

    # The term

    def replay(self, batches: Iterable[LoadedBatch]) -> None:
        """R76. Of each id the last record counts. Raises UnreadableRecord."""
        assert self.phase is Phase.LOADING
        for batch in batches:
            for _, key, value in batch.records:
                transactional_id, stored = decode(key, value)
                if stored is None:
                    self.transactions.pop(transactional_id, None)
                else:
                    self.transactions[transactional_id] = Transaction.loaded(transactional_id, stored)

    def loaded(self) -> None:
        self.phase = Phase.ACTIVE
        for transaction in list(self.transactions.values()):
            if transaction.state.is_prepared and self._rules.resumes_markers():
                self._write_markers(transaction)

    def failed(self) -> None:
        self.phase = Phase.FAILED

    def end(self) -> None:
        self.phase = Phase.ENDED
        self._markers.stop()

    @property
    def error(self) -> ErrorCode:
        """Why nobody of this partition is served now."""
        return self.phase.error

    def tick(self) -> None:
        """Acts on deadlines, and tries again what was refused; called often."""
        self._writes.tick()
        if self.phase is Phase.ACTIVE:
            for transactional_id in [each for each, left in self._markers_left.items() if not left]:
                self._complete(transactional_id)

    # Producers

    def needs_fresh_id(self, transactional_id: str) -> bool:
        """Whether `init`, or an end with the next epoch, will need a producer id that nobody has."""
        known = self.transactions.get(transactional_id)
        return known is None or known.needs_fresh_id

    def init(self, request: InitRequest, fresh_id: int, answer: Callable[[InitAnswer], None]) -> None:
        """R72. A transaction that is open is aborted first; whoever asks comes again."""
        known = self.transactions.get(request.transactional_id)
        error = self.error or self._refused_init(request, known)
        if error is not ErrorCode.NONE:
            answer(InitAnswer(error))
            return
        if known is not None and known.state is TransactionState.ONGOING:
            self._prepare(known, is_commit=False, fenced=True)
            answer(InitAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        if known is None:
            known = Transaction(
                transactional_id=request.transactional_id, producer_id=fresh_id, timeout_ms=request.timeout_ms
            )
        following = known.next_producer(
            timeout_ms=request.timeout_ms,
            asked=request.producer,
            fresh_id=fresh_id,
            now_ms=self._clock.wall_clock_ms(),
        )
        if following.producer_id < 0:  # the id ran out of epochs since it was asked whether a fresh one is needed
            answer(InitAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
            return

        def answered(error: ErrorCode) -> None:
            is_done = error is ErrorCode.NONE
            answer(InitAnswer(error, following.producer_id, following.epoch) if is_done else InitAnswer(error))

        self._move(following, answered)

    def _refused_init(self, request: InitRequest, known: Transaction | None) -> ErrorCode:
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < request.timeout_ms <= self._settings.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        if request.transactional_id in self._in_transit or (known is not None and known.state.is_prepared):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if request.producer is None or known is None:
            return ErrorCode.NONE
        is_current = request.producer in (known.producer, known.last)
        return ErrorCode.NONE if is_current else ErrorCode.PRODUCER_FENCED

    def add_partitions(self, speaker: Speaker, partitions: Iterable[TopicPartition], answer: Answered) -> None:
        """R73."""
        wanted = frozenset(partitions)
        known = self._known(speaker)
        if isinstance(known, ErrorCode):
            answer(known)
        elif known.state is TransactionState.ONGOING and wanted <= known.partitions:
            answer(ErrorCode.NONE)
        else:
            self._move(known.with_partitions(wanted, self._clock.wall_clock_ms()), answer)

    def add_by_leader(self, speaker: Speaker, partitions: Iterable[TopicPartition], answer: Answered) -> None:
        """R88: what its producer has begun to write to belongs to its transaction."""
        wanted = frozenset(partitions)
        if all(self.verify(speaker, key) is ErrorCode.NONE for key in wanted):
            answer(ErrorCode.NONE)
            return
        known = self._known(speaker)
        if isinstance(known, ErrorCode):
            answer(known)
        else:
            now_ms = self._clock.wall_clock_ms()
            self._move(known.with_partitions(wanted, now_ms, client_version=EPOCH_OF_EACH), answer)

    def verify(self, speaker: Speaker, key: TopicPartition) -> ErrorCode:
        """R86: NONE if the partition belongs to the producer's open transaction, whatever other one is being added
        (KAFKA-14904)."""
        known = self._of(speaker)
        if isinstance(known, ErrorCode):
            return known
        following = self._in_transit.get(speaker.transactional_id)
        if known.state.is_prepared or (following is not None and following.state.is_prepared):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if known.has_open(key):
            return ErrorCode.NONE
        is_being_added = following is not None and following.has_open(key)
        return ErrorCode.CONCURRENT_TRANSACTIONS if is_being_added else ErrorCode.INVALID_TXN_STATE

    def _known(self, speaker: Speaker) -> Transaction | ErrorCode:
        """The speaker's transaction, if it is the current producer and nothing is under way."""
        known = self._of(speaker)
        if isinstance(known, ErrorCode):
            return known
        is_busy = speaker.transactional_id in self._in_transit or known.state.is_prepared
        return ErrorCode.CONCURRENT_TRANSACTIONS if is_busy else known

    def _of(self, speaker: Speaker) -> Transaction | ErrorCode:
        if self.error is not ErrorCode.NONE:
            return self.error
        if not speaker.transactional_id:
            return ErrorCode.INVALID_REQUEST
        known = self.transactions.get(speaker.transactional_id)
        if known is None or known.producer_id != speaker.producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if not self._rules.is_current(speaker.producer.producer_epoch, known.epoch):  # it has a successor
            return ErrorCode.PRODUCER_FENCED
        return known

    # The end of a transaction

    def end_transaction(self, speaker: Speaker, request: EndRequest, answer: Callable[[InitAnswer], None]) -> None:
        """R74: answered when the decision is replicated, before its markers are written. Who has an epoch for each
        transaction is told the next one (R87)."""
        if request.has_own_epoch:
            self._end_with_next_epoch(speaker, request, answer)
            return

        def answered(error: ErrorCode) -> None:
            answer(InitAnswer(error))

        known = self._of(speaker)
        if isinstance(known, ErrorCode):
            answered(known)
        elif speaker.transactional_id in self._in_transit:
            answered(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif known.state is TransactionState.ONGOING:
            self._prepare(known, is_commit=request.is_commit, fenced=False, answer=answered)
        else:
            answered(_end_again(known.state, is_commit=request.is_commit))

    def _end_with_next_epoch(self, speaker: Speaker, request: EndRequest, answer: Callable[[InitAnswer], None]) -> None:
        """R87. An end that comes late, after its transaction has ended, ends no other one: its epoch is over."""
        known = self.transactions.get(speaker.transactional_id)
        if self.error is ErrorCode.NONE and known is not None and known.was_ended_by(speaker.producer):
            is_busy = speaker.transactional_id in self._in_transit
            error = (
                ErrorCode.CONCURRENT_TRANSACTIONS if is_busy else _end_again(known.state, is_commit=request.is_commit)
            )
            answer(_init_answer(error, known))
            return
        current = self._known(speaker)
        if isinstance(current, ErrorCode):
            answer(InitAnswer(current))
        elif request.is_commit and current.state is not TransactionState.ONGOING:
            answer(InitAnswer(ErrorCode.INVALID_TXN_STATE))
        elif current.needs_fresh_id and request.fresh_id == NO_PRODUCER:  # used up since it was asked
            answer(InitAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
        else:  # nothing was begun: then what it may have sent is fenced
            following = current.prepared_with_next_epoch(
                is_commit=request.is_commit, fresh_id=request.fresh_id, now_ms=self._clock.wall_clock_ms()
            )
            self._decide(following, lambda error: answer(_init_answer(error, following)))

    def _prepare(
        self, known: Transaction, *, is_commit: bool, fenced: bool, answer: Answered = lambda error: None
    ) -> None:
        self._decide(known.prepared(is_commit=is_commit, fenced=fenced, now_ms=self._clock.wall_clock_ms()), answer)

    def _decide(self, following: Transaction, answer: Answered) -> None:
        if not self._rules.answers_end(False):
            self._move(following, answer)
        elif self._move(following) is ErrorCode.NONE:
            answer(ErrorCode.NONE)

    def _write_markers(self, transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        left = self._markers_left[transactional_id] = set(transaction.partitions)
        is_commit = transaction.state is TransactionState.PREPARE_COMMIT

        def written(partitions: Iterable[TopicPartition]) -> None:
            if self._markers_left.get(transactional_id) is left:
                left.difference_update(partitions)
                if not left:
                    self._complete(transactional_id)

        by_result: dict[bool, set[TopicPartition]] = {}
        partitions = sorted(transaction.partitions)
        for number, key in enumerate(partitions):
            by_result.setdefault(self._rules.result_in(is_commit, number, len(partitions)), set()).add(key)
        for result, keys in by_result.items():
            producer = Producer(transaction.producer_id, transaction.epoch)
            marker = Marker(result, self._epoch)
            self._markers.write(TransactionMarkers(transactional_id, producer, marker, frozenset(keys)), written)

    def _complete(self, transactional_id: str) -> None:
        """Refused by the log, it is tried again at the next tick."""
        if transactional_id not in self._in_transit and self.phase is Phase.ACTIVE:
            self._move(self.transactions[transactional_id].completed(self._clock.wall_clock_ms()))

    def markers_left(self, transaction: Transaction) -> frozenset[TopicPartition]:
        """The partitions of a transaction that has not ended; of a prepared one, those without their marker."""
        return frozenset(self._markers_left.get(transaction.transactional_id, transaction.partitions))

    def _move(self, following: Transaction, answer: Answered = lambda error: None) -> ErrorCode:
        """The one way from state to state: by a record that is replicated. An error: it was not appended."""
        transactional_id = following.transactional_id

        def replicated(_: int) -> None:
            self.transactions[transactional_id] = following
            if following.state.is_prepared:
                self._write_markers(following)
            else:
                self._markers_left.pop(transactional_id, None)

        self._in_transit[transactional_id] = following
        return self._writes.append(
            [following.record()],
            committed=replicated,
            ended=lambda: self._arrived(transactional_id),
            answered=lambda error: answer(write_error(error)),
        ).error

    def _arrived(self, transactional_id: str) -> None:
        self._in_transit.pop(transactional_id, None)

    # By time

    def abort_timed_out(self) -> None:
        """R75: called every transaction.abort.timed.out.transaction.cleanup.interval.ms."""
        if self.phase is not Phase.ACTIVE:
            return
        now_ms = self._clock.wall_clock_ms()
        for known in list(self.transactions.values()):
            is_open = known.state is TransactionState.ONGOING and known.transactional_id not in self._in_transit
            if is_open and now_ms - known.started_ms > known.timeout_ms:
                self._prepare(known, is_commit=False, fenced=self._rules.fences_late())

    def expire(self) -> None:
        """An id that nobody used for transactional.id.expiration.ms is forgotten."""
        if self.phase is not Phase.ACTIVE:
            return
        now_ms = self._clock.wall_clock_ms()
        for known in list(self.transactions.values()):
            is_old = now_ms - known.updated_ms >= self._settings.id_expiration_ms
            if is_old and known.state.has_ended and known.transactional_id not in self._in_transit:
                self._forget(known.transactional_id)

    def _forget(self, transactional_id: str) -> None:
        def forgotten(_: int) -> None:
            self.transactions.pop(transactional_id, None)

        self._in_transit[transactional_id] = None
        self._writes.append(
            [transaction_record(transactional_id, None)],
            committed=forgotten,
            ended=lambda: self._arrived(transactional_id),
        )


def _init_answer(error: ErrorCode, ended: Transaction) -> InitAnswer:
    following = ended.following_producer
    is_done = error is ErrorCode.NONE
    return InitAnswer(error, following.producer_id, following.producer_epoch) if is_done else InitAnswer(error)


def _end_again(state: TransactionState, *, is_commit: bool) -> ErrorCode:
    """The answer to an end when no transaction is open: a repeated one is answered like the first."""
    same = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    if not is_commit:
        same = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
    if state not in same:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.CONCURRENT_TRANSACTIONS if state.is_prepared else ErrorCode.NONE
