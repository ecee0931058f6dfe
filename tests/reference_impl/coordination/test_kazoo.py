"""kazoo, an independent ZooKeeper client, tests the protocol; the service runs as a process, as in a cluster."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.security import make_acl

from tests.waiting import PATIENCE_S

ENTRY_POINT = (
    "import sys; from reference_impl.coordination.service import run_from_config as run; sys.exit(run(sys.argv[1]))"
)


class ServiceProcess:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._config = folder / "zoo.cfg"
        self._config.write_text(
            f"# as ZooKeeper's own\nclientPort={self.port}\nclientPortAddress=127.0.0.1\ndataDir={folder / 'data'}\n"
            "tickTime=1000\nminSessionTimeout=500\nmaxSessionTimeout=60000\nadmin.enableServer=false\n",
            encoding="utf-8",
        )
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: list[KazooClient] = []

    def start(self) -> None:
        with (self.folder / "service.log").open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-c", ENTRY_POINT, str(self._config)], stderr=log)

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self.process = None
        return code

    def client(self, timeout_s: float = 10.0) -> KazooClient:
        client = KazooClient(f"127.0.0.1:{self.port}", timeout=timeout_s)
        self._clients.append(client)
        client.start(PATIENCE_S)
        return client

    def four_letters(self, word: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection:
            connection.sendall(word)
            return b"".join(iter(lambda: connection.recv(4096), b""))

    def clean_up(self) -> None:
        for client in self._clients:
            client.stop()
            client.close()
        if self.process is not None:
            self.end(signal.SIGKILL)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    service = ServiceProcess(tmp_path)
    service.start()
    yield service
    service.clean_up()


@pytest.fixture
def kazoo(service: ServiceProcess) -> KazooClient:
    return service.client()


def happened(register: Callable[[Callable[[Any], None]], object]) -> Callable[[], Any]:
    """Registers a watch callback; the returned function waits for its event."""
    received: list[Any] = []
    event = threading.Event()

    def callback(news: Any) -> None:
        received.append(news)
        event.set()

    register(callback)

    def wait() -> Any:
        assert event.wait(PATIENCE_S), "the watch did not fire"
        return received[0]

    return wait


def test_kazoo_writes_reads_and_deletes(kazoo: KazooClient) -> None:
    assert kazoo.create("/a/b/c", b"data", makepath=True) == "/a/b/c"
    data, stat = kazoo.get("/a/b/c")
    assert (data, stat.version, stat.dataLength) == (b"data", 0, 4)
    assert kazoo.set("/a/b/c", b"more").version == 1
    assert kazoo.get_children("/a") == ["b"]
    children, stat = kazoo.get_children("/a", include_data=True)
    assert (children, stat.numChildren, stat.cversion) == (["b"], 1, 1)
    path, stat = kazoo.create("/with-stat", b"xy", include_data=True)
    assert (path, stat.data_length) == ("/with-stat", 2)
    assert kazoo.exists("/nowhere") is None
    assert kazoo.sync("/a") == "/a"
    assert kazoo.get_acls("/a")[0][0].id.scheme == "world"
    kazoo.delete("/a", recursive=True)
    assert kazoo.exists("/a") is None


def test_kazoo_gets_zookeepers_errors(kazoo: KazooClient) -> None:
    kazoo.create("/a", b"")
    kazoo.create("/a/b", b"")
    with pytest.raises(NodeExistsError):
        kazoo.create("/a", b"")
    with pytest.raises(NoNodeError):
        kazoo.get("/missing")
    with pytest.raises(NotEmptyError):
        kazoo.delete("/a")
    with pytest.raises(BadVersionError):
        kazoo.set("/a", b"", version=3)
    with pytest.raises(BadVersionError):
        kazoo.delete("/a/b", version=3)


def test_sequential_nodes_count_up_and_never_repeat(kazoo: KazooClient) -> None:
    kazoo.create("/queue", b"")
    assert kazoo.create("/queue/n-", b"", sequence=True) == "/queue/n-0000000000"
    kazoo.delete("/queue/n-0000000000")
    assert kazoo.create("/queue/n-", b"", sequence=True, ephemeral=True) == "/queue/n-0000000001"
    assert kazoo.create("/queue/", b"", sequence=True) == "/queue/0000000002"


def test_kazoo_transactions_are_all_or_nothing(kazoo: KazooClient) -> None:
    kazoo.create("/epoch", b"0")
    good = kazoo.transaction()
    good.check("/epoch", 0)
    good.create("/t", b"x")
    good.set_data("/epoch", b"1", version=0)
    assert [str(result)[:4] for result in good.commit()] == ["True", "/t", "Znod"]
    bad = kazoo.transaction()
    bad.delete("/t")
    bad.check("/epoch", 0)
    bad.create("/u", b"")
    assert [type(result) for result in bad.commit()] == [RolledBackError, BadVersionError, RuntimeInconsistency]
    assert kazoo.exists("/t")
    assert not kazoo.exists("/u")


def test_kazoo_watches_fire(kazoo: KazooClient) -> None:
    kazoo.create("/a", b"")
    created = happened(lambda callback: kazoo.exists("/b", watch=callback))
    changed = happened(lambda callback: kazoo.get("/a", watch=callback))
    children = happened(lambda callback: kazoo.get_children("/a", watch=callback))
    kazoo.create("/b", b"")
    kazoo.set("/a", b"1")
    kazoo.create("/a/c", b"")
    assert [(event.type, event.path) for event in (created(), changed(), children())] == [
        ("CREATED", "/b"),
        ("CHANGED", "/a"),
        ("CHILD", "/a"),
    ]


def test_an_ephemeral_goes_when_its_client_stops(service: ServiceProcess, kazoo: KazooClient) -> None:
    owner = service.client()
    owner.create("/e", b"", ephemeral=True)
    assert kazoo.exists("/e").ephemeralOwner == owner.client_id[0]
    deleted = happened(lambda callback: kazoo.exists("/e", watch=callback))
    owner.stop()
    assert deleted().type == "DELETED"


def test_kazoos_lock_recipe_works(service: ServiceProcess, kazoo: KazooClient) -> None:
    other = service.client()
    with kazoo.Lock("/lock", "one"):
        assert not other.Lock("/lock", "two").acquire(blocking=False)
    assert other.Lock("/lock", "two").acquire(timeout=PATIENCE_S)


def test_after_a_sigkill_everything_answered_is_there_and_the_session_goes_on(service: ServiceProcess) -> None:
    client = service.client()
    session_id = client.client_id[0]
    client.create("/kept", b"0")
    last = client.set("/kept", b"1")
    client.create("/e", b"", ephemeral=True)
    service.end(signal.SIGKILL)
    service.start()
    data, stat = client.retry(client.get, "/kept")
    assert (data, stat) == (b"1", last)
    assert client.client_id[0] == session_id
    assert client.exists("/e").ephemeralOwner == session_id
    assert client.create("/next", b"", include_data=True)[1].czxid > last.mzxid


def test_ephemerals_of_a_dead_client_outlive_a_restart_by_one_timeout_only(service: ServiceProcess) -> None:
    # A killed client does not close its session: its connection is cut.
    ghost = service.client(timeout_s=0.6)
    ghost.create("/ghost", b"", ephemeral=True)
    service.end(signal.SIGKILL)
    ghost._stopped.set()
    service.start()
    client = service.client()
    gone = happened(lambda callback: callback("gone") if not client.exists("/ghost", watch=callback) else None)
    gone()
    assert client.exists("/ghost") is None


def test_a_torn_tail_is_cut_and_the_log_goes_on_behind_it(service: ServiceProcess) -> None:
    client = service.client()
    client.create("/kept", b"")
    client.stop()
    service.end(signal.SIGKILL)
    (log,) = (service.folder / "data" / "version-2").iterdir()
    with log.open("ab") as file:
        file.write(b"\0\0\0\0\x12\x34\x56\x78\0\0\0\x40torn")
    service.start()
    client = service.client()
    client.create("/after", b"")
    service.end(signal.SIGKILL)
    service.start()
    assert client.retry(client.get_children, "/") == ["after", "kept", "zookeeper"]


def test_sigterm_ends_it_cleanly(service: ServiceProcess, kazoo: KazooClient) -> None:
    assert service.end(signal.SIGTERM) == 0


def test_malformed_frames_end_their_connection_and_nothing_else(service: ServiceProcess, kazoo: KazooClient) -> None:
    kazoo.create("/a", b"")
    connect = b"\0" * 4 + b"\0" * 8 + b"\0\0\x10\0" + b"\0" * 8 + b"\0\0\0\x10" + b"\0" * 16 + b"\0"
    greeting = len(connect).to_bytes(4, "big") + connect
    for frames in (
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\0\0\2ab",
        greeting + b"\0\0\0\4\0\0\0\1",
        greeting + b"\0\0\0\x0c\0\0\0\1\0\0\0\4\x7f\xff\xff\xff",
        greeting + b"\0\0\0\x10\0\0\0\1\0\0\0\x0e\0\0\0\x63\0\0\0\0",
        os.urandom(64),
    ):
        with socket.create_connection(("127.0.0.1", service.port), PATIENCE_S) as connection:
            connection.sendall(frames)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert kazoo.exists("/a")


def test_it_answers_the_four_letter_words(service: ServiceProcess, kazoo: KazooClient) -> None:
    assert service.four_letters(b"ruok") == b"imok"
    assert b"Mode: standalone" in service.four_letters(b"srvr")


def test_kazoo_learns_the_version_of_the_zookeeper_that_this_is_a_part_of(kazoo: KazooClient) -> None:
    assert kazoo.server_version() == (3, 8, 4)


def test_an_acl_is_replaced_kept_over_a_restart_and_fenced_by_its_own_version(
    service: ServiceProcess, kazoo: KazooClient
) -> None:
    kazoo.create("/a", b"data")
    seen: list[Any] = []
    kazoo.get("/a", watch=seen.append)
    read_only, closed = [make_acl("world", "anyone", read=True)], [make_acl("ip", "127.0.0.1", all=True)]
    assert kazoo.set_acls("/a", read_only).aversion == 1
    with pytest.raises(BadVersionError):
        kazoo.set_acls("/a", closed, version=0)
    assert kazoo.set_acls("/a", closed, version=1).aversion == 2
    with pytest.raises(InvalidACLError):
        kazoo.set_acls("/a", [])
    with pytest.raises(NoNodeError):
        kazoo.set_acls("/nowhere", closed)
    assert service.end(signal.SIGKILL) == -signal.SIGKILL
    service.start()
    again = service.client()
    acls, stat = again.get_acls("/a")
    assert acls == closed
    assert (stat.aversion, stat.version) == (2, 0)
    assert again.get("/a")[0] == b"data"
    assert [event for event in seen if event.type != "NONE"] == []
