"""Journals converted while they grow give the same tables as journals converted afterwards."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.history_writing import write_run
from harness.errors import HarnessError
from harness.history.facts.values import ValueNames
from harness.history.files_below import FilesBelow
from harness.history.journals import journal_columns, two_processes
from harness.history.journals.converter import follow
from harness.history.journals.pieces import FOLDER, Journals, PiecesUnfit, journal_paths
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import TABLES
from harness.history.sealed.sealing import seal
from harness.history.sealed.tables import Conversion
from harness.ports.cluster import TopicPartition
from tests.harness.history.growing import Growth, grow, growths, stories, written

ORDERS = TopicPartition(topic="orders", partition=0)
Tables = dict[str, pa.Table]


def tables_of(history: Path, begun: Journals | None = None) -> tuple[Tables, list[tuple[int, str]]]:
    names = ValueNames([(1 << 62, "r1")])
    conversion = Conversion(names=names, begun=begun)
    for path in journal_paths(history):
        conversion.add(path)
    converted = conversion.finish([("unread", 0)])
    tables = {name: getattr(converted, name) for name in ("operations", "records", "processes", "transactions")}
    events = {name: getattr(converted, name) for name in ("group_events", "client_events")}
    return tables | events, names.items()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80)
@given(story=stories, growth=growths, piece_bytes=st.sampled_from([40, 300, 1_000_000]))
@example(  # what was known when it was put away counts afterwards
    story={"a": [("assigned", [ORDERS]), *[("poll", False, [(ORDERS, b"r0")])] * 9], "b": [], "c": []},
    growth=Growth(steps=({"a.jsonl": 0.5},), put_away=(True,), ends={"a.jsonl": 1.0, "b.jsonl": 0.0, "c.jsonl": 0.5}),
    piece_bytes=300,
)
def test_journals_that_grew_and_were_cut_anyhow_give_the_same_tables_and_value_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Any, growth: Growth, piece_bytes: int
) -> None:
    shutil.rmtree(tmp_path)
    for folder in ("written", FOLDER):
        (tmp_path / folder).mkdir(parents=True)
    history, pieces = tmp_path / "history", tmp_path / FOLDER
    monkeypatch.setattr(journal_columns, "PIECE_BYTES", piece_bytes)
    journals = Journals()

    def seen(put_away: bool) -> None:
        for path in journal_paths(history):
            while journals.take(path):
                pass
        if put_away:
            journals.put_away(FilesBelow(tmp_path))

    grow(history, written(tmp_path / "written", story), growth, seen)

    resumed, its_names = tables_of(history, Journals.resumed(pieces, history))
    monkeypatch.setattr(journal_columns, "PIECE_BYTES", 1_000_000)
    at_once, names = tables_of(history)
    assert its_names == names
    for name, table in at_once.items():
        assert resumed[name].equals(table), name
        assert table.schema.equals(TABLES[name])


# ---- a whole run folder ---------------------------------------------------------------------------------------------


def looks(actions: list[Callable[[], Any]]) -> Callable[[float], bool]:
    """The word to stop comes when all actions are done, one before each look."""
    left: Iterator[Callable[[], Any]] = iter(actions)

    def stopped(timeout_s: float) -> bool:
        if timeout_s == 0:
            return False
        action = next(left, None)
        if action is None:
            return True
        action()
        return False

    return stopped


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    write_run(tmp_path / "run", 3_000)
    return RunFolder(tmp_path / "run")


def sealed_tables(run: RunFolder) -> Tables:
    seal(run)
    assert not (run.path / FOLDER).exists()
    return {name: run.table(name) for name in TABLES}


def log_of(run: RunFolder) -> list[str]:
    log = run.path / "harness.log"
    return log.read_text().splitlines() if log.exists() else []


def follow_from_half(run: RunFolder, *, put_away_bytes: int = 20_000) -> None:
    """The converter sees the first half of each journal, one after the other, and the seal the rest."""
    whole = {path: path.read_bytes() for path in journal_paths(run.history)}

    def half(path: Path) -> None:
        path.write_bytes(whole[path][: len(whole[path]) // 2])

    for path in whole:
        path.unlink()
    follow(
        run.path,
        stopped=looks([*(lambda path=path: half(path) for path in whole), lambda: None]),
        put_away_bytes=put_away_bytes,
    )
    for path, text in whole.items():
        with path.open("ab") as file:
            file.write(text[len(text) // 2 :])


def test_a_seal_takes_the_tail_and_leaves_nothing_of_the_follower(run: RunFolder) -> None:
    ordinary = sealed_tables(run)
    follow_from_half(run)
    assert len(list((run.path / FOLDER).glob("piece-?????"))) > 2

    assert sealed_tables(run) == ordinary
    assert log_of(run) == []


def test_what_the_follower_holds_in_memory_is_bounded(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_columns, "PIECE_BYTES", 2_000)
    held = []
    put_away = Journals.put_away

    def watched(journals: Journals, run: FilesBelow) -> None:
        held.append(journals.fresh_bytes())
        put_away(journals, run)
        assert journals.fresh_bytes() == 0

    monkeypatch.setattr(Journals, "put_away", watched)
    follow_from_half(run)

    assert len(held) > 2
    assert max(held) < 20_000 + 20 * 2_000


def _shorter(run: RunFolder) -> None:
    path = journal_paths(run.history)[0]
    path.write_bytes(path.read_bytes()[:1_000])


def _another(run: RunFolder) -> None:
    path = journal_paths(run.history)[0]
    path.rename(path.with_suffix(".old"))
    path.write_bytes(path.with_suffix(".old").read_bytes())


def _rewritten(run: RunFolder) -> None:
    path = journal_paths(run.history)[0]
    lines = path.read_bytes().split(b"\n")
    first = next(place for place, line in enumerate(lines) if line.startswith(b'["I"'))
    path.write_bytes(b"\n".join([*lines[:first], *lines[first + 2 : -2], b""]))  # with an operation less, and no end


def _gone(run: RunFolder) -> None:
    journal_paths(run.history)[0].unlink()


def _a_piece_is_missing(run: RunFolder) -> None:
    (run.path / FOLDER / "piece-00000").unlink()


def _a_piece_is_cut_short(run: RunFolder) -> None:
    piece = run.path / FOLDER / "piece-00001"
    piece.write_bytes(piece.read_bytes()[:-8])


def _a_piece_is_empty(run: RunFolder) -> None:
    (run.path / FOLDER / "piece-00001").write_bytes(b"")


def _a_piece_is_of_another_version(run: RunFolder) -> None:
    piece = run.path / FOLDER / "piece-00000"
    piece.write_bytes(piece.read_bytes().replace(b'"format":2', b'"format":0', 1))


@pytest.mark.parametrize(
    "harm",
    [
        _shorter, _another, _rewritten, _gone, _a_piece_is_missing, _a_piece_is_cut_short, _a_piece_is_empty,
        _a_piece_is_of_another_version,
    ],
)  # fmt: skip
def test_what_does_not_fit_the_journals_is_not_used_and_harness_log_says_so(
    run: RunFolder, harm: Callable[[RunFolder], None]
) -> None:
    follow_from_half(run)
    harm(run)
    with pytest.raises(PiecesUnfit):
        Journals.resumed(run.path / FOLDER, run.history)

    tables = sealed_tables(run)

    (line,) = log_of(run)
    assert line.endswith("; the journals are converted from their beginning")
    assert sealed_tables(run) == tables  # without any pieces now
    assert len(log_of(run)) == 1


def test_a_piece_that_was_being_written_when_the_follower_was_killed_does_not_count(run: RunFolder) -> None:
    ordinary = sealed_tables(run)
    follow_from_half(run)
    last = max((run.path / FOLDER).glob("piece-?????"))
    last.rename(last.with_suffix(".unfinished"))

    assert sealed_tables(run) == ordinary
    assert log_of(run) == []


@pytest.mark.parametrize("program", [sys.executable, "/bin/false"])
def test_large_journals_are_converted_by_two_and_by_one_where_the_other_fails(
    run: RunFolder, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = sealed_tables(run)
    monkeypatch.setattr(two_processes, "LARGE_BYTES", 0)
    monkeypatch.setattr(two_processes, "_cores", lambda: 2)
    monkeypatch.setattr(sys, "executable", program)

    journals = two_processes.begun_journals(run.files)

    ours = {journal.path.name for journal in journals.ended()}
    assert (ours == {path.name for path in journal_paths(run.history)}) == (program != "/bin/false")
    assert len(ours) > 1
    shutil.rmtree(run.path / FOLDER)
    assert sealed_tables(run) == ordinary
    assert log_of(run) == []


@pytest.mark.parametrize("ended", [b"", b"\n"], ids=["cut", "whole"])
def test_a_last_line_that_cannot_be_read_ends_its_journal_the_same_way_for_both(run: RunFolder, ended: bytes) -> None:
    path = journal_paths(run.history)[0]
    lines = path.read_bytes().split(b"\n")
    for torn in (10, len(lines) // 2 + 5):
        path.write_bytes(b"\n".join([*lines[:torn], b'["R",7,']) + ended)
        ordinary = sealed_tables(run)
        follow_from_half(run)
        assert sealed_tables(run) == ordinary
    assert log_of(run) == []


@pytest.mark.parametrize("behind", ["at once", "later"])
def test_a_line_that_cannot_be_read_with_lines_behind_it_is_named_however_they_came(
    run: RunFolder, behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = journal_paths(run.history)[0]
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:10], b'["R",7,', *lines[10:]]))
    if behind == "later":  # the follower saw the journal when that line was its last
        upto = sum(len(line) + 1 for line in lines[:10]) + len(b'["R",7,') + 1
        monkeypatch.setattr(journal_columns, "PIECE_BYTES", upto)

    with pytest.raises(HarnessError, match=rf"{path.name}:11: no line of a journal \(.*lines follow it"):
        seal(run)
