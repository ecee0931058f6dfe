"""DescribeConfigs and IncrementalAlterConfigs, which any broker executes.

Topic overrides are in /config/topics/T. The controller watches them and sends them to every broker, so a change takes
effect without a restart. Every broker key is read-only: changing one takes a restart (claim S21).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from reference_impl.coordination.client import BadVersion, CoordinationClient, CoordinationError, NodeExists, NoNode
from reference_impl.core.controller import znodes
from reference_impl.core.controller.assignment import RefusedRequestError, check_topic_name
from reference_impl.core.controller.configuration import (
    BROKER_KEYS,
    TOPIC_KEYS,
    ConfigKey,
    ConfigScope,
    ConfigSource,
    InvalidConfigurationError,
    effective_text,
    key_table,
)
from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import response_class

SET, DELETE = 0, 1
ALL_BROKERS = ""  # resource name of the dynamic defaults of the whole cluster (KIP-226)

DescribeConfigsResponse = response_class(ApiKey.DESCRIBE_CONFIGS)
IncrementalAlterConfigsResponse = response_class(ApiKey.INCREMENTAL_ALTER_CONFIGS)


class ConfigAdmin:
    """`properties` are those of server.properties, as written."""

    def __init__(
        self, *, broker_id: int, coordination: CoordinationClient | None, properties: Mapping[str, str]
    ) -> None:
        self.coordination = coordination  # replaced with every new session; None while there is no session
        self._broker_id = broker_id
        self._properties = properties

    async def handle_describe_configs(self, body: Any, api_version: int) -> Any:
        result = DescribeConfigsResponse.fields["results"].data_class
        results = []
        for resource in body.resources:
            error, message, configs = ErrorCode.NONE, None, []
            try:
                scope = self._scope(resource)
                overrides = await self._overrides(resource.resource_name) if scope is ConfigScope.TOPIC else {}
                asked = resource.configuration_keys
                configs = [
                    self._described(result, key, overrides, synonyms=body.include_synonyms)
                    for key in _keys_of(scope, resource.resource_name)
                    if asked is None or key.name in asked
                ]
            except (RefusedRequestError, CoordinationError) as failure:
                error, message = _failure_of(failure)
            results.append(
                result(
                    error_code=error,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=configs,
                )
            )
        return DescribeConfigsResponse(throttle_time_ms=0, results=results)

    def _scope(self, resource: Any) -> ConfigScope:
        try:
            scope = ConfigScope(resource.resource_type)
        except ValueError:
            raise RefusedRequestError(
                ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no configuration here"
            ) from None
        if scope is ConfigScope.BROKER and resource.resource_name not in (str(self._broker_id), ALL_BROKERS):
            raise RefusedRequestError(
                ErrorCode.INVALID_REQUEST,
                f"this is broker {self._broker_id}: ask broker {resource.resource_name!r} itself",
            )
        return scope

    async def _overrides(self, topic: str) -> dict[str, str]:
        return (await self._read(topic))[0]

    async def _read(self, topic: str) -> tuple[dict[str, str], int]:
        """Returns a topic's overrides and the version of their znode; -1: no znode."""
        check_topic_name(topic)
        coordination = self._service()
        if await coordination.exists(znodes.topic_path(topic)) is None:
            raise RefusedRequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        try:
            data, stat = await coordination.get(znodes.topic_config_path(topic))
        except NoNode:
            return {}, -1
        return znodes.read_configs(data), stat.version

    def _service(self) -> CoordinationClient:
        if self.coordination is None:
            raise RefusedRequestError(ErrorCode.REQUEST_TIMED_OUT, "this broker has no session")
        return self.coordination

    def _described(self, result: Any, key: ConfigKey, overrides: Mapping[str, str], *, synonyms: bool) -> Any:
        config = result.fields["configs"].data_class
        value, source = effective_text(key, overrides, self._properties)
        return config(
            name=key.name,
            value=value,
            read_only=not key.dynamic,
            config_source=source,
            is_default=source is ConfigSource.DEFAULT_CONFIG,
            is_sensitive=False,
            synonyms=self._synonyms(config, key, overrides) if synonyms else [],
            config_type=key.type,
            documentation=None,
        )

    def _synonyms(self, config: Any, key: ConfigKey, overrides: Mapping[str, str]) -> list[Any]:
        """Every value that is or would be in force, in order of precedence (KIP-226)."""
        synonym = config.fields["synonyms"].data_class
        broker_name = key.broker_synonym or key.name
        found = []
        if key.scope is ConfigScope.TOPIC and key.name in overrides:
            source = ConfigSource.DYNAMIC_TOPIC_CONFIG
            found.append(synonym(name=key.name, value=overrides[key.name], source=source))
        if broker_name in self._properties:
            source = ConfigSource.STATIC_BROKER_CONFIG
            found.append(synonym(name=broker_name, value=self._properties[broker_name], source=source))
        if key.default is not None:
            found.append(synonym(name=broker_name, value=key.default, source=ConfigSource.DEFAULT_CONFIG))
        return found

    async def handle_incremental_alter_configs(self, body: Any, api_version: int) -> Any:
        response = IncrementalAlterConfigsResponse.fields["responses"].data_class
        responses = []
        for resource in body.resources:
            error, message = ErrorCode.NONE, None
            try:
                await self._alter(resource, validate_only=body.validate_only)
            except (RefusedRequestError, CoordinationError) as failure:
                error, message = _failure_of(failure)
            responses.append(
                response(
                    error_code=error,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)

    async def _alter(self, resource: Any, *, validate_only: bool) -> None:
        if resource.resource_type == ConfigScope.BROKER:
            raise _refused_broker_keys([config.name for config in resource.configs])
        self._scope(resource)
        topic = resource.resource_name
        if len({config.name for config in resource.configs}) != len(resource.configs):
            raise RefusedRequestError(ErrorCode.INVALID_REQUEST, "a key is altered twice")
        while True:
            overrides, version = await self._read(topic)
            for config in resource.configs:
                _apply(overrides, config)
            if validate_only:
                return
            data, path = znodes.configs(overrides), znodes.topic_config_path(topic)
            try:
                if version < 0:
                    await self._service().create(path, data)
                else:
                    await self._service().set(path, data, version=version)
            except (BadVersion, NodeExists):
                continue  # another client changed another key in between: keep both changes
            return


def _keys_of(scope: ConfigScope, name: str) -> Iterable[ConfigKey]:
    if scope is ConfigScope.BROKER and name == ALL_BROKERS:
        return ()  # no broker key is dynamic here
    return key_table(scope).values()


def _apply(overrides: dict[str, str], config: Any) -> None:
    name, operation, value = config.name, config.config_operation, config.value
    key = TOPIC_KEYS.get(name)
    if key is None:
        raise RefusedRequestError(ErrorCode.INVALID_CONFIG, f"unknown topic configuration key {name!r}")
    if operation == DELETE:
        overrides.pop(name, None)
        return
    if operation != SET:
        raise RefusedRequestError(ErrorCode.INVALID_REQUEST, f"{name}: no list, there is only SET and DELETE")
    if value is None:
        raise RefusedRequestError(ErrorCode.INVALID_REQUEST, f"{name}: SET needs a value")
    try:
        key.validate(value)
    except InvalidConfigurationError as error:
        raise RefusedRequestError(ErrorCode.INVALID_CONFIG, str(error)) from error
    overrides[name] = value


def _refused_broker_keys(names: list[str]) -> RefusedRequestError:
    unknown = sorted(set(names) - set(BROKER_KEYS))
    if unknown:
        return RefusedRequestError(ErrorCode.INVALID_CONFIG, f"unknown broker configuration key {unknown[0]!r}")
    return RefusedRequestError(
        ErrorCode.INVALID_REQUEST,
        f"{', '.join(sorted(names))}: read-only on a broker; alter the topic, or change server.properties and restart",
    )


def _failure_of(error: Exception) -> tuple[ErrorCode, str]:
    if isinstance(error, RefusedRequestError):
        return error.error, error.message
    return ErrorCode.REQUEST_TIMED_OUT, f"the coordination service did not answer: {error}"
