"""Compaction of a log on disk: what stays, and what a start finds whose process was killed at any point of a pass
(docs/replication.md R79 to R85)."""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from reference_impl.core.cleaning.compaction import BatchCleaner, Cleaning, CompactionSettings, cleaning
from reference_impl.core.flaws import with_flaws
from reference_impl.core.producer_state import ProducerStates
from reference_impl.storage import cleaned_segments
from reference_impl.storage.checkpoints import sync_folder
from reference_impl.storage.cleaned_segments import complete_swaps
from reference_impl.storage.disk import Disk
from reference_impl.storage.log import Log, LogSettings
from reference_impl.storage.log_directory import CLEANER_CHECKPOINT, LogDirectory
from reference_impl.storage.log_loading import MAY_HAVE_GAPS_FILE
from reference_impl.storage.segment import SWAP_SUFFIX
from reference_impl.wire.control_records import Marker, marker_batch, read_marker
from reference_impl.wire.key_values import KeyValue, Producer, key_value_batch
from reference_impl.wire.record_batches import parse_headers, stamp, validate
from reference_impl.wire.record_filtering import keyed_records
from tests.reference_impl.storage.logs import ORDERS

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=100)
NOW_MS = 1_000_000
ALWAYS = CompactionSettings(min_dirty_ratio=0.0, delete_retention_ms=1000)
MANY = 1000


class Stored(NamedTuple):
    offset: int
    key: bytes | None
    has_value: bool


def put(log: Log, batch: bytearray) -> None:
    stamp(batch, 0, log.log_end_offset, 0)
    (header,) = parse_headers(batch)
    log.append(batch, header.next_offset)


def compacted(folder: Path) -> Log:
    log = Log.open(folder, ORDERS, SMALL, cleaned_to=0)
    if log.leader_epochs.latest_epoch < 0:
        log.leader_epochs.assign(0, 0)
    return log


def stored(log: Log) -> list[Stored]:
    content = log.all_batches()
    validate(content)
    return [
        Stored(record.offset, record.key, record.has_value)
        for header in parse_headers(content)
        if not header.is_control
        for record in keyed_records(content[header.position : header.end_position], header)
    ]


def latest(records: Sequence[Stored]) -> dict[bytes | None, Stored]:
    return {record.key: record for record in records}


def producers_of(log: Log) -> ProducerStates:
    states = ProducerStates()
    for header in log.headers():
        batch = log.read(header.base_offset, 1, header.next_offset) if header.is_control else b""
        states.update(header, read_marker(batch) if batch else None)
    states.transactions.committed_to(log.log_end_offset)
    return states


def plan_of(
    log: Log,
    *,
    now_ms: int = NOW_MS,
    settings: CompactionSettings = ALWAYS,
    flaw: str | None = None,
) -> Cleaning | None:
    states = producers_of(log)
    return cleaning(
        log.segments,
        settings,
        with_flaws([] if flaw is None else [flaw]).cleaning,
        dirty_from=log.cleaned_to or 0,
        last_stable_offset=states.transactions.last_stable_offset(log.log_end_offset, 0),
        wall_clock_ms=now_ms,
        aborted=states.transactions.all_aborted,
        producers=states.entries,
    )


def clean(log: Log, *, now_ms: int = NOW_MS, flaw: str | None = None) -> int:
    """Returns how many records went."""
    plan = plan_of(log, now_ms=now_ms, flaw=flaw)
    assert plan is not None
    cleaned = log.clean(plan, keys_max=MANY)()
    assert log.replace(cleaned)
    return cleaned.removed_records


def written(folder: Path, seed: int = 1, count: int = 60) -> Log:
    """Keys that come again, tombstones, and transactions of two producers that commit and abort."""
    random, log = Random(seed), compacted(folder)
    epochs = {7: 0, 8: 0}
    for number in range(count):
        records = [
            KeyValue(b"key-%d" % random.randrange(8), None if random.random() < 0.2 else b"value-%d" % number)
            for _ in range(random.randint(1, 3))
        ]
        producer_id = random.choice((None, 7, 8))
        if producer_id is None:
            put(log, key_value_batch(records, NOW_MS))
        else:
            put(log, key_value_batch(records, NOW_MS, Producer(producer_id, epochs[producer_id])))
            put(log, marker_batch(producer_id, epochs[producer_id], Marker(random.random() < 0.6, 0), NOW_MS))
    return log


def committed(log: Log) -> list[Stored]:
    """The records but those of aborted transactions."""
    gone = producers_of(log).transactions
    content = log.all_batches()
    found = []
    for header in parse_headers(content):
        is_aborted = any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
            for each in gone.all_aborted
        )
        if not header.is_control and not (header.is_transactional and is_aborted):
            batch = content[header.position : header.end_position]
            found += [Stored(each.offset, each.key, each.has_value) for each in keyed_records(batch, header)]
    return found


@pytest.mark.parametrize("seed", range(8))
def test_of_each_key_the_last_committed_record_stays_at_its_offset_and_nothing_new_comes(
    tmp_path: Path, seed: int
) -> None:
    log = written(tmp_path, seed)
    before, end = committed(log), log.log_end_offset
    assert clean(log) > 0
    after = committed(log)
    assert latest(after) == latest(before)
    assert set(after) <= set(before)
    assert log.log_end_offset == end
    assert log.cleaned_to == log.segments[-1].base_offset
    cleaned = [each for each in after if each.offset < (log.cleaned_to or 0)]
    assert len({each.key for each in cleaned}) == len(cleaned), "one record of a key in the clean part"
    log.close()
    again = compacted(tmp_path)
    assert committed(again) == after
    assert again.log_end_offset == end


def test_a_tombstone_goes_after_its_horizon_and_not_before(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, key_value_batch([KeyValue(b"a", b"1")], NOW_MS))
    put(log, key_value_batch([KeyValue(b"a", None)], NOW_MS))
    for number in range(20):
        put(log, key_value_batch([KeyValue(b"other-%d" % number, b"v" * 50)], NOW_MS))
    clean(log)
    assert [each for each in stored(log) if each.key == b"a"] == [Stored(1, b"a", False)]
    for number in range(20):
        put(log, key_value_batch([KeyValue(b"more-%d" % number, b"v" * 50)], NOW_MS))
    clean(log, now_ms=NOW_MS + 999)
    assert [each for each in stored(log) if each.key == b"a"] == [Stored(1, b"a", False)]
    for number in range(20):
        put(log, key_value_batch([KeyValue(b"most-%d" % number, b"v" * 50)], NOW_MS))
    clean(log, now_ms=NOW_MS + 1000)
    assert [each for each in stored(log) if each.key == b"a"] == []


def test_the_last_batch_of_a_producer_stays_without_its_records(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    batch = key_value_batch([KeyValue(b"a", b"1")], NOW_MS, Producer(7, 3))
    put(log, batch)
    put(log, marker_batch(7, 3, Marker(True, 0), NOW_MS))
    for _ in range(20):
        put(log, key_value_batch([KeyValue(b"a", b"v" * 50)], NOW_MS))
    known = producers_of(log).entries
    clean(log)
    first = next(log.headers())
    assert (first.base_offset, first.record_count, first.producer_id, first.base_sequence) == (0, 0, 7, 0)
    assert producers_of(log).entries == known


def test_a_marker_stays_as_long_as_a_batch_of_its_transaction_does_and_goes_after_its_horizon(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    put(log, key_value_batch([KeyValue(b"a", b"1")], NOW_MS, Producer(7, 3)))
    put(log, marker_batch(7, 3, Marker(False, 0), NOW_MS))
    put(log, key_value_batch([KeyValue(b"a", b"2")], NOW_MS, Producer(7, 3)))
    put(log, marker_batch(7, 3, Marker(True, 0), NOW_MS))

    def fill() -> None:
        for number in range(20):
            put(log, key_value_batch([KeyValue(b"other-%d" % number, b"v" * 50)], NOW_MS))

    def markers() -> list[int]:
        return [header.base_offset for header in log.headers() if header.is_control]

    fill()
    clean(log)
    assert markers() == [1, 3], "the pass saw a batch of each transaction"
    fill()
    clean(log)
    assert markers() == [1, 3], "now the first one ends nothing, and has its horizon"
    fill()
    clean(log, now_ms=NOW_MS + 1000)
    assert markers() == [3]
    assert producers_of(log).transactions.last_stable_offset(log.log_end_offset, 0) == log.log_end_offset


def test_an_open_transaction_is_not_cleaned_nor_what_follows_it(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for _ in range(20):
        put(log, key_value_batch([KeyValue(b"a", b"v" * 50)], NOW_MS))
    opened_at = log.log_end_offset
    put(log, key_value_batch([KeyValue(b"a", b"open")], NOW_MS, Producer(7, 3)))
    for _ in range(20):
        put(log, key_value_batch([KeyValue(b"a", b"v" * 50)], NOW_MS))
    clean(log)
    assert log.cleaned_to is not None
    assert 0 < log.cleaned_to <= opened_at
    kept = [each.offset for each in stored(log) if each.offset >= log.cleaned_to]
    assert kept == list(range(log.cleaned_to, log.log_end_offset))


def test_a_pass_whose_keys_have_no_room_ends_earlier_and_the_next_one_goes_on(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for number in range(60):
        put(log, key_value_batch([KeyValue(b"key-%d" % number, b"v" * 50)], NOW_MS))
    plan = plan_of(log)
    assert plan is not None
    assert log.replace(log.clean(plan, keys_max=10)())
    assert log.cleaned_to is not None
    assert 0 < log.cleaned_to < plan.end_offset


def test_what_is_due_is_said_by_ratio_and_lags(tmp_path: Path) -> None:
    log = written(tmp_path)
    clean(log)
    for _ in range(6):
        put(log, key_value_batch([KeyValue(b"a", b"v" * 100)], NOW_MS))
    assert plan_of(log, settings=CompactionSettings(min_dirty_ratio=0.99)) is None
    late = CompactionSettings(min_dirty_ratio=0.99, max_lag_ms=5000)
    assert plan_of(log, settings=late, now_ms=NOW_MS + 5000) is None
    assert plan_of(log, settings=late, now_ms=NOW_MS + 5001) is not None
    young = CompactionSettings(min_dirty_ratio=0.0, min_lag_ms=5000)
    assert plan_of(log, settings=young, now_ms=NOW_MS + 4999) is None
    assert plan_of(log, settings=young, now_ms=NOW_MS + 5000) is not None


def test_a_log_that_was_cut_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    log = written(tmp_path)
    plan = plan_of(log)
    assert plan is not None
    cleaned = log.clean(plan, keys_max=MANY)()
    log.truncate_to(plan.end_offset // 2)
    before = stored(log)
    assert not log.replace(cleaned)
    assert stored(log) == before
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith((".cleaned", ".swap"))]


def test_a_log_that_was_never_compacted_has_no_gaps_and_is_cut_at_one(tmp_path: Path) -> None:
    log = written(tmp_path)
    clean(log)
    log.close()
    (tmp_path / MAY_HAVE_GAPS_FILE).unlink()
    strict = Log.open(tmp_path, ORDERS, SMALL)
    assert strict.cut_at_start


@pytest.mark.parametrize("says_so", [True, False], ids=["with the file", "from before there was one"])
@pytest.mark.parametrize("damage", [None, "0\nnonsense\n"], ids=["lost", "damaged"])
def test_a_lost_or_damaged_checkpoint_of_the_cleaner_costs_no_record(
    tmp_path: Path, damage: str | None, says_so: bool
) -> None:
    directory = LogDirectory(tmp_path, broker_id=1, segment_bytes=600)
    log = directory.create(ORDERS, None)
    log.leader_epochs.assign(0, 0)
    log.write_that_it_may_have_gaps()
    log.cleaned_to = 0
    for number in range(60):
        put(log, key_value_batch([KeyValue(b"key-%d" % (number % 8), b"v" * 50)], NOW_MS))
    clean(log)
    before = stored(log)
    directory.checkpoint_cleaned(directory.cleaned())
    directory.abandon()
    if not says_so:
        (log.folder / MAY_HAVE_GAPS_FILE).unlink()
        LogDirectory(tmp_path, broker_id=1, segment_bytes=600).abandon()
    path = tmp_path / CLEANER_CHECKPOINT
    if damage is None:
        path.unlink()
    else:
        path.write_text(damage)
    again = LogDirectory(tmp_path, broker_id=1, segment_bytes=600).logs[ORDERS]
    assert (stored(again), again.cut_at_start, again.cleaned_to) == (before, b"", 0)


@pytest.mark.parametrize("at", [1, 10, "end"])
def test_a_topic_that_is_deleted_during_a_pass_costs_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int | str
) -> None:
    failed: list[OSError] = []
    disk = Disk(tmp_path, failed.append)
    folder = tmp_path / "orders-0"
    folder.mkdir()
    written(folder).close()
    log = Log.open(folder, ORDERS, SMALL, cleaned_to=0, disk=disk)
    plan = plan_of(log)
    assert plan is not None
    calls = 0

    def delete(number: int | str) -> None:
        if number == at:
            log.close()
            shutil.rmtree(folder.rename(tmp_path / "orders-0-delete"))

    def cleaned(self: BatchCleaner, batch: bytes, *, is_last_of_segment: bool) -> bytes:
        nonlocal calls
        calls += 1
        delete(calls)
        return sound(self, batch, is_last_of_segment=is_last_of_segment)

    def sync(path: Path) -> None:
        delete("end")
        sync_folder(path)

    sound = BatchCleaner.cleaned
    monkeypatch.setattr(BatchCleaner, "cleaned", cleaned)
    monkeypatch.setattr(cleaned_segments, "sync_folder", sync)
    changes = log.changes
    with pytest.raises(FileNotFoundError):
        log.clean(plan, keys_max=MANY)()
    assert not failed
    assert log.changes != changes, "so the pass is given up, not reported"


# Planted flaws


def of_keys(folder: Path, *batches: bytearray) -> Log:
    """These batches, and behind them enough for them to be cleaned."""
    log = compacted(folder)
    for batch in batches:
        put(log, batch)
    for number in range(20):
        put(log, key_value_batch([KeyValue(b"other-%d" % number, b"v" * 50)], NOW_MS))
    return log


def offsets(log: Log, key: bytes) -> list[int]:
    return [each.offset for each in stored(log) if each.key == key]


A = KeyValue(b"a", b"1")


def sound_or(flaw: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("flaw", [None, flaw], ids=["sound", "flawed"])


@sound_or("keep-first-of-a-key")
def test_an_older_record_of_a_key_is_what_stays(tmp_path: Path, flaw: str | None) -> None:
    log = of_keys(tmp_path, key_value_batch([A], NOW_MS), key_value_batch([A], NOW_MS))
    clean(log, flaw=flaw)
    assert offsets(log, b"a") == ([0] if flaw else [1])


@sound_or("compaction-renumbers")
def test_a_record_moves_to_another_offset(tmp_path: Path, flaw: str | None) -> None:
    log = of_keys(
        tmp_path, key_value_batch([KeyValue(b"b", b"1"), A], NOW_MS), key_value_batch([KeyValue(b"b", b"2")], 0)
    )
    clean(log, flaw=flaw)
    assert offsets(log, b"a") == ([0] if flaw else [1])


@sound_or("tombstones-gone-at-once")
def test_a_tombstone_goes_with_the_first_pass(tmp_path: Path, flaw: str | None) -> None:
    log = of_keys(tmp_path, key_value_batch([A], NOW_MS), key_value_batch([KeyValue(b"a", None)], NOW_MS))
    clean(log, flaw=flaw)
    assert offsets(log, b"a") == ([] if flaw else [1])


@sound_or("forget-producers-in-compaction")
def test_the_last_batch_of_a_producer_goes(tmp_path: Path, flaw: str | None) -> None:
    of_producer = key_value_batch([A], NOW_MS, Producer(7, 0))
    log = of_keys(tmp_path, of_producer, marker_batch(7, 0, Marker(True, 0), NOW_MS), key_value_batch([A], NOW_MS))
    clean(log, flaw=flaw)
    assert [header.base_offset for header in log.headers()][:2] == ([1, 2] if flaw else [0, 1])


@sound_or("clean-beyond-stable")
def test_a_committed_record_goes_for_one_of_an_open_transaction(tmp_path: Path, flaw: str | None) -> None:
    log = of_keys(tmp_path, key_value_batch([A], NOW_MS), key_value_batch([A], NOW_MS, Producer(7, 0)))
    if flaw is None:
        assert plan_of(log) is None
    else:
        clean(log, flaw=flaw)
    assert offsets(log, b"a") == ([1] if flaw else [0, 1])


# Killed at any point


class Killed(BaseException):
    pass


class Killer:
    """Before its n-th operation on a file the process is killed: from then on it does none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        self.left = after
        self.is_dead = False
        for owner, name in ((Path, "rename"), (Path, "unlink"), (Path, "write_bytes"), (os, "write"), (os, "fsync")):
            monkeypatch.setattr(owner, name, self._guarded(getattr(owner, name)))

    def _guarded(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.is_dead = self.is_dead or self.left == 0
            if self.is_dead:
                raise Killed
            self.left -= 1
            return operation(*args, **kwargs)

        return guarded


def test_killed_before_any_operation_on_a_file_a_start_finds_the_log_as_it_was_or_as_it_is_cleaned(
    tmp_path: Path,
) -> None:
    original = tmp_path / "original"
    original.mkdir()
    log = written(original, seed=3, count=20)
    before, end = committed(log), log.log_end_offset
    log.close()
    outcomes = set()
    for after in range(10_000):
        folder = tmp_path / f"killed-{after}"
        shutil.copytree(original, folder)
        log = compacted(folder)
        with pytest.MonkeyPatch.context() as monkeypatch:
            killer = Killer(monkeypatch, after)
            with suppress(Killed):
                clean(log)
        log.close()
        again = compacted(folder)
        found = committed(again)
        assert not again.cut_at_start
        assert latest(found) == latest(before)
        assert set(found) <= set(before)
        assert again.log_end_offset == end
        assert not [path.name for path in folder.iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]
        outcomes.add(len(found))
        again.close()
        shutil.rmtree(folder)
        if not killer.is_dead:
            break
    assert len(outcomes) > 1, "some were killed before, and some after the pass took effect"


def test_a_start_that_is_killed_as_well_leaves_to_the_next_one_what_it_found(tmp_path: Path) -> None:
    """Of a pass that was killed when some of its segments were .swap, and some still .cleaned."""
    original = tmp_path / "original"
    original.mkdir()
    log = written(original, seed=3, count=60)
    before = stored(log)
    plan = plan_of(log)
    assert plan is not None
    pieces = log.clean(plan, keys_max=MANY)().segments
    assert len(pieces) > 1
    pieces[-1].segment.rename(SWAP_SUFFIX)
    log.close()
    for after in range(1000):
        folder = tmp_path / f"killed-{after}"
        shutil.copytree(original, folder)
        with pytest.MonkeyPatch.context() as monkeypatch:
            killer = Killer(monkeypatch, after)
            with suppress(Killed):
                complete_swaps(folder)
        again = compacted(folder)
        assert stored(again) == before
        again.close()
        if not killer.is_dead:
            break
