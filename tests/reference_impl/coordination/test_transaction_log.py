"""The log file: ZooKeeper's format, every transaction type, and recovery of a damaged end."""

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.coordination.records import OPEN_ACL, Acl
from reference_impl.coordination.transaction_log import (
    CorruptTransactionLog,
    FileTransactionLog,
    encode_entry,
    read_entries,
)
from reference_impl.coordination.transactions import (
    CheckTransaction,
    CloseSessionTransaction,
    CreateSessionTransaction,
    CreateTransaction,
    DeleteTransaction,
    Entry,
    ErrorTransaction,
    MultiTransaction,
    SetDataTransaction,
    Transaction,
)

FILE_HEADER = b"ZKLG" + struct.pack("!iq", 2, 0)

numbers = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=8)
blobs = st.none() | st.binary(max_size=40)
acls = st.lists(st.builds(Acl, permissions=numbers, scheme=texts, identity=texts), max_size=2).map(tuple)
parts = st.one_of(
    st.builds(CreateTransaction, path=texts, data=blobs, acls=acls, ephemeral=st.booleans(), parent_cversion=numbers),
    st.builds(DeleteTransaction, path=texts),
    st.builds(SetDataTransaction, path=texts, data=blobs, version=numbers),
    st.builds(CheckTransaction, path=texts, version=numbers),
    st.builds(ErrorTransaction, code=numbers),
)
transactions = st.one_of(
    parts,
    st.builds(MultiTransaction, parts=st.lists(parts, max_size=4).map(tuple)),
    st.builds(CreateSessionTransaction, timeout_ms=numbers),
    st.builds(CloseSessionTransaction, deleted_paths=st.lists(texts, max_size=3).map(tuple)),
)
entries = st.builds(Entry, session_id=longs, cxid=numbers, zxid=longs, time_ms=longs, transaction=transactions)


def entry(zxid: int, transaction: Transaction | None = None) -> Entry:
    transaction = transaction or CreateSessionTransaction(timeout_ms=zxid)
    return Entry(session_id=7, cxid=1, zxid=zxid, time_ms=1000, transaction=transaction)


def read(data: bytes) -> list[Entry]:
    return [found for found, _ in read_entries(data)]


def written(folder: Path, *some: Entry) -> Path:
    log = FileTransactionLog(folder)
    list(log.recover())
    for one in some:
        log.append(one)
    log.close()
    return folder / "version-2" / f"log.{some[0].zxid:x}"


@given(st.lists(entries, max_size=6))
def test_every_entry_reads_back(some: list[Entry]) -> None:
    assert read(FILE_HEADER + b"".join(encode_entry(one) for one in some)) == some


@given(some=st.lists(entries, min_size=1, max_size=4), cut=st.integers(1, 10_000), zeros=st.integers(0, 64))
@settings(max_examples=50)
def test_whatever_is_torn_off_the_end_only_the_last_entries_go(some: list[Entry], cut: int, zeros: int) -> None:
    whole = FILE_HEADER + b"".join(encode_entry(one) for one in some)
    last = len(encode_entry(some[-1]))
    assert read(whole[: -min(cut, last)] + bytes(zeros))[: len(some) - 1] == some[:-1]
    assert read(whole + bytes(zeros)) == some


def test_the_bytes_are_zookeepers(tmp_path: Path) -> None:
    create = CreateTransaction(path="/a", data=b"xy", acls=OPEN_ACL, ephemeral=True, parent_cversion=1)
    path = written(tmp_path, entry(0x1F, create))
    payload = (
        struct.pack("!qiqqi", 7, 1, 0x1F, 1000, 1)
        + b"\0\0\0\2/a"
        + b"\0\0\0\2xy"
        + (b"\0\0\0\1" + b"\0\0\0\x1f" + b"\0\0\0\5world" + b"\0\0\0\6anyone")
        + b"\1"
        + b"\0\0\0\1"
    )
    assert path.name == "log.1f"
    assert path.read_bytes() == FILE_HEADER + struct.pack("!qi", zlib.adler32(payload), len(payload)) + payload + b"B"


@pytest.mark.parametrize(
    ("transaction", "type_code", "record"),
    [
        (DeleteTransaction(path="/a"), 2, b"\0\0\0\2/a"),
        (SetDataTransaction(path="/a", data=None, version=3), 5, b"\0\0\0\2/a\xff\xff\xff\xff\0\0\0\3"),
        (CheckTransaction(path="/a", version=3), 13, b"\0\0\0\2/a\0\0\0\3"),
        (CreateSessionTransaction(timeout_ms=3000), -10, b"\0\0\x0b\xb8"),
        (CloseSessionTransaction(deleted_paths=("/a",)), -11, b"\0\0\0\1\0\0\0\2/a"),
        (ErrorTransaction(code=-101), -1, b"\xff\xff\xff\x9b"),
        (
            MultiTransaction(parts=(DeleteTransaction(path="/a"), ErrorTransaction(code=0))),
            14,
            b"\0\0\0\2" + b"\0\0\0\2" + b"\0\0\0\6\0\0\0\2/a" + b"\xff\xff\xff\xff" + b"\0\0\0\4\0\0\0\0",
        ),
    ],
)
def test_each_record_is_zookeepers(transaction: Transaction, type_code: int, record: bytes) -> None:
    payload = entry(5, transaction).encode()
    assert payload == struct.pack("!qiqqi", 7, 1, 5, 1000, type_code) + record
    assert Entry.decode(payload).transaction == transaction


def test_a_create2_and_a_digest_as_real_zookeeper_writes_them_are_read() -> None:
    create = CreateTransaction(path="/a", data=b"", acls=(), ephemeral=False, parent_cversion=1)
    payload = entry(5, create).encode()
    as_create2 = payload[:28] + struct.pack("!i", 15) + payload[32:] + struct.pack("!iq", 2, 12345)
    assert Entry.decode(as_create2) == entry(5, create)


def test_the_log_goes_on_in_the_same_file_after_a_torn_tail(tmp_path: Path) -> None:
    path = written(tmp_path, entry(1), entry(2))
    path.write_bytes(path.read_bytes() + encode_entry(entry(3))[:-5])
    log = FileTransactionLog(tmp_path)
    assert [found.zxid for found in log.recover()] == [1, 2]
    log.append(entry(3))
    log.close()
    assert [found.zxid for found in FileTransactionLog(tmp_path).recover()] == [1, 2, 3]


def test_a_file_without_a_whole_header_is_no_obstacle(tmp_path: Path) -> None:
    path = written(tmp_path, entry(1))
    path.write_bytes(b"ZKL")
    written(tmp_path, entry(1))
    assert [found.zxid for found in FileTransactionLog(tmp_path).recover()] == [1]


def test_damage_before_the_end_refuses_to_start(tmp_path: Path) -> None:
    path = written(tmp_path, entry(1), entry(2), entry(3))
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptTransactionLog, match="damaged"):
        list(FileTransactionLog(tmp_path).recover())


def test_a_foreign_file_refuses_to_start(tmp_path: Path) -> None:
    path = written(tmp_path, entry(1))
    path.write_bytes(b"GARBAGE" * 9)
    with pytest.raises(CorruptTransactionLog, match="not a ZooKeeper"):
        list(FileTransactionLog(tmp_path).recover())


def test_forced_to_disk_it_writes_the_same_bytes(tmp_path: Path) -> None:
    log = FileTransactionLog(tmp_path, force_sync=True)
    list(log.recover())
    log.append(entry(1))
    log.close()
    assert read((tmp_path / "version-2" / "log.1").read_bytes()) == [entry(1)]
