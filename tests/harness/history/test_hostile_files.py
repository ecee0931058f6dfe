"""Invalid files in a foreign run folder are reported in one line with file and place, in bounded memory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import HarnessError
from harness.history.journals.controller_rows import ROWS, read_rows, read_snapshots
from harness.history.journals.journal_files import LINE_BYTES_MAX
from harness.history.run_folder import RunFolder
from harness.history.schema import texts
from harness.history.schema.client_rows import ValueNameRow
from harness.history.schema.parquet_tables import read_table, rows_of
from harness.history.schema.schemas import TABLES
from harness.history.sealed.sealing import seal
from harness.host import memory

DIGITS = "9" * 5_000
DEEP = "[" * 50_000
PROCESS = '["P",0,"p",-1,1,null]'
DECLARE = '["D",0,"orders",0]'
INVOKE = '["I",1,"send",2,[0],[0],[]]'


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "run" / "history").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{}")
    return RunFolder(tmp_path / "run")


# -- run.json, verdict.json -------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[]", "an object is wanted, not a list"),
        (b"7", "an object is wanted, not a number"),
        (b'"x"', "an object is wanted, not a text"),
        (b"null", "an object is wanted, not null"),
        (b"", "line 1 is no JSON"),
        (b'{"id":\n "\xff"}', "byte 9 is no UTF-8"),
        (b'{"a":\n}', "line 2 is no JSON"),
        (b'{"a": ' + DEEP.encode(), "nested more than 100 deep"),
        (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "nested more than 100 deep"),
        (f'{{"seed": {DIGITS}}}'.encode(), "no JSON that can be read"),
        (b'{"load_ended_ns": 1' + b"0" * 400 + b"}", "a whole number of more than 64 bits"),
        (b'{"seed": 9223372036854775808}', "a whole number of more than 64 bits"),
        (b'{"workload": {"later": NaN}}', "a number that is not finite"),
        (b'{"error": "' + b"x" * (texts.TEXT_MAX + 1) + b'"}', "a text of 1048577 characters"),
        (b'{"schema_version": "1"}', "Expected `int`, got `str` - at `$.schema_version`"),
        (b'{"anchors": [{"monotonic_ns": null}]}', "at `$.anchors[0].monotonic_ns`"),
        (b'{"phases": [7]}', "at `$.phases[0]`"),
        (b'{"environment": []}', "at `$.environment`"),
    ],
)
def test_a_run_json_that_is_none_is_one_line(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "run.json").write_bytes(content)

    with pytest.raises(HarnessError) as error:
        RunFolder(tmp_path)

    assert str(error.value).startswith(f"{tmp_path / 'run.json'}: ")
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seed", [-(2**63), 2**63 - 1])
def test_every_seed_that_a_run_can_have_is_read(tmp_path: Path, seed: int) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"seed": seed}))
    assert RunFolder(tmp_path).run["seed"] == seed


def test_a_run_json_of_500_megabytes_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "run.json").open("wb") as file:
        file.truncate(500_000_000)

    with pytest.raises(HarnessError, match=r"run\.json: longer than the 16 MB"):
        RunFolder(tmp_path)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"verdict": 5}, "$.verdict"),
        ({"verdict": "fine"}, "Invalid enum value 'fine'"),
        ({"counts": []}, "$.counts"),
        ({"counts": {"violation": "x"}}, "$.counts"),
        ({"coverage": [{}]}, "$.coverage[0]"),
        ({"expectations": [7]}, "$.expectations[0]"),
        ({"reasons": [7]}, "$.reasons[0]"),
        ({"accounting": {"acknowledged": 10**400}}, "a whole number of more than 64 bits"),
        ({"accounting": {"acknowledged": float("nan")}}, "a number that is not finite"),
    ],
)
def test_a_verdict_json_of_other_types_is_one_line(folder: RunFolder, fields: dict[str, Any], expected: str) -> None:
    sound = {"verdict": "pass", "exit_code": 0, "sentence": "", "counts": {}}
    (folder.path / "verdict.json").write_text(json.dumps(sound | fields))

    with pytest.raises(HarnessError) as error:
        folder.verdict()

    assert expected in str(error.value)
    assert "verdict.json" in str(error.value)


def test_what_is_not_known_in_a_run_json_stays(folder: RunFolder) -> None:
    folder.update(later={"than": ["this"]})

    assert folder.run["later"] == {"than": ["this"]}


# -- journals ---------------------------------------------


@pytest.mark.parametrize(
    ("lines", "place", "expected"),
    [
        ([PROCESS, '{"a":1}', PROCESS], 2, "Expected `array`, got `object`"),
        ([PROCESS, '["Z",1]'], 2, "Invalid value 'Z'"),
        ([PROCESS, '["D",0,7,0]'], 2, "Expected `str`, got `int`"),
        ([PROCESS, f'["B",1,{DIGITS}]'], 2, "Integer value out of range"),
        (["", PROCESS, "", '["B",1,99999999999999999999]'], 4, "int too big"),
        (['["P",4294967296,"p",-1,1,null]'], 1, "Expected `int` <= 2147483647"),
        (['["P",99999999999999999999,"p",-1,1,null]'], 1, "at `$[1]`"),
        ([PROCESS, DECLARE, '["I",1,"send",2,[7],[0],[]]', '["S",1,3,[0],[5],[null],[null],[4]]'], 4, "7 is not known"),
        ([PROCESS, DECLARE, '["I",1,"send",2,[0],[0,1],[]]'], 3, "2 values for 1 records"),
        ([PROCESS, DECLARE, INVOKE, '["S",1,3,[0,0],[5],[null],[null],[4]]'], 4, "longer than argument"),
        ([PROCESS, DECLARE, INVOKE, '["S",1,3,[9],[5],[null],[null],[4]]'], 4, "Expected `int` <= 2"),
        ([PROCESS, '["S",9,3,[],[],[],[],[]]'], 2, "9 is not known"),
        ([PROCESS, '["I",1,"poll",2,[],[],[]]', '["R",1,3,[[4,[0],[0],[0],[]]],null]'], 3, "4 is not known"),
        ([PROCESS, DECLARE, '["I",1,"poll",2,[],[],[]]', '["R",1,3,[[0,[0],[0],[-5],[]]],null]'], 4, "out of range"),
        ([PROCESS, '["C",77,1,"connect",1,null,null,null,null]'], 2, "nothing has begun as process 77"),
        ([PROCESS, '["C",0,1,"leader",1,4,null,null,null]'], 2, "4 is not known"),
        ([PROCESS, '["C",0,1,"connect",9999999999,null,null,null,null]'], 2, "<= 2147483647"),
        ([INVOKE], 1, "before any client"),
        ([PROCESS, '["B",1,1,' + DEEP], 2, "maximum recursion depth"),
    ],
)
def test_a_line_that_no_writer_of_ours_left_is_named_and_nothing_is_sealed_over_it(
    folder: RunFolder, lines: list[str], place: int, expected: str
) -> None:
    journal = folder.history / "p0.jsonl"
    journal.write_text("\n".join(lines) + "\n")

    with pytest.raises(HarnessError) as error:
        seal(folder)

    assert str(error.value).startswith(f"{journal}:{place}: ")
    assert expected in str(error.value)
    assert len(str(error.value)) < 400
    assert not folder.has_table("records")


def test_an_operation_without_its_answer_is_held_against_what_there_is_too(folder: RunFolder) -> None:
    (folder.history / "p0.jsonl").write_text("\n".join([PROCESS, '["I",3,"send",2,[7],[0],[]]']) + "\n")

    with pytest.raises(HarnessError, match=r"p0\.jsonl: operation 3 .*7 is not known"):
        seal(folder)


def test_a_line_far_into_a_journal_is_found(folder: RunFolder) -> None:
    (folder.history / "p0.jsonl").write_text(
        "\n".join([PROCESS, *["[]" if n == 90_000 else DECLARE for n in range(95_000)]])
    )

    with pytest.raises(HarnessError, match=r"p0\.jsonl:90002: "):
        seal(folder)


def test_a_line_of_a_gigabyte_is_not_read_to_its_end(folder: RunFolder) -> None:
    with (folder.history / "p0.jsonl").open("wb") as file:
        file.write(f"{PROCESS}\n".encode())
        file.truncate(1_000_000_000)

    with pytest.raises(HarnessError, match=rf"p0\.jsonl:2: longer than the {LINE_BYTES_MAX // 1_000_000} MB"):
        seal(folder)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[]", "Expected `object`"),
        ('{"table": "faults", "row": []}', "$.row"),
        ('{"table": "faults", "row": {"begin_ns": "noon"}}', "$.begin_ns"),
        ('{"table": "faults", "row": {"nodes": [4294967296]}}', "$.nodes[0]"),
        ('{"table": "faults", "row": {"begin_ns": 99999999999999999999}}', "$.begin_ns"),
        ('{"table": "partition_states", "row": {"time_ns": 1}}', "missing required field `topic`"),
        ('{"table": "partitions", "row": {"topic": null, "partition": 0}}', "$.topic"),
        ('{"table": "value_names", "row": {"value": 1}}', "missing required field `name`"),
        ('{"table": "controller_seen", "row": {"time_ns": "x"}}', "$.time_ns"),
        ('{"table": "faults", "row": {"x": ' + DEEP, "maximum recursion depth"),
    ],
)
def test_a_row_of_the_controllers_of_another_shape_is_named(folder: RunFolder, line: str, expected: str) -> None:
    sound = '{"table": "steps", "row": {"step": 0}}'
    (folder.history / ROWS).write_text(f"{sound}\n{line}\n{sound}\n")

    with pytest.raises(HarnessError) as error:
        seal(folder)

    assert str(error.value).startswith(f"{folder.history / ROWS}:2: ")
    assert expected in str(error.value)


def test_more_rows_of_the_controllers_than_memory_holds_are_not_read(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_allowed_mb", 256)
    with (folder.history / ROWS).open("wb") as file:
        file.truncate(50 << 20)

    with pytest.raises(HarnessError, match="give --memory-mb 300"):
        read_rows(folder.history / ROWS)


# -- tables -----------------------------------------------


def names(**columns: Any) -> pa.Table:
    fields = {"run": pa.array([0], pa.int32()), "value": pa.array([1], pa.int64()), "name": ["a"]} | columns
    return pa.table({name: column for name, column in fields.items() if column is not None})


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (names(name=None), "column name is missing"),
        (names(value=["one"]), "column value is of type string, not int64"),
        (names(value=[1.5]), "column value is of type double, not int64"),
        (names(name=[[1]]), "column name is of type list<element: int64>, not string"),
        (names().replace_schema_metadata({"kafka_chaos_schema": "x"}), "its schema b'x' is no number"),
        (names().replace_schema_metadata({"kafka_chaos_schema": "9"}), "schema 9 is newer than this kafka-chaos"),
    ],
)
def test_a_table_of_other_columns_is_reported_by_file_and_column(
    folder: RunFolder, table: pa.Table, expected: str
) -> None:
    path = folder.path / "tables" / "value_names.parquet"
    path.parent.mkdir()
    pq.write_table(table, path)

    with pytest.raises(HarnessError) as error:
        folder.table("value_names")

    assert str(error.value).startswith(f"{path}: {expected}")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1000])
def test_what_is_no_parquet_is_reported_by_file(folder: RunFolder, content: bytes) -> None:
    path = folder.path / "tables" / "steps.parquet"
    path.parent.mkdir()
    path.write_bytes(content)

    with pytest.raises(HarnessError) as error:
        folder.table("steps")

    assert str(error.value).startswith(f"{path} is no sound table")
    assert "\n" not in str(error.value)


def test_columns_that_came_later_are_null_where_they_are_absent(folder: RunFolder) -> None:
    rows = [{"run": 0, "fault": 0, "kind": "kill", "nodes": [1], "planned_ns": 5}]
    path = folder.path / "tables" / "faults.parquet"
    path.parent.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["faults"]).drop_columns("planned_ns"), path)

    assert folder.table("faults").column("planned_ns").to_pylist() == [None]


def many_rows(path: Path) -> None:
    zeros = np.zeros(20_000_000, np.int8)
    columns = {
        "run": pa.array(zeros, pa.int32()),
        "value": pa.array(zeros, pa.int64()),
        "name": pa.nulls(len(zeros), "string"),
    }
    pq.write_table(pa.table(columns, schema=TABLES["value_names"]), path, compression="zstd")


def one_text_many_times(path: Path) -> None:
    zeros = pa.array(np.zeros(100_000, np.int32))
    text = pa.DictionaryArray.from_arrays(zeros, pa.array(["x" * 100_000]))
    pq.write_table(pa.table({"run": zeros, "value": zeros.cast("int64"), "name": text}), path, compression="zstd")


@pytest.mark.slow
@pytest.mark.parametrize(("write", "expected"), [(many_rows, "20000000 rows"), (one_text_many_times, "100000 rows")])
def test_a_small_file_of_very_many_rows_is_refused_before_they_are_made(
    tmp_path: Path, write: Callable[[Path], None], expected: str
) -> None:
    path = tmp_path / "value_names.parquet"
    write(path)
    assert path.stat().st_size < 700_000

    with pytest.raises(
        HarnessError, match=rf"value_names\.parquet: its {expected} .* 2048 MB are allowed: give --memory-mb"
    ):
        rows_of(ValueNameRow, read_table(path, "value_names"), path)


def test_a_snapshot_without_its_node_is_refused(tmp_path: Path) -> None:
    row = dict.fromkeys(("run", "snapshot", "partition", "offset", "value"), 0) | {"topic": "orders"}
    pq.write_table(pa.Table.from_pylist([row], schema=TABLES["replica_log"]), tmp_path / "snapshot-00000.parquet")

    with pytest.raises(HarnessError, match=r"snapshot-00000\.parquet: column node lacks values"):
        read_snapshots(tmp_path)


def test_the_limit_of_texts_is_far_above_ours() -> None:
    assert texts.BYTES_MAX > 10_000_000
