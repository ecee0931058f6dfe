"""The clients' administrative requests in every advertised version: their effect and their error codes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reference_impl.core.controller import znodes
from reference_impl.core.controller.configuration import ConfigScope, ConfigSource, ConfigType
from reference_impl.core.identifiers import NO_LEADER, ErrorCode
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import SUPPORTED, decode_response, encode_response, request_class
from tests.reference_impl.runtime.controller_world import FakeBroker, World, a_world, read_json, state_of

CreateTopicsRequest, DeleteTopicsRequest, ElectLeadersRequest = map(request_class, (19, 20, 43))
DescribeConfigsRequest, IncrementalAlterConfigsRequest = map(request_class, (32, 44))
CreatePartitionsRequest = request_class(ApiKey.CREATE_PARTITIONS)
Creatable = CreateTopicsRequest.CreatableTopic


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as world:
        await world.add(1, contest=True)
        await world.add(2)
        await world.until(lambda: bool(world.brokers[2].requests))
        yield world


def wanted(
    name: str = "t",
    partitions: int = -1,
    factor: int = -1,
    assignment: dict[int, list[int]] | None = None,
    configs: dict[str, str] | None = None,
) -> Any:
    return Creatable(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            Creatable.CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
            for number, replicas in (assignment or {}).items()
        ],
        configs=[Creatable.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


async def create(broker: FakeBroker, *topics: Any, validate_only: bool = False, version: int = 7) -> list[Any]:
    body = CreateTopicsRequest(topics=list(topics), timeout_ms=60_000, validate_only=validate_only)
    answer = await broker.topics.handle_create_topics(body, version)
    return list(through_the_wire(19, version, answer).topics)


def through_the_wire(api_key: int, version: int, answer: Any) -> Any:
    return decode_response(api_key, version, encode_response(api_key, version, 7, answer)[4:])[1]


@pytest.mark.parametrize("version", SUPPORTED[ApiKey.CREATE_TOPICS].versions)
async def test_a_topic_is_created_by_every_version(world: World, version: int) -> None:
    (answer,) = await create(world.brokers[1], wanted(partitions=4, factor=2), version=version)
    assert (answer.name, answer.error_code, answer.error_message) == ("t", ErrorCode.NONE, None)
    states = [await state_of(world.brokers[2], "t", number) for number in range(4)]
    assert sorted(state.leader for state in states) == [1, 1, 2, 2]
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (4, 2)
        assert {c.name: (c.value, c.config_source) for c in answer.configs}["min.insync.replicas"] == (
            "2",
            ConfigSource.STATIC_BROKER_CONFIG,
        )


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (wanted("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (wanted(factor=3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted(assignment={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted(partitions=1, assignment={0: [1]}), ErrorCode.INVALID_REQUEST),
        (wanted(configs={"replica.lag.max.messages": "4000"}), ErrorCode.INVALID_CONFIG),
        (wanted(configs={"min.insync.replicas": "none"}), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_what_cannot_be_created_is_refused_and_leaves_nothing(world: World, topic: Any, error: ErrorCode) -> None:
    (answer,) = await create(world.brokers[1], topic)
    assert answer.error_code == error
    assert answer.error_message
    assert await world.brokers[1].client.children(znodes.TOPICS) == []


async def test_a_topic_exists_once(world: World) -> None:
    await create(world.brokers[1], wanted())
    assert (await create(world.brokers[1], wanted()))[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    twice = await create(world.brokers[1], wanted("u"), wanted("u"))
    assert [answer.error_code for answer in twice] == [ErrorCode.INVALID_REQUEST] * 2


async def test_only_the_controller_creates_deletes_and_elects(world: World) -> None:
    other = world.brokers[2]
    assert (await create(other, wanted()))[0].error_code == ErrorCode.NOT_CONTROLLER
    delete = DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000)
    assert (await other.topics.handle_delete_topics(delete, 5)).responses[0].error_code == ErrorCode.NOT_CONTROLLER
    elect = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=60_000)
    assert (await other.topics.handle_elect_leaders(elect, 2)).error_code == ErrorCode.NOT_CONTROLLER


async def test_a_validated_topic_is_not_created(world: World) -> None:
    assert (await create(world.brokers[1], wanted(), validate_only=True))[0].error_code == ErrorCode.NONE
    assert (await create(world.brokers[1], wanted()))[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [1, 5, 6])
async def test_a_deleted_topic_leaves_no_znode_and_may_be_created_again_with_another_id(
    world: World, version: int
) -> None:
    (before,) = await create(world.brokers[1], wanted(configs={"min.insync.replicas": "1"}))
    body = DeleteTopicsRequest(timeout_ms=60_000, topic_names=["t", "absent"])
    if version == 6:
        state = DeleteTopicsRequest.DeleteTopicState
        body = DeleteTopicsRequest(
            timeout_ms=60_000, topics=[state(name=None, topic_id=before.topic_id), state(name="absent")]
        )
    answer = through_the_wire(20, version, await world.brokers[1].topics.handle_delete_topics(body, version))
    outcomes = [(entry.name, entry.error_code) for entry in answer.responses]
    assert outcomes == [("t", ErrorCode.NONE), ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    for folder in (znodes.TOPICS, znodes.TOPIC_CONFIGS, znodes.DELETE_TOPICS):
        assert await world.brokers[1].client.children(folder) == []
    (after,) = await create(world.brokers[1], wanted())
    assert after.topic_id != before.topic_id
    await world.until(lambda: world.brokers[2].knows("t") is not None)


async def grow(
    broker: FakeBroker,
    *topics: tuple[str, int],
    replicas: list[list[int]] | None = None,
    validate_only: bool = False,
    version: int = 3,
) -> list[int]:
    entry = CreatePartitionsRequest.CreatePartitionsTopic
    assigned = entry.CreatePartitionsAssignment
    body = CreatePartitionsRequest(
        topics=[
            entry(
                name=name,
                count=count,
                assignments=None if replicas is None else [assigned(broker_ids=ids) for ids in replicas],
            )
            for name, count in topics
        ],
        timeout_ms=60_000,
        validate_only=validate_only,
    )
    answer = through_the_wire(37, version, await broker.topics.handle_create_partitions(body, version))
    assert all(bool(result.error_code) == bool(result.error_message) for result in answer.results)
    return [result.error_code for result in answer.results]


@pytest.mark.parametrize("version", SUPPORTED[ApiKey.CREATE_PARTITIONS].versions)
async def test_a_topic_grows_and_keeps_what_it_has(world: World, version: int) -> None:
    (created,) = await create(world.brokers[1], wanted(assignment={0: [2, 1]}))
    assert await grow(world.brokers[1], ("t", 3), version=version) == [ErrorCode.NONE]
    data, _ = await world.brokers[2].client.get(znodes.topic_path("t"))
    assert znodes.read_topic(data) == (created.topic_id, {0: (2, 1), 1: (1, 2), 2: (2, 1)})
    await world.until(lambda: world.brokers[2].knows("t", 2) == (2, [2, 1]))
    await world.lose(2)
    await world.until_written(world.brokers[1], "t", 1, [1])
    assert (await state_of(world.brokers[1], "t", 2)).leader == 1


async def test_a_topic_grows_as_the_request_says(world: World) -> None:
    await create(world.brokers[1], wanted(assignment={0: [2, 1]}))
    assert await grow(world.brokers[1], ("t", 3), replicas=[[2, 1], [1, 2]]) == [ErrorCode.NONE]
    assert [(await state_of(world.brokers[1], "t", number)).leader for number in range(3)] == [2, 2, 1]


async def test_partitions_that_cannot_be_added_leave_the_topic_as_it_is(world: World) -> None:
    controller = world.brokers[1]
    await create(controller, wanted(assignment={0: [2, 1], 1: [1, 2]}))
    before = await controller.client.get(znodes.topic_path("t"))
    assert await grow(controller, ("t", 2), ("absent", 3)) == [
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert await grow(controller, ("t", 3), ("t", 4)) == [ErrorCode.INVALID_REQUEST] * 2
    assert await grow(controller, ("t", 3), replicas=[[1]]) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert await grow(world.brokers[2], ("t", 3)) == [ErrorCode.NOT_CONTROLLER]
    assert await grow(controller, ("t", 3), validate_only=True) == [ErrorCode.NONE]
    assert await controller.client.get(znodes.topic_path("t")) == before


async def test_a_request_for_more_than_ten_thousand_partitions_is_refused_as_a_whole(world: World) -> None:
    controller = world.brokers[1]
    for answer in await create(controller, wanted("t", 5000), wanted("u", 5000), wanted("v")):
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert "Excessively large number of partitions per request: 10001" in answer.error_message
    assert await controller.client.children(znodes.TOPICS) == []
    await create(controller, wanted("t", 3), wanted("u", 3))
    assert await grow(controller, ("t", 5003), ("u", 5004)) == [ErrorCode.POLICY_VIOLATION] * 2
    assert await grow(controller, ("t", 2**31 - 1)) == [ErrorCode.POLICY_VIOLATION]
    assert len(await controller.client.children(f"{znodes.topic_path('t')}/partitions")) == 3


async def test_a_topic_too_large_for_one_write_comes_grows_and_goes(world: World) -> None:
    controller, name = world.brokers[1], "x" * 249
    assert [answer.error_code for answer in await create(controller, wanted(name, 1500, 2))] == [ErrorCode.NONE]
    assert await grow(controller, (name, 1700)) == [ErrorCode.NONE]
    await world.until(lambda: world.brokers[2].knows(name, 1699) is not None)
    assert len(await controller.client.children(f"{znodes.topic_path(name)}/partitions")) == 1700
    body = DeleteTopicsRequest(timeout_ms=60_000, topic_names=[name])
    answer = await controller.topics.handle_delete_topics(body, 1)
    assert answer.responses[0].error_code == ErrorCode.NONE
    for folder in (znodes.TOPICS, znodes.TOPIC_CONFIGS, znodes.DELETE_TOPICS):
        assert await controller.client.children(folder) == []


async def elect(broker: FakeBroker, kind: int, partitions: list[int] | None, version: int = 2) -> dict[int, int]:
    entry = ElectLeadersRequest.TopicPartitions
    body = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=None if partitions is None else [entry(topic="t", partitions=partitions)],
        timeout_ms=60_000,
    )
    answer = through_the_wire(43, version, await broker.topics.handle_elect_leaders(body, version))
    assert answer.error_code == ErrorCode.NONE
    return {p.partition_id: p.error_code for topic in answer.replica_election_results for p in topic.partition_result}


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_preferred_election_says_why_it_did_not_move_a_leader(world: World, version: int) -> None:
    await create(world.brokers[1], wanted(assignment={0: [2, 1], 1: [1, 2]}))
    await world.lose(2)
    await world.until_written(world.brokers[1], "t", 1, [1])
    await world.add(2)
    await world.until(lambda: world.brokers[2].knows("t") is not None)
    assert await elect(world.brokers[1], 0, [0, 1, 2], version) == {
        0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert await elect(world.brokers[1], 0, None, version) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


async def leaderless(world: World) -> FakeBroker:
    """Topic t: AR 3, 2; replica 2 fell out of sync and is alive, 3 is dead. Answers the controller."""
    controller = world.brokers[1]
    await world.add(3)
    await world.until(lambda: bool(world.brokers[3].requests))
    await create(controller, wanted(assignment={0: [3, 2]}))
    await world.lose(2)
    await world.until_written(controller, "t", 3, [3])
    await world.add(2)
    await world.until(lambda: world.brokers[2].knows("t") == (3, [3]))
    await world.lose(3)
    await world.until_written(controller, "t", NO_LEADER, [3])
    return controller


async def test_an_unclean_election_takes_the_live_replica_that_was_not_in_sync(world: World) -> None:
    controller = await leaderless(world)
    assert await elect(controller, 0, [0]) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert await elect(controller, 1, [0]) == {0: ErrorCode.NONE}
    await world.until_written(controller, "t", 2, [2])
    assert await elect(controller, 1, [0]) == {0: ErrorCode.ELECTION_NOT_NEEDED}


async def test_allowing_unclean_election_while_running_elects_at_once(world: World) -> None:
    controller = await leaderless(world)
    assert await alter(world.brokers[2], {"unclean.leader.election.enable": "true"}) == ErrorCode.NONE
    await world.until_written(controller, "t", 2, [2])
    await world.until(lambda: world.brokers[2].knows("t") == (2, [2]))


async def alter(
    broker: FakeBroker,
    values: dict[str, str | None],
    *,
    scope: ConfigScope = ConfigScope.TOPIC,
    name: str = "t",
    validate_only: bool = False,
) -> int:
    """None deletes."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(name=key, config_operation=0 if value is not None else 1, value=value)
        for key, value in values.items()
    ]
    body = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=scope, resource_name=name, configs=configs)], validate_only=validate_only
    )
    answer = through_the_wire(44, 1, await broker.configs.handle_incremental_alter_configs(body, 1))
    return int(answer.responses[0].error_code)


async def describe(broker: FakeBroker, scope: ConfigScope, name: str, version: int = 4, **asked: Any) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    body = DescribeConfigsRequest(
        resources=[resource(resource_type=scope, resource_name=name, configuration_keys=asked.get("keys"))],
        include_synonyms=True,
    )
    answer = await broker.configs.handle_describe_configs(body, version)
    return through_the_wire(32, version, answer).results[0]


async def test_overrides_are_set_and_deleted_by_any_broker_and_sent_to_all(world: World) -> None:
    await create(world.brokers[1], wanted())
    assert await alter(world.brokers[2], {"min.insync.replicas": "1", "max.message.bytes": "77"}) == ErrorCode.NONE
    assert await alter(world.brokers[2], {"max.message.bytes": None}) == ErrorCode.NONE
    assert (await read_json(world.brokers[1], znodes.topic_config_path("t")))["config"] == {"min.insync.replicas": "1"}

    def settings() -> list[dict[str, str]]:
        bodies = world.brokers[2].bodies(6)
        return [{c.name: c.value for c in topic.configs} for body in bodies for topic in body.topics]

    await world.until(lambda: settings()[-1] == {"min.insync.replicas": "1"})


@pytest.mark.parametrize(
    ("scope", "name", "values", "error"),
    [
        (ConfigScope.TOPIC, "t", {"replica.lag.max.messages": "1"}, ErrorCode.INVALID_CONFIG),
        (ConfigScope.TOPIC, "t", {"min.insync.replicas": "0"}, ErrorCode.INVALID_CONFIG),
        (ConfigScope.TOPIC, "t", {"cleanup.policy": "delete,shrink"}, ErrorCode.INVALID_CONFIG),
        (ConfigScope.TOPIC, "t", {"retention.ms": "-2"}, ErrorCode.INVALID_CONFIG),
        (ConfigScope.TOPIC, "t", {"message.timestamp.type": "BrokerTime"}, ErrorCode.INVALID_CONFIG),
        (ConfigScope.TOPIC, "absent", {"min.insync.replicas": "1"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigScope.BROKER, "1", {"leader.imbalance.check.interval.seconds": "5"}, ErrorCode.INVALID_REQUEST),
        (ConfigScope.BROKER, "1", {"no.such.key": "5"}, ErrorCode.INVALID_CONFIG),
    ],
)
async def test_what_cannot_be_altered_is_refused(
    world: World, scope: ConfigScope, name: str, values: dict[str, str | None], error: ErrorCode
) -> None:
    await create(world.brokers[1], wanted())
    assert await alter(world.brokers[1], values, scope=scope, name=name) == error


@pytest.mark.parametrize("name", ["..", "t/partitions", "a b"])
async def test_the_configuration_of_what_cannot_be_a_topic_is_not_looked_for(world: World, name: str) -> None:
    """Not even where the znode of a topic's partitions would be found by such a name."""
    await create(world.brokers[1], wanted(factor=2))
    assert await alter(world.brokers[2], {"retention.ms": "7"}, name=name) == ErrorCode.INVALID_TOPIC_EXCEPTION
    described = await describe(world.brokers[2], ConfigScope.TOPIC, name)
    assert described.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_validated_change_changes_nothing(world: World) -> None:
    await create(world.brokers[1], wanted())
    assert await alter(world.brokers[1], {"min.insync.replicas": "1"}, validate_only=True) == ErrorCode.NONE
    assert (await read_json(world.brokers[1], znodes.topic_config_path("t")))["config"] == {}


@pytest.mark.parametrize("version", SUPPORTED[ApiKey.DESCRIBE_CONFIGS].versions)
async def test_a_topics_configuration_says_where_each_value_comes_from(world: World, version: int) -> None:
    await create(world.brokers[1], wanted(configs={"max.message.bytes": "77"}))
    described = await describe(world.brokers[2], ConfigScope.TOPIC, "t", version)
    found = {config.name: (config.value, config.config_source) for config in described.configs}
    assert found["max.message.bytes"] == ("77", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert found["min.insync.replicas"] == ("2", ConfigSource.STATIC_BROKER_CONFIG)
    assert found["unclean.leader.election.enable"] == ("false", ConfigSource.DEFAULT_CONFIG)
    synonyms = next(config.synonyms for config in described.configs if config.name == "max.message.bytes")
    assert [(s.name, s.value) for s in synonyms] == [("max.message.bytes", "77"), ("message.max.bytes", "1048588")]


async def test_a_broker_describes_itself_only_and_its_keys_are_read_only(world: World) -> None:
    described = await describe(world.brokers[1], ConfigScope.BROKER, "1", keys=["replica.lag.time.max.ms"])
    (config,) = described.configs
    assert (config.value, config.read_only, config.config_type) == ("30000", True, ConfigType.LONG)
    assert (await describe(world.brokers[1], ConfigScope.BROKER, "2")).error_code == ErrorCode.INVALID_REQUEST
    absent = await describe(world.brokers[1], ConfigScope.TOPIC, "absent")
    assert absent.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_dynamic_defaults_of_all_brokers_are_none(world: World) -> None:
    """kafka-configs asks for them beside every broker's own (its name for them is the empty one)."""
    described = await describe(world.brokers[1], ConfigScope.BROKER, "")
    assert (described.error_code, list(described.configs)) == (ErrorCode.NONE, [])
