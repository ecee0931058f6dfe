"""The client requests that only the active controller executes: CreateTopics, DeleteTopics, CreatePartitions,
ElectLeaders.

Any other broker answers NOT_CONTROLLER; clients find the controller in Metadata.
"""

import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from reference_impl.core.controller.assignment import RefusedRequestError
from reference_impl.core.controller.configuration import TOPIC_KEYS, effective_text
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.runtime.controller.controller import ControllerRole, NotControllerError, UnknownOutcomeError
from reference_impl.runtime.controller.controller_term import ControllerTerm, CreatedTopic, NewTopic
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import response_class

TOPIC_IDS_SINCE = 6  # DeleteTopics by id or name
TOP_LEVEL_ERROR_SINCE = 1  # ElectLeaders
UNCLEAN = 1
NO_TOPIC_ID = uuid.UUID(int=0)

CreateTopicsResponse = response_class(ApiKey.CREATE_TOPICS)
DeleteTopicsResponse = response_class(ApiKey.DELETE_TOPICS)
CreatePartitionsResponse = response_class(ApiKey.CREATE_PARTITIONS)
ElectLeadersResponse = response_class(ApiKey.ELECT_LEADERS)
Failure = tuple[ErrorCode, str | None]
Result = TypeVar("Result")

ELECTION_MESSAGES = {
    ErrorCode.ELECTION_NOT_NEEDED: "the partition has the leader it should have",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the preferred leader is not alive or not in sync",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "none of the replicas is alive",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
}


def failure_of(error: Exception) -> Failure:
    """The error code and message for a request that failed or whose outcome is unknown."""
    if isinstance(error, RefusedRequestError):
        return error.error, error.message
    if isinstance(error, NotControllerError):
        return ErrorCode.NOT_CONTROLLER, "this broker is not the controller"
    return ErrorCode.REQUEST_TIMED_OUT, "the coordination service did not say whether it was done"


class TopicAdmin:
    """`properties` are the broker's own; topics take from them what they do not override."""

    def __init__(self, *, role: ControllerRole | None, properties: Mapping[str, str]) -> None:
        self.role = role  # replaced with every new session; None while there is no session
        self._properties = properties

    async def _as_controller(self, action: Callable[[ControllerTerm], Awaitable[Result]]) -> Result:
        if self.role is None:
            raise NotControllerError
        return await self.role.as_controller(action)

    async def handle_create_topics(self, body: Any, api_version: int) -> Any:
        names = Counter(topic.name for topic in body.topics)
        topics = [_new_topic(topic) for topic in body.topics]
        refused = await self._refused(lambda term: term.check_creation(topics))
        results = []
        for wanted, topic in zip(body.topics, topics, strict=True):
            created: CreatedTopic | Failure
            if refused is not None:
                created = refused
            elif names[wanted.name] > 1:
                created = (ErrorCode.INVALID_REQUEST, f"topic {wanted.name!r} is named more than once")
            else:
                created = await self._create(wanted, topic, validate_only=body.validate_only)
            results.append(self._created(wanted.name, created))
        return CreateTopicsResponse(throttle_time_ms=0, topics=results)

    async def _refused(self, check: Callable[[ControllerTerm], Awaitable[None]]) -> Failure | None:
        """The error of a whole request."""
        try:
            await self._as_controller(check)
        except (RefusedRequestError, NotControllerError, UnknownOutcomeError) as error:
            return failure_of(error)
        return None

    async def _create(self, wanted: Any, new_topic: NewTopic, *, validate_only: bool) -> CreatedTopic | Failure:
        if len(new_topic.assignment or ()) != len(wanted.assignments):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice"
        try:
            return await self._as_controller(lambda term: term.create_topic(new_topic, validate_only=validate_only))
        except (RefusedRequestError, NotControllerError, UnknownOutcomeError) as error:
            return failure_of(error)

    def _created(self, name: str, outcome: CreatedTopic | Failure) -> Any:
        result = CreateTopicsResponse.fields["topics"].data_class
        if not isinstance(outcome, CreatedTopic):
            error, message = outcome
            return result(name=name, topic_id=NO_TOPIC_ID, error_code=error, error_message=message, configs=None)
        config = result.fields["configs"].data_class
        configs = []
        for key in TOPIC_KEYS.values():
            value, source = effective_text(key, outcome.topic.configs, self._properties)
            configs.append(
                config(
                    name=key.name,
                    value=value,
                    read_only=False,
                    config_source=source,
                    is_sensitive=False,
                )
            )
        return result(
            name=name,
            topic_id=outcome.topic.topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=len(outcome.assignment),
            replication_factor=len(outcome.assignment[0]),
            configs=configs,
        )

    async def handle_delete_topics(self, body: Any, api_version: int) -> Any:
        if api_version >= TOPIC_IDS_SINCE:
            wanted = [(topic.name, topic.topic_id) for topic in body.topics]
        else:
            wanted = [(name, NO_TOPIC_ID) for name in body.topic_names]
        entry = DeleteTopicsResponse.fields["responses"].data_class
        answers = []
        for name, topic_id in wanted:
            try:
                found = await self._as_controller(
                    lambda term, name=name, topic_id=topic_id: _delete(term, name, topic_id)  # type: ignore[misc]
                )
                error, message = ErrorCode.NONE, None
                name, topic_id = found
            except (RefusedRequestError, NotControllerError, UnknownOutcomeError) as failure:
                error, message = failure_of(failure)
            answers.append(entry(name=name, topic_id=topic_id, error_code=error, error_message=message))
        return DeleteTopicsResponse(throttle_time_ms=0, responses=answers)

    async def handle_create_partitions(self, body: Any, api_version: int) -> Any:
        names = Counter(topic.name for topic in body.topics)
        growth = {topic.name: topic.count for topic in body.topics}
        refused = await self._refused(lambda term: term.check_growth(growth))
        entry = CreatePartitionsResponse.fields["results"].data_class
        results = []
        for wanted in body.topics:
            error, message = ErrorCode.NONE, None
            if refused is not None:
                error, message = refused
            elif names[wanted.name] > 1:
                error, message = ErrorCode.INVALID_REQUEST, f"topic {wanted.name!r} is named more than once"
            else:
                try:
                    await self._create_partitions(wanted, validate_only=body.validate_only)
                except (RefusedRequestError, NotControllerError, UnknownOutcomeError) as failure:
                    error, message = failure_of(failure)
            results.append(entry(name=wanted.name, error_code=error, error_message=message))
        return CreatePartitionsResponse(throttle_time_ms=0, results=results)

    async def _create_partitions(self, wanted: Any, *, validate_only: bool) -> None:
        replicas = None if wanted.assignments is None else [tuple(entry.broker_ids) for entry in wanted.assignments]
        await self._as_controller(
            lambda term: term.create_partitions(wanted.name, wanted.count, replicas, validate_only=validate_only)
        )

    async def handle_elect_leaders(self, body: Any, api_version: int) -> Any:
        wanted = None
        if body.topic_partitions is not None:
            wanted = [
                TopicPartition(topic.topic, partition)
                for topic in body.topic_partitions
                for partition in topic.partitions
            ]
        # Version 0 has preferred elections only, and no error field for the whole request.
        unclean = api_version >= TOP_LEVEL_ERROR_SINCE and body.election_type == UNCLEAN
        error, message = ErrorCode.NONE, None
        outcomes: dict[TopicPartition, ErrorCode] = {}
        try:
            outcomes = await self._as_controller(lambda term: term.elect(wanted, unclean=unclean))
        except (NotControllerError, UnknownOutcomeError) as failure:
            error, message = failure_of(failure)
            outcomes = dict.fromkeys(wanted or (), error)
        return ElectLeadersResponse(
            throttle_time_ms=0,
            error_code=error,
            replica_election_results=_election_results(outcomes, message),
        )


def _new_topic(wanted: Any) -> NewTopic:
    return NewTopic(
        name=wanted.name,
        partitions=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        assignment={entry.partition_index: tuple(entry.broker_ids) for entry in wanted.assignments} or None,
        configs=tuple((config.name, config.value) for config in wanted.configs),
    )


async def _delete(term: ControllerTerm, name: str | None, topic_id: uuid.UUID) -> tuple[str, uuid.UUID]:
    if name is None:
        known = term.state.topic_named_by(topic_id)
        if known is None:
            raise RefusedRequestError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {topic_id}")
    else:
        known = term.state.topics.get(name)
        if known is None:
            raise RefusedRequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    await term.delete_topic(known.name)
    return known.name, known.topic_id


def _election_results(outcomes: Mapping[TopicPartition, ErrorCode], message: str | None) -> list[Any]:
    result = ElectLeadersResponse.fields["replica_election_results"].data_class
    partition = result.fields["partition_result"].data_class
    by_topic: dict[str, list[Any]] = {}
    for key, error in outcomes.items():
        said = message or ELECTION_MESSAGES.get(error)
        entry = partition(partition_id=key.partition, error_code=error, error_message=said)
        by_topic.setdefault(key.topic, []).append(entry)
    return [result(topic=topic, partition_result=entries) for topic, entries in by_topic.items()]
