"""Tables of schema version 1 are converted to the current version."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.checks.spark.tables import read_small
from harness.history.facts.link_facts import struck_links
from harness.history.schema.cluster_rows import FAULTS, FaultRow
from harness.history.schema.parquet_tables import read_table
from harness.history.schema.schemas import TABLES
from harness.history.schema.version_1 import old_names, old_schema
from tests.harness.checks.histories.build import arrow_of
from tests.outsiders.history_builder import CASES
from tests.outsiders.test_outsiders import THEMES
from tests.rows import row_of

assert THEMES, "imported, so that all themes are among CASES"
EVERY = 12
SAID = {b"kafka_chaos_schema": b"1"}


def stored(name: str, table: pa.Table) -> pa.Table:
    """The table as version 1 wrote it."""
    schema = old_schema(name)
    rows = [row_of_version_1(name, row) for row in table.to_pylist()]
    return pa.Table.from_pylist([{each: row.get(each) for each in schema.names} for row in rows], schema)


def row_of_version_1(name: str, row: dict[str, Any]) -> dict[str, Any]:
    if name == "faults":
        row = row | {"links": " ".join(str(link) for link in struck_links(row_of(FaultRow, **row)))}
    if name == "steps" and row["kind"] != "act":
        row = row | {"step_text": f"{row['kind']} {row['step_text']}"}
    return {old_names(name, [column])[0]: value for column, value in row.items() if column not in ("proved", "act")}


@pytest.mark.parametrize("case_name", sorted(CASES)[::EVERY])
@pytest.mark.parametrize("said", [SAID, None], ids=["says its version", "says none"])
def test_what_version_1_stored_is_read_as_today(
    tmp_path: Path, case_name: str, said: dict[bytes, bytes] | None
) -> None:
    for name, table in arrow_of([CASES[case_name].make()]).items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(stored(name, table).replace_schema_metadata(said), path)
        if name == "faults":
            blank: dict[str, Any] = {"links": []}
            table = pa.Table.from_pylist(
                [row | {key: row[key] or value for key, value in blank.items()} for row in table.to_pylist()],
                TABLES[name],
            )
        now = read_table(path, name)
        assert now.select(TABLES[name].names).to_pylist() == table.to_pylist(), name


def test_a_tail_that_was_lost_is_read_from_its_proof_in_a_folder_of_version_1_alone(tmp_path: Path) -> None:
    proof = "the log of orders-1 on broker 2 ends at 40 and no longer at 55: 900 bytes never reached the disk"
    fault = {"run": 0, "fault": 3, "kind": "power-loss", "nodes": [2], "begin_ns": 7, "proof_text": proof}
    table = pa.Table.from_pylist([fault], TABLES["faults"])
    for folder, written in (("then", stored("faults", table)), ("now", table)):
        (tmp_path / folder).mkdir()
        metadata = SAID if folder == "then" else TABLES["faults"].metadata
        pq.write_table(written.replace_schema_metadata(metadata), tmp_path / folder / "faults.parquet")

    (lost,) = small(tmp_path / "then")["disk_events"][0]
    assert (lost["node"], lost["extent"], lost["topic"], lost["partition"], lost["from_offset"]) == (
        2, "tail", "orders", 1, 40,
    )  # fmt: skip
    assert not small(tmp_path / "now")["disk_events"]
    assert read_small(tmp_path / "then", FAULTS, 0)[0]["proved"] is True


def small(folder: Path) -> Any:
    from harness.checks.spark.tables import _small

    return _small([folder])
