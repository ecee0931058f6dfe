"""Which change notifies which watcher, once."""

from reference_impl.coordination.records import OPEN_ACL, EventType, Notification
from reference_impl.coordination.transactions import CreateTransaction, DeleteTransaction, Entry, Transaction
from reference_impl.coordination.tree import Change, Tree
from reference_impl.coordination.watches import Watches

CREATE = CreateTransaction(path="/p/c", data=b"", acls=OPEN_ACL, ephemeral=False, parent_cversion=1)


def changes_of_a_child() -> tuple[Change, Change]:
    tree = Tree()
    parent = CreateTransaction(path="/p", data=b"", acls=OPEN_ACL, ephemeral=False, parent_cversion=1)
    records: tuple[Transaction, ...] = (parent, CREATE, DeleteTransaction(path="/p/c"))
    applied = [
        tree.apply(Entry(session_id=1, cxid=0, zxid=zxid, time_ms=0, transaction=record))[0]
        for zxid, record in enumerate(records, start=1)
    ]
    return applied[1], applied[2]


def test_a_creation_is_heard_by_those_who_wait_for_it_and_by_the_parents_watchers() -> None:
    created, _ = changes_of_a_child()
    watches: Watches[str] = Watches()
    watches.watch_data("/p/c", "waits")
    watches.watch_children("/p", "lists")
    watches.watch_data("/p", "reads the parent")
    assert list(watches.fire(created)) == [
        ("waits", Notification(event=EventType.CREATED, path="/p/c")),
        ("lists", Notification(event=EventType.CHILDREN, path="/p")),
    ]
    assert list(watches.fire(created)) == []


def test_a_deletion_is_reported_once_to_whoever_watched_data_and_children() -> None:
    _, deleted = changes_of_a_child()
    watches: Watches[str] = Watches()
    watches.watch_data("/p/c", "both")
    watches.watch_children("/p/c", "both")
    assert list(watches.fire(deleted)) == [("both", Notification(event=EventType.DELETED, path="/p/c"))]


def test_a_watcher_that_left_is_forgotten() -> None:
    created, _ = changes_of_a_child()
    watches: Watches[str] = Watches()
    watches.watch_data("/p/c", "left")
    watches.watch_children("/p", "left")
    watches.watch_children("/p", "stayed")
    watches.forget("left")
    assert [watcher for watcher, _ in watches.fire(created)] == ["stayed"]
