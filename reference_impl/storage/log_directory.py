"""A broker's log directory: its identity, its replicas' logs, its checkpoints, and the clean-shutdown file.

At the start the clean-shutdown file is noted and removed; without it every log is verified from its recovery point on
(docs/replication.md R49). Everything here blocks; fsync happens in `make`, `remove_replicas`, `flush`, the checkpoints
and `close_cleanly`. For callers that must not wait, these parts use only files and arguments, so they can run in
another thread; the results are taken over afterwards. Two of them must not write the same checkpoint at the same time.
"""

import dataclasses
import fcntl
import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reference_impl.core.identifiers import UNKNOWN_OFFSET, TopicPartition, is_topic_name
from reference_impl.core.storage_rules import StorageRules
from reference_impl.storage import checkpoints, meta_properties
from reference_impl.storage.descriptors import Descriptors
from reference_impl.storage.disk import Disk, StorageError
from reference_impl.storage.log import NEVER_MS, Log, LogSettings

logger = logging.getLogger(__name__)

HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
CHECKPOINTS = (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT)
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
DELETED_SUFFIX = "-delete"
FILE_NAME_LENGTH_MAX = 255
_SOUND = StorageRules()


@dataclass(frozen=True, kw_only=True)
class MadeReplica:
    """A replica's new log, or the reason why there is none."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None
    log: Log | OSError | StorageError


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
        descriptors: Descriptors | None = None,
        rules: StorageRules = _SOUND,
    ) -> None:
        """Locks the directory (created if missing) and opens every replica in it, repairing what an unclean stop left.
        Raises StorageError if the directory is in use or belongs to another broker. Calls `failed` when a write fails;
        the directory is offline from then on."""
        self.path = path
        self._settings = LogSettings(
            segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes, segment_ms=segment_ms
        )
        self._new_id = new_id
        self._rules = rules
        self._disk = Disk(path, failed)
        self._descriptors = descriptors if descriptors is not None else Descriptors()
        self._logs: dict[TopicPartition, Log] = {}
        self._topic_ids: dict[TopicPartition, uuid.UUID | None] = {}
        # number of lowerings; both checkpoints must be written before a lowered log is appended to
        self.recovery_points_lowered = 0
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path / LOCK_FILE)
        try:
            self._meta, self.is_new = meta_properties.read_or_make_meta_properties(
                path, broker_id=broker_id, new_id=new_id
            )
            self.was_clean = rules.is_clean(self._take_clean_shutdown_file())
            self._open_all()
        except BaseException:
            self.abandon()
            raise

    # Identity

    @property
    def directory_id(self) -> str:
        """The id in the broker's registrations. A different id means a different disk (KIP-858)."""
        return meta_properties.uuid_to_text(self._meta.directory_id)

    @property
    def cluster_id(self) -> str | None:
        return self._meta.cluster_id

    def belong_to(self, cluster_id: str) -> None:
        """Stores the cluster id at the first use; afterwards the directory never serves another cluster."""
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
        """None for an unknown replica, or for one whose folder has no topic id."""
        return self._topic_ids.get(topic_partition)

    def _open_all(self) -> None:
        recovery_points = self._read_offsets(RECOVERY_POINT_CHECKPOINT)
        log_starts = self._read_offsets(LOG_START_CHECKPOINT)
        cleaned = self._read_offsets(CLEANER_CHECKPOINT)
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
                cleaned_to=cleaned.get(topic_partition),
                clean=self.was_clean,
            )
            self._logs[topic_partition] = log
            self._topic_ids[topic_partition] = meta_properties.read_topic_id(folder)
        # Records that replace a tail that was cut, or is missing, were never flushed, nor cleaned.
        if _is_lowered(cleaned, self.cleaned()):
            self.checkpoint_cleaned(self.cleaned())
        if _is_lowered(recovery_points, self.recovery_points()):
            self.checkpoint_recovery_points(self.recovery_points())

    def _open_log(
        self,
        folder: Path,
        topic_partition: TopicPartition,
        *,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
        cleaned_to: int | None = None,
    ) -> Log:
        return Log.open(
            folder,
            topic_partition,
            self._settings,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            cleaned_to=cleaned_to,
            clean=clean,
            recovery_point_lowered=self._recovery_point_lowered,
            disk=self._disk,
            rules=self._rules,
        )

    def _recovery_point_lowered(self) -> None:
        self.recovery_points_lowered += 1

    def _take_clean_shutdown_file(self) -> bool:
        # Removed before the first append: a crash from here on must not look like a clean stop.
        try:
            (self.path / CLEAN_SHUTDOWN_FILE).unlink()
        except FileNotFoundError:
            return False
        checkpoints.sync_folder(self.path)
        return True

    def create(self, topic_partition: TopicPartition, topic_id: uuid.UUID | None) -> Log:
        """Returns the log of one replica, creating it if needed; raises the error that prevented it."""
        known = self._logs.get(topic_partition)
        if known is not None:
            return known
        made = self.make([(topic_partition, topic_id)])
        self.adopt(made)
        if not isinstance(made[0].log, Log):
            raise made[0].log
        return made[0].log

    def make(self, wanted: Sequence[tuple[TopicPartition, uuid.UUID | None]]) -> list[MadeReplica]:
        """Creates folders and logs of missing replicas, safe on disk; they belong to the directory once they are
        adopted. Reuses what a failed attempt left."""
        made = []
        for topic_partition, topic_id in wanted:
            log: Log | OSError | StorageError
            try:
                log = self._make(topic_partition, topic_id)
            except (OSError, StorageError) as error:
                log = error
            made.append(MadeReplica(topic_partition=topic_partition, topic_id=topic_id, log=log))
        try:
            with self._disk:
                checkpoints.sync_folder(self.path)
        except (OSError, StorageError) as error:
            for each in made:
                if isinstance(each.log, Log):
                    each.log.close()
            return [dataclasses.replace(each, log=error) for each in made]
        return made

    def _make(self, topic_partition: TopicPartition, topic_id: uuid.UUID | None) -> Log:
        if _topic_partition_of(str(topic_partition)) != topic_partition:
            raise StorageError(f"{self.path}: {topic_partition!s:.300} names no replica of a topic; nothing was made")
        with self._disk:
            self._descriptors.check_replica(self.path)
            folder = self.path / str(topic_partition)
            folder.mkdir(exist_ok=True)
            if topic_id is not None:
                meta_properties.write_topic_id(folder, topic_id, sync_name=False)
            log = self._open_log(folder, topic_partition, recovery_point=0, log_start_offset=0, clean=True)
            try:
                log.flush()  # the folder with all its entries
            except OSError:
                log.close()
                raise
            return log

    def adopt(self, made: Iterable[MadeReplica]) -> None:
        for each in made:
            if isinstance(each.log, Log):
                self._logs[each.topic_partition] = each.log
                self._topic_ids[each.topic_partition] = each.topic_id

    def write_topic_id(self, topic_partition: TopicPartition, topic_id: uuid.UUID) -> None:
        """Writes the topic id of a replica that has none because the process was killed while creating it."""
        with self._disk:
            meta_properties.write_topic_id(self.path / str(topic_partition), topic_id)
        self._topic_ids[topic_partition] = topic_id

    def delete(self, topic_partition: TopicPartition) -> None:
        """Removes a replica."""
        self.remove_replicas(self.detach([topic_partition]))

    def detach(self, topic_partitions: Iterable[TopicPartition]) -> list[Log]:
        """Closes the logs of these replicas and removes them from the directory; `remove_replicas` then removes their
        files."""
        detached = []
        for topic_partition in topic_partitions:
            log = self._logs.pop(topic_partition, None)
            self._topic_ids.pop(topic_partition, None)
            if log is not None:
                log.close()
                detached.append(log)
        return detached

    def remove_replicas(self, detached: Sequence[Log]) -> None:
        """Removes the checkpoint entries first: a topic of the same name must not inherit them. The rename is the
        deletion; files that a crash leaves are removed at the next start."""
        if not detached:
            return
        gone = {log.topic_partition for log in detached}
        with self._disk:
            for name in CHECKPOINTS:
                offsets = self._read_offsets(name)
                if not gone.isdisjoint(offsets):
                    kept = {key: offset for key, offset in offsets.items() if key not in gone}
                    checkpoints.write_offsets(self.path / name, kept)
            doomed = [log.folder.rename(self.path / self._deleted_name(log.topic_partition)) for log in detached]
            checkpoints.sync_folder(self.path)
            for folder in doomed:
                shutil.rmtree(folder)

    def _deleted_name(self, topic_partition: TopicPartition) -> str:
        """As in Kafka: if the name would be too long, the topic part is shortened."""
        mark = f"-{topic_partition.partition}.{self._new_id().hex}{DELETED_SUFFIX}"
        return topic_partition.topic[: FILE_NAME_LENGTH_MAX - len(mark)] + mark

    def remove(self, paths: Iterable[Path]) -> None:
        """Removes files of deleted segments. A missing file was removed with its topic."""
        with self._disk:
            for path in paths:
                path.unlink(missing_ok=True)

    # Checkpoints

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """The last checkpoint: possibly older than the log, or newer after a recovery that truncated the log."""
        return self._read_offsets(HIGH_WATERMARK_CHECKPOINT)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        with self._disk:
            checkpoints.write_offsets(self.path / HIGH_WATERMARK_CHECKPOINT, high_watermarks)

    def recovery_points(self) -> dict[TopicPartition, int]:
        return {topic_partition: log.recovery_point for topic_partition, log in self._logs.items()}

    def checkpoint_recovery_points(self, points: Mapping[TopicPartition, int]) -> None:
        with self._disk:
            checkpoints.write_offsets(self.path / RECOVERY_POINT_CHECKPOINT, points)

    def checkpoint_lowered(self, points: Mapping[TopicPartition, int], cleaned: Mapping[TopicPartition, int]) -> None:
        if cleaned:
            self.checkpoint_cleaned(cleaned)
        self.checkpoint_recovery_points(points)

    def log_starts(self) -> dict[TopicPartition, int]:
        """The starts of logs that begin after their first segment's base offset."""
        return {key: log.log_start_offset for key, log in self._logs.items() if log.starts_behind_first_segment}

    def checkpoint_log_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        with self._disk:
            checkpoints.write_offsets(self.path / LOG_START_CHECKPOINT, starts)

    def cleaned(self) -> dict[TopicPartition, int]:
        return {key: log.cleaned_to for key, log in self._logs.items() if log.cleaned_to is not None}

    def checkpoint_cleaned(self, cleaned: Mapping[TopicPartition, int]) -> None:
        with self._disk:
            checkpoints.write_offsets(self.path / CLEANER_CHECKPOINT, cleaned)

    def flush(self, topic_partitions: Iterable[TopicPartition] | None = None) -> None:
        """fsyncs these logs, or all. The next checkpoint stores how far they are safe."""
        for topic_partition in list(self._logs) if topic_partitions is None else topic_partitions:
            self._logs[topic_partition].flush()

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self.path / name)
        except checkpoints.CorruptCheckpoint as error:
            # A broker without these checkpoints knows less, never something wrong.
            logger.warning("%s: read as empty", error)
            return {}

    # End

    def close_cleanly(self, *, broker_epoch: int = -1) -> None:
        """Flushes everything, so that the next start need not verify it. Only a completely opened directory may be
        closed cleanly (KAFKA-15375); the constructor guarantees that."""
        self.flush()
        self.checkpoint_recovery_points(self.recovery_points())
        self.checkpoint_log_starts(self.log_starts())
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


def _is_lowered(before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]) -> bool:
    """Also if a log is gone: one of the same name must not inherit its offset."""
    return any(now.get(key, UNKNOWN_OFFSET) < offset for key, offset in before.items())


def _lock(path: Path) -> int:
    """Locks the directory until it is closed or the process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StorageError(f"{path.parent}: another broker uses this directory; stop it first") from error
    return descriptor


def _topic_partition_of(name: str) -> TopicPartition | None:
    """The replica with exactly this folder name; "orders-07" is not a replica's folder."""
    topic, _, number = name.rpartition("-")
    if not is_topic_name(topic) or not (number.isascii() and number.isdecimal()) or number != str(int(number)):
        return None
    return TopicPartition(topic, int(number))
