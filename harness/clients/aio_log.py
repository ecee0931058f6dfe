"""Records aiokafka's failed attempts and connections, with hooks into its connections: each produce request passes
them.

aiokafka only retries a batch because of Kafka's answer or a missing answer, so the hooks see every failed attempt.
"""

from collections.abc import Callable
from typing import Any

from aiokafka import errors
from aiokafka.conn import CloseReason

from harness.clients.client_log import ClientLog
from harness.clients.outcomes import LibraryError
from harness.ports.clients import Kind

_PRODUCE = 0  # its API key
_LOST: dict[CloseReason, Kind] = {
    CloseReason.CONNECTION_BROKEN: "disconnect",
    CloseReason.OUT_OF_SYNC: "disconnect",
    CloseReason.CONNECTION_TIMEOUT: "timeout",
}  # the others are aiokafka's own closes


def watch(client: Any, log: ClientLog, library_error_of: Callable[[BaseException], LibraryError]) -> None:
    """`client`: the AIOKafkaClient of a producer or consumer, before it has connected to a broker by its id."""
    _watch_requests(client, log, library_error_of)
    _watch_connections(client, log)

    def metadata_changed(cluster: Any) -> None:
        log.leaders(
            (topic, number, part.leader, None)  # it does not request leader epochs
            for topic, parts in cluster._partitions.items()
            for number, part in parts.items()
        )

    client.cluster.add_listener(metadata_changed)


def _watch_requests(client: Any, log: ClientLog, library_error_of: Callable[[BaseException], LibraryError]) -> None:
    send = client.send

    async def watched(node: int, request: Any, **more: Any) -> Any:
        if getattr(request, "API_KEY", None) != _PRODUCE:
            return await send(node, request, **more)
        try:
            answer = await send(node, request, **more)
        except errors.KafkaError as error:
            for topic, partitions in _topics(request):
                for partition, _ in partitions:
                    log.failed(topic, partition, error, node=node, library_error=library_error_of(error))
            raise
        if request.required_acks != 0:
            for topic, partitions in answer.topics:
                for partition, code, *_ in partitions:
                    kind = errors.for_code(code)
                    if kind not in (errors.NoError, errors.DuplicateSequenceNumber):
                        log.failed(topic, partition, kind(), node=node)
        return answer

    client.send = watched


def _topics(request: Any) -> Any:
    """Before aiokafka 0.13 a request is the structure that is sent, not an object that builds it."""
    return request._topics if hasattr(request, "_topics") else request.topics


def _watch_connections(client: Any, log: ClientLog) -> None:
    connect, closed = client._get_conn, client._on_connection_closed

    async def connected(node: int | str, **more: Any) -> Any:
        known = set(client._conns.values())
        connection = await connect(node, **more)
        if not isinstance(node, int):  # "bootstrap", when it knows no broker that answers
            return connection
        if connection is None:
            log.connection("disconnect", node)
        elif connection not in known:
            log.connection("connect", node)
        return connection

    def lost(connection: Any, reason: CloseReason) -> None:
        node = next((node for (node, _), known in client._conns.items() if known is connection), None)
        if isinstance(node, int) and reason in _LOST:
            log.connection(_LOST[reason], node)
        closed(connection, reason)

    client._get_conn, client._on_connection_closed = connected, lost
