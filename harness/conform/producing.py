"""Rows about producing: each field of the answer, what is refused, and that nothing that was refused is in the log."""

from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import ProduceRequest

from harness.conform.probe import ASK_S, CREATE_TIME, LATEST, Probe, Topic
from harness.conform.records import (
    ONE,
    PRODUCE_BY_NAME,
    PRODUCE_FROM,
    append,
    batch,
    fetch,
    fetched,
    most_for,
    now_ms,
    produce,
    produce_request,
    values_of,
)
from harness.conform.row import Looked, Need, Rows, only

_CORRUPT, _UNKNOWN_TOPIC, _NOT_LEADER, _TOO_LARGE, _INVALID_ACKS = 2, 3, 6, 10, 21
_LOG_START_FROM, _RECORD_ERRORS_FROM = 5, 8
_NOTHING = -1  # of an offset or a time in an answer
# A time in milliseconds that is none of a clock that runs: before 2000, after 2100.
_YEAR_2000_MS, _YEAR_2100_MS = 946_684_800_000, 4_102_444_800_000
_SMALL_BATCH_BYTES = 1024
_NO_SUCH_PARTITION = 99

_PRODUCE = (Need(api=ProduceRequest, version=PRODUCE_FROM),)
ROWS = Rows()


@ROWS.row(
    "produce",
    expected="offsets one after the other, log_append_time_ms -1, log_start_offset 0, no error",
    follows="KIP-32, KIP-98, KIP-107, KIP-467",
    needs=_PRODUCE,
)
async def _in_every_version(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic(settings=CREATE_TIME)
    versions = _versions(probe, topic)
    offset = 0
    for version in versions:
        answer = await produce(probe, topic, batch([b"a", b"b"], times=[now_ms(probe)] * 2), version=version)
        _fields(looked, answer, version, base_offset=offset, log_append_time_ms=_NOTHING, log_start_offset=0)
        offset += 2
    read = [record.value for record in fetched(await fetch(probe, topic, 0))]
    looked.same("records in the log", str(read), str([b"a", b"b"] * len(versions)))
    return f"versions {versions[0]} to {versions[-1]}, offsets 0 to {offset - 1}"


def _versions(probe: Probe, topic: Topic) -> range:
    return probe.versions(ProduceRequest, least=PRODUCE_FROM, most=most_for(topic, PRODUCE_BY_NAME), node=topic.leader)


def _fields(looked: Looked, answer: Any, version: int, **expected: int) -> None:
    """Of an answer to a batch that was taken."""
    at = f"version {version}, "
    looked.code(f"{at}error", answer.error_code)
    looked.same(f"{at}partition", answer.index, 0)
    for name, value in expected.items():
        if name != "log_start_offset" or version >= _LOG_START_FROM:
            looked.same(at + name, getattr(answer, name), value)
    if version >= _RECORD_ERRORS_FROM:
        looked.same(f"{at}record_errors", len(answer.record_errors or ()), 0)
        looked.same(f"{at}error_message", answer.error_message, None)


@ROWS.row(
    "produce-append-time",
    expected="with LogAppendTime log_append_time_ms is the record's time in the log",
    follows="KIP-32",
    needs=_PRODUCE,
)
async def _append_time(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic(settings={"message.timestamp.type": "LogAppendTime"})
    answer = await produce(probe, topic, batch([b"a"], times=[1]))
    looked.code("error", answer.error_code)
    answered_ms = int(answer.log_append_time_ms)
    looked.note(
        "log_append_time_ms", answered_ms, _YEAR_2000_MS < answered_ms < _YEAR_2100_MS, "milliseconds since 1970"
    )
    kept = [record.timestamp_ms for record in fetched(await fetch(probe, topic, 0))]
    looked.same("timestamp of the record that is read", str(kept), f"[{answered_ms}]")
    return "the time that the record has in the log"


@ROWS.row(
    "produce-acks-1",
    expected="the record's offset, and the record can be read",
    follows="Protocol guide, Produce",
    needs=_PRODUCE,
)
async def _acks_of_the_leader(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    answer = await produce(probe, topic, batch([b"a"], times=[now_ms(probe)]), acks=ONE)
    looked.code("error", answer.error_code)
    looked.same("base_offset", answer.base_offset, 0)
    read = await probe.becomes(lambda: fetch(probe, topic, 0), lambda each: bool(each.records))
    looked.same("records in the log", str(values_of(read)), "[(0, b'a')]")
    return "offset 0"


@ROWS.row(
    "produce-acks-0",
    expected="no answer, and the record can be read",
    follows="Protocol guide, Produce",
    needs=_PRODUCE,
)
async def _no_acks(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    connection = probe.connection(topic.leader)
    unanswered = produce_request(topic, batch([b"a"], times=[now_ms(probe)]), acks=0)
    version = probe.versions(ProduceRequest, least=PRODUCE_FROM, most=PRODUCE_BY_NAME, node=topic.leader)[-1]
    after = ApiVersionsRequest()
    frames = [connection.frame(unanswered, version), connection.frame(after, 0)]
    (answer,) = await connection.exchange(frames, answers=1, timeout_s=ASK_S, api="ApiVersionsRequest", version=0)
    came = int.from_bytes(answer[:4], "big", signed=True)
    looked.note("the first answer is for", came, came == after.header.correlation_id, "the request that followed")
    read = await probe.becomes(lambda: fetch(probe, topic, 0), lambda each: bool(each.records))
    looked.same("records in the log", str(values_of(read)), "[(0, b'a')]")
    return "no answer, and the record is in the log"


async def _refused(probe: Probe, looked: Looked, topic: Topic, what: str, answer: Any, *codes: int) -> None:
    """Nothing of it may be in the log."""
    looked.code(f"{what}, error", answer.error_code, *codes)
    end = await probe.list_offsets(topic, LATEST)
    looked.same(f"{what}, the log's end afterwards", end.offset, 1)


@ROWS.row(
    "produce-wrong-acks",
    expected="INVALID_REQUIRED_ACKS, and nothing in the log",
    follows="Protocol guide, Produce",
    needs=_PRODUCE,
)
async def _wrong_acks(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    await append(probe, topic, b"a")
    for acks in (2, -2):
        answer = await produce(probe, topic, batch([b"b"], times=[now_ms(probe)]), acks=acks)
        await _refused(probe, looked, topic, f"acks={acks}", answer, _INVALID_ACKS)
    return "INVALID_REQUIRED_ACKS, and nothing in the log"


@ROWS.row(
    "produce-damaged-batch",
    expected="CORRUPT_MESSAGE, and nothing in the log",
    follows="KIP-98, message format",
    needs=_PRODUCE,
)
async def _damaged(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    await append(probe, topic, b"a")
    damaged = bytearray(batch([b"value"], times=[now_ms(probe)]))
    damaged[-3] ^= 0xFF  # in the value, which the checksum covers
    answer = await produce(probe, topic, bytes(damaged))
    await _refused(probe, looked, topic, "a batch whose checksum is wrong", answer, _CORRUPT)
    return "CORRUPT_MESSAGE, and nothing in the log"


@ROWS.row(
    "produce-refused-fields",
    expected="base_offset, log_append_time_ms and log_start_offset of a refused batch are -1",
    follows="KIP-32, KIP-107",
    needs=_PRODUCE,
)
async def _refused_fields(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    damaged = bytearray(batch([b"value"], times=[now_ms(probe)]))
    damaged[-3] ^= 0xFF
    versions = _versions(probe, topic)
    for version in versions:
        answer = await produce(probe, topic, bytes(damaged), version=version)
        looked.code(f"version {version}, error", answer.error_code, _CORRUPT)
        looked.same(f"version {version}, base_offset", answer.base_offset, _NOTHING)
        looked.same(f"version {version}, log_append_time_ms", answer.log_append_time_ms, _NOTHING)
        if version >= _LOG_START_FROM:
            looked.same(f"version {version}, log_start_offset", answer.log_start_offset, _NOTHING)
    return f"versions {versions[0]} to {versions[-1]}, -1 each"


@ROWS.row(
    "produce-too-large",
    expected="MESSAGE_TOO_LARGE, and nothing in the log",
    follows="Topic configuration, max.message.bytes",
    needs=_PRODUCE,
)
async def _too_large(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic(settings={"max.message.bytes": str(_SMALL_BATCH_BYTES)})
    await append(probe, topic, b"a")
    answer = await produce(probe, topic, batch([b"x" * 2 * _SMALL_BATCH_BYTES], times=[now_ms(probe)]))
    await _refused(probe, looked, topic, "a batch above max.message.bytes", answer, _TOO_LARGE)
    return "MESSAGE_TOO_LARGE, and nothing in the log"


@ROWS.row(
    "produce-unknown-partition",
    expected="UNKNOWN_TOPIC_OR_PARTITION, and the topic is not made",
    follows="Protocol guide, Produce",
    needs=_PRODUCE,
)
async def _nowhere(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    content = batch([b"a"], times=[now_ms(probe)])
    unmade = Topic(name=probe.name("nobody-made-it"), topic_id=None, leader=topic.leader, epoch=-1)
    by_name = produce_request(unmade, content)
    version = probe.versions(ProduceRequest, least=PRODUCE_FROM, most=PRODUCE_BY_NAME, node=topic.leader)[-1]
    for what, request in (
        ("a topic that nobody made", by_name),
        ("a partition that the topic has not", produce_request(topic, content, partition=_NO_SUCH_PARTITION)),
    ):
        answer = await probe.ask(request, node=topic.leader, version=version)
        partition = only(only(answer.responses, "topics").partition_responses, "partitions")
        looked.code(f"{what}, error", partition.error_code, _UNKNOWN_TOPIC)
    looked.same("the topic afterwards", await probe.presence(unmade.name), "absent")
    return "UNKNOWN_TOPIC_OR_PARTITION, and the topic is not made"


@ROWS.row(
    "produce-not-leader",
    expected="NOT_LEADER_OR_FOLLOWER from another broker, and nothing in the log",
    follows="Protocol guide, Produce",
    needs=_PRODUCE,
    brokers=2,
)
async def _not_leader(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic(replicas=1)
    other = next(node for node in sorted(probe.addresses) if node != topic.leader)
    request = produce_request(topic, batch([b"a"], times=[now_ms(probe)]))
    version = probe.versions(ProduceRequest, least=PRODUCE_FROM, most=PRODUCE_BY_NAME, node=other)[-1]
    answer = await probe.ask(request, node=other, version=version)
    partition = only(only(answer.responses, "topics").partition_responses, "partitions")
    looked.code("error", partition.error_code, _NOT_LEADER)
    looked.same("the log's end afterwards", (await probe.list_offsets(topic, LATEST)).offset, 0)
    return "NOT_LEADER_OR_FOLLOWER, and nothing in the log"
