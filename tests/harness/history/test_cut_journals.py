"""However a journal was cut, and in whatever pieces it is read: the same tables, or a line that names what is wrong."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.history_writing import write_run
from harness.errors import HarnessError
from harness.history.facts.values import ValueNames
from harness.history.journals import journal_columns
from harness.history.journals.journal_files import journal_paths
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import TABLES
from harness.history.sealed.sealing import seal
from harness.history.sealed.tables import Conversion
from harness.ports.cluster import TopicPartition
from tests.harness.history.journal_stories import cut, cuts, stories, written

ORDERS = TopicPartition(topic="orders", partition=0)
ALL_OF_THEM = {"a.jsonl": 1.0, "b.jsonl": 0.0, "c.jsonl": 0.5}
Tables = dict[str, pa.Table]


def tables_of(history: Path) -> tuple[Tables, list[tuple[int, str]]]:
    names = ValueNames([(1 << 62, "r1")])
    conversion = Conversion(names=names)
    for path in journal_paths(history):
        conversion.add(path)
    converted = conversion.finish([("unread", 0)])
    tables = {name: getattr(converted, name) for name in ("operations", "records", "processes", "transactions")}
    events = {name: getattr(converted, name) for name in ("group_events", "client_events")}
    return tables | events, names.items()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80)
@given(story=stories, shares=cuts, piece_bytes=st.sampled_from([40, 300]))
@example(
    story={"a": [("assigned", [ORDERS]), *[("poll", False, [(ORDERS, b"r0")])] * 9], "b": [], "c": []},
    shares=ALL_OF_THEM,
    piece_bytes=300,
)
def test_journals_that_were_cut_anywhere_give_the_same_tables_in_pieces_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Any, shares: dict[str, float], piece_bytes: int
) -> None:
    shutil.rmtree(tmp_path)
    (tmp_path / "written").mkdir(parents=True)
    cut(tmp_path / "history", written(tmp_path / "written", story), shares)
    monkeypatch.setattr(journal_columns, "PIECE_BYTES", piece_bytes)
    in_pieces, its_names = tables_of(tmp_path / "history")
    monkeypatch.setattr(journal_columns, "PIECE_BYTES", 1_000_000)
    at_once, names = tables_of(tmp_path / "history")

    assert its_names == names
    for name, table in at_once.items():
        assert in_pieces[name].equals(table), name
        assert table.schema.equals(TABLES[name])


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    write_run(tmp_path / "run", 3_000)
    return RunFolder(tmp_path / "run")


def sealed_tables(run: RunFolder) -> Tables:
    seal(run)
    return {name: run.table(name) for name in TABLES}


@pytest.mark.parametrize("ended", [b"", b"\n"], ids=["cut", "whole"])
def test_a_last_line_that_is_torn_is_left_out_with_and_without_an_end(run: RunFolder, ended: bytes) -> None:
    path = journal_paths(run.history)[0]
    lines = path.read_bytes().split(b"\n")
    for torn in (10, len(lines) // 2 + 5):
        path.write_bytes(b"\n".join([*lines[:torn], b""]))
        without = sealed_tables(run)
        path.write_bytes(b"\n".join([*lines[:torn], b'["R",7,']) + ended)
        with_it = sealed_tables(run)
        assert {name: table for name, table in with_it.items() if name != "processes"} == {
            name: table for name, table in without.items() if name != "processes"
        }


@pytest.mark.parametrize("behind", ["in its piece", "in the next piece"])
def test_a_line_that_cannot_be_read_with_lines_behind_it_is_named(
    run: RunFolder, behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = journal_paths(run.history)[0]
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:10], b'["R",7,', *lines[10:]]))
    if behind == "in the next piece":
        upto = sum(len(line) + 1 for line in lines[:10]) + len(b'["R",7,') + 1
        monkeypatch.setattr(journal_columns, "PIECE_BYTES", upto)

    with pytest.raises(HarnessError, match=rf"{path.name}:11: no line of a journal \(.*lines follow it"):
        seal(run)


def test_a_line_with_a_number_that_no_table_can_hold_is_named(run: RunFolder) -> None:
    path = journal_paths(run.history)[0]
    lines = path.read_bytes().split(b"\n")
    poll = next(place for place, line in enumerate(lines) if place > 10 and line.startswith(b'["R"'))
    kind, operation, _, rest = lines[poll].split(b",", 3)
    lines[poll] = b",".join([kind, operation, str(2**63).encode(), rest])
    path.write_bytes(b"\n".join(lines))

    with pytest.raises(HarnessError, match=rf"{path.name}:{poll + 1}: no line of a journal \(.*too big"):
        seal(run)


@pytest.mark.parametrize(("answered", "named"), [(True, r":\d+: no line of a journal"), (False, ": operation .*")])
def test_a_number_that_no_table_can_hold_is_told_also_of_what_is_answered_later_or_never(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, answered: bool, named: str
) -> None:
    monkeypatch.setattr(journal_columns, "PIECE_BYTES", 1)
    path = journal_paths(run.history)[0]
    lines = path.read_bytes().split(b"\n")
    asked = next(place for place, line in enumerate(lines) if line.startswith(b'["I"'))
    kind, operation, function, _, rest = lines[asked].split(b",", 4)
    lines[asked] = b",".join([kind, operation, function, str(2**63).encode(), rest])
    path.write_bytes(b"\n".join(lines if answered else [*lines[: asked + 1], b""]))

    with pytest.raises(HarnessError, match=rf"{path.name}{named} \(.*too big"):
        seal(run)
