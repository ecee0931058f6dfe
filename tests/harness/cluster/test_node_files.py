"""What a node planted on its disk shows nothing of this machine, holds nobody up, and takes no more than is allowed."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.books.metadata_log import longest
from harness.cluster.books.metadata_log import read_log as read_metadata
from harness.cluster.books.zookeeper_log import read_changes
from harness.cluster.coordinator_logs import read_coordinator_logs
from harness.cluster.damage import damage_log, lose_tail
from harness.cluster.kafka_log_lines import read_log_lines
from harness.cluster.last_words import LastWords, last_lines, last_words, reason_in
from harness.cluster.printed_configuration import read_printed
from harness.cluster.replica_logs import (
    log_end_in,
    read_events,
    read_high_watermarks,
    read_recovery_points,
    read_replicas,
)
from harness.errors import HarnessError, UsageError
from harness.host import memory
from harness.host.clock import Anchor
from harness.ports.cluster import NodeId
from tests.harness.cluster.log_folders import batch, replica_folder

_NODE = NodeId(1)
_ANCHOR = Anchor(monotonic_ns=0, wall_ns=0)
_SEGMENT = f"{0:020}.log"
_SECRET = batch(0, [b"this machine's own"])
_HELD_UP_S = 20

# By the file that is read, below the node's folder; each reader is one that the harness calls while a run goes on.
READERS: dict[str, Callable[[Path], Any]] = {
    f"data/orders-0/{_SEGMENT}": lambda node: read_replicas(_NODE, node / "data", t_ns=0),
    "data/orders-0/leader-epoch-checkpoint": lambda node: read_replicas(_NODE, node / "data", t_ns=0),
    "data/orders-0/partition.metadata": lambda node: read_replicas(_NODE, node / "data", t_ns=0),
    "data/replication-offset-checkpoint": lambda node: read_high_watermarks(node / "data"),
    "data/recovery-point-offset-checkpoint": lambda node: read_recovery_points(node / "data"),
    f"data/payments-0/{_SEGMENT}": lambda node: log_end_in(node / "data", "payments", 0),
    f"data/refunds-0/{_SEGMENT}": lambda node: damage_log(node / "data" / "refunds-0", at="last"),
    f"data/returns-0/{_SEGMENT}": lambda node: lose_tail(node / "data" / "returns-0", records=1),
    f"data/__consumer_offsets-7/{_SEGMENT}": lambda node: read_coordinator_logs(
        _NODE, node / "data", t_ns=0, anchor=_ANCHOR
    ),
    f"data/__cluster_metadata-0/{_SEGMENT}": lambda node: read_metadata(node / "data" / "__cluster_metadata-0"),
    "data/version-2/log.1": lambda node: list(read_changes(node / "data" / "version-2")),
    "log": lambda node: [*read_log_lines(_NODE, node / "log", _ANCHOR), *read_printed(_NODE, node / "log", _ANCHOR)],
    "evidence/events.jsonl": lambda node: list(read_events(_NODE, node / "evidence")),
    "evidence/cuts/1": lambda node: list(read_events(_NODE, node / "evidence")),
}


@pytest.fixture(autouse=True)
def nobody_is_held_up() -> Iterator[None]:
    """Whoever waits for a pipe is called back, and that is the test's failure."""

    def call_back(*_: object) -> None:
        raise AssertionError("it waits for what no one will write")

    before = signal.signal(signal.SIGALRM, call_back)
    signal.alarm(_HELD_UP_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """With a log for whoever changes one, and a journal that names a file of its own."""
    folder = tmp_path / "node"
    for name in READERS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    entry = {"t": 1, "event": "truncation", "cut": "cuts/1"}
    (folder / "evidence" / "events.jsonl").write_text(json.dumps(entry) + "\n")
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    for name in READERS:
        (tmp_path / "outside" / Path(name).name).write_bytes(_SECRET)
    return tmp_path / "outside"


@pytest.mark.parametrize(
    ("name", "planted"),
    [(name, planted) for name in READERS for planted in ("link", "link to a device", "pipe")]
    # The node's own folder is nobody's to replace.
    + [(name, "link on the way") for name in READERS if "/" in name],
)
def test_what_leads_elsewhere_is_refused_in_a_line_and_not_opened(
    name: str, planted: str, node: Path, outside: Path
) -> None:
    place = node / name
    place.unlink(missing_ok=True)
    if planted == "link on the way":
        place.parent.rename(node / "moved")
        place.parent.symlink_to(outside)
    elif planted == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(outside / place.name if planted == "link" else "/dev/zero")

    with pytest.raises(HarnessError, match=r"^[^\n]* is (a symbolic link|a pipe|no plain file)[^\n]*$") as refused:
        READERS[name](node)

    assert not isinstance(refused.value, UsageError)
    assert {path.read_bytes() for path in outside.iterdir()} == {_SECRET}


@pytest.mark.parametrize("name", [name for name in READERS if name != "data/version-2/log.1"])
def test_a_file_that_says_it_is_larger_than_what_is_allowed_is_refused_and_not_read(name: str, node: Path) -> None:
    (node / name).touch()
    os.truncate(node / name, 1 << 42)
    if name == f"data/payments-0/{_SEGMENT}":
        assert READERS[name](node) == 0, "headers alone are read"
        return

    with pytest.raises(memory.TooLarge, match=r"would take about 4194304 MB"):
        READERS[name](node)


def test_an_entry_of_a_transaction_log_that_says_it_is_too_large_is_not_read(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_allowed_mb", 1)
    head = b"ZKLG" + bytes(12)
    place = node / "data" / "version-2" / "log.1"
    place.write_bytes(head + (1).to_bytes(8, "big") + (1 << 30).to_bytes(4, "big"))

    with pytest.raises(memory.TooLarge, match=r"log\.1: the entry at 16"):
        list(read_changes(place.parent))


def test_many_files_are_held_against_the_limit_together(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_allowed_mb", 3)
    for number in range(5):
        replica_folder(node / "data", {0: b""}, name=f"t-{number}")
        os.truncate(node / "data" / f"t-{number}" / _SEGMENT, 1 << 20)
    with pytest.raises(memory.TooLarge, match=r"t-3.* with what was read before it"):
        read_replicas(_NODE, node / "data", t_ns=0)

    (node / "evidence" / "cuts" / "1").write_bytes(bytes(1 << 20))
    journal = node / "evidence" / "events.jsonl"
    journal.write_bytes(5 * journal.read_bytes())
    with pytest.raises(memory.TooLarge, match=r"cuts/1.* with what was read before it"):
        list(read_events(_NODE, node / "evidence"))


@pytest.mark.parametrize("planted", ["link", "pipe", "folder"])
def test_the_last_words_in_what_is_no_log_are_unknown(planted: str, node: Path, outside: Path) -> None:
    if planted == "pipe":
        os.mkfifo(node / "log")
    elif planted == "folder":
        (node / "log").mkdir()
    else:
        (node / "log").symlink_to(outside / "log")

    assert (last_lines(node / "log"), reason_in(node / "log"), last_words(node / "log")) == ([], "", LastWords())


def test_a_line_without_an_end_is_read_a_piece_at_a_time(node: Path) -> None:
    (node / "log").write_bytes(b"x" * (3 << 20))
    assert READERS["log"](node) == []


def test_no_metadata_log_is_looked_for_through_a_link(node: Path, outside: Path) -> None:
    (node / "data" / "__cluster_metadata-0").rmdir()
    (node / "data" / "__cluster_metadata-0").symlink_to(outside)
    with pytest.raises(HarnessError, match=r"__cluster_metadata-0 is a symbolic link"):
        longest([node / "data" / "__cluster_metadata-0"])


def test_a_log_of_a_transaction_that_is_cut_is_changed_where_it_lies(node: Path) -> None:
    log = node / "data" / "returns-0" / _SEGMENT
    log.write_bytes(batch(0, [b"a"]) + batch(1, [b"b"]))
    before = log.stat().st_ino

    assert READERS[f"data/returns-0/{_SEGMENT}"](node).to_offset == 1

    assert (log.read_bytes(), log.stat().st_ino) == (batch(0, [b"a"]), before)
