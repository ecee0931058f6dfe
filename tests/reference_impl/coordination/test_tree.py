"""The tree applies decided transactions, also from a log that ZooKeeper wrote."""

import pytest

from reference_impl.coordination.records import OPEN_ACL, Code
from reference_impl.coordination.transactions import (
    CloseSessionTransaction,
    CreateTransaction,
    Entry,
    ErrorTransaction,
    MultiTransaction,
    Transaction,
)
from reference_impl.coordination.tree import Tree, is_valid_path


def entry(zxid: int, transaction: Transaction) -> Entry:
    return Entry(session_id=5, cxid=0, zxid=zxid, time_ms=zxid, transaction=transaction)


def create(path: str, *, ephemeral: bool = False) -> CreateTransaction:
    return CreateTransaction(path=path, data=b"", acls=OPEN_ACL, ephemeral=ephemeral, parent_cversion=1)


def test_a_multi_with_an_error_did_not_happen_though_zookeeper_logs_its_first_parts() -> None:
    tree = Tree()
    multi = MultiTransaction(parts=(create("/never"), ErrorTransaction(code=Code.BAD_VERSION)))
    assert tree.apply(entry(1, multi)) == []
    assert tree.find("/never") is None


def test_a_closed_session_loses_its_ephemerals_even_if_the_record_does_not_name_them() -> None:
    tree = Tree()
    tree.apply(entry(1, create("/e", ephemeral=True)))
    changes = tree.apply(entry(2, CloseSessionTransaction(deleted_paths=())))
    assert [change.path for change in changes] == ["/e"]
    assert tree.find("/e") is None


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/a b/ü", "/..a/.b"])
def test_these_are_paths(path: str) -> None:
    assert is_valid_path(path)


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/./a", "/a/..", "/a\0", "/a\x7f"])
def test_these_are_not(path: str) -> None:
    assert not is_valid_path(path)
