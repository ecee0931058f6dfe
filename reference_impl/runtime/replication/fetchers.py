"""Fetching from leaders: one task per leader broker copies all partitions that it leads, one Fetch after the other.

The core decides what a response means for a partition; this module has the connection, the waiting and the back-off. A
partition that must retry later is skipped for replica.fetch.backoff.ms; one that failed is skipped until the controller
announces a newer leader epoch.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.partition import Partition
from reference_impl.core.partition_data import Applied, FetchedPartition, FetchPosition
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.connections import PeerConnection, PeerUnreachable
from reference_impl.runtime.disk_work import DiskEffects
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import request_class
from reference_impl.wire.record_batches import HEADER_SIZE, read_header

logger = logging.getLogger(__name__)

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 6
EARLIEST_TIMESTAMP, LATEST_TIMESTAMP = -2, -1

FetchRequest = request_class(ApiKey.FETCH)
ListOffsetsRequest = request_class(ApiKey.LIST_OFFSETS)

FULL_FETCH_WITHOUT_SESSION = -1  # session epoch: the fetch wants no session (KIP-227)

Connect = Callable[[int], PeerConnection]


class FetcherManager:
    """`connect` opens a connection to a broker's INTERNAL listener under this incarnation's replica identity."""

    def __init__(self, config: BrokerConfig, connect: Connect, disk: DiskEffects) -> None:
        self._config = config
        self._connect = connect
        self._disk = disk
        self._fetchers: dict[int, _Fetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}

    def follow(self, partition: Partition, leader: int, *, restart: bool) -> None:
        key = partition.topic_partition
        if self._leaders.get(key) == leader and not restart:
            return
        self.remove(key)
        if leader < 0:
            return
        self._leaders[key] = leader
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = _Fetcher(leader, self._config, self._connect(leader), self._disk)
        fetcher.add(partition)

    def remove(self, key: TopicPartition) -> None:
        leader = self._leaders.pop(key, None)
        fetcher = self._fetchers.get(leader) if leader is not None else None
        if fetcher is not None and leader is not None:
            fetcher.partitions.pop(key, None)
            if not fetcher.partitions:
                fetcher.stop()
                del self._fetchers[leader]

    def addresses_changed(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.wake.set()

    def reconnect_all(self) -> None:
        """Reconnects after a new registration, so that fetches carry the new broker epoch."""
        for leader, old in list(self._fetchers.items()):
            old.stop()
            new = self._fetchers[leader] = _Fetcher(leader, self._config, self._connect(leader), self._disk)
            for partition in old.partitions.values():
                new.add(partition)

    async def end(self) -> None:
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._leaders.clear()
        for fetcher in fetchers:
            fetcher.stop()
        await asyncio.gather(*(fetcher.ended() for fetcher in fetchers))


class _Fetcher:
    def __init__(self, leader: int, config: BrokerConfig, connection: PeerConnection, disk: DiskEffects) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.wake = asyncio.Event()
        self._leader = leader
        self._config = config
        self._connection = connection
        self._disk = disk
        self._not_before: dict[TopicPartition, float] = {}  # in loop time, seconds
        self._refusals: dict[TopicPartition, str] = {}
        self._round = 0
        self._reachable = True
        self._task = asyncio.ensure_future(self._run())

    def add(self, partition: Partition) -> None:
        self.partitions[partition.topic_partition] = partition
        self._not_before.pop(partition.topic_partition, None)
        self.wake.set()

    def stop(self) -> None:
        self._task.cancel()
        self._connection.close()

    async def ended(self) -> None:
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        backoff_s = self._config.replica_fetch_backoff_ms / 1000
        while True:
            try:
                positions = self._positions()
                if not positions:
                    await self._pause(backoff_s)
                    continue
                await self._fetch_once(positions)
                self._note_reachable(True, "")
            except PeerUnreachable as error:
                self._note_reachable(False, str(error))
                await self._pause(backoff_s)
            except Exception:
                logger.exception("fetching from broker %d failed; trying again", self._leader)
                await self._pause(backoff_s)

    async def _pause(self, seconds: float) -> None:
        self.wake.clear()
        try:
            async with asyncio.timeout(max(seconds, 0.001)):
                await self.wake.wait()
        except TimeoutError:
            return

    def _note_reachable(self, reachable: bool, why: str) -> None:
        if reachable != self._reachable:
            self._reachable = reachable
            logger.info("leader %d is %s %s", self._leader, "reachable again" if reachable else "unreachable:", why)

    def _positions(self) -> dict[TopicPartition, FetchPosition]:
        """Rotates the partitions, so that each has its turn if not all data fits in one response."""
        now = asyncio.get_running_loop().time()
        keys = list(self.partitions)
        self._round += 1
        turn = self._round % len(keys) if keys else 0
        return {
            key: self.partitions[key].fetch_position()
            for key in keys[turn:] + keys[:turn]
            if self._not_before.get(key, 0.0) <= now
        }

    async def _fetch_once(self, positions: dict[TopicPartition, FetchPosition]) -> None:
        config = self._config
        response = await self._connection.ask(
            ApiKey.FETCH, FETCH_VERSION, self._request(positions), timeout_ms=config.replica_socket_timeout_ms
        )
        if response.error_code:
            raise PeerUnreachable(f"fetch refused as a whole: error {response.error_code}")
        fetched = {
            TopicPartition(topic.topic, data.partition_index): data
            for topic in response.responses
            for data in topic.partitions
        }
        begun = await self._prepare(fetched)
        try:
            for key, data in fetched.items():
                partition = self.partitions.get(key)
                if partition is not None and key in positions:
                    await self._apply(partition, positions[key], data)
        finally:
            self._disk.take_back_epochs(begun)

    async def _prepare(self, fetched: Mapping[TopicPartition, Any]) -> Collection[TopicPartition]:
        """Does the disk work that appending would wait for, of all partitions at once: writes the epochs that the
        records begin, and lowers recovery points that reach into what was cut. If it fails, the append tries again and
        reports the error."""
        begun = {}
        for key, data in fetched.items():
            partition = self.partitions.get(key)
            if partition is None or data.records is None or len(data.records) < HEADER_SIZE:
                continue
            epoch = read_header(data.records, 0).leader_epoch
            if epoch > partition.log.leader_epochs.latest_epoch:
                begun[key] = epoch
        if begun:
            await self._disk.write_epochs_ahead(begun)
        await self._disk.settle_recovery_points()
        return begun

    async def _apply(self, partition: Partition, position: FetchPosition, data: Any) -> None:
        key = partition.topic_partition
        diverging = data.diverging_epoch
        fetched = FetchedPartition(
            error=ErrorCode(data.error_code),
            records=bytes(data.records or b""),
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            diverging=(diverging.epoch, diverging.end_offset)
            if diverging is not None and diverging.end_offset >= 0
            else None,
        )
        applied = partition.apply_fetched(position, fetched, now_ms=asyncio.get_running_loop().time() * 1000)
        self._log_refusal(key, partition.fetch_refusal)
        if applied is Applied.RETRY_LATER:
            self._delay(key)
        elif applied is Applied.FAILED:
            self._not_before[key] = float("inf")
            logger.warning("%s: fetching from %d stops until a newer epoch (%s)", key, self._leader, fetched.error.name)
        elif applied is Applied.OUT_OF_RANGE:
            await self._reset_to_leaders_range(partition, position)

    def _log_refusal(self, key: TopicPartition, why: str) -> None:
        """Logs each reason once: the replica stays out of sync while the leader's log holds such a batch."""
        if why and why != self._refusals.get(key):
            logger.error("%s: what leader %d sends cannot be copied (%s); trying again", key, self._leader, why)
        elif not why and key in self._refusals:
            logger.info("%s: copying from leader %d again", key, self._leader)
        if why:
            self._refusals[key] = why
        else:
            self._refusals.pop(key, None)

    def _delay(self, key: TopicPartition) -> None:
        now = asyncio.get_running_loop().time()
        self._not_before[key] = now + self._config.replica_fetch_backoff_ms / 1000

    async def _reset_to_leaders_range(self, partition: Partition, position: FetchPosition) -> None:
        """R23, OFFSET_OUT_OF_RANGE: requests the start and end of the leader's log and truncates accordingly."""
        start = await self._leader_offset(partition.topic_partition, position, EARLIEST_TIMESTAMP)
        end = await self._leader_offset(partition.topic_partition, position, LATEST_TIMESTAMP)
        if start is None or end is None:
            self._delay(partition.topic_partition)
        elif self.partitions.get(partition.topic_partition) is partition:
            partition.truncate_out_of_range(start, end, leader_epoch=position.current_leader_epoch)

    async def _leader_offset(self, key: TopicPartition, position: FetchPosition, timestamp: int) -> int | None:
        wanted = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=key.partition,
            current_leader_epoch=position.current_leader_epoch,
            timestamp=timestamp,
        )
        body = ListOffsetsRequest(
            replica_id=self._config.broker_id,
            isolation_level=0,
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=key.topic, partitions=[wanted])],
        )
        timeout_ms = self._config.replica_socket_timeout_ms
        response = await self._connection.ask(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, body, timeout_ms=timeout_ms)
        answer = response.topics[0].partitions[0]
        return None if answer.error_code else int(answer.offset)

    def _request(self, positions: dict[TopicPartition, FetchPosition]) -> Any:
        by_topic: dict[str, list[Any]] = {}
        for key, position in positions.items():
            by_topic.setdefault(key.topic, []).append(
                FetchRequest.FetchTopic.FetchPartition(
                    partition=key.partition,
                    current_leader_epoch=position.current_leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=self.partitions[key].log.log_start_offset,
                    partition_max_bytes=self._config.replica_fetch_max_bytes,
                )
            )
        return FetchRequest(
            replica_id=self._config.broker_id,
            max_wait_ms=self._config.replica_fetch_wait_max_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=10 * 1024 * 1024,  # Kafka's default of replica.fetch.response.max.bytes
            isolation_level=0,
            session_id=0,
            session_epoch=FULL_FETCH_WITHOUT_SESSION,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=parts) for topic, parts in by_topic.items()],
            forgotten_topics_data=[],
            rack_id="",
        )
