"""Sends raw requests on connections of their own: no client library checks a batch before."""

import socket
from dataclasses import dataclass
from typing import Any

from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import decode_response, encode_request, request_class

TIMEOUT_S = 30

ProduceRequest = request_class(ApiKey.PRODUCE)
FetchRequest = request_class(ApiKey.FETCH)
ListOffsetsRequest = request_class(ApiKey.LIST_OFFSETS)
TopicData = ProduceRequest.TopicProduceData


def ask(address: tuple[str, int], api_key: int, version: int, body: Any) -> Any:
    """Raises ConnectionError if there is no answer."""
    with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
        connection.sendall(encode_request(api_key, version, 1, "raw", body))
        with connection.makefile("rb") as answers:
            size = answers.read(4)
            if len(size) < 4:
                raise ConnectionError("the connection was closed instead of an answer")
            return decode_response(api_key, version, answers.read(int.from_bytes(size, "big")))[1]


def produce_request(topic: str, *batches: bytes, acks: int = -1) -> Any:
    """One batch for each partition from 0 on."""
    data = [TopicData.PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    return ProduceRequest(
        transactional_id=None, acks=acks, timeout_ms=10_000, topic_data=[TopicData(name=topic, partition_data=data)]
    )


def produce(address: tuple[str, int], topic: str, batch: bytes, *, version: int = 9) -> tuple[int, int]:
    """(error code, base offset)"""
    response = ask(address, ApiKey.PRODUCE, version, produce_request(topic, batch))
    (answer,) = response.responses[0].partition_responses
    return answer.error_code, answer.base_offset


@dataclass(frozen=True, kw_only=True)
class Listed:
    error: int
    offset: int
    timestamp: int


def list_offset(address: tuple[str, int], topic: str, timestamp: int, *, version: int = 8) -> Listed:
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    wanted = topic_class.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    body = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic_class(name=topic, partitions=[wanted])])
    (answer,) = ask(address, ApiKey.LIST_OFFSETS, version, body).topics[0].partitions
    return Listed(error=answer.error_code, offset=answer.offset, timestamp=answer.timestamp)
