"""Ways in which a run folder cannot be judged. Each spoils a sound one and returns what has to be told of it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.schema.schemas import DERIVED, TABLES


def spoil_table(run: Path) -> str:
    table = pq.read_table(run / "tables" / "faults.parquet").drop_columns("kind")
    pq.write_table(table, run / "tables" / "faults.parquet")
    return "faults.parquet: column kind is missing"


def spoil_records(run: Path) -> str:
    table = pq.read_table(run / "tables" / "records.parquet")
    column = table.schema.get_field_index("offset")
    pq.write_table(
        table.set_column(column, "offset", table["offset"].cast("string")), run / "tables" / "records.parquet"
    )
    return "records.parquet: column offset is of type string, not int64"


def contradict(path: Path, column: str) -> None:
    """The footer says that the column is never null, and keeps a histogram of a column that may be."""
    content = path.read_bytes()
    name = bytes([len(column)]) + column.encode()
    optional, required = b"\x25\x02\x18" + name, b"\x25\x00\x18" + name  # repetition type, then the name
    assert content.count(optional) == 1
    path.write_bytes(content.replace(optional, required))


def spoil_a_footer(run: Path) -> str:
    contradict(run / "tables" / "records.parquet", "offset")
    return "is no sound table (Definition level histogram size mismatch"


def spoil_with_a_bomb(run: Path) -> str:
    zeros = pa.nulls(20_000_000, pa.int32())
    schema = pq.read_schema(run / "tables" / "steps.parquet")
    columns = [zeros.cast(field.type) for field in schema]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), run / "tables" / "steps.parquet", compression="zstd")
    assert (run / "tables" / "steps.parquet").stat().st_size < 700_000
    return "give --memory-mb"


def spoil_scenario(run: Path) -> str:
    (run / "scenario.toml").write_text("x = " + "[" * 20_000)
    return "scenario.toml: nested more than 100 deep"


def spoil_run_json(run: Path) -> str:
    (run / "run.json").write_text("[" * 20_000)
    return "run.json: nested more than 100 deep"


def spoil_journal(run: Path) -> str:
    (run / "history").mkdir()
    (run / "history" / "p0.jsonl").write_text('["P",0]\n["P",1]\n')
    (run / "tables" / "steps.parquet").unlink()
    return "p0.jsonl:1: no line of a journal"


def spoil_with_a_linked_history(run: Path) -> str:
    (run / "history").symlink_to("/etc")
    return "history is a symbolic link"


def spoil_schema_version(run: Path) -> str:
    (run / "run.json").write_text(json.dumps({"schema_version": 99}))
    return "written by a newer kafka-chaos (schema 99"


def spoil_with_a_link(run: Path) -> str:
    (run / "tables" / "notes").symlink_to("operations.parquet")
    return "notes is a symbolic link"


def spoil_what_is_derived(run: Path) -> str:
    (run / "tables" / "activity.parquet").unlink()
    return spoil_records(run)


def spoil_with_a_null(run: Path) -> str:
    """The columns are as they should be, and what is in them is nothing that could be put in order."""
    none = pa.Table.from_pylist([{"run": 0, "kind": "wait"}] * 2, schema=TABLES["steps"])
    pq.write_table(none, run / "tables" / "steps.parquet")
    return "steps.parquet: column step is null in 2 rows"


def spoil_with_an_acknowledgement_of_nothing(run: Path) -> str:
    """No check compares an offset that is not there: nothing would have been found wrong."""
    path = run / "tables" / "records.parquet"
    rows = pq.read_table(path).to_pylist()
    untold = [row | {"offset": None} if row["kind"] == 0 else row for row in rows]
    pq.write_table(pa.Table.from_pylist(untold, schema=TABLES["records"]), path)
    sends = sum(row["kind"] == 0 for row in rows)
    return f"records.parquet: column offset is null in {sends} rows of acknowledged sends"


def spoil_with_arguments_that_are_none(run: Path) -> str:
    """Each column for itself is lawful."""
    step = {"run": 0, "step": 0, "kind": "act", "act": "elect", "step_text": "elect unclean t", "outcome": "ok"}
    step |= {"arguments": "[", "begin_ns": 1, "end_ns": 2}
    pq.write_table(pa.Table.from_pylist([step], schema=TABLES["steps"]), run / "tables" / "steps.parquet")
    return "what its tables hold does not fit together (JSONDecodeError: "


def spoil_with_an_offset_beyond_kafkas(run: Path) -> str:
    path = run / "tables" / "records.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    farthest = {
        "kind": 0,
        "status": 0,
        "acks": -1,
        "offset": 2**63 - 1,
        "offset_step": None,
        "value": 1,
        "last_of_poll": None,
    }
    farther = {
        "kind": 2,
        "status": 0,
        "acks": None,
        "offset": 2**63 - 1,
        "offset_step": 1,
        "value": 2,
        "last_of_poll": True,
    }
    rows += [rows[0] | farthest | {"position": 1000}, rows[0] | farther | {"position": 1001}]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    for name in DERIVED:
        (run / "tables" / f"{name}.parquet").unlink()
    return "what its tables hold does not fit together (ArithmeticException: [ARITHMETIC_OVERFLOW]"


SPOILT = (
    spoil_with_a_linked_history,
    spoil_table,
    spoil_records,
    spoil_a_footer,
    spoil_with_a_bomb,
    spoil_scenario,
    spoil_run_json,
    spoil_journal,
    spoil_schema_version,
    spoil_with_a_link,
    spoil_what_is_derived,
    spoil_with_a_null,
    spoil_with_an_acknowledgement_of_nothing,
    spoil_with_arguments_that_are_none,
    spoil_with_an_offset_beyond_kafkas,
)
