"""A log on disk behaves like a plain list of batches under random sequences of operations (Hypothesis)."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.storage.log import Log, LogSettings
from reference_impl.wire.record_batches import parse_headers
from tests.reference_impl.storage.logs import open_log

MakeBatch = Callable[..., bytes]

_steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(1, 3), min_size=1, max_size=4)),
        st.tuples(st.just("delete_segments"), st.integers(1, 4)),
        st.tuples(st.just("advance_start"), st.integers(0, 40)),
        st.tuples(st.just("truncate"), st.integers(0, 40)),
        st.tuples(st.just("restart"), st.sampled_from(["killed", "clean"])),
        st.tuples(st.just("read"), st.tuples(st.integers(0, 40), st.integers(1, 400), st.integers(0, 40))),
        st.tuples(st.just("begin_anew"), st.integers(0, 40)),
        st.tuples(st.just("flush"), st.none()),
    ),
    max_size=15,
)


@settings(max_examples=60, deadline=None)
@given(steps=_steps, segment_bytes=st.sampled_from([1, 200, 500, 1 << 20]), interval=st.sampled_from([0, 80, 4096]))
def test_a_log_behaves_as_a_list_of_batches(
    make_batch: MakeBatch, steps: list[tuple[str, object]], segment_bytes: int, interval: int
) -> None:
    log_settings = LogSettings(segment_bytes=segment_bytes, index_interval_bytes=interval)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = open_log(folder, log_settings)
        model: list[tuple[int, int, bytes]] = []  # first offset, next offset, bytes
        start = end = epoch = 0
        for kind, argument in steps:
            if kind == "append":
                assert isinstance(argument, list)
                epoch += 1
                log.leader_epochs.assign(epoch, end)
                added = []
                for count in argument:
                    batch = make_batch(end, *[b"%d" % end] * count, epoch=epoch, timestamp=1000 + end)
                    added.append((end, end + count, batch))
                    end += count
                log.append(b"".join(batch for _, _, batch in added), end)
                model += added
            elif kind == "truncate":
                assert isinstance(argument, int)
                offset = max(argument, start)
                kept = [entry for entry in model if entry[1] <= offset]
                cut = log.truncate_to(argument)
                assert cut == b"".join(batch for _, _, batch in model[len(kept) :])
                model = kept
                end = model[-1][1] if model else start
            elif kind == "begin_anew":
                assert isinstance(argument, int)
                assert log.truncate_fully_and_start_at(argument) == b"".join(batch for _, _, batch in model)
                model, start, end = [], argument, argument
            elif kind in ("delete_segments", "advance_start"):
                assert isinstance(argument, int)
                model, start = shorten_from_the_start(log, kind, argument, model, start)
            elif kind == "flush":
                log.flush()
            elif kind == "restart":
                if argument == "clean":
                    log.flush()
                log.close()
                known_epochs = [entry for entry in log.leader_epochs.entries if entry.start_offset < end]
                log = open_log(
                    folder,
                    log_settings,
                    clean=argument == "clean",
                    recovery_point=log.recovery_point,
                    log_start_offset=log.log_start_offset,
                )
                assert not list(folder.glob("*.deleted"))
                assert list(log.leader_epochs.entries) == known_epochs
                assert log.cut_at_start == b""
            else:
                assert isinstance(argument, tuple)
                offset, max_bytes, end_offset = argument
                check_read(log, model, max(offset, start), max_bytes, end_offset)
            assert (log.log_start_offset, log.log_end_offset) == (start, end)
            assert log.all_batches() == b"".join(batch for _, _, batch in model)
        log.close()


def test_a_log_emptied_from_its_start_has_no_epochs_whether_it_was_reopened_or_not(
    tmp_path: Path, make_batch: MakeBatch
) -> None:
    log = open_log(tmp_path)
    log.leader_epochs.assign(1, 0)
    log.append(make_batch(0, b"a", epoch=1), 1)
    log.advance_log_start(1)
    log.truncate_to(0)
    assert list(log.leader_epochs.entries) == []
    log.close()
    again = open_log(tmp_path, recovery_point=log.recovery_point, log_start_offset=1)
    assert list(again.leader_epochs.entries) == []


Model = list[tuple[int, int, bytes]]


def shorten_from_the_start(log: Log, kind: str, argument: int, model: Model, start: int) -> tuple[Model, int]:
    if kind == "advance_start":
        boundaries = [first for first, _, _ in model if first > start] or [log.log_end_offset]
        start = boundaries[argument % len(boundaries)]
        log.advance_log_start(start)
        return model, start
    segments = log.segments
    count = min(argument, len(segments) - (segments[-1].size == 0))
    if count:
        gone_to = segments[count - 1].next_offset
        log.delete_segments(count)
        model, start = [entry for entry in model if entry[0] >= gone_to], max(start, gone_to)
        assert {path.suffix for path in log.take_set_aside()} == {".deleted"}
    check_segments(log, model)
    return model, start


def check_segments(log: Log, model: list[tuple[int, int, bytes]]) -> None:
    """Each segment is its part of the list: where it begins and ends, its bytes, its youngest record."""
    for segment in log.segments:
        inside = [entry for entry in model if segment.base_offset <= entry[0] < segment.next_offset]
        assert segment.size == sum(len(batch) for _, _, batch in inside)
        if inside:
            assert (segment.base_offset, segment.next_offset) == (inside[0][0], inside[-1][1])
            assert segment.largest_timestamp_ms == 1000 + inside[-1][0]
    assert log.segments[-1].next_offset == log.log_end_offset


def check_read(log: Log, model: list[tuple[int, int, bytes]], offset: int, max_bytes: int, end_offset: int) -> None:
    """One segment at a time, so what is read is a beginning of what may be read: not empty unless that is."""
    found = log.read(offset, max_bytes, end_offset)
    may_read = [batch for _, following, batch in model if following > offset and following <= end_offset]
    assert b"".join(may_read).startswith(found)
    assert bool(found) == bool(may_read)
    assert len(found) <= max(max_bytes, len(may_read[0]) if may_read else 0)
    assert parse_headers(found)[-1].end_position == len(found) if found else True
