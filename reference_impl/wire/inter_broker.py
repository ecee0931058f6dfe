"""The messages between brokers, from the JSON schemas beside this file.

AlterPartition is Apache Kafka's. The controller's four (keys 4 to 7) have Kafka's keys and purposes but fields of our
own: Kafka 4 has removed them, and ours carry topic configurations and broker epochs too.
"""

from types import new_class
from typing import Any

from kafka.protocol.api_message import ApiMessage


def _message(name: str) -> Any:
    """Returns kafka-python's message class for the schema of that name in this package."""
    return new_class(name, (ApiMessage,), {"load_json": "reference_impl.wire.schemas"})


# LeaderAndIsr: the controller sends a broker the states of its replicas.
LeaderAndIsrRequest = _message("LeaderAndIsrRequest")
LeaderAndIsrResponse = _message("LeaderAndIsrResponse")

# StopReplica: the controller stops replicas, and deletes them if asked to.
StopReplicaRequest = _message("StopReplicaRequest")
StopReplicaResponse = _message("StopReplicaResponse")

# UpdateMetadata: the controller sends every broker all brokers, partitions and topic configurations.
UpdateMetadataRequest = _message("UpdateMetadataRequest")
UpdateMetadataResponse = _message("UpdateMetadataResponse")

# ControlledShutdown: a broker asks the controller to move its leaderships before it stops.
ControlledShutdownRequest = _message("ControlledShutdownRequest")
ControlledShutdownResponse = _message("ControlledShutdownResponse")

# AlterPartition: a leader asks the controller to commit another ISR (KIP-497).
AlterPartitionRequest = _message("AlterPartitionRequest")
AlterPartitionResponse = _message("AlterPartitionResponse")
