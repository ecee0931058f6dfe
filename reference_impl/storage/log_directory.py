"""A broker's log directory: its identity, its replicas' logs, its checkpoints, and whether it was left in order.

At the start the clean-shutdown file is noted and removed; without it every log is verified from its recovery point on
(replication.md 1.14). Everything here blocks; fsync happens in `flush`, in the checkpoints, in `close_cleanly`, and
when a leader epoch is assigned.
"""

import fcntl
import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from reference_impl.core.identifiers import TopicPartition, is_topic_name
from reference_impl.storage import checkpoints, meta_properties
from reference_impl.storage.disk import Disk
from reference_impl.storage.errors import StorageError
from reference_impl.storage.log import NEVER_MS, Log, LogSettings

logger = logging.getLogger(__name__)

HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
DELETED_SUFFIX = "-delete"
FILE_NAME_LENGTH_MAX = 255


class LogDirectory:
    def __init__(
        self,
        path: Path,
        *,
        broker_id: int,
        segment_bytes: int,
        index_interval_bytes: int = 4096,
        segment_ms: int = NEVER_MS,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
        failed: Callable[[OSError], None] = lambda _: None,
    ) -> None:
        """Takes the directory (it is made if there is none) and opens every replica in it, repairing what an unclean
        stop has left. Raises StorageError when the directory is in use, or another broker's. `failed` is told when a
        write fails: the directory is offline from then on."""
        self.path = path
        self._settings = LogSettings(
            segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes, segment_ms=segment_ms
        )
        self._new_id = new_id
        self._disk = Disk(path, failed)
        self._logs: dict[TopicPartition, Log] = {}
        self._topic_ids: dict[TopicPartition, uuid.UUID | None] = {}
        self._checkpointed_starts: dict[TopicPartition, int] | None = None  # unknown: the next checkpoint is written
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path / LOCK_FILE)
        try:
            self._meta, self.is_new = meta_properties.read_or_make_meta_properties(
                path, broker_id=broker_id, new_id=new_id
            )
            self.was_clean = self._take_clean_shutdown_file()
            self._open_all()
        except BaseException:
            self.abandon()
            raise

    # Identity

    @property
    def directory_id(self) -> str:
        """As registrations carry it. Another one than before means that the disk is another one (KIP-858)."""
        return meta_properties.uuid_to_text(self._meta.directory_id)

    @property
    def cluster_id(self) -> str | None:
        return self._meta.cluster_id

    def belong_to(self, cluster_id: str) -> None:
        """Notes the cluster at the first meeting; afterwards a directory never serves another one."""
        if self._meta.cluster_id is None:
            self._meta = self._meta.with_cluster(cluster_id)
            meta_properties.write_meta_properties(self.path, self._meta)
        elif self._meta.cluster_id != cluster_id:
            raise StorageError(
                f"{self.path}: belongs to cluster {self._meta.cluster_id}, not to {cluster_id}; correct log.dirs"
            )

    # Logs

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        return self._logs

    def topic_id(self, topic_partition: TopicPartition) -> uuid.UUID | None:
        """None for an unknown replica, or one whose folder does not say."""
        return self._topic_ids.get(topic_partition)

    def _open_all(self) -> None:
        recovery_points = self._read_offsets(RECOVERY_POINT_CHECKPOINT)
        log_starts = self._read_offsets(LOG_START_CHECKPOINT)
        logger.info("%s: opening the logs after a %s stop", self.path, "clean" if self.was_clean else "unclean")
        for folder in sorted(self.path.iterdir()):
            if not folder.is_dir():
                continue
            if folder.name.endswith(DELETED_SUFFIX):
                shutil.rmtree(folder)
                continue
            topic_partition = _topic_partition_of(folder.name)
            if topic_partition is None:
                logger.warning("%s: not a replica's folder, left alone", folder)
                continue
            log = self._open_log(
                folder,
                topic_partition,
                recovery_point=recovery_points.get(topic_partition, 0),
                log_start_offset=log_starts.get(topic_partition, 0),
                clean=self.was_clean,
            )
            self._logs[topic_partition] = log
            self._topic_ids[topic_partition] = meta_properties.read_topic_id(folder)

    def _open_log(
        self, folder: Path, topic_partition: TopicPartition, *, recovery_point: int, log_start_offset: int, clean: bool
    ) -> Log:
        return Log.open(
            folder,
            topic_partition,
            self._settings,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean=clean,
            recovery_point_lowered=self.checkpoint_recovery_points,
            disk=self._disk,
        )

    def _take_clean_shutdown_file(self) -> bool:
        # Gone before the first append: a crash from here on must not look like a clean stop.
        try:
            (self.path / CLEAN_SHUTDOWN_FILE).unlink()
        except FileNotFoundError:
            return False
        checkpoints.sync_folder(self.path)
        return True

    def create(self, topic_partition: TopicPartition, topic_id: uuid.UUID | None) -> Log:
        """The log of a replica, made if there is none. Raises StorageError for one that no folder can be named for."""
        known = self._logs.get(topic_partition)
        if known is not None:
            return known
        if _topic_partition_of(str(topic_partition)) != topic_partition:
            raise StorageError(f"{self.path}: {topic_partition!s:.300} names no replica of a topic; nothing was made")
        with self._disk:
            return self._create(topic_partition, topic_id)

    def _create(self, topic_partition: TopicPartition, topic_id: uuid.UUID | None) -> Log:
        folder = self.path / str(topic_partition)
        folder.mkdir()
        if topic_id is not None:
            meta_properties.write_topic_id(folder, topic_id)
        log = self._open_log(folder, topic_partition, recovery_point=0, log_start_offset=0, clean=True)
        log.flush()
        checkpoints.sync_folder(self.path)
        self._logs[topic_partition] = log
        self._topic_ids[topic_partition] = topic_id
        return log

    def delete(self, topic_partition: TopicPartition) -> None:
        """Removes a replica. Its checkpoints go first: a topic of the same name must not inherit them."""
        log = self._logs.pop(topic_partition, None)
        self._topic_ids.pop(topic_partition, None)
        if log is None:
            return
        log.close()
        with self._disk:
            self._remove(topic_partition, log)

    def _remove(self, topic_partition: TopicPartition, log: Log) -> None:
        for name in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT):
            offsets = self._read_offsets(name)
            if offsets.pop(topic_partition, None) is not None:
                checkpoints.write_offsets(self.path / name, offsets)
        self._checkpointed_starts = None
        # The rename is the deletion; what a crash leaves of the removal goes at the next start.
        mark = f".{self._new_id().hex}{DELETED_SUFFIX}"
        doomed = self.path / (str(topic_partition)[: FILE_NAME_LENGTH_MAX - len(mark)] + mark)
        log.folder.rename(doomed)
        checkpoints.sync_folder(self.path)
        shutil.rmtree(doomed)

    def remove(self, paths: Iterable[Path]) -> None:
        """Files of deleted segments. One that is not there went with its topic."""
        with self._disk:
            for path in paths:
                path.unlink(missing_ok=True)

    # Checkpoints

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """As checkpointed last: perhaps older, or (after a recovery that cut the log) younger than the log."""
        return self._read_offsets(HIGH_WATERMARK_CHECKPOINT)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        with self._disk:
            checkpoints.write_offsets(self.path / HIGH_WATERMARK_CHECKPOINT, high_watermarks)

    def checkpoint_recovery_points(self) -> None:
        points = {topic_partition: log.recovery_point for topic_partition, log in self._logs.items()}
        with self._disk:
            checkpoints.write_offsets(self.path / RECOVERY_POINT_CHECKPOINT, points)

    def checkpoint_log_starts(self) -> None:
        """Of the logs that start behind their first segment's name; of the others the name tells."""
        starts = {key: log.log_start_offset for key, log in self._logs.items() if log.starts_behind_first_segment}
        if starts != self._checkpointed_starts:
            with self._disk:
                checkpoints.write_offsets(self.path / LOG_START_CHECKPOINT, starts)
            self._checkpointed_starts = starts

    def flush(self, topic_partitions: Iterable[TopicPartition] | None = None) -> None:
        """fsyncs those logs, or all, and notes how far they are safe now."""
        for topic_partition in list(self._logs) if topic_partitions is None else topic_partitions:
            self._logs[topic_partition].flush()
        self.checkpoint_recovery_points()

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self.path / name)
        except checkpoints.CorruptCheckpoint as error:
            # Without high watermarks and recovery points the broker knows less, never something wrong.
            logger.warning("%s: read as empty", error)
            return {}

    # End

    def close_cleanly(self, *, broker_epoch: int = -1) -> None:
        """Everything is flushed, and the next start need not verify it. Only a directory that was opened whole can be
        left so (KAFKA-15375): the constructor sees to that."""
        self.flush()
        self.checkpoint_log_starts()
        state = json.dumps({"version": 0, "brokerEpoch": broker_epoch})
        checkpoints.write_atomically(self.path / CLEAN_SHUTDOWN_FILE, state, sync=True)
        self.abandon()

    def abandon(self) -> None:
        """Leaves everything as a killed process would."""
        for log in self._logs.values():
            log.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _lock(path: Path) -> int:
    """Held until closed, or until the process is gone."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StorageError(f"{path.parent}: another broker uses this directory; stop it first") from error
    return descriptor


def _topic_partition_of(name: str) -> TopicPartition | None:
    """The replica whose folder is called so, and only so: "orders-07" is nobody's."""
    topic, _, number = name.rpartition("-")
    if not is_topic_name(topic) or not (number.isascii() and number.isdecimal()) or number != str(int(number)):
        return None
    return TopicPartition(topic, int(number))
