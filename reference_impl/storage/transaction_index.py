"""Kafka's transaction index: `<base offset>.txnindex` lists the aborted transactions whose markers are in that segment.

Like the other indexes it is made anew from the log at a start, so that it is never fsynced and its contents are never
trusted; a segment without an aborted transaction has none (docs/replication.md R69).
"""

import struct
from collections.abc import Iterable
from pathlib import Path

from reference_impl.core.log_transactions import AbortedTransaction

TRANSACTION_INDEX_SUFFIX = ".txnindex"
_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")  # version, and the fields of an AbortedTransaction


def write_aborted(path: Path, aborted: Iterable[AbortedTransaction]) -> None:
    """Replaces the file, unless it says so already; without any there is no file."""
    data = b"".join(_ENTRY.pack(_VERSION, *each) for each in aborted)
    try:
        if path.read_bytes() == data:
            return
    except FileNotFoundError:
        if not data:
            return
    if data:
        path.write_bytes(data)
    else:
        path.unlink()


def append_aborted(path: Path, aborted: AbortedTransaction) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(_ENTRY.pack(_VERSION, *aborted))
