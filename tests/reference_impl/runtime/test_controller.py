"""The controller with a real coordination service: what it writes, whom it informs, and when it must do nothing."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reference_impl.core.controller import znodes
from reference_impl.core.identifiers import NO_LEADER, ErrorCode
from reference_impl.runtime.controller.controller import ControllerSettings
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import request_class
from tests.reference_impl.runtime.controller_world import (
    FakeBroker,
    World,
    a_world,
    mark_for_deletion,
    read_json,
    state_of,
)

AlterPartitionRequest = request_class(ApiKey.ALTER_PARTITION)
ControlledShutdownRequest = request_class(ApiKey.CONTROLLED_SHUTDOWN)
CreateTopicsRequest = request_class(ApiKey.CREATE_TOPICS)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Brokers 1, 2, 3; broker 4 hosts nothing and is the controller."""
    async with a_world(tmp_path) as world:
        await world.add(4, contest=True)
        for broker_id in (1, 2, 3):
            await world.add(broker_id)
        controller = world.brokers[4]
        await world.until(lambda: len(controller.requests[-1][1].live_brokers) == 4 if controller.requests else False)
        yield world


async def create(broker: FakeBroker, name: str, *assignment: list[int], configs: dict[str, str] | None = None) -> Any:
    topic = CreateTopicsRequest.CreatableTopic
    body = CreateTopicsRequest(
        topics=[
            topic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    topic.CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
                    for number, replicas in enumerate(assignment)
                ],
                configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
            )
        ],
        timeout_ms=1000,
        validate_only=False,
    )
    answer = await broker.topics.handle_create_topics(body, 7)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message
    return answer.topics[0].topic_id


async def propose(
    controller: FakeBroker, leader: FakeBroker, topic_id: Any, isr: list[FakeBroker], **epochs: int
) -> Any:
    data = AlterPartitionRequest.TopicData
    member = data.PartitionData.BrokerState
    partition = data.PartitionData(
        partition_index=0,
        leader_epoch=epochs.get("leader_epoch", 0),
        partition_epoch=epochs.get("partition_epoch", 0),
        new_isr_with_epochs=[member(broker_id=b.broker_id, broker_epoch=b.epoch) for b in isr],
        leader_recovery_state=0,
    )
    body = AlterPartitionRequest(
        broker_id=leader.broker_id,
        broker_epoch=leader.epoch,
        topics=[data(topic_id=topic_id, partitions=[partition])],
    )
    return await controller.role.handle_alter_partition(body, 3)


async def test_the_first_to_compete_becomes_controller_and_the_next_one_has_a_higher_epoch(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        first = await world.add(1, contest=True)
        second = await world.add(2, contest=True)
        assert first.role.controller_epoch != -1
        assert second.role.controller_epoch == -1
        assert (first.role.controller_epoch, second.role.controller_epoch) == (1, -1)
        assert (await read_json(second, znodes.CONTROLLER))["brokerid"] == 1
        await world.lose(1)
        await world.until(lambda: second.role.controller_epoch == 2 and bool(second.requests))
        assert first.role.controller_epoch == -1
        assert (await second.client.get(znodes.CONTROLLER_EPOCH))[0] == b"2"


async def test_a_created_topic_is_led_by_the_first_of_each_assignment_and_everybody_hears_of_it(world: World) -> None:
    await create(world.brokers[4], "t", [1, 2, 3], [2, 3, 1])
    assert (await state_of(world.brokers[4], "t", 1)).leader == 2
    await world.until(lambda: all(broker.knows("t", 1) == (2, [2, 3, 1]) for broker in world.brokers.values()))
    rows = [state for body in world.brokers[1].bodies(ApiKey.LEADER_AND_ISR) for state in body.partition_states]
    assert [(state.topic, state.partition, state.is_new) for state in rows] == [("t", 0, True), ("t", 1, True)]
    assert not [s for body in world.brokers[4].bodies(ApiKey.LEADER_AND_ISR) for s in body.partition_states]


@pytest.mark.parametrize("partitions", [1, 50, 500])
async def test_a_death_moves_however_many_partitions_with_one_request_of_each_kind_per_broker(
    world: World, partitions: int
) -> None:
    """Claim S09."""
    await create(world.brokers[4], "t", *[[1, 2, 3]] * partitions)
    survivors = [world.brokers[broker] for broker in (2, 3)]
    await world.until(lambda: all(broker.knows("t", partitions - 1) == (1, [1, 2, 3]) for broker in survivors))
    for broker in survivors:
        broker.requests.clear()
    await world.lose(1)
    last = [("t", number) for number in range(partitions)]
    await world.until(lambda: all(broker.knows(*key) == (2, [2, 3]) for broker in survivors for key in last))
    for broker in survivors:
        assert [api_key for api_key, _ in broker.requests] == [ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA]
    state = await state_of(world.brokers[4], "t")
    assert (state.leader_epoch, state.partition_epoch, state.controller_epoch) == (1, 1, 1)


async def test_a_broker_that_does_not_answer_delays_nobody_and_catches_up_later(world: World) -> None:
    world.brokers[2].silent = True
    await create(world.brokers[4], "t", [1, 2, 3])
    await create(world.brokers[4], "u", [3, 2, 1])
    await world.until(lambda: all(world.brokers[n].knows("u") == (3, [3, 2, 1]) for n in (1, 3, 4)))
    assert world.brokers[2].knows("t") is None


async def test_the_last_in_sync_replicas_wait_in_the_isr_and_either_may_lead(world: World) -> None:
    controller = world.brokers[4]
    topic_id = await create(controller, "t", [1, 2, 3])
    await world.lose(3)
    await world.until_written(controller, "t", 1, [1, 2])
    await world.lose(1)
    await world.until_written(controller, "t", 2, [2])
    await world.lose(2)
    await world.until_written(controller, "t", NO_LEADER, [2])
    await world.add(1)
    await world.until(lambda: world.brokers[1].knows("t") == (NO_LEADER, [2]))
    returned = await world.add(2)
    led = await world.until_written(controller, "t", 2, [2])
    answer = await propose(
        controller,
        returned,
        topic_id,
        [world.brokers[1], returned],
        leader_epoch=led.leader_epoch,
        partition_epoch=led.partition_epoch,
    )
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.isr) == (ErrorCode.NONE, [2, 1])
    assert partition.partition_epoch == led.partition_epoch + 1
    assert (await state_of(controller, "t")).isr == (2, 1), "the answer comes when the service holds it"
    await world.until(lambda: world.brokers[4].knows("t") == (2, [2, 1]))


async def test_proposals_of_strangers_and_of_the_past_are_refused(world: World) -> None:
    controller, leader = world.brokers[4], world.brokers[1]
    topic_id = await create(controller, "t", [1, 2, 3])
    await world.until(lambda: leader.knows("t") is not None)
    not_controller = await propose(leader, leader, topic_id, [leader])
    assert not_controller.error_code == ErrorCode.NOT_CONTROLLER
    fine = await propose(controller, leader, topic_id, [leader])
    assert fine.topics[0].partitions[0].error_code == ErrorCode.NONE
    again = await propose(controller, leader, topic_id, [leader])
    assert again.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
    leader.epoch -= 1
    assert (await propose(controller, leader, topic_id, [leader])).error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_a_deposed_controller_that_does_not_know_it_writes_nothing(world: World) -> None:
    zombie, leader = world.brokers[4], world.brokers[1]
    topic_id = await create(zombie, "t", [1, 2, 3])
    zombie.deaf_to_watches = True
    await leader.client.delete(znodes.CONTROLLER)
    await world.brokers[2].contest()
    assert world.brokers[2].role.controller_epoch == 2
    assert zombie.role.controller_epoch != -1
    answer = await propose(zombie, leader, topic_id, [leader])
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (await state_of(leader, "t")).isr == (1, 2, 3)
    assert (await propose(zombie, leader, topic_id, [leader])).error_code == ErrorCode.NOT_CONTROLLER
    assert zombie.role.controller_epoch == -1


async def test_a_new_controller_elects_for_leaders_that_died_with_the_old_one(world: World) -> None:
    await create(world.brokers[4], "t", [1, 2, 3])
    await world.brokers[3].contest()
    await world.lose(4, 1)
    state = await world.until_written(world.brokers[3], "t", 2, [2, 3])
    assert state.controller_epoch == 2
    await world.until(lambda: world.brokers[2].knows("t") == (2, [2, 3]))


async def test_a_new_incarnation_is_seen_even_when_no_controller_was_there_to_see_the_death(world: World) -> None:
    await create(world.brokers[4], "t", [1, 2, 3])
    await world.lose(4)
    await world.lose(1)
    await world.add(1)
    await world.brokers[3].contest()
    written = await world.until_written(world.brokers[3], "t", 2, [2, 3])
    assert (written.leader_epoch, written.controller_epoch) == (1, 2)


async def test_a_lost_disk_leaves_the_isr_and_is_on_record(world: World) -> None:
    controller = world.brokers[4]
    await create(controller, "t", [1, 2])
    await world.lose(4)
    await world.lose(1, 2)
    await world.brokers[3].contest()
    await world.until_written(world.brokers[3], "t", NO_LEADER, [1, 2])
    reborn = await world.add(1, disk="empty")
    await world.until_written(world.brokers[3], "t", NO_LEADER, [2])
    await world.until(lambda: reborn.knows("t") == (NO_LEADER, [2]))
    record = await read_json(reborn, f"{znodes.DIRECTORIES}/1")
    assert (record["directories"], record["previous"], record["broker_epoch"]) == (["empty"], ["disk-1"], reborn.epoch)


async def test_a_controlled_shutdown_moves_leaders_and_answers_what_remains(world: World) -> None:
    controller, leaving = world.brokers[4], world.brokers[1]
    topic_id = await create(controller, "t", [1, 2, 3])
    await create(controller, "alone", [1])
    body = ControlledShutdownRequest(broker_id=1, broker_epoch=leaving.epoch)
    answer = await controller.role.handle_controlled_shutdown(body, 0)
    assert (answer.error_code, answer.remaining_partitions) == (ErrorCode.NONE, [])
    moved = await state_of(controller, "t")
    assert (moved.leader, moved.isr, moved.leader_epoch) == (2, (2, 3), 1)
    assert (await state_of(controller, "alone")).leader == 1
    back = await propose(
        controller, world.brokers[2], topic_id, [world.brokers[2], leaving], leader_epoch=1, partition_epoch=1
    )
    assert back.topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    stale = ControlledShutdownRequest(broker_id=1, broker_epoch=leaving.epoch - 1)
    assert (await controller.role.handle_controlled_shutdown(stale, 0)).error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_a_topic_marked_for_deletion_is_deleted_by_the_next_controller(world: World) -> None:
    await create(world.brokers[4], "t", [1, 2])
    await world.until(lambda: world.brokers[1].knows("t") is not None)
    await world.lose(4)
    await mark_for_deletion(world.brokers[3], "t")
    await world.brokers[3].contest()
    await world.until(lambda: all(world.brokers[n].bodies(ApiKey.STOP_REPLICA) for n in (1, 2)))
    assert await world.brokers[3].client.children(znodes.TOPICS) == []
    assert await world.brokers[3].client.children(znodes.DELETE_TOPICS) == []
    assert not world.brokers[3].bodies(ApiKey.STOP_REPLICA)


async def test_a_topic_somebody_else_wrote_gets_its_partition_states(world: World) -> None:
    data = '{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":{"0":[2,1]}}'
    await world.brokers[1].client.create(znodes.topic_path("t"), data.encode())
    await world.until(lambda: world.brokers[3].knows("t") == (2, [2, 1]))


async def test_a_znode_that_cannot_be_a_topics_is_left_alone(world: World) -> None:
    stranger, data = world.brokers[1].client, znodes.topic(uuid.UUID(int=7), [[1, 2]])
    await stranger.create(znodes.topic_path("a b"), data)
    await stranger.create(f"{znodes.DELETE_TOPICS}/c d", b"")
    await create(world.brokers[4], "orders", [1, 2])  # queued behind what the watches told
    await world.until(lambda: world.brokers[1].knows("orders") is not None)
    assert await stranger.children(znodes.topic_path("a b")) == []
    assert await stranger.exists(f"{znodes.DELETE_TOPICS}/c d") is not None
    assert world.brokers[1].knows("a b") is None


async def test_preferred_leaders_are_restored_by_the_timer(tmp_path: Path) -> None:
    settings = ControllerSettings(leader_imbalance_check_interval_seconds=0.05)
    async with a_world(tmp_path, settings) as world:
        controller = await world.add(3, contest=True)
        first = await world.add(1)
        second = await world.add(2)
        await world.until(lambda: bool(second.requests))
        topic_id = await create(controller, "t", [1, 2])
        await world.lose(1)
        led = await world.until_written(controller, "t", 2, [2])
        first = await world.add(1)
        await world.until(lambda: first.knows("t") is not None)
        epochs = {"leader_epoch": led.leader_epoch, "partition_epoch": led.partition_epoch}
        await propose(controller, second, topic_id, [second, first], **epochs)
        await world.until_written(controller, "t", 1, [2, 1])


async def test_a_lost_connection_costs_the_controller_nothing_but_time(world: World) -> None:
    controller = world.brokers[4]
    await create(controller, "t", [1, 2, 3])
    connection = controller.client._connection
    assert connection is not None
    connection.abort()
    await world.lose(1)
    await world.until_written(world.brokers[2], "t", 2, [2, 3])
    await world.until(lambda: world.brokers[3].knows("t") == (2, [2, 3]))
    assert controller.role.controller_epoch == 1
