"""Selects the handler of each API key and checks who may call it.

A request in the name of a broker is accepted only on a connection that has proved to be that broker's. Every other
request, at any listener, is a client's.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.connections import PeerUnreachable
from reference_impl.runtime.server import Answer, Caller, CloseConnection, Standing
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import INTERNAL_ONLY, SUPPORTED, Request, response_class

# The field that names the sending broker; where clients may send the request too, they use a negative number.
SPEAKER: Mapping[int, str] = {
    ApiKey.FETCH: "replica_id",
    ApiKey.LIST_OFFSETS: "replica_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "replica_id",
    ApiKey.LEADER_AND_ISR: "controller_id",
    ApiKey.STOP_REPLICA: "controller_id",
    ApiKey.UPDATE_METADATA: "controller_id",
    ApiKey.CONTROLLED_SHUTDOWN: "broker_id",
    ApiKey.ALTER_PARTITION: "broker_id",
}

TRANSACTION_VERSION, TRANSACTION_VERSION_MAX = "transaction.version", 2
FEATURES_FROM_ZERO_SINCE = 4  # ApiVersions: older clients know no feature that may be 0 (KAFKA-17011)
# What later versions of a client's request are for.
BROKERS_ONLY_SINCE: Mapping[int, int] = {ApiKey.ADD_PARTITIONS_TO_TXN: 4}

ApiVersionsResponse = response_class(ApiKey.API_VERSIONS)

Handler = Callable[[Request, Caller], Answer | Awaitable[Answer]]


class Api:
    def __init__(
        self,
        handlers: Mapping[int, Handler],
        *,
        broker_id: int,
        inter_broker_listener: str,
        transaction_version: int,
    ) -> None:
        versions = ApiVersions(transaction_version=transaction_version)
        self._handlers = {ApiKey.API_VERSIONS: versions.answer, **handlers}
        self._broker_id = broker_id
        self._inter_broker_listener = inter_broker_listener

    def dispatch(self, request: Request, caller: Caller) -> Answer | Awaitable[Answer]:
        key = request.api_key
        handler = self._handlers.get(key)
        if handler is None or (key == ApiKey.SASL_AUTHENTICATE and caller.listener != self._inter_broker_listener):
            raise CloseConnection(f"API key {key} is not served on listener {caller.listener}")
        if request.api_version >= BROKERS_ONLY_SINCE.get(key, 1 << 15) and caller.standing.broker_id is None:
            raise CloseConnection(f"API key {key} version {request.api_version} is for brokers alone")
        field = SPEAKER.get(key)
        if field is not None:
            speaker = getattr(request.body, field)
            if speaker != caller.standing.broker_id and (speaker >= 0 or key in INTERNAL_ONLY):
                raise CloseConnection(
                    f"API key {key} in the name of broker {speaker}, which {caller.client_id!r} has not proved to be"
                )
        return handler(request, caller)

    async def ask_self(self, api_key: int, api_version: int, body: Any) -> Any:
        """Dispatches a request of this broker to itself, without a socket."""
        request = Request(api_key=api_key, api_version=api_version, correlation_id=0, client_id=None, body=body)
        try:
            own = Standing(broker_id=self._broker_id)
            caller = Caller(listener=self._inter_broker_listener, client_id=None, peer="self", standing=own)
            answer = self.dispatch(request, caller)
            return await answer if inspect.isawaitable(answer) else answer
        except CloseConnection as error:
            raise PeerUnreachable(str(error)) from error


class ApiVersions:
    """What this broker speaks, and the features of the cluster (KIP-584): a client has an epoch for each transaction
    only where `transaction.version` is 2 (R87)."""

    def __init__(self, *, transaction_version: int) -> None:
        level = ApiVersionsResponse.FinalizedFeatureKey(
            name=TRANSACTION_VERSION, max_version_level=transaction_version, min_version_level=transaction_version
        )
        self._finalized = [level] if transaction_version > 0 else []  # level 0 is the same as none: Kafka names none

    def answer(self, request: Request, caller: Caller) -> Any:
        """KIP-511: an unknown version is answered in v0 with error 35 and the supported ranges; the encoder selects
        v0."""
        known = request.api_version in SUPPORTED[ApiKey.API_VERSIONS].versions
        supported = ApiVersionsResponse.SupportedFeatureKey(
            name=TRANSACTION_VERSION, min_version=0, max_version=TRANSACTION_VERSION_MAX
        )
        return ApiVersionsResponse(
            error_code=ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersionsResponse.ApiVersion(api_key=key, min_version=each.lowest, max_version=each.highest)
                for key, each in sorted(SUPPORTED.items())
            ],
            throttle_time_ms=0,
            supported_features=[supported] if request.api_version >= FEATURES_FROM_ZERO_SINCE else [],
            finalized_features_epoch=0,
            finalized_features=self._finalized,
        )
