"""Rows about transactions: what readers see before, after a commit and after an abort, and who is fenced.

The partitions are added before they are written to, as all clients did before KIP-890, and as brokers still take it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from harness.conform.client_versions import TRANSACTIONS
from harness.conform.groups import committed, new_member
from harness.conform.probe import LATEST, TRANSACTION, Probe, Topic
from harness.conform.records import PRODUCE_FROM, Producer, append, batch, fetch, now_ms, produce, values_of
from harness.conform.row import Looked, Need, Rows, Undecided, only
from harness.history.facts.error_codes import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, error_code
from harness.ports.cluster import NodeId

_UNKNOWN_TOPIC, _INVALID_STATE, _INVALID_MAPPING, _INVALID_TIMEOUT, _UNSTABLE = 3, 48, 49, 50, 88
_TIMEOUT_MS = 60_000
# Above, a transaction's end gives its producer another epoch, and adding partitions is for brokers alone (KIP-890).
_INIT_MOST, _ADD_MOST, _END_MOST, _OFFSETS_MOST = 5, 3, 4, 4
_STABLE_FROM = 7  # OffsetFetch (KIP-447)
_BATCH = (b"t0", b"t1")

_NEEDS = (
    Need(api=FindCoordinatorRequest, version=TRANSACTION),
    Need(api=InitProducerIdRequest),
    Need(api=ProduceRequest, version=PRODUCE_FROM),
    *(Need(api=api) for api in TRANSACTIONS),
)
ROWS = Rows()


@dataclass(kw_only=True)
class Transactional:
    """A producer of a row's own, at its coordinator."""

    probe: Probe
    transactional_id: str
    node: NodeId
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0

    async def request_id(self, *, timeout_ms: int = _TIMEOUT_MS, version: int | None = None) -> Any:
        """As a new incarnation: it names no id of before."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )

        async def ask() -> Any:
            return await self.probe.ask(request, node=self.node, version=version, most=_INIT_MOST)

        return await self.probe.settled(ask, lambda each: int(each.error_code))

    async def begin(self) -> "Transactional":
        """Raises Undecided if there is no id to be had."""
        answer = await self.request_id()
        if answer.error_code:
            raise Undecided(f"no producer id is given: {error_code(answer.error_code)}")
        self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return self

    async def add(self, name: str) -> int:
        kinds = AddPartitionsToTxnRequest
        request = kinds(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[kinds.AddPartitionsToTxnTopic(name=name, partitions=[0])],
        )

        async def ask() -> Any:
            answer = await self.probe.ask(request, node=self.node, most=_ADD_MOST)
            topics = only(answer.results_by_topic_v3_and_below, "topics")
            return only(topics.results_by_partition, "partitions")

        answer = await self.probe.settled(ask, lambda each: int(each.partition_error_code))
        return int(answer.partition_error_code)

    async def send(self, topic: Topic, *values: bytes) -> Any:
        producer = Producer(producer_id=self.producer_id, epoch=self.epoch, transactional_id=self.transactional_id)
        content = batch(values, producer=producer, sequence=self.sequence, times=[now_ms(self.probe)] * len(values))
        answer = await produce(self.probe, topic, content, transactional_id=self.transactional_id)
        if not answer.error_code:
            self.sequence += len(values)
        return answer

    async def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )

        async def ask() -> Any:
            return await self.probe.ask(request, node=self.node, most=_END_MOST)

        return int((await self.probe.settled(ask, lambda each: int(each.error_code))).error_code)


async def _producer(probe: Probe, purpose: str = "id") -> Transactional:
    """Which has no producer id yet."""
    name = probe.name(purpose)
    return Transactional(probe=probe, transactional_id=name, node=await probe.coordinator(name, TRANSACTION))


async def _open(probe: Probe, looked: Looked) -> tuple[Topic, Transactional]:
    """One committed record, and two of an open transaction behind it."""
    topic = await probe.topic()
    await append(probe, topic, b"before")
    producer = await (await _producer(probe)).begin()
    looked.code("adding the partition", await producer.add(topic.name))
    sent = await producer.send(topic, *_BATCH)
    looked.code("producing", sent.error_code)
    looked.same("base_offset", sent.base_offset, 1)
    return topic, producer


async def _sees(probe: Probe, looked: Looked, topic: Topic, when: str, *, committed_too: bool, wanted: str) -> None:
    found = await fetch(probe, topic, 0, committed=committed_too)
    reader = "read_committed" if committed_too else "read_uncommitted"
    looked.same(f"{when}, {reader}", " ".join(value.decode() for _, value in values_of(found)), wanted)


@ROWS.row(
    "transactional-ids",
    expected="a newer epoch, or another producer id, each time that a producer begins",
    follows="KIP-98, KIP-360",
    needs=_NEEDS,
)
async def _ids(probe: Probe, looked: Looked) -> str:
    producer = await _producer(probe)
    versions = probe.versions(InitProducerIdRequest, most=_INIT_MOST, node=producer.node)
    before: tuple[int, int] | None = None
    for version in versions:
        answer = await producer.request_id(version=version)
        looked.code(f"version {version}, error", answer.error_code)
        looked.note(f"version {version}, producer_id", answer.producer_id, answer.producer_id >= 0, "0 or more")
        if before is not None:
            newer = answer.producer_id != before[0] or answer.producer_epoch > before[1]
            looked.note(f"version {version}, epoch", answer.producer_epoch, newer, f"above {before[1]}, or another id")
        before = answer.producer_id, answer.producer_epoch
    return f"versions {versions[0]} to {versions[-1]}, an epoch each"


@ROWS.row(
    "open-transaction",
    expected="read_committed and last_stable_offset end before it; read_uncommitted has all",
    follows="KIP-98",
    needs=_NEEDS,
)
async def _unseen(probe: Probe, looked: Looked) -> str:
    topic, producer = await _open(probe, looked)
    await append(probe, topic, b"behind")
    await _sees(probe, looked, topic, "open", committed_too=True, wanted="before")
    await _sees(probe, looked, topic, "open", committed_too=False, wanted="before t0 t1 behind")
    stable = int((await fetch(probe, topic, 0, committed=True)).last_stable_offset)
    looked.same("last_stable_offset", stable, 1)
    looked.same("latest, read_uncommitted", (await probe.list_offsets(topic, LATEST)).offset, 4)
    looked.same("latest, read_committed", (await probe.list_offsets(topic, LATEST, committed=True)).offset, 1)
    await producer.end(commit=False)
    return "read_committed ends before it, read_uncommitted has all"


async def _until_stable(probe: Probe, looked: Looked, topic: Topic) -> None:
    """A transaction's end is answered before its markers are written."""

    async def ask() -> Any:
        return await fetch(probe, topic, 0, committed=True)

    found = await probe.becomes(ask, lambda each: bool(each.last_stable_offset >= each.high_watermark > 3))
    looked.note(
        "last_stable_offset afterwards", found.last_stable_offset, found.last_stable_offset > 3, "behind the marker"
    )
    latest = await probe.list_offsets(topic, LATEST, committed=True)
    looked.same("latest, read_committed", latest.offset, found.last_stable_offset)


@ROWS.row(
    "committed-transaction",
    expected="read_committed has its records, and those of the next one",
    follows="KIP-98",
    needs=_NEEDS,
)
async def _commits(probe: Probe, looked: Looked) -> str:
    topic, producer = await _open(probe, looked)
    looked.code("the commit", await producer.end(commit=True))
    await _until_stable(probe, looked, topic)
    await _sees(probe, looked, topic, "committed", committed_too=True, wanted="before t0 t1")
    looked.code("the next transaction, adding the partition", await producer.add(topic.name))
    looked.code("producing in it", (await producer.send(topic, b"t2")).error_code)
    looked.code("its commit", await producer.end(commit=True))

    async def ask() -> str:
        found = values_of(await fetch(probe, topic, 0, committed=True))
        return " ".join(value.decode() for _, value in found)

    wanted = "before t0 t1 t2"
    looked.same("read_committed after both", await probe.becomes(ask, lambda seen: seen == wanted), wanted)
    return "read_committed has both transactions"


@ROWS.row(
    "aborted-transaction",
    expected="aborted_transactions names it, and read_committed has none of its records",
    follows="KIP-98",
    needs=_NEEDS,
)
async def _aborts(probe: Probe, looked: Looked) -> str:
    topic, producer = await _open(probe, looked)
    looked.code("the abort", await producer.end(commit=False))
    await _until_stable(probe, looked, topic)
    await _sees(probe, looked, topic, "aborted", committed_too=True, wanted="before")
    await _sees(probe, looked, topic, "aborted", committed_too=False, wanted="before t0 t1")
    found = await fetch(probe, topic, 0, committed=True)
    aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
    looked.same("aborted_transactions", str(aborted), str([(producer.producer_id, 1)]))
    return "read_committed is told which records to leave out"


@ROWS.row(
    "fenced-producer",
    expected="a second producer of the id aborts the first one's transaction, and the first is refused",
    follows="KIP-98, KIP-360, KIP-588",
    needs=_NEEDS,
)
async def _fenced(probe: Probe, looked: Looked) -> str:
    topic, old = await _open(probe, looked)
    new = await Transactional(probe=probe, transactional_id=old.transactional_id, node=old.node).begin()
    newer = new.producer_id != old.producer_id or new.epoch > old.epoch
    looked.note("the second producer's epoch", new.epoch, newer, f"above {old.epoch}, or another id")
    await _until_stable(probe, looked, topic)
    await _sees(probe, looked, topic, "the first one's transaction", committed_too=True, wanted="before")
    end = (await probe.list_offsets(topic, LATEST)).offset
    refused = INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
    late = await old.send(topic, b"late")  # brokers may ask the coordinator first, which has no such transaction
    looked.code("the first one's next batch", late.error_code, *refused, _INVALID_STATE)
    looked.code("adding a partition", await old.add(topic.name), *refused)
    looked.code("its commit", await old.end(commit=True), *refused)
    looked.same("the log's end afterwards", (await probe.list_offsets(topic, LATEST)).offset, end)
    return f"epoch {new.epoch}; the first one's transaction is aborted, and it is refused"


@ROWS.row(
    "transaction-offsets",
    expected="a group's offset is told after its transaction's commit alone",
    follows="KIP-98, KIP-447",
    needs=(
        *_NEEDS,
        Need(api=AddOffsetsToTxnRequest),
        Need(api=TxnOffsetCommitRequest),
        Need(api=OffsetFetchRequest, version=1),
    ),
)
async def _offsets(probe: Probe, looked: Looked) -> str:
    topic, member = await probe.topic(), await new_member(probe)
    producer = await (await _producer(probe)).begin()

    async def stored() -> int:
        return int((await committed(probe, member.group, member.node, topic)).offset)

    for commit, offset, after in ((False, 5, -1), (True, 7, 7)):
        when = "commit" if commit else "abort"
        code, found = await _commit_offset(probe, looked, producer, member.group, member.node, topic, offset)
        looked.code(f"committing the offset, before the {when}", code)
        if found is not None:
            looked.code("fetching stable offsets meanwhile", found, _UNSTABLE)
        looked.same(f"the offset before the {when}", await stored(), -1)
        looked.code(f"the {when}", await producer.end(commit=commit))
        looked.same(f"the offset after the {when}", await probe.becomes(stored, partial(int.__eq__, after)), after)
        if not commit:
            await _settled(probe, member.group, member.node, topic)
    return "told after the commit alone"


async def _commit_offset(
    probe: Probe, looked: Looked, producer: Transactional, group: str, node: NodeId, topic: Topic, offset: int
) -> tuple[int, int | None]:
    """(the commit's error, what fetching stable offsets is answered, where that can be asked)"""
    adding = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )

    async def add() -> Any:
        return await probe.ask(adding, node=producer.node, most=_OFFSETS_MOST)

    looked.code("adding the group", (await probe.settled(add, lambda each: int(each.error_code))).error_code)
    kinds = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    partition = kinds.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
    )
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[kinds(name=topic.name, partitions=[partition])],
    )

    async def ask() -> Any:
        answer = await probe.ask(request, node=node, most=_OFFSETS_MOST)
        return only(only(answer.topics, "topics").partitions, "partitions")

    code = int((await probe.settled(ask, lambda each: int(each.error_code))).error_code)
    if probe.offered(node)[OffsetFetchRequest.API_KEY][1] < _STABLE_FROM:
        return code, None
    return code, int((await committed(probe, group, node, topic, stable=True)).error_code)


async def _settled(probe: Probe, group: str, node: NodeId, topic: Topic) -> None:
    """An abort is answered before the group's coordinator has its marker."""
    if probe.offered(node)[OffsetFetchRequest.API_KEY][1] >= _STABLE_FROM:
        await probe.becomes(
            lambda: committed(probe, group, node, topic, stable=True), lambda each: each.error_code != _UNSTABLE
        )


@ROWS.row(
    "transaction-refused",
    expected="a wrong state, timeout, producer id or topic is refused with its error",
    follows="KIP-98",
    needs=_NEEDS,
)
async def _refused(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    fresh = await _producer(probe, "fresh")
    looked.code("a timeout of 0", (await fresh.request_id(timeout_ms=0)).error_code, _INVALID_TIMEOUT)
    producer = await (await _producer(probe)).begin()
    looked.code("a commit of nothing", await producer.end(commit=True), _INVALID_STATE)
    unmade = probe.name("nobody-made-it")
    looked.code("adding a topic that nobody made", await producer.add(unmade), _UNKNOWN_TOPIC)
    stranger = Transactional(probe=probe, transactional_id=producer.transactional_id, node=producer.node)
    stranger.producer_id, stranger.epoch = producer.producer_id + 1, producer.epoch
    looked.code("another producer's id", await stranger.add(topic.name), _INVALID_MAPPING)
    looked.same("the topic afterwards", await probe.presence(unmade), "absent")
    return "each with its error"
