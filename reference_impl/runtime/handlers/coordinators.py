"""FindCoordinator: a group's coordinator is the leader of its partition of __consumer_offsets, which the first question
after a group creates (docs/replication.md R56).

Transactions are not served: a transactional id gets the one error on which every client library stops retrying.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from reference_impl.core.controller.configuration import CLEANUP_POLICY, COMPACT
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, ErrorCode, TopicPartition
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.connections import PeerUnreachable
from reference_impl.runtime.groups.coordinators import GroupCoordinators
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, request_class, response_class

logger = logging.getLogger(__name__)

FindCoordinatorResponse = response_class(ApiKey.FIND_COORDINATOR)
CreateTopicsRequest = request_class(ApiKey.CREATE_TOPICS)
TRANSACTION_KEY = 1  # key type of the request; a group is 0
KEYS_SINCE = 4  # several keys in one request (KIP-699)
CREATE_TOPICS_VERSION = 5

Found = dict[str, Any]
AskController = Callable[[int, int, Any], Awaitable[Any]]


class OffsetsTopic:
    """Creates __consumer_offsets through the controller; at most one request at a time."""

    def __init__(self, config: BrokerConfig, ask_controller: AskController) -> None:
        self._config = config
        self._ask_controller = ask_controller
        self._creating: asyncio.Task[None] | None = None

    def create(self) -> None:
        if self._creating is None or self._creating.done():
            self._creating = asyncio.ensure_future(self._create())

    def stop(self) -> None:
        if self._creating is not None:
            self._creating.cancel()

    async def _create(self) -> None:
        topic = CreateTopicsRequest.fields["topics"].data_class
        config = topic.fields["configs"].data_class
        configs = {CLEANUP_POLICY: COMPACT, "segment.bytes": str(self._config.offsets_topic_segment_bytes)}
        wanted = topic(
            name=GROUP_OFFSETS_TOPIC,
            num_partitions=self._config.offsets_topic_num_partitions,
            replication_factor=self._config.offsets_topic_replication_factor,
            assignments=[],
            configs=[config(name=name, value=value) for name, value in configs.items()],
        )
        body = CreateTopicsRequest(topics=[wanted], timeout_ms=self._config.request_timeout_ms, validate_only=False)
        try:
            answer = await self._ask_controller(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, body)
        except PeerUnreachable as error:
            logger.info("%s cannot be created now: %s", GROUP_OFFSETS_TOPIC, error)
            return
        (created,) = answer.topics
        if created.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.warning("%s cannot be created: %s", GROUP_OFFSETS_TOPIC, created.error_message)


class CoordinatorHandler:
    def __init__(self, coordinators: GroupCoordinators, metadata: MetadataCache, topic: OffsetsTopic) -> None:
        self._coordinators = coordinators
        self._metadata = metadata
        self._topic = topic

    def answer(self, request: Request, caller: Caller) -> Any:
        find = self._refuse_transaction if request.body.key_type == TRANSACTION_KEY else self._find_group
        if request.api_version < KEYS_SINCE:
            return FindCoordinatorResponse(throttle_time_ms=0, **find(request.body.key, caller))
        keys = request.body.coordinator_keys or ()
        return FindCoordinatorResponse(
            throttle_time_ms=0,
            coordinators=[FindCoordinatorResponse.Coordinator(key=key, **find(key, caller)) for key in keys],
        )

    def _find_group(self, group_id: str, caller: Caller) -> Found:
        number = self._coordinators.partition_of(group_id)
        if number is None:
            self._topic.create()
            return _not_found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_OFFSETS_TOPIC} is about to be created")
        state = self._metadata.state(TopicPartition(GROUP_OFFSETS_TOPIC, number))
        address = None if state is None else self._metadata.address(state.leader, caller.listener)
        if state is None or address is None:
            return _not_found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody leads {GROUP_OFFSETS_TOPIC}-{number} now")
        found = {"error_code": ErrorCode.NONE, "error_message": None, "node_id": state.leader}
        return found | {"host": address[0], "port": address[1]}

    @staticmethod
    def _refuse_transaction(_: str, caller: Caller) -> Found:
        message = "this cluster does not serve transactions yet"
        logger.warning("client %.100r at %s is refused: %s", caller.client_id, caller.peer, message)
        return _not_found(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message)


def _not_found(error: ErrorCode, message: str) -> Found:
    return {"error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}
