"""What truncations cut, from snapshots of the replicas' disks."""

import random
from pathlib import Path

from harness.controller.recorder import Recorder
from harness.controller.truncation_cuts import events_with_cuts, history_with_cuts
from harness.history.facts.values import encode
from harness.host.clock import SystemClock
from harness.ports.cluster import BrokerEvent, ClusterHistory, LogRecord, NodeId, ReplicaLog


def _log(t_ns: int, values: list[bytes], *, node: int = 1, partition: int = 0, start: int = 0) -> ReplicaLog:
    records = tuple(LogRecord(offset=start + n, epoch=n // 3, value=value) for n, value in enumerate(values))
    return ReplicaLog(
        node=NodeId(node),
        topic="t",
        partition=partition,
        t_ns=t_ns,
        log_start=start,
        high_watermark=None,
        log_end=start + len(values),
        epochs=(),
        records=records,
    )


def _truncation(t_ns: int, to: int, *, end: int | None = None, partition: int = 0) -> BrokerEvent:
    return BrokerEvent(
        node=NodeId(1), t_ns=t_ns, event="truncation", topic="t", partition=partition, from_offset=end, to_offset=to
    )


def _values(event: BrokerEvent) -> list[bytes]:
    return [record.value for record in event.cut]


def test_what_was_cut_is_what_the_latest_snapshot_before_had_above_the_new_end() -> None:
    snapshots = [
        _log(5, [b"a", b"b", b"c", b"d"]),
        _log(9, [b"a", b"x"]),
        _log(4, [b"y"] * 9, node=2),
        _log(4, [b"y"] * 9, partition=1),
        _log(1, [b"a", b"y", b"y"]),
    ]
    (event,) = events_with_cuts([_truncation(8, 2)], snapshots)
    assert event.cut == (LogRecord(offset=2, epoch=0, value=b"c"), LogRecord(offset=3, epoch=1, value=b"d"))
    for never_seen in (events_with_cuts([_truncation(0, 0)], snapshots), events_with_cuts([_truncation(8, 2)], [])):
        assert not never_seen[0].cut


def test_an_unknown_log_end_is_taken_from_the_snapshot_and_a_known_one_kept() -> None:
    snapshots = [_log(1, [b"a", b"b", b"c"])]
    assert events_with_cuts([_truncation(2, 1)], snapshots)[0].from_offset == 3
    assert events_with_cuts([_truncation(2, 1, end=5)], snapshots)[0].from_offset == 5
    assert events_with_cuts([_truncation(2, 3)], snapshots)[0].from_offset is None  # it grew unseen, or was not cut
    assert events_with_cuts([_truncation(2, 1)], []) == [_truncation(2, 1)]


def test_nothing_is_cut_twice_until_it_was_read_again() -> None:
    events = [_truncation(20, 1), _truncation(10, 2), _truncation(40, 1)]
    random.Random(3).shuffle(events)
    first, second, third = events_with_cuts(events, [_log(30, [b"a", b"n", b"m"]), _log(5, [b"a", b"b", b"c"])])
    assert [(event.t_ns, _values(event)) for event in (first, second, third)] == [
        (10, [b"c"]),
        (20, [b"b"]),
        (40, [b"n", b"m"]),
    ]


def test_a_log_that_begins_anew_behind_its_end_loses_all() -> None:
    (event,) = events_with_cuts([_truncation(2, 10, end=2)], [_log(1, [b"a", b"b"])])
    assert _values(event) == [b"a", b"b"]
    assert (event.from_offset, event.to_offset) == (2, 10)


def test_what_a_broker_kept_itself_and_other_events_stay_as_they_are() -> None:
    kept = BrokerEvent(
        node=NodeId(1),
        t_ns=2,
        event="truncation",
        topic="t",
        partition=0,
        from_offset=2,
        to_offset=1,
        cut=(LogRecord(offset=1, epoch=0, value=b"own"),),
    )
    start = BrokerEvent(node=NodeId(1), t_ns=1, event="broker_start")
    assert events_with_cuts([kept, start], [_log(1, [b"a", b"b"])]) == [start, kept]


def test_cuts_come_from_the_snapshots_that_the_run_recorded(tmp_path: Path) -> None:
    recorder = Recorder(folder=tmp_path, clock=SystemClock())
    own, foreign = encode(3, 7, 40), b"r0 \xff"
    recorder.replica_logs("kill", 1, [_log(5, [b"a", own, foreign]), _log(5, [b"other"], partition=1)])
    recorder.replica_logs("truncation", 1, [_log(6, [b"no"] * 5)])
    recorder.close()
    history = ClusterHistory(partition_states=(), controllers=(), broker_events=(_truncation(8, 1),), configuration=())
    (event,) = history_with_cuts(history, tmp_path).broker_events
    assert (event.from_offset, [record.offset for record in event.cut]) == (3, [1, 2])
    again = Recorder(folder=tmp_path / "books", clock=SystemClock(), after=recorder.so_far)
    numbers = [again.names.number(value) for value in _values(event)]
    assert numbers == [recorder.names.number(own), recorder.names.number(foreign)]
    again.close()
    assert history_with_cuts(history, tmp_path / "none").broker_events == [_truncation(8, 1)]


def test_records_from_before_epochs_come_back_as_their_log_told_them(tmp_path: Path) -> None:
    recorder = Recorder(folder=tmp_path, clock=SystemClock())
    old = LogRecord(offset=0, epoch=-1, value=b"r0")
    log = ReplicaLog(
        node=NodeId(1),
        topic="t",
        partition=0,
        t_ns=5,
        log_start=0,
        high_watermark=None,
        log_end=1,
        epochs=(),
        records=(old,),
    )
    recorder.replica_logs("kill", 1, [log])
    recorder.close()
    history = ClusterHistory(partition_states=(), controllers=(), broker_events=[_truncation(8, 0)], configuration=())

    (event,) = history_with_cuts(history, tmp_path).broker_events

    assert event.cut == (old,)
