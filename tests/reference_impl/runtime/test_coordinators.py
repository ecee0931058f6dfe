"""Requests for groups and transactions are refused in every version."""

import pytest

from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.config import broker_config
from reference_impl.runtime.handlers.coordinators import CoordinatorHandler
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import SUPPORTED, Request, request_class
from tests.reference_impl.runtime.test_config import SMALLEST

JOIN_GROUP = 11
FindCoordinatorRequest = request_class(ApiKey.FIND_COORDINATOR)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("transactional", [False, True])
def test_a_group_is_sent_to_the_listener_it_asked_and_a_transactional_id_nowhere(
    version: int, transactional: bool
) -> None:
    body = FindCoordinatorRequest(key="somebody", key_type=int(transactional), coordinator_keys=["somebody"])
    request = Request(api_key=ApiKey.FIND_COORDINATOR, api_version=version, correlation_id=1, client_id="c", body=body)
    caller = Caller(listener="CLIENT1", client_id="c", peer="somewhere")
    answer = CoordinatorHandler(broker_config(SMALLEST)).answer(request, caller)
    (found,) = answer.coordinators if version >= 4 else [answer]
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, "", -1
    here = ErrorCode.NONE, 3, "127.0.200.3", 9093
    assert (found.error_code, found.node_id, found.host, found.port) == (refused if transactional else here)
    assert JOIN_GROUP not in SUPPORTED
