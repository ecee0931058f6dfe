"""Assembles a broker: what is started, in which order, and how it ends.

Start: log directory with recovery, listeners, session and registration, controller role. The end is either clean
(SIGTERM: a controlled shutdown hands over leaderships, the log is flushed, the clean-shutdown file is written) or
abrupt (`abandon`, like SIGKILL: every connection drops without a message and the session expires by its timeout).
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from reference_impl.coordination.client import CoordinationClient, WatchEvent
from reference_impl.core.flaws import with_flaws
from reference_impl.core.state import LiveBroker
from reference_impl.runtime.config import BrokerConfig, ConfigurationError
from reference_impl.runtime.connections import PeerConnection, Peers, PeerUnreachable
from reference_impl.runtime.controller.controlling import Controlling
from reference_impl.runtime.controller.link import BrokersLink, ControllerLink
from reference_impl.runtime.coordinators.groups import GroupCoordinators
from reference_impl.runtime.coordinators.markers import MarkerSender
from reference_impl.runtime.coordinators.terms import TICK_MS
from reference_impl.runtime.coordinators.transactions import TransactionCoordinators
from reference_impl.runtime.coordinators.verification import TransactionVerifier
from reference_impl.runtime.decoding import Decoding
from reference_impl.runtime.disk_work import DiskEffects, DiskWork
from reference_impl.runtime.evidence import EvidenceJournal
from reference_impl.runtime.handlers import api
from reference_impl.runtime.handlers.broker_authentication import BrokerAuthentication, read_secret
from reference_impl.runtime.handlers.coordinators import (
    GROUP_KEY,
    TRANSACTION_KEY,
    Coordinating,
    CoordinatorHandler,
    InternalTopic,
    offsets_topic,
    transactions_topic,
)
from reference_impl.runtime.handlers.delete_records import DeleteRecordsHandler
from reference_impl.runtime.handlers.fetch import FetchHandler
from reference_impl.runtime.handlers.group_admin import GroupAdminHandler
from reference_impl.runtime.handlers.group_members import GroupMembersHandler
from reference_impl.runtime.handlers.group_offsets import GroupOffsetsHandler
from reference_impl.runtime.handlers.metadata import MetadataCache, MetadataHandler
from reference_impl.runtime.handlers.offsets import OffsetsHandler
from reference_impl.runtime.handlers.produce import ProduceHandler
from reference_impl.runtime.handlers.producer_ids import ProducerIds
from reference_impl.runtime.handlers.transaction_admin import TransactionAdminHandler
from reference_impl.runtime.handlers.transactions import TransactionsHandler
from reference_impl.runtime.handlers.txn_markers import WriteTxnMarkersHandler
from reference_impl.runtime.hosts import Hosts
from reference_impl.runtime.replication.cleaner import LogCleaner
from reference_impl.runtime.replication.fetchers import FetcherManager
from reference_impl.runtime.replication.isr_proposals import IsrProposalSender
from reference_impl.runtime.replication.purgatory import Purgatory
from reference_impl.runtime.replication.replica_identity import client_id_of
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.runtime.replication.retention import Retention
from reference_impl.runtime.server import Listener
from reference_impl.runtime.session import BrokerSession, SessionChange
from reference_impl.runtime.timers import every
from reference_impl.runtime.topic_settings import log_settings
from reference_impl.storage.descriptors import Descriptors
from reference_impl.storage.log_directory import LogDirectory
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import request_class

logger = logging.getLogger(__name__)

CONTROLLED_SHUTDOWN_VERSION = 0
CONTROLLED_SHUTDOWN_RETRY_S = 0.1
VERIFIED_WITHIN_MS = 2000  # then the producer tries again: its coordinator may be another one by then

ControlledShutdownRequest = request_class(ApiKey.CONTROLLED_SHUTDOWN)


class Broker:
    """Create it on a running loop. `monotonic_ns` stamps the evidence; all other time is the loop's. The broker owns
    `decoding` and `disk_work` and closes them. `descriptors` keeps the process's last file descriptors from clients."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        hosts: Hosts,
        wall_clock_ms: Callable[[], int],
        monotonic_ns: Callable[[], int],
        randomness: Random,
        decoding: Decoding,
        disk_work: DiskWork,
        descriptors: Descriptors | None = None,
    ) -> None:
        try:
            rules = with_flaws(config.chaos_flaws)
        except ValueError as error:
            raise ConfigurationError(f"chaos.flaws: {error}") from None
        secret = read_secret(config.chaos_cluster_secret_file)
        self._authentication = BrokerAuthentication(secret, broker_id=config.broker_id, randomness=randomness)
        self.config = config
        self.hosts = hosts
        descriptors = descriptors if descriptors is not None else Descriptors()
        self.metadata = MetadataCache()
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[BaseException] = self._loop.create_future()
        self._tasks: list[asyncio.Task[None]] = []
        self._evidence = EvidenceJournal(config.chaos_evidence_dir, monotonic_ns)
        self._log_directory = LogDirectory(
            config.log_directory,
            broker_id=config.broker_id,
            segment_bytes=config.log_segment_bytes,
            index_interval_bytes=config.log_index_interval_bytes,
            segment_ms=log_settings(config, {}).segment_ms,
            new_id=lambda: uuid.UUID(bytes=randomness.randbytes(16), version=4),
            failed=self._disk_failed_somewhere,
            descriptors=descriptors,
            rules=rules.storage,
        )
        self._disk = DiskEffects(self._log_directory, disk_work)
        self._purgatory = Purgatory()
        self._fetchers = FetcherManager(config, self._connect_as_replica, self._disk)
        self.replicas = ReplicaManager(
            config=config,
            log_directory=self._log_directory,
            disk=self._disk,
            rules=rules,
            evidence=self._evidence,
            metadata=self.metadata,
            purgatory=self._purgatory,
            fetchers=self._fetchers,
            wall_clock_ms=wall_clock_ms,
        )
        self.coordinators = GroupCoordinators(
            config=config,
            replicas=self.replicas,
            metadata=self.metadata,
            rules=rules.groups,
            new_id=lambda: str(uuid.UUID(bytes=randomness.randbytes(16), version=4)),
        )
        marker_peers = self._peers(timeout_ms=config.controller_socket_timeout_ms)
        verifying_peers = self._peers(timeout_ms=VERIFIED_WITHIN_MS)
        self._peer_connections = (marker_peers, verifying_peers)
        self._markers = MarkerSender(self.metadata, marker_peers.ask)
        self.transactions = TransactionCoordinators(
            config=config,
            replicas=self.replicas,
            metadata=self.metadata,
            markers=self._markers,
            rules=rules.transactions,
        )
        self._internal_topics = [
            InternalTopic(settings, self._ask_controller, timeout_ms=config.request_timeout_ms)
            for settings in (offsets_topic(config), transactions_topic(config))
        ]
        self._retention = Retention(self.replicas, self._log_directory, wall_clock_ms)
        self._cleaner = LogCleaner(config, self.replicas, self._disk, self._retention, wall_clock_ms)
        self._session = BrokerSession(
            config=config,
            resolve=hosts.address_of,
            directory_ids=[self._log_directory.directory_id],
            wall_clock_ms=wall_clock_ms,
            randomness=randomness,
            registered=self._registered,
            on_watch=self._watched,
            on_session=self._session_changed,
            lost=self._session_lost,
        )
        self._producer_ids = ProducerIds(config.broker_id)
        self._brokers_link = BrokersLink(
            broker_id=config.broker_id,
            connect=self._connect_as_controller,
            ask_self=self._ask_self,
            timeout_ms=config.controller_socket_timeout_ms,
        )
        self._controlling = Controlling(
            config,
            rules=rules.controller,
            brokers=self._brokers_link,
            randomness=randomness,
            wall_clock_ms=wall_clock_ms,
        )
        self._decoding = decoding
        self._verifier = TransactionVerifier(self.metadata, verifying_peers.ask)
        self._produce = ProduceHandler(self.replicas, self._purgatory, decoding, self._verifier)
        self._api = api.Api(
            self._handlers(),
            broker_id=config.broker_id,
            inter_broker_listener=config.inter_broker_listener_name,
            transaction_version=config.reference_transaction_version,
        )
        self._controller_link = ControllerLink(
            broker_id=config.broker_id,
            metadata=self.metadata,
            connect=self._connect_as_broker,
            ask_self=self._api.ask_self,
            timeout_ms=config.controller_socket_timeout_ms,
        )
        self._isr_proposals = IsrProposalSender(self.replicas, self._controller_link, broker_id=config.broker_id)
        self.listeners = [
            Listener(
                name=endpoint.listener,
                host=hosts.address_of(endpoint.host),
                port=endpoint.port,
                dispatch=self._api.dispatch,
                max_request_bytes=config.socket_request_max_bytes,
                descriptors_below=(
                    descriptors.for_brokers
                    if endpoint.listener == config.inter_broker_listener_name
                    else descriptors.for_clients
                ),
            )
            for endpoint in config.listeners
        ]

    def _handlers(self) -> dict[int, api.Handler]:
        replicas = self.replicas
        fetch = FetchHandler(replicas, self._purgatory)
        offsets = OffsetsHandler(replicas, self._decoding)
        metadata = MetadataHandler(self.metadata)
        groups = self.coordinators
        members, admin = GroupMembersHandler(groups), GroupAdminHandler(groups)
        committed = GroupOffsetsHandler(groups, self.metadata, self._verifier, replicas.wall_clock_ms)
        transactions = TransactionsHandler(
            self.transactions, groups, self.metadata, self._producer_ids, self._internal_topics[0].create
        )
        described = TransactionAdminHandler(self.transactions, replicas)
        coordinating = {
            GROUP_KEY: Coordinating(groups, self._internal_topics[0]),
            TRANSACTION_KEY: Coordinating(self.transactions, self._internal_topics[1]),
        }
        return {
            ApiKey.PRODUCE: self._produce.answer,
            ApiKey.FETCH: fetch.answer,
            ApiKey.LIST_OFFSETS: offsets.list_offsets,
            ApiKey.DELETE_RECORDS: DeleteRecordsHandler(replicas, self._purgatory).answer,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
            ApiKey.METADATA: metadata.answer,
            ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
            ApiKey.SASL_AUTHENTICATE: self._authentication.answer,
            ApiKey.FIND_COORDINATOR: CoordinatorHandler(coordinating, self.metadata).answer,
            ApiKey.JOIN_GROUP: members.join,
            ApiKey.SYNC_GROUP: members.sync,
            ApiKey.HEARTBEAT: members.heartbeat,
            ApiKey.LEAVE_GROUP: members.leave,
            ApiKey.OFFSET_COMMIT: committed.commit,
            ApiKey.OFFSET_FETCH: committed.fetch,
            ApiKey.OFFSET_DELETE: committed.delete,
            ApiKey.DESCRIBE_GROUPS: admin.describe,
            ApiKey.LIST_GROUPS: admin.list,
            ApiKey.DELETE_GROUPS: admin.delete,
            ApiKey.INIT_PRODUCER_ID: transactions.init,
            ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: committed.commit_in_transaction,
            ApiKey.END_TXN: transactions.end,
            ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersHandler(replicas, groups, self._purgatory).answer,
            ApiKey.LIST_TRANSACTIONS: described.list,
            ApiKey.DESCRIBE_TRANSACTIONS: described.describe,
            ApiKey.DESCRIBE_PRODUCERS: described.describe_producers,
            ApiKey.LEADER_AND_ISR: lambda request, _: replicas.leader_and_isr(request.body),
            ApiKey.STOP_REPLICA: lambda request, _: replicas.stop_replica(request.body),
            ApiKey.UPDATE_METADATA: lambda request, _: replicas.update_metadata(request.body),
            **self._controlling.handlers(),
        }

    # Start and end

    async def start(self) -> None:
        """Returns when the listeners are open; registration continues in the background, however long it takes."""
        config, replicas = self.config, self.replicas
        replicas.load()
        self._evidence.note("broker_start", detail={"broker": config.broker_id, "clean": self._log_directory.was_clean})
        for listener in self.listeners:
            await listener.start()
        self._spawn(self._session.run())
        self._spawn(self._isr_proposals.run())
        self._spawn(self._cleaner.keep_marking())
        self._spawn(self._cleaner.run())
        watermark_interval_ms = config.replica_high_watermark_checkpoint_interval_ms
        recovery_interval_ms = config.log_flush_offset_checkpoint_interval_ms
        self._tasks += [
            every(watermark_interval_ms, replicas.checkpoint_high_watermarks),
            every(recovery_interval_ms, self._disk.checkpoint_recovery_points),
            every(config.replica_lag_time_max_ms / 2, replicas.check_shrink),
            every(config.producer_id_expiration_check_interval_ms, replicas.expire_producers),
            every(TICK_MS, self.coordinators.tick),
            every(TICK_MS, self.transactions.tick),
            every(
                config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self.transactions.abort_timed_out
            ),
            every(config.transaction_remove_expired_transaction_cleanup_interval_ms, self.transactions.expire),
            every(config.offsets_retention_check_interval_ms, self.coordinators.expire),
            every(config.log_flush_start_offset_checkpoint_interval_ms, self._disk.checkpoint_log_starts),
            every(
                config.log_retention_check_interval_ms,
                self._retention.check,
                first_after_ms=config.log_initial_task_delay_ms,
            ),
        ]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Reports the end of a permanent task to the broker's owner: without it the broker cannot work."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.critical("a part of the broker died: %s", error, exc_info=error)
            if not self.failed.done():
                self.failed.set_result(error)

    def _disk_failed_somewhere(self, error: OSError) -> None:
        """Called with a disk error, perhaps from a thread that waited for the disk."""
        self._loop.call_soon_threadsafe(self._disk_failed, error)

    def _disk_failed(self, error: OSError) -> None:
        """Halts the broker without further messages, as Kafka does: its only log directory has failed."""
        logger.critical("broker %d halts: its only log directory failed: %s", self.config.broker_id, error)
        if not self.failed.done():
            self.failed.set_result(error)

    async def stop(self) -> None:
        """The clean end: hands over leaderships, leaves the cluster, flushes."""
        if self.config.controlled_shutdown_enable:
            await self._controlled_shutdown()
        await self._session.close()
        await self._end_activity()
        await self.replicas.checkpoint_high_watermarks()
        await self._disk.flush()
        await self._disk.close()
        self._log_directory.close_cleanly(broker_epoch=self.replicas.broker_epoch)
        self._evidence.close()
        logger.info("broker %d stopped", self.config.broker_id)

    async def abandon(self) -> None:
        """The abrupt end, like SIGKILL, for brokers that share a process with others."""
        self._evidence.close()
        self._session.abandon()
        await self._end_activity()
        await self._disk.close()
        self._log_directory.abandon()

    async def _end_activity(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._retention.stop()
        await self._controlling.end()
        self._controller_link.close()
        self._brokers_link.close()
        for listener in self.listeners:
            listener.close()
        await self.replicas.end_turns()  # the controller's messages may create new fetchers
        await self._fetchers.end()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(listener.wait_closed() for listener in self.listeners))
        self._produce.stop()
        for topic in self._internal_topics:
            topic.stop()
        self.coordinators.end()
        self.transactions.end()
        self._markers.stop()
        for peers in self._peer_connections:
            peers.close()
        await self._decoding.close()

    async def _controlled_shutdown(self) -> None:
        """Asks the controller to move this broker's leaderships; stops anyway after a timeout (R55)."""
        body = ControlledShutdownRequest(broker_id=self.config.broker_id, broker_epoch=self.replicas.broker_epoch)
        try:
            async with asyncio.timeout(self.config.controller_socket_timeout_ms / 1000):
                while True:
                    try:
                        response = await self._controller_link.ask(
                            ApiKey.CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN_VERSION, body
                        )
                    except PeerUnreachable as error:
                        logger.info("controlled shutdown: %s", error)
                    else:
                        if not response.error_code and not response.remaining_partitions:
                            return
                    await asyncio.sleep(CONTROLLED_SHUTDOWN_RETRY_S)
        except TimeoutError:
            logger.warning("controlled shutdown did not end in time; stopping without it")

    # Session

    async def _registered(self, client: CoordinationClient, broker_epoch: int) -> None:
        logger.info("broker %d registered, epoch %d", self.config.broker_id, broker_epoch)
        self._evidence.note("broker_registered", epoch=broker_epoch)
        self.replicas.broker_epoch = broker_epoch
        self.metadata.cluster_id = self._session.cluster_id
        if self._session.cluster_id is not None:
            self._log_directory.belong_to(self._session.cluster_id)
        self._producer_ids.coordination = client
        self._fetchers.reconnect_all()
        await self._controlling.begin(client)

    def _watched(self, event: WatchEvent) -> None:
        self._controlling.on_watch(event)

    def _session_changed(self, change: SessionChange) -> None:
        self._controlling.on_session(change)

    async def _session_lost(self) -> None:
        self._producer_ids.coordination = None
        await self._controlling.end()

    # Connections to other brokers

    async def _ask_controller(self, api_key: int, api_version: int, body: Any) -> Any:
        return await self._controller_link.ask(api_key, api_version, body)

    def _peers(self, *, timeout_ms: float) -> Peers:
        return Peers(
            own_id=self.config.broker_id,
            ask_self=self._ask_self,
            connect=self._connect_as_broker,
            timeout_ms=timeout_ms,
        )

    async def _ask_self(self, api_key: int, api_version: int, body: Any) -> Any:
        return await self._api.ask_self(api_key, api_version, body)

    def _connect_as_replica(self, broker_id: int) -> PeerConnection:
        identity = client_id_of(self.config.broker_id, self.replicas.broker_epoch)
        return self._connection(broker_id, identity, lambda: self.metadata.brokers.get(broker_id))

    def _connect_as_broker(self, broker_id: int) -> PeerConnection:
        identity = f"broker-{self.config.broker_id}"
        return self._connection(broker_id, identity, lambda: self.metadata.brokers.get(broker_id))

    def _connect_as_controller(self, broker: LiveBroker) -> PeerConnection:
        return self._connection(broker.broker_id, f"controller-{self.config.broker_id}", lambda: broker)

    def _connection(self, broker_id: int, client_id: str, known: Callable[[], LiveBroker | None]) -> PeerConnection:
        def address() -> tuple[str, int] | None:
            broker = known()
            found = None if broker is None else broker.address(self.config.inter_broker_listener_name)
            return None if found is None else (self.hosts.address_of(found[0]), found[1])

        return PeerConnection(
            client_id=client_id,
            address=address,
            opened=lambda exchange: self._authentication.authenticate(exchange, broker_id),
        )
