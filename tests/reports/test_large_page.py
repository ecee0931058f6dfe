"""A page of a large run stays small, counts exactly, and shows every fault and every kind of finding."""

import re

import pytest

from benchmarks.large_run import KINDS, write_large_run
from reports.model import Page
from reports.render import html_of
from reports.run.findings import DRILLED_MAX, LISTED_MAX
from reports.run.marks import LABELS_MAX
from reports.run.page import build

pytestmark = pytest.mark.slow

OPERATIONS, FINDINGS, FAULTS, PARTITIONS = 20_000, 5_000, 200, 150


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, str]:
    run = write_large_run(
        tmp_path_factory.mktemp("large"),
        operations=OPERATIONS,
        findings=FINDINGS,
        faults=FAULTS,
        partitions=PARTITIONS,
    )
    page = build(run)
    return page, html_of(page)


def test_the_page_is_small(large: tuple[Page, str]) -> None:
    page, html = large
    assert page.problems == []
    assert len(html.encode()) < 6_000_000
    assert len(re.findall(r"<[a-z]", html)) < 80_000


def test_every_kind_is_a_group_with_its_exact_number(large: tuple[Page, str]) -> None:
    page, html = large
    assert {(group.findings[0].check, group.classification) for group in page.groups} == {kind[:2] for kind in KINDS}
    assert sum(group.total for group in page.groups) == page.findings_total == FINDINGS
    assert (
        sum(group.records for group in page.groups if group.findings[0].check == "lost-write") == 2 * FINDINGS // 8 * 20
    )
    for group in page.groups:
        assert f'id="{group.anchor}"' in html
        assert f"{group.total - len(group.findings)} more of this kind have no row here" in group.hidden
        assert f'id="{group.findings[0].explained}"' in html


def test_rows_and_their_evidence_are_bounded(large: tuple[Page, str]) -> None:
    page, _ = large
    assert len(page.findings) <= LISTED_MAX + len(page.groups)
    assert 0 < sum(row.drilled for row in page.findings) <= DRILLED_MAX
    assert all(group.findings[0].drilled for group in page.groups)
    assert all(len(row.operations) < 60 for row in page.findings)


def test_every_finding_is_counted_by_a_mark_on_the_axis(large: tuple[Page, str]) -> None:
    page, html = large
    assert page.overview is not None
    counted = 0
    for mark in (*page.overview.finding_marks, *page.overview.observation_marks):
        several = re.match(r"(\d+) findings from", mark.title)
        counted += int(several[1]) if several else 1
        assert f'id="{mark.href[1:]}"' in html
    assert counted == FINDINGS
    assert len(page.overview.finding_marks) > LABELS_MAX


def test_every_fault_is_on_its_lane_and_in_the_table(large: tuple[Page, str]) -> None:
    page, _ = large
    assert page.overview is not None
    lanes = [lane for lane in page.overview.lanes if lane.kind == "fault"]
    assert sum(len(lane.spans) for lane in lanes) == FAULTS
    assert len(page.proofs) == FAULTS
    assert len(page.done) == FAULTS


def test_what_each_fault_did_to_availability_is_reported(large: tuple[Page, str]) -> None:
    page, html = large
    assert len(page.measures) == FAULTS
    assert (page.measures[0].leader, page.measures[0].in_sync, page.measures[0].gap) == (
        "1.250 s",
        "4.500 s",
        "1.500 s",
    )
    assert page.measures[3].leader == page.measures[3].gap == ""
    assert page.measures[49].in_sync == "not within 4.500 s"
    assert "What each fault did to availability" in html


def test_partitions_without_a_lane_are_counted_in_one(large: tuple[Page, str]) -> None:
    page, _ = large
    assert page.overview is not None
    last = page.overview.folded[-1]
    assert last.label == f"{PARTITIONS - 12 - 120} more"
    assert last.spans
    assert page.accounting is not None
    assert page.accounting.partitions[-1].name == f"{PARTITIONS - 40} more partitions"
    assert page.accounting.problem == ""
