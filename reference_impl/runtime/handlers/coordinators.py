"""FindCoordinator: the coordinator of a group, or of a transactional id, is the leader of its partition of
__consumer_offsets, or __transaction_state, which the first question creates (docs/replication.md R56, R71)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from reference_impl.core.controller.configuration import CLEANUP_POLICY, COMPACT
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ErrorCode, TopicPartition
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.connections import PeerUnreachable
from reference_impl.runtime.coordinators.terms import CoordinatorTerms
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, request_class, response_class

logger = logging.getLogger(__name__)

FindCoordinatorResponse = response_class(ApiKey.FIND_COORDINATOR)
CreateTopicsRequest = request_class(ApiKey.CREATE_TOPICS)
GROUP_KEY, TRANSACTION_KEY = 0, 1  # key types of the request
KEYS_SINCE = 4  # several keys in one request (KIP-699)
CREATE_TOPICS_VERSION = 5

Found = dict[str, Any]
AskController = Callable[[int, int, Any], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class InternalTopicSettings:
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def offsets_topic(config: BrokerConfig) -> InternalTopicSettings:
    return InternalTopicSettings(
        name=GROUP_OFFSETS_TOPIC,
        partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs={CLEANUP_POLICY: COMPACT, "segment.bytes": str(config.offsets_topic_segment_bytes)},
    )


def transactions_topic(config: BrokerConfig) -> InternalTopicSettings:
    return InternalTopicSettings(
        name=TRANSACTIONS_TOPIC,
        partitions=config.transaction_state_log_num_partitions,
        replication_factor=config.transaction_state_log_replication_factor,
        configs={
            CLEANUP_POLICY: COMPACT,
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "unclean.leader.election.enable": "false",
        },
    )


class InternalTopic:
    """Creates a coordinators' topic through the controller; at most one request at a time."""

    def __init__(self, settings: InternalTopicSettings, ask_controller: AskController, *, timeout_ms: int) -> None:
        self._settings = settings
        self._ask_controller = ask_controller
        self._timeout_ms = timeout_ms
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
        settings = self._settings
        wanted = topic(
            name=settings.name,
            num_partitions=settings.partitions,
            replication_factor=settings.replication_factor,
            assignments=[],
            configs=[config(name=name, value=value) for name, value in settings.configs.items()],
        )
        body = CreateTopicsRequest(topics=[wanted], timeout_ms=self._timeout_ms, validate_only=False)
        try:
            answer = await self._ask_controller(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, body)
        except PeerUnreachable as error:
            logger.info("%s cannot be created now: %s", settings.name, error)
            return
        (created,) = answer.topics
        if created.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.warning("%s cannot be created: %s", settings.name, created.error_message)


class Coordinating(NamedTuple):
    """The coordinators of one kind, and the topic that may have to be created for them."""

    terms: CoordinatorTerms[Any]
    topic: InternalTopic


class CoordinatorHandler:
    """`kinds`: by the request's key type."""

    def __init__(self, kinds: Mapping[int, Coordinating], metadata: MetadataCache) -> None:
        self._kinds = kinds
        self._metadata = metadata

    def answer(self, request: Request, caller: Caller) -> Any:
        kind = self._kinds.get(request.body.key_type)
        if request.api_version < KEYS_SINCE:
            return FindCoordinatorResponse(throttle_time_ms=0, **self._find(kind, request.body.key, caller))
        keys = request.body.coordinator_keys or ()
        return FindCoordinatorResponse(
            throttle_time_ms=0,
            coordinators=[
                FindCoordinatorResponse.Coordinator(key=key, **self._find(kind, key, caller)) for key in keys
            ],
        )

    def _find(self, kind: Coordinating | None, name: str, caller: Caller) -> Found:
        if kind is None:
            return _not_found(ErrorCode.INVALID_REQUEST, "unknown key type")
        topic, number = kind.terms.topic, kind.terms.partition_of(name)
        if number is None:
            kind.topic.create()
            return _not_found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} is about to be created")
        state = self._metadata.state(TopicPartition(topic, number))
        address = None if state is None else self._metadata.address(state.leader, caller.listener)
        if state is None or address is None:
            return _not_found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody leads {topic}-{number} now")
        found = {"error_code": ErrorCode.NONE, "error_message": None, "node_id": state.leader}
        return found | {"host": address[0], "port": address[1]}


def _not_found(error: ErrorCode, message: str) -> Found:
    return {"error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}
