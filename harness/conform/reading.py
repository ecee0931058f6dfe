"""Rows about reading: what is told of a log's ends and times, held against the records that can be fetched."""

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.producer import ProduceRequest

from harness.conform.probe import CREATE_TIME, EARLIEST, LATEST, Probe, Topic
from harness.conform.records import (
    FETCH_BY_NAME,
    FETCH_FROM,
    PRODUCE_FROM,
    append,
    fetch,
    fetched,
    most_for,
    now_ms,
    values_of,
)
from harness.conform.row import Looked, Need, Rows, only

_OUT_OF_RANGE, _UNKNOWN_TOPIC, _UNKNOWN_EPOCH = 1, 3, 75
_MAX_TIMESTAMP, _MAX_TIMESTAMP_FROM = -3, 7
_NOTHING = -1
_VALUES = (b"v0", b"v1", b"v2", b"v3", b"v4", b"v5")
_BATCHES = ((b"v0", b"v1"), (b"v2", b"v3"), (b"v4", b"v5"))
_LOG_START_FROM = 5  # Fetch
_LISTED_FROM = 1  # before, ListOffsets told segments
_EPOCH_FETCH_FROM, _EPOCH_LIST_FROM = 9, 4  # KIP-320
_EPOCH_END_FROM = 2
_STEP_MS = 1000
_AHEAD = 1000

_WRITTEN = (Need(api=ProduceRequest, version=PRODUCE_FROM), Need(api=FetchRequest, version=FETCH_FROM))
_LISTED = (*_WRITTEN, Need(api=ListOffsetsRequest, version=_LISTED_FROM))
ROWS = Rows()


async def _filled(probe: Probe) -> Topic:
    topic = await probe.topic()
    for values in _BATCHES:
        await append(probe, topic, *values)
    return topic


@ROWS.row(
    "fetch",
    expected="the records that were written, from any offset on, and where they end",
    follows="Protocol guide, Fetch, KIP-98, KIP-107",
    needs=_WRITTEN,
)
async def _in_every_version(probe: Probe, looked: Looked) -> str:
    topic = await _filled(probe)
    versions = probe.versions(FetchRequest, least=FETCH_FROM, most=most_for(topic, FETCH_BY_NAME), node=topic.leader)
    expected = str(list(enumerate(_VALUES)))
    for version in versions:
        answer = await fetch(probe, topic, 0, version=version)
        at = f"version {version}, "
        looked.code(f"{at}error", answer.error_code)
        looked.same(f"{at}records", str(values_of(answer)), expected)
        looked.same(f"{at}high_watermark", answer.high_watermark, len(_VALUES))
        looked.same(f"{at}last_stable_offset", answer.last_stable_offset, len(_VALUES))
        if version >= _LOG_START_FROM:
            looked.same(f"{at}log_start_offset", answer.log_start_offset, 0)
        within = await fetch(probe, topic, 3, version=version)
        looked.same(f"{at}records from 3 on", str(values_of(within, start=3)), str(list(enumerate(_VALUES))[3:]))
    return f"versions {versions[0]} to {versions[-1]}, {len(_VALUES)} records"


@ROWS.row(
    "fetch-out-of-range",
    expected="nothing at the end, OFFSET_OUT_OF_RANGE beyond it",
    follows="Protocol guide, Fetch",
    needs=_WRITTEN,
)
async def _out_of_range(probe: Probe, looked: Looked) -> str:
    topic = await _filled(probe)
    at_end = await fetch(probe, topic, len(_VALUES))
    looked.code("at the end", at_end.error_code)
    looked.same("bytes at the end", len(at_end.records or b""), 0)
    beyond = await fetch(probe, topic, len(_VALUES) + 1)
    looked.code("beyond the end", beyond.error_code, _OUT_OF_RANGE)
    return "nothing at the end, OFFSET_OUT_OF_RANGE beyond it"


@ROWS.row(
    "fetch-large-batch",
    expected="the first batch as a whole, also where it is above partition_max_bytes",
    follows="KIP-74",
    needs=_WRITTEN,
)
async def _one_batch_at_least(probe: Probe, looked: Looked) -> str:
    topic = await _filled(probe)
    answer = await fetch(probe, topic, 2, partition_max_bytes=1)
    read = [value for _, value in values_of(answer, start=2)]
    looked.note("records with a limit of 1 byte", str(read), read[:2] == [b"v2", b"v3"], "the whole batch at least")
    return f"{len(read)} records"


@ROWS.row(
    "read-unknown-topic",
    expected="UNKNOWN_TOPIC_OR_PARTITION, and the topic is not made",
    follows="Protocol guide, Fetch, ListOffsets",
    needs=_LISTED,
)
async def _unknown(probe: Probe, looked: Looked) -> str:
    topic = await _filled(probe)
    unmade = Topic(name=probe.name("nobody-made-it"), topic_id=None, leader=topic.leader, epoch=-1)
    looked.code("fetching", (await fetch(probe, unmade, 0)).error_code, _UNKNOWN_TOPIC)
    looked.code("its end", (await probe.list_offsets(unmade, LATEST)).error_code, _UNKNOWN_TOPIC)
    looked.same("the topic afterwards", await probe.presence(unmade.name), "absent")
    return "UNKNOWN_TOPIC_OR_PARTITION, and the topic is not made"


@ROWS.row(
    "list-offsets",
    expected="earliest is the first record that can be fetched, latest the one after the last",
    follows="KIP-79",
    needs=_LISTED,
)
async def _ends(probe: Probe, looked: Looked) -> str:
    """Held against the records, not against what producing told."""
    topic = await _filled(probe)
    offsets = [record.offset for record in fetched(await fetch(probe, topic, 0))]
    only(offsets, "records")
    versions = probe.versions(ListOffsetsRequest, least=_LISTED_FROM, node=topic.leader)
    for version in versions:
        for what, timestamp, expected in (("earliest", EARLIEST, offsets[0]), ("latest", LATEST, offsets[-1] + 1)):
            answer = await probe.list_offsets(topic, timestamp, version=version)
            looked.code(f"version {version}, {what}, error", answer.error_code)
            looked.same(f"version {version}, {what}", answer.offset, expected)
    return f"versions {versions[0]} to {versions[-1]}, {offsets[0]} and {offsets[-1] + 1}"


@ROWS.row(
    "list-offsets-by-time",
    expected="the first record of that time or later, with its time; -1 where there is none",
    follows="KIP-79",
    needs=_LISTED,
)
async def _by_time(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic(settings=CREATE_TIME)
    base = now_ms(probe) - len(_VALUES) * _STEP_MS
    for number, values in enumerate(_BATCHES):
        first = base + 2 * number * _STEP_MS
        await append(probe, topic, *values, times=[first, first + _STEP_MS])
    versions = probe.versions(ListOffsetsRequest, least=_LISTED_FROM, node=topic.leader)
    last = len(_VALUES) - 1
    for what, time_ms, offset, time_there_ms in (
        ("before all", base - _STEP_MS, 0, base),
        ("the time of 3", base + 3 * _STEP_MS, 3, base + 3 * _STEP_MS),
        ("between 2 and 3", base + 2 * _STEP_MS + 1, 3, base + 3 * _STEP_MS),
        ("the time of the last", base + last * _STEP_MS, last, base + last * _STEP_MS),
        ("after all", base + last * _STEP_MS + 1, _NOTHING, _NOTHING),
    ):
        for version in versions:
            answer = await probe.list_offsets(topic, time_ms, version=version)
            looked.code(f"version {version}, {what}, error", answer.error_code)
            looked.same(f"version {version}, {what}, offset", answer.offset, offset)
            looked.same(f"version {version}, {what}, timestamp", answer.timestamp, time_there_ms)
    return f"versions {versions[0]} to {versions[-1]}, the first record of that time or later"


@ROWS.row(
    "list-offsets-youngest",
    expected="the record with the latest time",
    follows="KIP-734",
    needs=(*_LISTED, Need(api=ListOffsetsRequest, version=_MAX_TIMESTAMP_FROM)),
)
async def _youngest(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic(settings=CREATE_TIME)
    now = now_ms(probe)
    await append(probe, topic, b"v0", b"v1", times=[now - 3 * _STEP_MS, now - _STEP_MS])
    await append(probe, topic, b"v2", times=[now - 2 * _STEP_MS])
    versions = probe.versions(ListOffsetsRequest, least=_MAX_TIMESTAMP_FROM, node=topic.leader)
    for version in versions:
        answer = await probe.list_offsets(topic, _MAX_TIMESTAMP, version=version)
        looked.code(f"version {version}, error", answer.error_code)
        looked.same(f"version {version}, offset", answer.offset, 1)
        looked.same(f"version {version}, timestamp", answer.timestamp, now - _STEP_MS)
    return f"versions {versions[0]} to {versions[-1]}, offset 1 of 0 to 2"


@ROWS.row(
    "newer-leader-epoch",
    expected="UNKNOWN_LEADER_EPOCH for whoever knows a newer epoch than the leader",
    follows="KIP-320",
    needs=(
        Need(api=FetchRequest, version=_EPOCH_FETCH_FROM),
        Need(api=ListOffsetsRequest, version=_EPOCH_LIST_FROM),
    ),
)
async def _newer_epoch(probe: Probe, looked: Looked) -> str:
    topic = await _filled(probe)
    looked.note("leader_epoch in the metadata", topic.epoch, topic.epoch >= 0, "0 or more")
    ahead = topic.epoch + _AHEAD
    looked.code("fetching with the epoch", (await fetch(probe, topic, 0, epoch=topic.epoch)).error_code)
    looked.code("fetching with a newer one", (await fetch(probe, topic, 0, epoch=ahead)).error_code, _UNKNOWN_EPOCH)
    listed = await probe.list_offsets(topic, LATEST, epoch=ahead)
    looked.code("the end with a newer one", listed.error_code, _UNKNOWN_EPOCH)
    return f"UNKNOWN_LEADER_EPOCH; the leader's is {topic.epoch}"


@ROWS.row(
    "epoch-end",
    expected="the leader's epoch ends at the log's end, a later one nowhere",
    follows="KIP-101, KIP-320",
    needs=(*_WRITTEN, Need(api=OffsetForLeaderEpochRequest, version=_EPOCH_END_FROM)),
)
async def _epoch_end(probe: Probe, looked: Looked) -> str:
    topic = await _filled(probe)
    kinds = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    versions = probe.versions(OffsetForLeaderEpochRequest, least=_EPOCH_END_FROM, node=topic.leader)
    for version in versions:
        for what, epoch, end in (("its epoch", topic.epoch, len(_VALUES)), ("a later one", topic.epoch + _AHEAD, -1)):
            wanted = kinds.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
            request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[kinds(topic=topic.name, partitions=[wanted])])
            answer = await probe.ask(request, node=topic.leader, version=version)
            found = only(only(answer.topics, "topics").partitions, "partitions")
            looked.code(f"version {version}, {what}, error", found.error_code)
            looked.same(f"version {version}, {what}, end_offset", found.end_offset, end)
    return f"versions {versions[0]} to {versions[-1]}, {len(_VALUES)}"
