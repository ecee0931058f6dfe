"""Campaigns and stores that somebody else made: one line with its place, no more memory than allowed, and no link."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.host import memory
from harness.trends.store import SCHEMAS, FindingOfNight, Night, Store
from tests.harness.ci.campaign_folder import run_row
from tests.harness.cli.test_results_commands import Use, use
from tests.harness.trends.test_store import night
from tests.reports.campaign.made_up import made_up_campaign

__all__ = ["use"]
COMMANDS = (
    "results bad",
    "trends bad",
    "compare bad good",
    "results good --store nights --fail-on none",
    "trends --store nights",
)


@pytest.fixture
def places(tmp_path: Path) -> Mapping[str, Path]:
    store = Store(tmp_path / "nights")
    store.append(night(1, "aa"))
    place = store.append(night(2, "aa"))
    made_up_campaign(tmp_path / "good", runs=8)
    return {"bad": made_up_campaign(tmp_path / "bad", runs=8), "nights": place}


def is_one_line(answer: tuple[int, str, str]) -> str:
    code, _, said = answer
    assert code in (2, 4), said
    assert len(said.splitlines()) == 1, said
    assert len(said) < 3000
    assert "unforeseen" not in said
    return said


def _table(places: Mapping[str, Path], command: str) -> Path:
    return places["nights"] / "runs.parquet" if "nights" in command else places["bad"] / "tables" / "runs.parquet"


def _with(path: Path, column: str, values: pa.Array) -> None:
    found = pq.read_table(path)
    pq.write_table(found.set_column(found.schema.get_field_index(column), column, values), path)


def _spoiled(path: Path, how: str) -> None:
    rows = pq.read_metadata(path).num_rows
    elsewhere = path.with_name("elsewhere.parquet")
    match how:
        case "no UTF-8":
            _with(path, "scenario", pa.array([b"\xff"] * rows).cast(pa.string(), safe=False))
        case "a long text":
            _with(path, "scenario", pa.array(["A" * (2 << 20)] * rows))
        case "a null":
            _with(path, "scenario", pa.array([None] * rows, pa.string()))
        case "a word":
            _with(path, "verdict", pa.array(["fine"] * rows))
        case "another type":
            _with(path, "scenario", pa.array([1] * rows))
        case "no table":
            path.write_bytes(b"PAR1" * 5)
        case "rows":
            row = run_row(1) | {
                "recovery_s": 1.0,
                "gap_s": 1.0,
                "throughput_per_s": 1.0,
                "run": "r",
                "schedule_faults": 1,
            }
            schema = pq.read_schema(path)
            many = pa.Table.from_pylist([{name: row[name] for name in schema.names}] * 1000, schema=schema)
            pq.write_table(pa.concat_tables([many] * 3000), path)
            assert path.stat().st_size < 1 << 20
        case "a link":
            path.rename(elsewhere)
            path.symlink_to(elsewhere)
        case "a folder":
            path.unlink()
            path.mkdir()
        case "a pipe":
            path.unlink()
            os.mkfifo(path)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "how",
    [
        "no UTF-8",
        "a long text",
        "a null",
        "a word",
        "another type",
        "no table",
        "rows",
        "a link",
        "a folder",
        "a pipe",
    ],
)
def test_a_table_that_none_leaves_is_one_line(
    places: Mapping[str, Path], use: Use, monkeypatch: pytest.MonkeyPatch, command: str, how: str
) -> None:
    path = _table(places, command)
    _spoiled(path, how)
    allowed = ("--memory-mb", "512") if how == "rows" else ()
    monkeypatch.setattr(memory, "_allowed_mb", memory.DEFAULT_MB)
    said = is_one_line(use(*command.split(), *allowed))
    assert path.name in said
    if how == "rows":
        assert "512 MB are allowed" in said


@pytest.mark.parametrize(
    ("command", "file"),
    [
        *((command, "campaign.json") for command in ("results bad", "trends bad", "compare bad good")),
        *((command, "verdict.json") for command in ("results bad", "compare bad good")),
    ],
)
@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"sentence": "' + b"A" * (2 << 20) + b'"}',
        b'{"sentence": "' + b"A" * (17 << 20) + b'"}',
        b'{"verdict": "\\ud800", "sentence": "\\ud800"}',
        b'{"exit_code": 1' + b"0" * 30 + b"}",
        None,
    ],
    ids=[
        "no UTF-8",
        "deep",
        "deep objects",
        "a long text",
        "a long file",
        "half a character",
        "a long number",
        "a link",
    ],
)
def test_a_plan_or_verdict_that_none_leaves_is_one_line(
    places: Mapping[str, Path], use: Use, command: str, file: str, content: bytes | None
) -> None:
    path = places["bad"] / file
    if content is None:
        path.rename(path.with_name("elsewhere"))
        path.symlink_to("elsewhere")
    else:
        path.write_bytes(content)
    assert file in is_one_line(use(*command.split()))


def test_nights_and_runs_are_read_and_written_through_no_link(
    tmp_path: Path, places: Mapping[str, Path], use: Use
) -> None:
    outside = tmp_path / "outside"
    places["nights"].parent.rename(outside)
    (tmp_path / "nights" / "nights").symlink_to(outside)
    before = sorted(outside.iterdir())
    for command in (
        "trends --store nights",
        "trends good --store nights --night n",
        "results good --store nights --fail-on none",
    ):
        assert "symbolic link" in is_one_line(use(*command.split()))
    assert sorted(outside.iterdir()) == before
    (tmp_path / "runs-of-others").mkdir()
    (places["bad"] / "runs").symlink_to(tmp_path / "runs-of-others")
    kept = pq.read_table(places["bad"] / "tables" / "runs.parquet")
    _with(places["bad"] / "tables" / "runs.parquet", "folder", pa.array(["runs/0001/x"] * kept.num_rows))
    for command in ("results bad", "trends bad --night n"):
        assert "symbolic link" in is_one_line(use(*command.split()))


def test_one_bad_night_or_campaign_costs_only_itself(tmp_path: Path, places: Mapping[str, Path], use: Use) -> None:
    (places["nights"] / "findings.parquet").write_bytes(b"")
    code, said, aside = use("trends", "--store", "nights")
    assert (code, "Page: " in said, places["nights"].name in aside) == (4, True, True)
    stored = json.loads((tmp_path / "nights" / "trends.json").read_text())
    assert (stored["all_nights"], len(stored["unreadable"])) == (1, 1)
    assert use("results", "good", "--store", "nights", "--fail-on", "violation")[0] == 1
    (places["bad"] / "verdict.json").write_text("[]")
    made_up_campaign(tmp_path / "third", runs=8)
    code, said, aside = use("compare", "good", "bad", "third", "--out", "out")
    assert (code, "Page: " in said, len(aside.splitlines())) == (4, True, 1)
    assert len(json.loads(Path("out/campaigns.json").read_text())["campaigns"]) == 2


def test_a_summary_and_a_page_of_trends_stay_short_whatever_a_campaign_or_store_says(
    tmp_path: Path, places: Mapping[str, Path], use: Use
) -> None:
    long = "A" * 1_000_000
    (places["bad"] / "verdict.json").write_text(json.dumps({"verdict": "pass", "exit_code": 0, "sentence": long}))
    use("results", "bad")
    assert (places["bad"] / "summary.md").stat().st_size < 100_000
    found = [
        FindingOfNight(**dict.fromkeys(SCHEMAS["findings"].names, f"f{number}") | {"classification": "violation"})
        for number in range(5000)
    ]
    Store(tmp_path / "nights").append(Night(name="20261125-x", runs=night(3).runs, findings=found))
    assert use("trends", "--store", "nights")[0] == 0
    page = (tmp_path / "nights" / "trends.html").read_text()
    assert re.search("4.501 more findings have no row here", page)
    assert "5000 violations never seen before" in page
