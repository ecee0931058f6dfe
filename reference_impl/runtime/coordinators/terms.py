"""The coordinators of this broker in one coordinators' topic: one for each of its partitions that this broker leads.

A coordinator lives as long as one term of its partition's leader. When a term begins its log is read, a piece at a
time, so that other requests are served meanwhile; it serves when the whole of it is known to be committed, that is when
the high watermark has reached the place where the term began (docs/replication.md R63).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from reference_impl.core.coordinator_log import LoadedBatch, Phase, loaded_batches
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.partition import Partition
from reference_impl.core.placement import coordinating_partition
from reference_impl.runtime.coordinators.log import PartitionTermLog
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.wire.compression import UnreadableRecords
from reference_impl.wire.record_batches import parse_headers
from reference_impl.wire.record_fields import UnreadableRecord

logger = logging.getLogger(__name__)

TICK_MS = 50
READ_AT_ONCE_BYTES = 256 << 10


class Coordinator(Protocol):
    phase: Phase

    def replay(self, batches: Iterable[LoadedBatch]) -> None: ...

    def loaded(self) -> None: ...

    def failed(self) -> None: ...

    def end(self) -> None: ...

    def tick(self) -> None: ...

    def expire(self) -> None: ...


C = TypeVar("C", bound=Coordinator)


@dataclass(kw_only=True, eq=False)
class Term(Generic[C]):
    partition: Partition
    log: PartitionTermLog
    coordinator: C
    log_end: int  # when it began: what is below has to be read, and committed
    loading: asyncio.Task[None] | None = None


class CoordinatorTerms(Generic[C]):
    def __init__(
        self,
        topic: str,
        *,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        begin: Callable[[int, PartitionTermLog], C],
        loads_from: Callable[[int, int], int],
    ) -> None:
        """`begin` makes the coordinator of a partition for one term; `loads_from` says where to begin to read."""
        self.topic = topic
        self._replicas = replicas
        self._metadata = metadata
        self._make = begin
        self._loads_from = loads_from
        self._terms: dict[int, Term[C]] = {}
        self._progressed: set[int] = set()
        self._has_ended = False
        replicas.on_progress.append(self._note_progress)

    # Who coordinates

    def partition_of(self, name: str) -> int | None:
        """None: the topic does not exist, as far as this broker knows."""
        count = len(self._metadata.partitions(self.topic))
        return coordinating_partition(name, count) if count else None

    def coordinator_of(self, name: str) -> C | ErrorCode:
        """If it is this broker."""
        number = self.partition_of(name)
        if number is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        term = self.current(number)
        return ErrorCode.NOT_COORDINATOR if term is None else term.coordinator

    def led(self, name: str) -> Partition | None:
        """The partition of the topic that holds what is coordinated for it, if this broker leads it."""
        number = self.partition_of(name)
        term = None if number is None else self.current(number)
        return None if term is None else term.partition

    def current(self, number: int) -> Term[C] | None:
        term = self._terms.get(number)
        if term is not None and self._is_over(term):
            self._look_at(number)
            term = self._terms.get(number)
        return term

    def all(self) -> Iterator[C]:
        return iter([term.coordinator for term in self._terms.values()])

    # Terms

    def _note_progress(self, key: TopicPartition) -> None:
        """Called in the middle of a partition's own work: what follows from it is done in the loop's next turn."""
        if key.topic != self.topic:
            return
        if not self._progressed:
            asyncio.get_running_loop().call_soon(self._look_at_progressed)
        self._progressed.add(key.partition)

    def _look_at_progressed(self) -> None:
        progressed, self._progressed = self._progressed, set()
        for number in sorted(progressed):
            self._look_at(number)

    def _look_at(self, number: int) -> None:
        term = self._terms.get(number)
        if term is not None:
            term.log.progressed()
            if self._is_over(term):
                self._end(number)
            elif self._is_ready(term):
                self._serve(number, term)
        partition = self._replicas.partitions.get(TopicPartition(self.topic, number))
        is_led = partition is not None and partition.is_leader
        if number not in self._terms and partition is not None and is_led and not self._has_ended:
            self._begin(number, partition)

    def _is_over(self, term: Term[C]) -> bool:
        hosted = self._replicas.partitions.get(term.partition.topic_partition)
        is_same = hosted is term.partition and term.partition.leader_epoch == term.log.leader_epoch
        return not (is_same and term.partition.is_leader)

    def _begin(self, number: int, partition: Partition) -> None:
        log = PartitionTermLog(partition, self._replicas)
        coordinator = self._make(number, log)
        term = Term(partition=partition, log=log, coordinator=coordinator, log_end=partition.log.log_end_offset)
        self._terms[number] = term
        if partition.log.log_start_offset == term.log_end:
            self._serve_when_committed(number, term)
        else:
            term.loading = asyncio.ensure_future(self._load(number, term))

    async def _load(self, number: int, term: Term[C]) -> None:
        log = term.partition.log
        position = self._loads_from(log.log_start_offset, log.segments[-1].base_offset)
        try:
            while position < term.log_end:
                if self._is_over(term):
                    return  # what was read is not the whole
                batches = log.read(position, READ_AT_ONCE_BYTES, term.log_end)
                headers = parse_headers(batches)
                if not headers:
                    raise UnreadableRecords(f"nothing to be read at offset {position}, the log ends at {term.log_end}")
                term.coordinator.replay(loaded_batches(batches))
                position = headers[-1].next_offset
                await asyncio.sleep(0)
        except (UnreadableRecords, UnreadableRecord) as error:
            logger.error("%s: nobody is served: %s", term.partition.topic_partition, error)
            term.coordinator.failed()
            return
        term.loading = None
        self._serve_when_committed(number, term)

    def _serve_when_committed(self, number: int, term: Term[C]) -> None:
        if self._terms.get(number) is term and self._is_ready(term):
            self._serve(number, term)

    @staticmethod
    def _is_ready(term: Term[C]) -> bool:
        is_read = term.loading is None and term.coordinator.phase is Phase.LOADING
        return is_read and term.partition.high_watermark >= term.log_end

    def _serve(self, number: int, term: Term[C]) -> None:
        term.coordinator.loaded()
        if term.log_end:
            logger.info("coordinator of %s-%d, which ended at %d", self.topic, number, term.log_end)

    def _end(self, number: int) -> None:
        term = self._terms.pop(number)
        if term.loading is not None:
            term.loading.cancel()
        term.log.progressed()  # whoever waits for a record is told that the term is over
        term.coordinator.end()

    def end(self) -> None:
        """The broker stops: no term begins after this."""
        self._has_ended = True
        for number in list(self._terms):
            self._end(number)

    # Timers

    def tick(self) -> None:
        for term in list(self._terms.values()):
            term.coordinator.tick()

    def expire(self) -> None:
        for term in list(self._terms.values()):
            term.coordinator.expire()
