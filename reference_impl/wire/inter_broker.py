"""What brokers say to each other, from the JSON schemas beside this file.

AlterPartition is Apache Kafka's. The controller's four (keys 4 to 7) have Kafka's keys and purposes, but fields of our
own: Kafka 4 has dropped them, and ours carry topic configurations and broker epochs in one message each.
"""

from types import new_class
from typing import Any

from kafka.protocol.api_message import ApiMessage


def _message(name: str) -> Any:
    """kafka-python's message class for the schema of that name in our package."""
    return new_class(name, (ApiMessage,), {"load_json": "reference_impl.wire.schemas"})


# The controller tells a broker what its replicas are.
LeaderAndIsrRequest = _message("LeaderAndIsrRequest")
LeaderAndIsrResponse = _message("LeaderAndIsrResponse")

# The controller takes replicas out of service, for good when they are to be deleted.
StopReplicaRequest = _message("StopReplicaRequest")
StopReplicaResponse = _message("StopReplicaResponse")

# The controller tells every broker of all brokers, partitions and topic configurations.
UpdateMetadataRequest = _message("UpdateMetadataRequest")
UpdateMetadataResponse = _message("UpdateMetadataResponse")

# A broker asks the controller to move its leaders away before it stops.
ControlledShutdownRequest = _message("ControlledShutdownRequest")
ControlledShutdownResponse = _message("ControlledShutdownResponse")

# A leader asks the controller to commit another ISR (KIP-497).
AlterPartitionRequest = _message("AlterPartitionRequest")
AlterPartitionResponse = _message("AlterPartitionResponse")
