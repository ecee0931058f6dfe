"""Rows about idempotent producers: a batch that is sent again is there once, and none is taken out of its order."""

from typing import Any

from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from harness.conform.probe import LATEST, Probe, Topic
from harness.conform.records import PRODUCE_FROM, Producer, batch, fetch, now_ms, produce, values_of
from harness.conform.row import Looked, Need, Rows, Undecided
from harness.history.facts.error_codes import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    error_code,
)

KEPT_BATCHES = 5  # of each producer, so many may be under way at a time
_IDS_MOST = 5
_IN_BATCH = 2

_IDEMPOTENT = (Need(api=ProduceRequest, version=PRODUCE_FROM), Need(api=InitProducerIdRequest))
ROWS = Rows()


async def new_producer(probe: Probe, topic: Topic) -> Producer:
    """Raises Undecided if there is no id to be had."""
    answer = await _init(probe, topic)
    if answer.error_code:
        raise Undecided(f"no producer id is given: {error_code(answer.error_code)}")
    return Producer(producer_id=answer.producer_id, epoch=answer.producer_epoch)


async def _init(probe: Probe, topic: Topic, *, version: int | None = None) -> Any:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )

    async def ask() -> Any:
        return await probe.ask(request, node=topic.leader, version=version, most=_IDS_MOST)

    return await probe.settled(ask, lambda each: int(each.error_code))


async def _send(probe: Probe, topic: Topic, producer: Producer, sequence: int) -> Any:
    """Batch number N has the values that say so: sequences and values tell the same place."""
    values = [f"s{sequence + place}".encode() for place in range(_IN_BATCH)]
    content = batch(values, producer=producer, sequence=sequence, times=[now_ms(probe)] * _IN_BATCH)
    return await produce(probe, topic, content)


async def _in_log(probe: Probe, topic: Topic) -> str:
    return " ".join(value.decode() for _, value in values_of(await fetch(probe, topic, 0)))


@ROWS.row(
    "producer-ids",
    expected="a new id with epoch 0 for everybody who asks",
    follows="KIP-98",
    needs=(Need(api=InitProducerIdRequest),),
)
async def _ids(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    versions = probe.versions(InitProducerIdRequest, most=_IDS_MOST, node=topic.leader)
    ids = []
    for version in [*versions, versions[-1]]:
        answer = await _init(probe, topic, version=version)
        looked.code(f"version {version}, error", answer.error_code)
        looked.note(f"version {version}, producer_id", answer.producer_id, answer.producer_id >= 0, "0 or more")
        looked.same(f"version {version}, producer_epoch", answer.producer_epoch, 0)
        ids.append(answer.producer_id)
    looked.same("ids that were given twice", len(ids) - len(set(ids)), 0)
    return f"versions {versions[0]} to {versions[-1]}, {len(ids)} different ids"


@ROWS.row(
    "duplicate-batch",
    expected="each of the last five batches, sent again, is there once and answered with its offset",
    follows="KIP-98, KAFKA-5494",
    needs=_IDEMPOTENT,
)
async def _duplicates(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    producer = await new_producer(probe, topic)
    sequences = range(0, KEPT_BATCHES * _IN_BATCH, _IN_BATCH)
    for sequence in sequences:
        first = await _send(probe, topic, producer, sequence)
        looked.code(f"sequence {sequence}, error", first.error_code)
        looked.same(f"sequence {sequence}, base_offset", first.base_offset, sequence)
    probe.close()  # who sends again does so on another connection
    for sequence in sequences:
        again = await _send(probe, topic, producer, sequence)
        if looked.code(f"sequence {sequence} again, error", again.error_code, 0, DUPLICATE_SEQUENCE_NUMBER) and not (
            again.error_code
        ):
            looked.same(f"sequence {sequence} again, base_offset", again.base_offset, sequence)
    wanted = " ".join(f"s{number}" for number in range(KEPT_BATCHES * _IN_BATCH))
    looked.same("records in the log", await _in_log(probe, topic), wanted)
    return f"{KEPT_BATCHES} batches are there once, and each is answered with its offset"


@ROWS.row(
    "out-of-order-sequence",
    expected="OUT_OF_ORDER_SEQUENCE_NUMBER, nothing in the log; the batch that is due is taken",
    follows="KIP-98",
    needs=_IDEMPOTENT,
)
async def _out_of_order(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    producer = await new_producer(probe, topic)
    looked.code("the first batch", (await _send(probe, topic, producer, 0)).error_code)
    ahead = await _send(probe, topic, producer, 3 * _IN_BATCH)
    looked.code("a batch that leaves others out", ahead.error_code, OUT_OF_ORDER_SEQUENCE_NUMBER)
    looked.same("the log's end afterwards", (await probe.list_offsets(topic, LATEST)).offset, _IN_BATCH)
    due = await _send(probe, topic, producer, _IN_BATCH)
    looked.code("the batch that is due", due.error_code)
    looked.same("its base_offset", due.base_offset, _IN_BATCH)
    return "OUT_OF_ORDER_SEQUENCE_NUMBER, nothing in the log; the batch that is due is taken"


@ROWS.row(
    "old-producer-epoch",
    expected="a batch of an epoch that a newer one replaced is refused, and not in the log",
    follows="KIP-98, KIP-360",
    needs=_IDEMPOTENT,
)
async def _old_epoch(probe: Probe, looked: Looked) -> str:
    """An idempotent producer raises its epoch itself (KIP-360), and begins with sequence 0 then."""
    topic = await probe.topic()
    old = await new_producer(probe, topic)
    looked.code("the first batch", (await _send(probe, topic, old, 0)).error_code)
    new = Producer(producer_id=old.producer_id, epoch=old.epoch + 1)
    looked.code("a batch of the next epoch", (await _send(probe, topic, new, 0)).error_code)
    refused = await _send(probe, topic, old, _IN_BATCH)
    looked.code("a batch of the old epoch", refused.error_code, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)
    looked.same("the log's end afterwards", (await probe.list_offsets(topic, LATEST)).offset, 2 * _IN_BATCH)
    return f"{error_code(refused.error_code)}, and nothing in the log"
