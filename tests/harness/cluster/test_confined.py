"""A wipe or damage affects the node's disk only, whatever links were put there."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.confined import empty, folder_below
from harness.cluster.damage import damage_log, lose_tail
from harness.errors import HarnessError
from tests.harness.cluster.log_folders import batch, replica_folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "precious").write_text("precious")
    return folder


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "run" / "nodes" / "1" / "data").mkdir(parents=True)
    return tmp_path / "run"


def test_links_in_a_data_directory_go_and_what_they_lead_to_stays(top: Path, elsewhere: Path) -> None:
    data = top / "nodes" / "1" / "data"
    (data / "orders-0").mkdir()
    (data / "orders-0" / "0.log").write_bytes(b"12345")
    (data / "orders-0" / "link").symlink_to(elsewhere / "data" / "precious")
    (data / "folder").symlink_to(elsewhere / "data")
    (data / "nowhere").symlink_to(elsewhere / "none")
    links = sum((data / name).lstat().st_size for name in ("orders-0/link", "folder", "nowhere"))

    assert empty(data, top=top) == 5 + links
    assert list(data.iterdir()) == []
    assert (elsewhere / "data" / "precious").read_text() == "precious"


@pytest.mark.parametrize("part", ["nodes", "nodes/1", "nodes/1/data"])
def test_a_data_directory_behind_a_link_is_not_emptied(top: Path, elsewhere: Path, part: str) -> None:
    """Wherever on the way the link lies: there is a data directory behind each of them."""
    (top / part).rename(top / "was here")
    below = Path("nodes/1/data").relative_to(part)
    (elsewhere / "as" / below).parent.mkdir(parents=True, exist_ok=True)
    (elsewhere / "data").rename(elsewhere / "as" / below)
    (top / part).symlink_to(elsewhere / "as")

    with pytest.raises(HarnessError, match=r"nodes/1/data: '.*' is no folder there \(.*\); nothing was touched"):
        empty(top / "nodes" / "1" / "data", top=top)
    assert (elsewhere / "as" / below / "precious").read_text() == "precious"


def test_a_folder_that_is_not_there_is_reported(top: Path) -> None:
    with pytest.raises(HarnessError, match="No such file"), folder_below(top, top / "nodes" / "2"):
        pass


@given(st.recursive(st.binary(max_size=5), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3)))
def test_whatever_lies_there_is_removed_and_counted(
    tmp_path_factory: pytest.TempPathFactory, tree: bytes | dict[str, object]
) -> None:
    top = tmp_path_factory.mktemp("top")

    def lay(path: Path, node: object) -> int:
        if isinstance(node, bytes):
            path.write_bytes(node)
            return len(node)
        assert isinstance(node, dict)
        path.mkdir()
        return sum(lay(path / name, inner) for name, inner in node.items())

    (top / "data").mkdir()
    laid = lay(top / "data" / "x", tree)
    assert empty(top / "data", top=top) == laid
    assert list((top / "data").iterdir()) == []


@pytest.mark.parametrize(
    "harm", [lambda folder: lose_tail(folder, records=1), lambda folder: damage_log(folder, at="last")]
)
def test_a_segment_that_is_a_link_is_not_cut_or_damaged(
    tmp_path: Path, elsewhere: Path, harm: Callable[[Path], object]
) -> None:
    folder = replica_folder(tmp_path, {0: batch(0, [b"a"])})
    somebodys = elsewhere / f"{1:020}.log"
    somebodys.write_bytes(batch(1, [b"b", b"c"]))
    (folder / somebodys.name).symlink_to(somebodys)
    with pytest.raises(HarnessError, match="is no plain file"):
        harm(folder)
    assert somebodys.read_bytes() == batch(1, [b"b", b"c"])
