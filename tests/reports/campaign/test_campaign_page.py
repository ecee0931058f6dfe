"""A campaign's page says what the campaign's tables hold; its size is bounded, and it tells what is left out."""

import json
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.ci.campaign_report import Job, keep_job
from harness.errors import HarnessError, UsageError
from reports.campaign.distributions import DOTS_MAX
from reports.campaign.groups import GROUPS_MAX
from reports.campaign.model import CampaignPage
from reports.campaign.page import build, rendered, write_campaign_page
from reports.campaign.reading import read_campaign
from reports.campaign.rows import LISTED_MAX
from tests.reports.campaign.made_up import NUMBER_OF_A_STATED_VIOLATION, made_up_campaign, verdict_of

RUNS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_campaign(tmp_path_factory.mktemp("campaign"), runs=RUNS)


@pytest.fixture(scope="module")
def page(folder: Path) -> CampaignPage:
    return build(read_campaign(folder))


def test_runs_are_counted_by_verdict(page: CampaignPage) -> None:
    wanted = Counter(verdict_of(number) for number in range(1, RUNS)) + Counter({"not_run": 1})
    assert {each.verdict: each.count for each in page.counts} == wanted
    assert page.problems == []
    assert page.planned == RUNS


def test_every_run_is_in_the_grid_once_and_in_the_row_and_column_it_belongs_to(page: CampaignPage) -> None:
    assert page.grid is not None
    assert page.grid.columns == ["kafka:4.3.1", "reference"]
    assert page.grid.rows_are == "Scenario or profile"
    squares = [square.number for row in page.grid.rows for cell in row.cells for square in cell.squares]
    assert sorted(squares) == list(range(1, RUNS + 1))
    by_name = {row.name: row for row in page.grid.rows}
    assert set(by_name) == {"drawn: replication", "drawn: elections", "leader-crash-acks-all"}
    listed = [[square.number for square in cell.squares] for cell in by_name["leader-crash-acks-all"].cells]
    assert listed[0] == [5, 20, 35, 50]


def test_a_violation_that_the_scenario_states_is_no_news(page: CampaignPage) -> None:
    violated = next(answer for answer in page.answers if answer.question == "Runs with a violation")
    assert violated.short == "7"
    assert "1 more came to one as their scenarios state" in violated.more
    assert page.grid is not None
    calm = [square.number for row in page.grid.rows for cell in row.cells for square in cell.squares if square.calm]
    assert calm == [NUMBER_OF_A_STATED_VIOLATION]


def test_a_group_says_how_often_where_first_and_last_and_which_run_to_look_at(page: CampaignPage) -> None:
    group = page.groups[0]
    assert (group.anchor, group.fingerprint, group.badge.text) == ("G1", "fp0", "violation")
    assert (group.findings, group.runs, group.often) == (4, 2, "of 59, 3.4 %")
    assert (group.first.text, group.last.text, group.look.href) == ("run 7", "run 42", "#r7")
    assert [tick.href for tick in group.ticks] == ["#r7", "#r42"]
    assert group.smallest == "no fault at all"
    assert [each.flaky for each in page.groups].count(True) == 1
    assert [each.accepted for each in page.groups if each.accepted] == ["known as ORDERS-12; until 2027-01-31"]


def test_a_run_names_its_groups_its_faults_and_what_they_did(page: CampaignPage) -> None:
    row = page.runs[6]
    assert (row.number, [group.text for group in row.groups]) == (7, ["G1"])
    assert len(row.faults) == len(row.measured) == 3
    assert row.took == "19.0 s"
    assert page.runs[-1].verdict == "not_run"
    assert page.runs[-1].took == "–"


def test_a_run_leads_to_its_page_and_its_command_where_it_was_kept(tmp_path: Path) -> None:
    folder = made_up_campaign(tmp_path, runs=14)
    (folder / "runs" / "run-7").mkdir(parents=True)
    (folder / "runs" / "run-7" / "report.html").write_text("a page", encoding="utf-8")
    rows = {row.number: row for row in build(read_campaign(folder)).runs}
    assert rows[7].page == "runs/run-7/report.html"
    assert rows[7].command == f"kafka-chaos run {folder / 'runs' / 'run-7'}"
    assert (rows[1].page, rows[1].command) == ("", "")


@pytest.mark.parametrize("place", ["../outside", "/tmp", "runs/../../outside", "n" * 5000, "a\0b"])
def test_a_folder_that_is_none_of_the_campaigns_is_not_looked_at(tmp_path: Path, place: str) -> None:
    folder = made_up_campaign(tmp_path / "campaign", runs=8)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "report.html").write_text("a page", encoding="utf-8")
    _change(folder, "runs", "folder", place)
    page = build(read_campaign(folder))
    assert page.problems == []
    assert {row.page for row in page.runs} == {""}


def test_a_shard_has_the_runs_that_it_has_on_its_axis(tmp_path: Path) -> None:
    folder = made_up_campaign(tmp_path, runs=RUNS)
    for table, column in (("runs", "number"), ("occurrences", "run")):
        path = folder / "tables" / f"{table}.parquet"
        found = pq.read_table(path)
        rows = [row for row in found.to_pylist() if row[column] % 5 == 2]
        pq.write_table(pa.Table.from_pylist(rows, schema=found.schema), path)
    page = build(read_campaign(folder))
    assert page.first_and_last == (2, 57)
    ticks = [tick for group in page.groups for tick in group.ticks]
    assert ticks
    assert all(0 <= tick.at <= 100 for tick in ticks)
    assert page.problems == []


def test_situations_are_summed_over_runs_and_what_never_came_together_is_named(page: CampaignPage) -> None:
    reported = page.situations
    assert reported is not None
    assert reported.reached == 7 * 3 * 3 * 3 - 9
    assert [row.times for row in reported.rows] == sorted((row.times for row in reported.rows), reverse=True)
    assert ("slow", "controller", "any", "any", "any", "any") in reported.never


def test_distributions_have_the_median_and_number_of_all_values(page: CampaignPage, folder: Path) -> None:
    table = pq.read_table(folder / "tables" / "measures.parquet").to_pandas()
    gaps = table[(table["fault"] == "kill") & (table["system"] == "reference")]["gap_s"]
    measure = next(each for each in page.measures if each.key == "gap")
    row = next(each for each in measure.rows if (each.fault, each.system) == ("kill", "reference"))
    assert (row.count, row.text) == (len(gaps), f"{gaps.median():.2f} s")
    assert len(row.dots) == len(gaps)
    assert {each.key for each in page.measures} == {"recovery", "gap", "throughput"}
    recovery = next(each for each in page.measures if each.key == "recovery")
    assert {each.fault for each in recovery.rows} == {"kill", "pause", "power-loss", "restart"}


def test_the_same_folder_gives_the_same_page_byte_for_byte(folder: Path) -> None:
    assert rendered(read_campaign(folder)) == rendered(read_campaign(folder))


def test_a_thousand_runs_are_a_page_that_a_browser_opens_at_once(tmp_path: Path) -> None:
    html = write_campaign_page(made_up_campaign(tmp_path, runs=1000)).read_text(encoding="utf-8")
    assert len(html.encode()) < 3_000_000
    assert len(re.findall(r"<[a-z]", html)) < 80_000


@pytest.mark.slow
def test_of_too_many_runs_and_groups_the_worst_are_listed_and_the_rest_is_counted(tmp_path: Path) -> None:
    runs = 3 * LISTED_MAX
    page = build(read_campaign(made_up_campaign(tmp_path, runs=runs, groups=GROUPS_MAX + 40)))
    assert (len(page.runs), len(page.groups)) == (LISTED_MAX, GROUPS_MAX)
    assert page.groups_total == GROUPS_MAX + 40
    bad = sum(verdict_of(number) in ("violation", "error") for number in range(1, runs))
    assert sum(row.verdict in ("violation", "error") for row in page.runs) == bad
    assert page.runs_hidden.startswith(f"{4000:,} more runs have no row here".replace(",", "\u202f"))
    assert page.grid is not None
    hidden = sum(cell.hidden for row in page.grid.rows for cell in row.cells)
    assert hidden == runs - LISTED_MAX
    assert max(len(row.dots) for measure in page.measures for row in measure.rows) <= DOTS_MAX
    assert sum(row.count for measure in page.measures if measure.key == "gap" for row in measure.rows) > runs


def test_an_empty_campaign_has_a_page_too(tmp_path: Path) -> None:
    folder = made_up_campaign(tmp_path, runs=8)
    for table in (folder / "tables").iterdir():
        table.unlink()
    page = build(read_campaign(folder))
    assert (page.planned, page.problems, page.grid, page.measures) == (0, [], None, [])


def _change(folder: Path, table: str, column: str, value: object) -> None:
    path = folder / "tables" / f"{table}.parquet"
    found = pq.read_table(path)
    rows = [{**row, column: value} for row in found.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=found.schema), path)


@pytest.mark.parametrize("name", ["campaign.json", "verdict.json"])
def test_a_folder_that_is_no_campaigns_is_refused_in_a_line(tmp_path: Path, name: str) -> None:
    folder = made_up_campaign(tmp_path, runs=8)
    (folder / name).unlink()
    with pytest.raises(UsageError, match=rf"{name} is missing: name the folder of a campaign"):
        write_campaign_page(folder)


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000, "\ud800"])
def test_a_plan_that_is_no_json_is_refused_in_a_line(tmp_path: Path, content: str) -> None:
    folder = made_up_campaign(tmp_path, runs=8)
    (folder / "campaign.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(HarnessError, match=r"campaign\.json"):
        write_campaign_page(folder)


def test_a_table_that_is_unsound_is_refused_with_its_place(tmp_path: Path) -> None:
    folder = made_up_campaign(tmp_path, runs=8)
    path = folder / "tables" / "runs.parquet"
    sound = pq.read_table(path)
    for unsound, words in (
        (sound.drop_columns(["seed"]), "column seed is there 0 times"),
        (sound.set_column(0, "number", pa.array(["1"] * 8)), "column number is of type string, not int64"),
        (sound.set_column(0, "number", pa.array([None] * 8, pa.int64())), "column number lacks a value"),
        (sound.set_column(9, "verdict", pa.array(["fine"] * 8)), "verdict is 'fine', none of violation"),
    ):
        pq.write_table(unsound, path)
        with pytest.raises(HarnessError, match=words):
            read_campaign(folder)
    path.write_bytes(b"no table")
    with pytest.raises(HarnessError, match="is no sound table"):
        read_campaign(folder)


def test_a_page_is_not_written_through_a_link(tmp_path: Path) -> None:
    folder = made_up_campaign(tmp_path / "campaign", runs=8)
    (tmp_path / "elsewhere").write_text("mine", encoding="utf-8")
    (folder / "campaign.html").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="symbolic link"):
        write_campaign_page(folder)
    assert (tmp_path / "elsewhere").read_text(encoding="utf-8") == "mine"


def test_a_plan_without_its_facts_has_a_page(tmp_path: Path) -> None:
    folder = made_up_campaign(tmp_path, runs=8)
    (folder / "campaign.json").write_text(json.dumps({}), encoding="utf-8")
    page = build(read_campaign(folder))
    assert page.name == folder.name
    assert page.problems == []


def test_a_nights_page_says_what_the_cis_job_came_to(tmp_path: Path, page: CampaignPage) -> None:
    assert "CI's job" not in dict(page.facts), "of a campaign that no job was about"
    night = made_up_campaign(tmp_path / "night", runs=RUNS)
    keep_job(night, Job(exit_code=3, reasons=["only 12 of 60 planned runs were made, and --least-runs is 20"]))
    assert dict(build(read_campaign(night)).facts)["CI's job"] == (
        "The job fails with exit code 3: only 12 of 60 planned runs were made, and --least-runs is 20"
    )
