"""The page says what the checks found, whatever a run's values contain, and never changes a verdict."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from harness.errors import UsageError
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import TABLES
from reports.render import write_report
from reports.run.page import build
from tests.reports.stories.build_run import at, build_run, finding

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\u202eevil\x00"


class _Tags(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def page_of(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8").replace("<wbr>", "")


def test_a_permitted_loss_is_reported_in_one_minute(tmp_path: Path) -> None:
    html = page_of(build_run(tmp_path))

    assert (
        "3 acknowledged records of orders-0 were lost in an unclean election, and the configuration permits it." in html
    )
    for answer in (
        "orders-0, offsets 10–12",
        "Lost at 4.000 s",
        "Unclean election of broker 2, epoch 2",
        "Yes, by configuration",
    ):
        assert answer in html
    assert "With unclean.leader.election.enable=false nothing would have been lost." in html
    assert 'id="F1"' in html
    assert "p4-000010" in html


def test_the_sums_on_the_page_add_up(tmp_path: Path) -> None:
    accounting = build(build_run(tmp_path)).accounting
    assert accounting is not None
    parts = (
        accounting.read
        + accounting.lost_permitted
        + accounting.lost_violation
        + accounting.unreadable
        + accounting.indeterminate
        + accounting.refused
    )
    assert parts == accounting.sent == sum(row.sent for row in accounting.outcomes)
    assert accounting.problem == ""


def test_the_same_run_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    run = build_run(tmp_path)
    assert page_of(run) == page_of(run)


def test_values_from_the_run_are_data_and_never_markup(tmp_path: Path) -> None:
    number = 1 << 62
    hostile = finding(values=[number, number + 1, number + 2], sentence_text=f"Lost: {HOSTILE}")
    html = page_of(
        build_run(tmp_path, findings=[hostile], names={number: HOSTILE, number + 1: "long" * 200, number + 2: "x"})
    )

    tags = _Tags(html).tags
    assert not [attributes for tag, attributes in tags if tag == "img"]
    assert sum(tag == "script" for tag, _ in tags) == 1
    assert "\x00" not in html
    assert "\u202e" not in html
    assert "\\u202e" in html
    assert "long" * 31 not in html
    assert "(800 characters)" in html


def test_the_page_asks_nothing_of_any_network(tmp_path: Path) -> None:
    html = page_of(build_run(tmp_path))
    for tag, attributes in _Tags(html).tags:
        for name in ("src", "href", "action"):
            link = attributes.get(name) or ""
            assert not re.match(r"(?i)[a-z]+:|//", link), f"<{tag} {name}={link!r}>"
    assert "url(http" not in html
    assert "fetch(" not in html
    assert len(html.encode()) < 300_000


def test_every_link_inside_the_page_leads_somewhere(tmp_path: Path) -> None:
    tags = _Tags(page_of(build_run(tmp_path))).tags
    anchors = {attributes["id"] for _, attributes in tags if "id" in attributes}
    links = {(attributes.get("href") or "")[1:] for tag, attributes in tags if tag == "a"}
    assert {link for link in links if link and not link.startswith(("ables", "cenario", "erdict", "odes"))} <= anchors


def test_a_section_that_fails_shows_its_error_and_the_verdict_stays(tmp_path: Path) -> None:
    run = build_run(tmp_path)
    (run / "tables" / "bins.parquet").write_bytes(b"not parquet")
    html = page_of(run)
    assert "This section could not be made" in html
    assert "3 lost, permitted" in html


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        ("pass", "Pass: none of 30 acknowledged records was lost, and no promise was broken."),
        ("inconclusive", "Inconclusive: step 3 waited in vain."),
        ("vacuous", "Vacuous: no election happened."),
        ("error", "Error: a broker did not start."),
    ],
)
def test_a_run_without_findings_says_what_it_came_to(tmp_path: Path, verdict: str, sentence: str) -> None:
    html = page_of(build_run(tmp_path, findings=[], verdict=verdict, sentence=sentence))
    assert sentence in html
    assert verdict.upper() in html


def test_a_fault_that_was_skipped_stands_with_the_others_and_says_why(tmp_path: Path) -> None:
    run = build_run(tmp_path)
    skipped = {"kind": "crash", "target": "leader(orders/0)", "trigger": "acks >= 9000", "why": "no-trigger"}
    stored = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(stored | {"skipped_faults": [skipped]}))

    html = page_of(run)

    assert "crash of leader(orders/0)" in html
    assert "skipped: what it waited for never came" in html


@pytest.mark.parametrize(
    ("asked", "expected"), [(3.1, "3.250 s (planned for 3.000 s)"), (7.0, "3.250 s (planned for 3.000 s, 4.0 s late)")]
)
def test_a_fault_tells_when_it_was_planned_and_how_late_it_came(tmp_path: Path, asked: float, expected: str) -> None:
    run = RunFolder(build_run(tmp_path))
    (fault,) = run.table("faults").to_pylist()
    fault |= {"planned_ns": at(3), "asked_ns": at(asked), "begin_ns": at(3.25)}
    run.write_table("faults", pa.Table.from_pylist([fault], TABLES["faults"]))

    assert expected in page_of(run.path)


def test_a_violation_names_every_exception_that_was_tried(tmp_path: Path) -> None:
    html = page_of(build_run(tmp_path, findings=[finding(classification="violation")], verdict="violation"))
    assert "and nothing permits it" in html
    assert "3 lost, violation" in html


def test_a_folder_that_was_not_judged_is_one_line(tmp_path: Path) -> None:
    run = build_run(tmp_path)
    (run / "verdict.json").unlink()
    with pytest.raises(UsageError, match="not judged yet; run `kafka-chaos check"):
        build(run)


def test_what_names_are_on_somebody_elses_cluster_is_told_once_and_the_world_is_no_one_of_ours(tmp_path: Path) -> None:
    run = build_run(tmp_path)
    RunFolder(run).update(names_there={"orders": "chaos-3f2a-orders", "readers": "chaos-3f2a-readers"})
    scenario = (run / "scenario.toml").read_text()
    (run / "scenario.toml").write_text(
        scenario.replace("[cluster]", '[cluster]\nsystem = "attached"\nbootstrap = "a:1"')
    )

    facts = dict(build(run).facts)
    assert facts["Names there"] == "orders is chaos-3f2a-orders, readers is chaos-3f2a-readers"
    assert facts["World"] == "attached, 3 brokers"
    ends = scenario.replace("[cluster]", '[cluster]\nsystem = "attached"\nbootstrap = "a:1,b:1,c:1"')
    (run / "scenario.toml").write_text(f"{ends}\n[attached]\nfront_ends = true\n")
    assert dict(build(run).facts)["World"] == "attached, 3 front ends"
    (run / "scenario.toml").write_text(ends.replace('bootstrap = "a:1,b:1,c:1"', 'bootstrap = "a:1"'))
    assert page_of(run).count("chaos-3f2a-orders") == 1
