"""What a power failure takes: whole batches at the end, in as many segments as it takes, and no word of it is left."""

from pathlib import Path

import pytest

from harness.cluster.damage import lose_tail
from harness.cluster.replica_logs import log_end, read_replica
from harness.errors import HarnessError
from harness.ports.cluster import NodeId
from tests.harness.cluster.log_folders import batch, replica_folder

# Offsets 0 to 2, 3, 4 and 5 in one segment; 6 and 7 in the next.
_FIRST = batch(0, [b"a", b"b", b"c"]) + batch(3, [b"d"]) + batch(4, [b"e", b"f"])
_SECOND = batch(6, [b"g", b"h"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return replica_folder(tmp_path, {0: _FIRST, 6: _SECOND})


def _values(folder: Path) -> list[bytes]:
    return [record.value for record in read_replica(NodeId(1), "orders", 0, folder, t_ns=0).records]


@pytest.mark.parametrize(
    ("records", "end", "left"),
    [(1, 6, b"abcdef"), (2, 6, b"abcdef"), (3, 4, b"abcd"), (4, 4, b"abcd"), (5, 3, b"abc"), (8, 0, b"")],
)
def test_a_batch_is_lost_whole_and_at_least_as_many_records_as_asked(
    folder: Path, records: int, end: int, left: bytes
) -> None:
    before = sum(path.stat().st_size for path in folder.glob("*.log"))
    lost = lose_tail(folder, records=records)
    assert (lost.from_offset, lost.to_offset) == (8, end)
    assert lost.removed_bytes == before - sum(path.stat().st_size for path in folder.glob("*.log"))
    assert _values(folder) == [bytes([value]) for value in left]
    assert log_end(folder) == end


def test_the_mark_of_a_clean_end_goes_with_it(folder: Path) -> None:
    mark = folder.parent / ".kafka_cleanshutdown"
    mark.touch()
    lose_tail(folder, records=1)
    assert not mark.exists()


def test_a_torn_batch_at_the_end_goes_too_and_does_not_count(tmp_path: Path) -> None:
    folder = replica_folder(tmp_path, {0: _FIRST + batch(6, [b"torn"])[:-3]})
    assert lose_tail(folder, records=1).from_offset == 6
    assert _values(folder) == [b"a", b"b", b"c", b"d"]
    assert (folder / f"{0:020}.log").stat().st_size == len(_FIRST) - len(batch(4, [b"e", b"f"]))


@pytest.mark.parametrize("segments", [{}, {0: b""}, {0: _FIRST}])
def test_what_a_replica_does_not_hold_it_cannot_lose(tmp_path: Path, segments: dict[int, bytes]) -> None:
    folder = replica_folder(tmp_path, segments)
    with pytest.raises(HarnessError, match=r"orders-0: the replica holds fewer than 7 records that could be lost"):
        lose_tail(folder, records=7)
    assert {int(path.stem): path.read_bytes() for path in folder.glob("*.log")} == segments
