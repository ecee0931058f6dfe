"""Refuses consumer groups and transactions, which are not implemented.

A client that joins a group fails at once with a message; a client that only sets a group id is not disturbed
(docs/clients.md describes each library). FindCoordinator is offered, because librdkafka takes a broker without it for
too old for lz4; this broker names itself as a group's coordinator but does not offer JoinGroup. A transactional id gets
the one error on which every library stops retrying.
"""

import logging
from typing import Any

from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, response_class

logger = logging.getLogger(__name__)

FindCoordinatorResponse = response_class(ApiKey.FIND_COORDINATOR)
TRANSACTION_KEY = 1  # key type of the request; a group is 0


class CoordinatorHandler:
    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def answer(self, request: Request, caller: Caller) -> Any:
        if request.body.key_type == TRANSACTION_KEY:
            message = "this cluster does not serve transactions yet"
            logger.warning("client %.100r at %s is refused: %s", caller.client_id, caller.peer, message)
            found = {"error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "error_message": message}
            found |= {"node_id": -1, "host": "", "port": -1}
        else:
            _, host, port = self._config.advertised(caller.listener)
            found = {"error_code": ErrorCode.NONE, "error_message": None}
            found |= {"node_id": self._config.broker_id, "host": host, "port": port}
        keys = list(request.body.coordinator_keys or ()) if request.api_version >= 4 else []
        return FindCoordinatorResponse(
            throttle_time_ms=0,
            coordinators=[FindCoordinatorResponse.Coordinator(key=key, **found) for key in keys],
            **found,
        )
