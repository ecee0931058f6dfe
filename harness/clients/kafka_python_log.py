"""Records kafka-python's failed attempts, connections and versions of requests with hooks into its sender and its
connections, because it has no callback for them.

Every failed attempt at a batch, whatever the reason, passes the sender's `_dispatch_error` before its records are
answered.
"""

import re
from collections.abc import Callable
from typing import Any

from kafka.errors import RequestTimedOutError
from kafka.producer.sender import Sender

from harness.clients.client_log import ClientLog

_NEEDED = ("_dispatch_error", "_failed_produce", "_handle_produce_response")
TELLS_ATTEMPTS = all(hasattr(Sender, name) for name in _NEEDED)  # of the version that is installed

_COORDINATOR = re.compile(r"coordinator-(\d+)")
OFFSET_FETCH = "OffsetFetch"
# Kinds of requests in whose versions promises differ, by their key: Produce 12 and EndTxn 5 are of KIP-890, OffsetFetch
# 7 can ask for stable offsets and TxnOffsetCommit 3 names the member (KIP-447), OffsetCommit 9 is for KIP-848.
DECIDING = {0: "Produce", 8: "OffsetCommit", 9: OFFSET_FETCH, 26: "EndTxn", 28: "TxnOffsetCommit"}


def watch_producer(producer: Any, log: ClientLog) -> None:
    sender = producer._sender
    if TELLS_ATTEMPTS:
        _watch_attempts(sender, log)
    _watch_connections(sender._client._manager, log)


def watch_consumer(consumer: Any, log: ClientLog) -> None:
    _watch_connections(consumer._manager, log)


def _watch_attempts(sender: Any, log: ClientLog) -> None:
    at_work: list[int | None] = [None]  # the request whose answer or loss the sender's thread handles now

    def of_node(function: Callable[..., Any], node_at: int) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            at_work[0] = arguments[node_at]
            try:
                return function(*arguments)
            finally:
                at_work[0] = None

        return wrapped

    dispatch = sender._dispatch_error

    def dispatched(batch: Any, exception: Any, partition_response: Any = None) -> None:
        place = batch.topic_partition
        log.failed(place.topic, place.partition, exception, node=at_work[0])
        dispatch(batch, exception, partition_response)

    sender._dispatch_error = dispatched
    sender._failed_produce = of_node(sender._failed_produce, 1)
    sender._handle_produce_response = of_node(sender._handle_produce_response, 0)


def _watch_connections(manager: Any, log: ClientLog) -> None:
    """Watches connections to brokers, not to bootstrap servers (which have no id), and the leaders in metadata."""
    connect = manager.get_connection

    def connected(node: Any, *arguments: Any, **more: Any) -> Any:
        known = manager._conns.get(node)
        connection = connect(node, *arguments, **more)
        if connection is not known:
            _watch_requests(connection, log)
        if connection is not known and isinstance(node, int):
            _watch(connection, log)
            connection.init_future.add_callback(lambda _: log.connection("connect", node))
        return connection

    for node, connection in list(manager._conns.items()):
        _watch_requests(connection, log)
        if isinstance(node, int):
            _watch(connection, log)
    manager.get_connection = connected

    def metadata_changed(cluster: Any) -> None:
        # Copied in one step: other threads may add topics.
        topics = {topic: dict(parts) for topic, parts in list(cluster._partitions.items())}
        log.leaders(
            (topic, number, part.leader_id, part.leader_epoch if part.leader_epoch >= 0 else None)
            for topic, parts in topics.items()
            for number, part in parts.items()
        )

    manager.cluster.add_listener(metadata_changed)
    metadata_changed(manager.cluster)


def _watch(connection: Any, log: ClientLog) -> None:
    def lost(error: object = None) -> None:
        in_vain = isinstance(error, RequestTimedOutError)
        log.connection("timeout" if in_vain else "disconnect", connection.node_id, error)

    connection.close_future.add_both(lost)


def _watch_requests(connection: Any, log: ClientLog) -> None:
    """Of every connection: to its group's coordinator the library opens one of its own, with the id coordinator-N."""
    send, node = connection._send_request, _COORDINATOR.fullmatch(str(connection.node_id))
    number = connection.node_id if isinstance(connection.node_id, int) else int(node[1]) if node is not None else None

    def sent(request: Any, *arguments: Any, **more: Any) -> Any:
        answer = send(request, *arguments, **more)  # which has chosen the version
        if (name := DECIDING.get(request.API_KEY)) is not None and request.API_VERSION is not None:
            log.request(name, request.API_VERSION, node=number)
        return answer

    connection._send_request = sent
