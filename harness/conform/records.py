"""Record batches of a row's own, produced and fetched: what is sent to the byte, what a reader makes of the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from harness.cluster.record_batches import StoredRecord, stored_records
from harness.conform.probe import ASK_S, Probe, Topic
from harness.conform.row import AnsweredNothing, Undecided, only
from harness.history.facts.error_codes import error_code

_MAGIC = 2
_BATCH_BYTES = 1 << 20
_NANOSECONDS_IN_MS = 1_000_000
_WAIT_MS = 300
ALL, ONE = -1, 1  # acks
PRODUCE_FROM, FETCH_FROM = 3, 4  # the versions that have batches with producers (KIP-98)
# Above, topics have ids in place of names.
PRODUCE_BY_NAME, FETCH_BY_NAME = 12, 12
# Above, a transaction's partitions are added by the producing itself (KIP-890).
TRANSACTIONAL_PRODUCE = 11
_NOT_ENOUGH_REPLICAS, _INVALID_TIMESTAMP = 19, 32


@dataclass(frozen=True, kw_only=True)
class Producer:
    producer_id: int
    epoch: int
    transactional_id: str | None = None


NOBODY = Producer(producer_id=-1, epoch=-1)


def batch(values: Sequence[bytes], *, producer: Producer = NOBODY, sequence: int = -1, times: Sequence[int]) -> bytes:
    """One batch of magic 2. `times`: milliseconds, one for each value."""
    builder = DefaultRecordBatchBuilder(
        magic=_MAGIC,
        compression_type=0,
        is_transactional=producer.transactional_id is not None,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        batch_size=_BATCH_BYTES,
    )
    for offset, (value, time_ms) in enumerate(zip(values, times, strict=True)):
        builder.append(offset, time_ms, None, value, [])
    return bytes(builder.build())


def now_ms(probe: Probe) -> int:
    return probe.clock.wall_ns() // _NANOSECONDS_IN_MS


def produce_request(
    topic: Topic, content: bytes, *, acks: int = ALL, partition: int = 0, transactional_id: str | None = None
) -> Any:
    kinds = ProduceRequest.TopicProduceData
    data = kinds.PartitionProduceData(index=partition, records=content)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=int(1000 * ASK_S / 2),
        topic_data=[kinds(name=topic.name, partition_data=[data], **topic.id_field)],
    )


async def produce(
    probe: Probe,
    topic: Topic,
    content: bytes,
    *,
    acks: int = ALL,
    partition: int = 0,
    version: int | None = None,
    transactional_id: str | None = None,
) -> Any:
    """The answer for the partition. In-sync replicas that are still joining are waited for."""
    request = produce_request(topic, content, acks=acks, partition=partition, transactional_id=transactional_id)
    most = PRODUCE_BY_NAME if transactional_id is None else TRANSACTIONAL_PRODUCE
    if version is None:
        version = probe.versions(ProduceRequest, least=PRODUCE_FROM, most=most, node=topic.leader)[-1]

    async def ask() -> Any:
        answer = await probe.ask(request, node=topic.leader, version=version)
        return only(only(answer.responses, "topics").partition_responses, "partitions")

    answer = await probe.settled(ask, lambda each: int(each.error_code), also=frozenset({_NOT_ENOUGH_REPLICAS}))
    if answer.error_code == _INVALID_TIMESTAMP:
        raise Undecided(
            "records of now are not taken for their time: are this machine's and the brokers' clocks apart?"
        )
    return answer


async def append(probe: Probe, topic: Topic, *values: bytes, times: Sequence[int] | None = None) -> int:
    """Appends one batch of records that are there to be asked about; returns its first offset. Raises Undecided."""
    stamps = [now_ms(probe)] * len(values) if times is None else times
    answer = await produce(probe, topic, batch(values, times=stamps))
    if answer.error_code:
        raise Undecided(f"a batch was refused: {error_code(answer.error_code)}")
    return int(answer.base_offset)


async def fetch(
    probe: Probe,
    topic: Topic,
    offset: int,
    *,
    version: int | None = None,
    committed: bool = False,
    partition_max_bytes: int = _BATCH_BYTES,
    epoch: int = -1,
) -> Any:
    """The answer for the partition, as clients ask for it: for records at once, and for nothing after a while."""
    kinds = FetchRequest.FetchTopic
    wanted = kinds.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=partition_max_bytes,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=_BATCH_BYTES,
        isolation_level=int(committed),
        session_id=0,
        session_epoch=-1,  # no session
        topics=[kinds(topic=topic.name, partitions=[wanted], **topic.id_field)],
        forgotten_topics_data=[],
    )
    if version is None:
        version = probe.versions(FetchRequest, least=FETCH_FROM, most=FETCH_BY_NAME, node=topic.leader)[-1]

    async def ask() -> Any:
        answer = await probe.ask(request, node=topic.leader, version=version)
        if getattr(answer, "error_code", 0):
            return answer
        return only(only(answer.responses, "topics").partitions, "partitions")

    return await probe.settled(ask, lambda each: int(each.error_code))


def fetched(answer: Any) -> list[StoredRecord]:
    """All that the answer has, markers of transactions too. Raises AnsweredNothing for batches that hold no records."""
    try:
        return list(stored_records(bytes(answer.records or b"")))
    except ValueError as error:
        raise AnsweredNothing(str(error)) from None


def values_of(answer: Any, *, start: int = 0) -> list[tuple[int, bytes]]:
    """(offset, value) of what a reader from `start` is given: whole batches are answered, aborted records are dropped
    by the reader (KIP-98)."""
    aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
    dropped: set[int | None] = set()
    found = []
    for record in fetched(answer):
        while aborted and aborted[0][0] <= record.offset:
            dropped.add(aborted.pop(0)[1])
        if record.control:
            dropped.discard(record.producer_id)
        elif record.offset >= start and not (record.transactional and record.producer_id in dropped):
            found.append((record.offset, record.value or b""))
    return found


def most_for(topic: Topic, by_name: int) -> int:
    """The highest version in which the topic can be named: by its id, if it has one."""
    return by_name if topic.topic_id is None else 99
