"""A log of small segments, as the storage tests open it."""

from pathlib import Path

from reference_impl.core.identifiers import TopicPartition
from reference_impl.storage.log import Log, LogSettings

ORDERS = TopicPartition("orders", 0)
SMALL = LogSettings(segment_bytes=300, index_interval_bytes=100)


def open_log(
    folder: Path,
    log_settings: LogSettings = SMALL,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Log:
    return Log.open(
        folder,
        ORDERS,
        log_settings,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )
