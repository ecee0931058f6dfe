"""Rows about topics: that they are made as they were wanted, refused where they cannot be, and gone when deleted."""

from functools import partial
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from harness.cluster.books.observing import known_id
from harness.conform.probe import CREATE_TOPICS_MOST, Probe
from harness.conform.row import Looked, Need, NotOffered, Rows, only
from harness.ports.cluster import TopicDefinition

_UNKNOWN_TOPIC, _INVALID_TOPIC, _EXISTS, _INVALID_PARTITIONS = 3, 17, 36, 37
_INVALID_REPLICATION_FACTOR, _INVALID_CONFIG, _DELETION_DISABLED = 38, 40, 73
_PARTITIONS = 3
_COUNTS_FROM, _IDS_FROM = 5, 7  # CreateTopics (KIP-525, KIP-516)
_DELETE_MOST = 5  # above, topics may be named by their ids
_NOT_ASKED_TO_CREATE_FROM = 4  # Metadata
_METADATA_MOST = 12
_VALIDATES_FROM = 1
_TOPIC_RESOURCE = 2
_SETTING = ("retention.ms", "7654321")

_CREATE = Need(api=CreateTopicsRequest)
ROWS = Rows()


def _definition(probe: Probe, purpose: str, **changes: Any) -> TopicDefinition:
    wanted = {"partitions": 1, "replication_factor": probe.replicas, **changes}
    return TopicDefinition(name=probe.name(purpose), **wanted)


@ROWS.row(
    "metadata-unknown-topic",
    expected="UNKNOWN_TOPIC_OR_PARTITION, and the topic is not made unasked",
    follows="KIP-204, Protocol guide, Metadata",
    needs=(Need(api=MetadataRequest, version=_NOT_ASKED_TO_CREATE_FROM),),
)
async def _unknown(probe: Probe, looked: Looked) -> str:
    name = probe.name("nobody-made-it")
    wanted = [MetadataRequest.MetadataRequestTopic(name=name)]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    versions = probe.versions(MetadataRequest, least=_NOT_ASKED_TO_CREATE_FROM, most=_METADATA_MOST)
    for version in [*versions, versions[-1]]:  # once more: it was not made by having been asked for
        answer = await probe.ask(request, node=probe.first, version=version)
        topic = only(answer.topics, "topics")
        looked.code(f"version {version}, error", topic.error_code, _UNKNOWN_TOPIC)
        looked.same(f"version {version}, the topic's name", topic.name, name)
    return f"versions {versions[0]} to {versions[-1]}"


@ROWS.row(
    "create-topic",
    expected="the topic with its partitions, replicas and id, in the metadata too",
    follows="KIP-4, KIP-525, KIP-516",
    needs=(_CREATE,),
)
async def _created(probe: Probe, looked: Looked) -> str:
    """Who may not see settings is told no numbers (topic_config_error_code)."""
    versions = probe.versions(CreateTopicsRequest, most=CREATE_TOPICS_MOST, node=await probe.controller())
    for version in versions:
        wanted = _definition(probe, f"version-{version}", partitions=_PARTITIONS)
        made = await probe.request_creation(wanted, version=version)
        at = f"version {version}, "
        looked.code(f"{at}error", made.error_code)
        looked.same(f"{at}the topic's name", made.name, wanted.name)
        if version >= _COUNTS_FROM and not made.topic_config_error_code:
            looked.same(f"{at}partitions", made.num_partitions, _PARTITIONS)
            looked.same(f"{at}replicas", made.replication_factor, probe.replicas)
        seen = await probe.becomes(partial(probe.metadata_of, wanted.name), _is_whole)
        looked.same(f"{at}partitions in the metadata", len(seen.partitions), _PARTITIONS)
        replicas = {len(each.replica_nodes) for each in seen.partitions}
        looked.same(f"{at}replicas in the metadata", str(sorted(replicas)), f"[{probe.replicas}]")
        if version >= _IDS_FROM and hasattr(seen, "topic_id"):
            looked.same(f"{at}the topic's id in the metadata", str(known_id(seen)), str(known_id(made)))
    return f"versions {versions[0]} to {versions[-1]}"


def _is_whole(topic: Any) -> bool:
    return len(topic.partitions) == _PARTITIONS and all(each.leader_id >= 0 for each in topic.partitions)


@ROWS.row(
    "create-topic-twice",
    expected="TOPIC_ALREADY_EXISTS, and the topic stays as it was",
    follows="KIP-4",
    needs=(_CREATE,),
)
async def _exists(probe: Probe, looked: Looked) -> str:
    topic = await probe.topic()
    again = TopicDefinition(name=topic.name, partitions=_PARTITIONS, replication_factor=probe.replicas)
    looked.code("the second creation", (await probe.request_creation(again)).error_code, _EXISTS)
    looked.same("partitions afterwards", len((await probe.metadata_of(topic.name)).partitions), 1)
    return "TOPIC_ALREADY_EXISTS, and the topic stays as it was"


@ROWS.row(
    "create-topic-refused",
    expected="what cannot be is refused with its error, and not made",
    follows="KIP-4",
    needs=(_CREATE,),
)
async def _refused(probe: Probe, looked: Looked) -> str:
    wrong = {
        "a name with a slash": (_definition(probe, "a/b"), _INVALID_TOPIC),
        "no partition": (_definition(probe, "none", partitions=-5), _INVALID_PARTITIONS),
        "more replicas than brokers": (
            _definition(probe, "many", replication_factor=len(probe.addresses) + 1),
            _INVALID_REPLICATION_FACTOR,
        ),
        "a setting that Kafka does not have": (_definition(probe, "odd", settings={"no.such": "1"}), _INVALID_CONFIG),
    }
    for what, (wanted, code) in wrong.items():
        looked.code(what, (await probe.request_creation(wanted)).error_code, code)
    for what, (wanted, _) in wrong.items():
        if "/" not in wanted.name:
            looked.same(f"{what}, the topic afterwards", await probe.presence(wanted.name), "absent")
    return f"{len(wrong)} wrong topics are refused, and not made"


@ROWS.row(
    "create-topic-tried",
    expected="validate_only makes nothing",
    follows="KIP-4",
    needs=(Need(api=CreateTopicsRequest, version=_VALIDATES_FROM),),
)
async def _validated(probe: Probe, looked: Looked) -> str:
    wanted = _definition(probe, "tried")
    looked.code("the creation that is only tried", (await probe.request_creation(wanted, validate=True)).error_code)
    looked.same("the topic afterwards", await probe.presence(wanted.name), "absent")
    looked.code("the creation", (await probe.request_creation(wanted)).error_code)
    return "nothing is made, and the same is made afterwards"


@ROWS.row(
    "topic-settings",
    expected="a setting of a new topic is told, and none that was not asked for",
    follows="KIP-133",
    needs=(_CREATE, Need(api=DescribeConfigsRequest)),
)
async def _settings(probe: Probe, looked: Looked) -> str:
    key, value = _SETTING
    topic = await probe.topic(settings={key: value})
    kinds = DescribeConfigsRequest
    resource = kinds.DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic.name, configuration_keys=[key]
    )
    request = kinds(resources=[resource], include_synonyms=False, include_documentation=False)
    versions = probe.versions(kinds)
    for version in versions:
        answer = await probe.ask(request, node=probe.first, version=version)
        result = only(answer.results, "resources")
        looked.code(f"version {version}, error", result.error_code)
        answered = {each.name: each.value for each in result.configs}
        looked.same(f"version {version}, {key}", answered.get(key), value)
        looked.same(f"version {version}, settings that were not asked for", len(set(answered) - {key}), 0)
    return f"versions {versions[0]} to {versions[-1]}"


@ROWS.row(
    "delete-topic",
    expected="the topic is gone from the metadata; deleted again, it is unknown",
    follows="KIP-4",
    needs=(_CREATE, Need(api=DeleteTopicsRequest)),
)
async def _deleted(probe: Probe, looked: Looked) -> str:
    versions = probe.versions(DeleteTopicsRequest, most=_DELETE_MOST, node=await probe.controller())
    for version in versions:
        topic = await probe.topic(f"version-{version}")
        code = await _deletion(probe, topic.name, version)
        if code == _DELETION_DISABLED:
            raise NotOffered("the brokers are set to delete no topics")
        looked.code(f"version {version}, error", code)
        for node in probe.nodes:
            ask = partial(probe.metadata_of, topic.name, node=node)
            gone = await probe.becomes(ask, lambda seen: bool(seen.error_code == _UNKNOWN_TOPIC))
            looked.code(f"version {version}, metadata of broker {node}", gone.error_code, _UNKNOWN_TOPIC)
        looked.code(f"version {version}, again", await _deletion(probe, topic.name, version), _UNKNOWN_TOPIC)
    return f"versions {versions[0]} to {versions[-1]}"


async def _deletion(probe: Probe, name: str, version: int) -> int:
    async def ask() -> Any:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
        answer = await probe.ask(request, node=await probe.controller(), version=version)
        return only(answer.responses, "topics")

    return int((await probe.settled(ask, lambda each: int(each.error_code))).error_code)
