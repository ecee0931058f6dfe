"""Which broker answered a producer: the one that its metadata named as leader from its send to the answer.

A producer sends a batch to the leader that it knows when it forms the request. So an answer came from that broker if
the producer knew no other one in between. Only libraries count whose new metadata is recorded when they use it;
librdkafka's is read from its log, some time later.
"""

from bisect import bisect_right
from collections.abc import Iterable

from harness.history.schema.client_rows import ClientEventRow, ProcessRow

_RECORDED_AT_ONCE = ("kafka-python", "aiokafka")
# Between a library's use of new metadata and our record of it other threads may run.
_RECORDED_AFTER_NS = 10_000_000


class LeaderViews:
    """Of all producers of a run."""

    def __init__(self, events: Iterable[ClientEventRow], processes: Iterable[ProcessRow]) -> None:
        prompt = {row["process"] for row in processes if row["library"] in _RECORDED_AT_ONCE}
        self._views: dict[tuple[int, str | None, int | None], list[tuple[int, int | None]]] = {}
        for row in sorted(events, key=lambda row: row["time_ns"]):
            if row["event"] == "leader" and row["process"] in prompt:
                views = self._views.setdefault((row["process"], row["topic"], row["partition"]), [])
                views.append((row["time_ns"], row["node"]))

    def answered_by(self, process: int, topic: str, partition: int, *, sent_ns: int, answered_ns: int) -> int | None:
        """None if it is not known."""
        views = self._views.get((process, topic, partition), [])
        before = bisect_right(views, sent_ns, key=lambda view: view[0])
        until = bisect_right(views, answered_ns + _RECORDED_AFTER_NS, key=lambda view: view[0])
        nodes = {node for _, node in views[max(before - 1, 0) : until]}
        return next(iter(nodes)) if before and len(nodes) == 1 else None
