"""The reader of ZooKeeper's transaction log, on bytes of a writer of the tests' own and of the real service."""

import asyncio
import os
import socket
import struct
import sys
import zlib
from pathlib import Path

import pytest

from harness.cluster.books.znode_history import EXACT, history_of
from harness.cluster.books.zookeeper_log import ZnodeChange, read_changes
from harness.errors import HarnessError
from harness.host.clock import Anchor
from harness.host.parent import die_with_parent
from harness.ports.cluster import NodeId

pytestmark = pytest.mark.jvm

_CREATE, _DELETE, _SET, _CHECK, _MULTI, _ERROR, _OPEN, _CLOSE = 1, 2, 5, 13, 14, -1, -10, -11
_HEADER = struct.pack(">iiq", int.from_bytes(b"ZKLG", "big"), 2, 0)
_ANCHOR = Anchor(monotonic_ns=5_000_000_000, wall_ns=1_000_000_000)


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _created(path: str, data: bytes, *, ephemeral: bool = False) -> tuple[int, bytes]:
    acl = struct.pack(">ii", 1, 31) + _buffer(b"world") + _buffer(b"anyone")
    return _CREATE, _buffer(path.encode()) + _buffer(data) + acl + bytes([ephemeral]) + struct.pack(">i", 1)


def _set(path: str, data: bytes, version: int) -> tuple[int, bytes]:
    return _SET, _buffer(path.encode()) + _buffer(data) + struct.pack(">i", version)


def _deleted(path: str) -> tuple[int, bytes]:
    return _DELETE, _buffer(path.encode())


def _multi(*parts: tuple[int, bytes]) -> tuple[int, bytes]:
    return _MULTI, struct.pack(">i", len(parts)) + b"".join(struct.pack(">i", kind) + _buffer(b) for kind, b in parts)


def _entry(zxid: int, transaction: tuple[int, bytes], *, session: int = 7) -> bytes:
    kind, body = transaction
    record = struct.pack(">qiqqi", session, zxid, zxid, 1000 + zxid, kind) + body
    return struct.pack(">qi", zlib.adler32(record), len(record)) + record + b"B"


def _write(folder: Path, *entries: bytes, name: str = "log.1", rest: bytes = b"") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(_HEADER + b"".join(entries) + rest)
    return folder


def _short(changes: list[ZnodeChange]) -> list[tuple[int, str, bytes | None, int]]:
    return [(change.zxid, change.path, change.data, change.version) for change in changes]


def test_creates_sets_and_deletes_are_reported_in_order_with_their_versions(tmp_path: Path) -> None:
    folder = _write(
        tmp_path,
        _entry(1, (_OPEN, struct.pack(">i", 2500))),
        _entry(2, _created("/a", b"one")),
        _entry(3, _set("/a", b"two", 1)),
        _entry(4, (_CHECK, _buffer(b"/a") + struct.pack(">i", 1))),
        _entry(5, _created("/ü", b"")),
        _entry(6, _deleted("/a")),
    )
    changes = list(read_changes(folder))
    assert _short(changes) == [(2, "/a", b"one", 0), (3, "/a", b"two", 1), (5, "/ü", b"", 0), (6, "/a", None, -1)]
    assert [change.wall_ms for change in changes] == [1002, 1003, 1005, 1006]
    assert {change.session for change in changes} == {7}


def test_all_parts_of_a_multi_happen_or_none(tmp_path: Path) -> None:
    failed = (_ERROR, struct.pack(">i", -103))
    folder = _write(
        tmp_path,
        _entry(1, _multi(_created("/a", b"1"), _set("/b", b"2", 4), (_CHECK, b""), _deleted("/c"))),
        _entry(2, _multi(failed, failed)),
        _entry(3, _multi(_created("/lost", b""), failed)),
        _entry(4, _multi()),
    )
    assert _short(list(read_changes(folder))) == [(1, "/a", b"1", 0), (1, "/b", b"2", 4), (1, "/c", None, -1)]


def test_a_closing_session_takes_its_ephemerals_and_only_those_still_there(tmp_path: Path) -> None:
    folder = _write(
        tmp_path,
        _entry(1, _created("/mine", b"x", ephemeral=True)),
        _entry(2, _multi(_created("/also", b"x", ephemeral=True))),
        _entry(3, _created("/deleted", b"x", ephemeral=True)),
        _entry(4, _created("/stays", b"x")),
        _entry(5, _created("/theirs", b"x", ephemeral=True), session=8),
        _entry(6, _deleted("/deleted"), session=8),
        _entry(7, _set("/mine", b"y", 1)),
    )
    _write(folder, _entry(8, (_CLOSE, b"")), _entry(9, (_CLOSE, b""), session=9), name="log.8")
    after = [change for change in read_changes(folder) if change.zxid >= 8]
    assert _short(after) == [(8, "/also", None, -1), (8, "/mine", None, -1)]


def test_log_files_are_read_in_the_order_of_their_transactions(tmp_path: Path) -> None:
    _write(tmp_path, _entry(0x10, _created("/later", b"")), name="log.10")
    _write(tmp_path, _entry(0x9, _created("/earlier", b"")), name="log.9")
    assert [change.path for change in read_changes(tmp_path)] == ["/earlier", "/later"]


def test_a_torn_tail_ends_the_reading_wherever_it_was_torn(tmp_path: Path) -> None:
    whole, last = _entry(1, _created("/a", b"1")), _entry(2, _set("/a", b"2", 1))
    for length in range(len(last) - 1):  # without the end-of-record byte the entry is whole to its checksum
        for rest in (b"", bytes(64)):
            folder = _write(tmp_path, whole, last[:length], rest=rest)
            assert [change.zxid for change in read_changes(folder)] == [1], f"torn after {length} bytes"
    for length in range(len(_HEADER)):
        (tmp_path / "log.1").write_bytes(_HEADER[:length])
        assert list(read_changes(tmp_path)) == []


def test_zeros_of_a_preallocated_file_are_its_end(tmp_path: Path) -> None:
    folder = _write(tmp_path, _entry(1, _created("/a", b"1")), rest=bytes(65536))
    assert [change.path for change in read_changes(folder)] == ["/a"]


def test_an_entry_that_was_altered_ends_the_reading(tmp_path: Path) -> None:
    altered = bytearray(_entry(1, _created("/a", b"1")))
    altered[-3] ^= 1
    assert list(read_changes(_write(tmp_path, bytes(altered), _entry(2, _created("/b", b""))))) == []


def test_another_kind_of_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(b"something else entirely")
    with pytest.raises(HarnessError, match=r"log\.1: not a ZooKeeper transaction log"):
        list(read_changes(tmp_path))


def test_a_folder_without_logs_reports_nothing(tmp_path: Path) -> None:
    assert list(read_changes(tmp_path / "none")) == []


# -- znode_history ----------------------------------------------------------------------------------------------------


def test_the_history_has_states_controllers_events_and_settings_at_their_times(tmp_path: Path) -> None:
    state = "/brokers/topics/orders/partitions/0/state"
    data = b'{"controller_epoch":%d,"leader":%d,"version":1,"leader_epoch":%d,"isr":[%s]}'
    folder = _write(
        tmp_path,
        _entry(1, _created("/controller", b'{"version":2,"brokerid":3}', ephemeral=True)),
        _entry(2, _created("/controller_epoch", b"1")),
        _entry(3, _created("/brokers/ids/3", b'{"version":5}', ephemeral=True)),
        _entry(4, _created("/config/topics/orders", b'{"version":1,"config":{"min.insync.replicas":"2"}}')),
        _entry(5, _created("/brokers/topics/orders", b'{"partitions":{"0":[1,2,3]}}')),
        _entry(6, _created(state, data % (1, 1, 0, b"1,2,3"))),
        _entry(7, _set(state, data % (1, 2, 1, b"2,3"), 1)),
        _entry(8, _set("/config/topics/orders", b'{"version":1,"config":{"retention.ms":"5"}}', 1)),
        _entry(9, _created("/brokers/directories/3", b'{"directories":["A"],"previous":["A"]}')),
        _entry(10, _set("/brokers/directories/3", b'{"directories":["B"],"previous":["A"]}', 1)),
        _entry(11, _created("/config/brokers/3", b'{"version":1,"config":{"log.x":"1"}}')),
        _entry(12, (_CLOSE, b"")),
        _entry(13, _deleted(state), session=8),
    )
    history = history_of(read_changes(folder), _ANCHOR)

    def at(zxid: int) -> int:
        return 5_000_000_000 + zxid * 1_000_000

    first, second = history.partition_states
    assert (first.topic, first.partition, first.leader, first.leader_epoch) == ("orders", 0, 1, 0)
    assert (first.isr, first.replicas, first.partition_epoch, first.controller_epoch) == ((1, 2, 3), (1, 2, 3), 0, 1)
    assert (second.leader, second.leader_epoch, second.partition_epoch, second.isr) == (2, 1, 1, (2, 3))
    assert (second.t_ns, second.exact, second.observer) == (at(7), True, EXACT)
    assert [(c.t_ns, c.node, c.controller_epoch) for c in history.controllers] == [(at(1), 3, 1), (at(12), -1, None)]
    assert [(e.t_ns, e.node, e.event) for e in history.broker_events] == [
        (at(3), NodeId(3), "broker_registered"),
        (at(10), NodeId(3), "directory_lost"),
        (at(12), NodeId(3), "broker_gone"),
    ]
    assert [(c.t_ns, c.scope, c.name, c.node, c.key, c.value) for c in history.configuration] == [
        (at(4), "topic", "orders", -1, "min.insync.replicas", "2"),
        (at(8), "topic", "orders", -1, "min.insync.replicas", ""),
        (at(8), "topic", "orders", -1, "retention.ms", "5"),
        (at(11), "broker", "3", 3, "log.x", "1"),
    ]


def test_a_deleted_topic_and_a_new_one_of_its_name_are_distinguished(tmp_path: Path) -> None:
    """With ids as since 2.8, and by creation and deletion alone as before."""
    topic, state = "/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"
    data = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    for first, second in ((b',"topic_id":"A"', b',"topic_id":"B"'), (b"", b"")):
        folder = _write(
            tmp_path / str(len(first)),
            _entry(1, _created(topic, b'{"partitions":{"0":[1]}%s}' % first)),
            _entry(2, _created(state, data)),
            _entry(3, _set(topic, b'{"partitions":{"0":[1],"1":[1]}%s}' % first, 1)),
            _entry(4, _deleted(state)),
            _entry(5, _deleted(topic)),
            _entry(6, _created(topic, b'{"partitions":{"0":[1]}%s}' % second)),
            _entry(7, _created(state, data)),
        )
        history = history_of(read_changes(folder), _ANCHOR)
        a, b = ("A", "B") if first else (None, None)
        at = [5_000_000_000 + zxid * 1_000_000 for zxid in range(8)]
        assert [(life.topic, life.topic_id, life.created_ns, life.deleted_ns) for life in history.topics] == [
            ("orders", a, at[1], at[5]),
            ("orders", b, at[6], None),
        ]
        assert [(each.topic_id, each.t_ns) for each in history.partition_states] == [(a, at[2]), (b, at[7])]


def test_each_controller_keeps_its_own_epoch(tmp_path: Path) -> None:
    folder = _write(
        tmp_path,
        _entry(1, _created("/controller_epoch", b"0")),
        _entry(
            2, _multi(_created("/controller", b'{"brokerid":1}', ephemeral=True), _set("/controller_epoch", b"1", 1))
        ),
        _entry(3, (_CLOSE, b"")),
        _entry(4, _created("/controller", b'{"brokerid":2}', ephemeral=True), session=8),
        _entry(5, _set("/controller_epoch", b"2", 2), session=8),
    )
    controllers = history_of(read_changes(folder), _ANCHOR).controllers
    assert [(each.node, each.controller_epoch) for each in controllers] == [(1, 1), (-1, None), (2, 2)]


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/config/topics/orders", b"{no json"),
        ("/config/brokers/" + "9" * 5000, b'{"config":{"a":"b"}}'),
        ("/brokers/topics/deep", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        ("/brokers/topics/orders/partitions/0/state", b'{"leader":"nobody","leader_epoch":0,"isr":[1]}'),
        ("/brokers/topics/orders/partitions/0/state", b'{"leader":1,"leader_epoch":10000000000,"isr":[1]}'),
        ("/brokers/topics/orders/partitions/0/state", b"{}"),
        ("/brokers/ids/99999999999999999999", b"{}"),
        ("/brokers/directories/1", b'{"previous":5}'),
        ("/controller", b'{"brokerid":null}'),
        ("/controller_epoch", b"1" * 5000),
    ],
)
def test_a_znode_that_a_stranger_wrote_is_named_in_one_line(tmp_path: Path, path: str, data: bytes) -> None:
    folder = _write(tmp_path, _entry(1, _created(path, data)))
    with pytest.raises(HarnessError, match=path[:250]) as reported:
        history_of(read_changes(folder), _ANCHOR)
    assert len(str(reported.value)) < 1000
    assert "\n" not in str(reported.value)


# -- the real service -------------------------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _act_as_a_client(port: int) -> None:
    from kazoo.client import KazooClient
    from kazoo.retry import KazooRetry

    def client() -> "KazooClient":
        patient = KazooRetry(max_tries=-1, delay=0.05, backoff=1, max_delay=0.1)
        made = KazooClient(hosts=f"127.0.0.1:{port}", connection_retry=patient)
        made.start(timeout=15)
        return made

    one, other = client(), client()
    try:
        one.create("/brokers/ids/4", b"{}", ephemeral=True, makepath=True)
        one.create("/kept", b"0")
        one.set("/kept", b"1")
        multi = one.transaction()
        multi.create("/together", b"t")
        multi.set_data("/kept", b"2")
        multi.commit()
        refused = one.transaction()
        refused.create("/never", b"")
        refused.check("/kept", 99)
        refused.commit()
        one.delete("/together")
        one.stop()
        other.set("/kept", b"3")
    finally:
        for each in (one, other):
            each.stop()
            each.close()


@pytest.mark.cluster
async def test_what_the_real_service_writes_is_read_as_it_happened(tmp_path: Path) -> None:
    port = _free_port()
    config = tmp_path / "zoo.cfg"
    config.write_text(f"clientPort={port}\nclientPortAddress=127.0.0.1\ndataDir={tmp_path / 'data'}\ntickTime=500\n")
    with (tmp_path / "log").open("wb") as log:
        service = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "reference_impl", "coordination", "--config", str(config)),
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            preexec_fn=die_with_parent(),
        )
    try:
        await asyncio.to_thread(_act_as_a_client, port)
    finally:
        service.kill()
        await service.wait()
    rows = [(change.path, change.data, change.version) for change in read_changes(tmp_path / "data" / "version-2")]
    wanted = [each for each in rows if each[0] not in ("/brokers", "/brokers/ids")]
    assert wanted == [
        ("/brokers/ids/4", b"{}", 0),
        ("/kept", b"0", 0),
        ("/kept", b"1", 1),
        ("/together", b"t", 0),
        ("/kept", b"2", 2),
        ("/together", None, -1),
        ("/brokers/ids/4", None, -1),
        ("/kept", b"3", 3),
    ]
