"""The watches that a client sets again after a reconnect."""

from reference_impl.coordination.client_watches import PATHS_PER_REQUEST, ClientWatches
from reference_impl.coordination.records import EventType, Notification, SetWatchesRequest


def test_a_fired_watch_is_not_set_again() -> None:
    watches = ClientWatches()
    watches.expect_data("/a")
    watches.expect_children("/a")
    watches.expect_creation("/b")
    watches.fired(Notification(event=EventType.CHANGED, path="/a"))
    watches.fired(Notification(event=EventType.CREATED, path="/b"))
    assert list(watches.requests(9)) == [SetWatchesRequest(relative_zxid=9, children=["/a"])]
    watches.fired(Notification(event=EventType.DELETED, path="/a"))
    assert list(watches.requests(9)) == []


def test_many_watches_go_in_several_frames() -> None:
    watches = ClientWatches()
    paths = [f"/topics/{number}" for number in range(PATHS_PER_REQUEST + 1)]
    for path in paths:
        watches.expect_data(path)
    requests = list(watches.requests(1))
    assert [path for request in requests for path in request.data] == paths
    assert [len(request.data) for request in requests] == [PATHS_PER_REQUEST, 1]
