"""The controller of a KRaft cluster is the one that the quorum's leader names, whatever other nodes answer."""

from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumResponse

from harness.cluster.books.observing import QuorumObservation
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId

NOT_LEADER = 6
SILENT = None


def answer(*, error: int = 0, leader: int = 0, epoch: int = 0) -> Any:
    """As Kafka has it: who is not the leader answers with an error, and with 0 for the rest."""
    kinds = DescribeQuorumResponse.TopicData
    partition = kinds.PartitionData(partition_index=0, error_code=error, leader_id=leader, leader_epoch=epoch)
    return DescribeQuorumResponse(topics=[kinds(topic_name="__cluster_metadata", partitions=[partition])])


REFUSED = answer(error=NOT_LEADER)
NO_QUORUM_YET = DescribeQuorumResponse(topics=[])


async def controller_told(*answers: Any) -> int:
    """What comes of the answers of controllers 100, 101, ..."""

    class Connection:
        def __init__(self, host: str, port: int) -> None:
            self._answer = answers[port]

        async def ask(self, request: Any, version: int, *, timeout_s: float) -> Any:
            if self._answer is SILENT:
                raise TimeoutError
            return self._answer

    controllers = {NodeId(100 + number): ("", number) for number in range(len(answers))}
    connect: Any = Connection
    observation = QuorumObservation(
        {}, controllers=controllers, is_running=lambda node: True, clock=SystemClock(), connect=connect
    )
    await observation.look([])
    return observation.controller()


@pytest.mark.parametrize(
    ("answers", "controller"),
    [
        ((answer(leader=100, epoch=1),), 100),
        ((REFUSED, REFUSED, answer(leader=102, epoch=3)), 102),
        ((SILENT, answer(leader=101, epoch=2), REFUSED), 101),
        ((answer(leader=100, epoch=1), answer(leader=101, epoch=2), SILENT), 101),  # 100 does not know yet
        ((REFUSED, SILENT, REFUSED), -1),
        ((NO_QUORUM_YET, NO_QUORUM_YET, NO_QUORUM_YET), -1),
    ],
)
async def test_the_leader_of_the_latest_epoch_is_the_controller(answers: tuple[Any, ...], controller: int) -> None:
    assert await controller_told(*answers) == controller
