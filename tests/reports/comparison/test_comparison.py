"""The comparison page says only what the runs' numbers bear out, and says loudly what makes them incomparable."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError, UsageError
from reports.comparison.columns import GivenColumn, GivenRun
from reports.comparison.model import ComparisonPage
from reports.comparison.page import Comparison
from reports.render import write_comparison, write_report
from tests.reports.stories.build_run import build_run
from tests.reports.stories.crash_story import crash_run
from tests.reports.stories.judged_folder import HOSTILE, quiet_run

SLOW_LOST = (
    "leader-crash-acks-all, 3 runs of slow and 3 runs of quick: slow lost 20 acknowledged records, as its "
    "configuration permits; quick lost none."
)


def column(label: str, *paths: Path, change: tuple[str, ...] = ()) -> GivenColumn:
    return GivenColumn(label=label, runs=[GivenRun(path=path) for path in paths], change=change)


def runs_of(runs: Path, times: int, **story: Any) -> list[Path]:
    return [crash_run(runs, **{**story, "silent_s": story.get("silent_s", 2.5) + i / 100}) for i in range(times)]


def slow_and_quick(runs: Path, times: int = 3) -> list[GivenColumn]:
    return [
        column("slow", *runs_of(runs, times, leader_s=4.0, silent_s=4.5, lost=20)),
        column("quick", *runs_of(runs, times, leader_s=0.5, silent_s=0.8)),
    ]


def compared(given: list[GivenColumn], out: Path) -> tuple[Comparison, ComparisonPage]:
    comparison = Comparison(given, out=out)
    page = comparison.page()
    assert page.problems == []
    return comparison, page


def html_of(given: list[GivenColumn], out: Path) -> str:
    return write_comparison(given, out=out)[0].read_text(encoding="utf-8")


def sentence(page: ComparisonPage, topic: str) -> tuple[str, str]:
    [found] = [each for each in page.differences if topic in each.topic]
    return found.kind, found.sentence


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


# ---- what is said ---------------------------------------------------------------------------------------------------


def test_a_loss_in_every_run_of_one_system_is_the_headline(tmp_path: Path) -> None:
    _, page = compared(slow_and_quick(tmp_path), tmp_path)

    assert page.headline == SLOW_LOST
    assert [head.badges[0].text for head in page.heads] == ["PASS 3 of 3", "PASS 3 of 3"]
    kind, said = sentence(page, "new leader")
    assert (kind, said) == ("differs", "slow had a new leader within 4.00 s, quick within 0.50 s.")
    assert sentence(page, "no writes")[0] == "differs"
    assert sentence(page, "Before the first fault, p50")[0] == "same"


def test_systems_that_do_the_same_are_said_to_be_within_the_spread(tmp_path: Path) -> None:
    given = [column(label, *runs_of(tmp_path, 3)) for label in ("one", "other")]
    _, page = compared(given, tmp_path)

    assert page.headline == (
        "leader-crash-acks-all, 3 runs of one and 3 runs of other: of 16 things compared, none differs between one "
        "and other by more than the repeats spread."
    )
    assert sentence(page, "no writes")[0] == "within"
    assert {each.kind for each in page.differences} == {"within", "same"}


def test_one_run_each_tells_no_difference_from_chance(tmp_path: Path) -> None:
    _, page = compared(slow_and_quick(tmp_path, times=1), tmp_path)

    assert page.headline == (
        "leader-crash-acks-all, 1 run of slow and 1 run of quick: of slow and quick there are too few runs to tell a "
        "difference from chance."
    )
    assert sentence(page, "new leader")[0] == "unknown"
    assert "differs" not in {each.kind for each in page.differences}


def test_all_repeats_lie_on_one_axis_with_the_median_marked(tmp_path: Path) -> None:
    _, page = compared(slow_and_quick(tmp_path), tmp_path)
    assert page.strips is not None
    leader = next(group for group in page.strips.groups if group.measure == "until a new leader")

    assert [[len(strip.dots), strip.text] for strip in leader.strips] == [[3, "4.00 s"], [3, "0.50 s"]]
    assert all(strip.low <= (strip.median or 0) <= strip.high <= 100 for g in page.strips.groups for strip in g.strips)
    slow, quick = leader.strips
    assert slow.median is not None
    assert quick.median is not None
    assert slow.median > quick.median


def test_histories_are_aligned_at_the_first_fault(tmp_path: Path) -> None:
    _, page = compared(slow_and_quick(tmp_path), tmp_path)
    assert page.history is not None
    assert page.history.begin == -6.0
    assert page.history.aligned == "the first fault took effect"
    faults, first, *_ = page.history.blocks
    assert [(letter, lane.spans[0].at) for letter, lane in faults.lanes] == [("A", 0.0), ("B", 0.0)]
    assert first.title == "orders-0"
    taken_over = {
        letter: next(span.at for span in lane.spans if not span.text.startswith("broker 1"))
        for letter, lane in first.lanes
        if lane.kind == "role"
    }
    assert taken_over == {"A": 4.0, "B": 0.5}
    assert len(first.folded) == 2 * len(first.lanes)


def test_only_what_differs_is_shown_of_settings_and_machines(tmp_path: Path) -> None:
    given = [
        column("one", crash_run(tmp_path, overrides=["workload.acks=1"], environment={"Kafka": "4.3.1"})),
        column("all", crash_run(tmp_path, environment={"Kafka": "3.9.1"})),
    ]
    _, page = compared(given, tmp_path)
    assert page.environment is not None
    assert list(page.environment.settings) == [("workload.acks", ["1", "all"])]
    assert list(page.environment.machine) == [("Kafka", ["4.3.1", "3.9.1"])]


def test_three_columns_are_held_against_each_other(tmp_path: Path) -> None:
    given = [*slow_and_quick(tmp_path), column("middle", *runs_of(tmp_path, 3, leader_s=2.0))]
    _, page = compared(given, tmp_path)

    assert [head.letter for head in page.heads] == ["A", "B", "C"]
    assert sentence(page, "new leader")[1].count("within") == 3


# ---- what makes runs incomparable -----------------------------------------------------------------------------------


def test_other_seeds_machines_and_plans_are_said_loudly(tmp_path: Path) -> None:
    given = [
        column("one", crash_run(tmp_path, seed=1)),
        column("other", crash_run(tmp_path, seed=2, versions={"kafka-chaos": "0.2.0", "machine": "Linux, 64 cores"})),
    ]
    changed = given[1].runs[0].path
    assert changed is not None
    (changed / "scenario.source.toml").write_text("# another text", encoding="utf-8")
    comparison, _ = compared(given, tmp_path)

    warned = "\n".join(comparison.warnings)
    assert "The seeds differ: one: 1; other: 2." in warned
    assert "The scenario's text differs: one against other." in warned
    assert "different machines" in warned
    assert "different versions of kafka-chaos" in warned
    assert html_of(given, tmp_path).count("Not like for like.") == len(comparison.warnings) == 4


def test_runs_of_a_campaign_are_like_for_like_though_each_text_names_its_target(tmp_path: Path) -> None:
    given = [column("one", crash_run(tmp_path)), column("other", crash_run(tmp_path))]
    for each, system in zip(given, ("reference", "kafka:4.3.1"), strict=True):
        path = each.runs[0].path
        assert path is not None
        target = f'[cluster]\nsystem = "{system}"\n[workload]\nclient = "kafka-python"\n'
        (path / "scenario.source.toml").write_text(f'topics = [{{ name = "orders" }}]\n{target}', encoding="utf-8")
    assert compared(given, tmp_path)[0].warnings == []


def test_unequal_repeats_are_said_and_compared(tmp_path: Path) -> None:
    given = [column("two", *runs_of(tmp_path, 2)), column("three", *runs_of(tmp_path, 3))]
    comparison, page = compared(given, tmp_path)

    assert comparison.warnings == ["The columns have unequal numbers of runs that count: two 2, three 3."]
    assert page.repeats == 3


def test_runs_of_different_scenarios_are_refused_in_one_line(tmp_path: Path) -> None:
    given = [column("one", crash_run(tmp_path)), column("other", build_run(tmp_path))]

    with pytest.raises(UsageError, match=r"different scenarios .*leader-crash-acks-all.*unclean-election"):
        Comparison(given, out=tmp_path)


def test_one_column_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two columns"):
        Comparison([column("one", crash_run(tmp_path))], out=tmp_path)


# ---- runs that say little -------------------------------------------------------------------------------------------


def test_a_run_that_did_not_come_to_its_end_is_shown_and_not_counted(tmp_path: Path) -> None:
    late = crash_run(tmp_path, leader_s=9.0, verdict="inconclusive", reasons=["Step 5: not within 10 s."])
    given = [column("one", *runs_of(tmp_path, 2), late), column("other", *runs_of(tmp_path, 2))]
    _, page = compared(given, tmp_path)

    assert page.heads[0].note == "Repeat 3 left out of the numbers: Step 5: not within 10 s."
    assert [cell.counted for cell in page.verdicts[0].cells] == [True, True, False]
    assert page.strips is not None
    [leader] = [group for group in page.strips.groups if group.measure == "until a new leader"]
    assert [dot.hollow for dot in leader.strips[0].dots] == [False, False, True]
    assert leader.strips[0].text == "2.00 s"


def test_a_system_that_never_comes_to_an_end_is_the_headline(tmp_path: Path) -> None:
    late = [crash_run(tmp_path, verdict="inconclusive", reasons=["No leader."]) for _ in range(2)]
    _, page = compared([column("good", *runs_of(tmp_path, 2)), column("stuck", *late)], tmp_path)

    assert page.headline == (
        "leader-crash-acks-all, 2 runs of good and 0 of 2 runs of stuck: good passed in all 2 runs; stuck came to no "
        "conclusion in all 2 runs."
    )
    assert page.heads[1].note == "No numbers: No leader."
    assert [each.topic for each in page.differences] == ["Verdict"]
    assert all(row.mark == "" for row in page.accounting)


def test_a_vacuous_run_counts_and_says_what_it_lacked(tmp_path: Path) -> None:
    vacuous = crash_run(tmp_path, verdict="vacuous", reasons=["Coverage: elections: required 2, seen 1."])
    _, page = compared([column("one", crash_run(tmp_path)), column("other", vacuous)], tmp_path)

    assert page.heads[1].note == "Repeat 1: Coverage: elections: required 2, seen 1."
    assert page.heads[1].figures
    assert page.verdicts[1].cells[0].counted


def test_a_system_that_could_not_be_run_says_why_in_its_column(tmp_path: Path) -> None:
    failed = GivenColumn(label="kafka", runs=[GivenRun(path=None, failure="no Java at /usr/lib/jvm")])
    _, page = compared([column("reference", crash_run(tmp_path)), failed], tmp_path)

    assert page.heads[1].note == "No numbers: no Java at /usr/lib/jvm"
    assert page.verdicts[1].cells[0].verdict == "no run"
    assert [link.name for link in page.runs][1] == "no run"


def test_nothing_but_failures_is_an_error_of_one_line(tmp_path: Path) -> None:
    failed = [GivenColumn(label=name, runs=[GivenRun(path=None, failure="no Java")]) for name in "ab"]

    with pytest.raises(HarnessError, match="nothing to compare: no Java"):
        Comparison(failed, out=tmp_path)


@pytest.mark.parametrize("lacking", ["tables/records.parquet", "tables/operations.parquet", "verdict.json"])
def test_a_folder_that_is_not_sealed_or_judged_says_so_in_its_column(tmp_path: Path, lacking: str) -> None:
    open_ = crash_run(tmp_path)
    (open_ / lacking).unlink()
    _, page = compared([column("one", crash_run(tmp_path)), column("open", open_)], tmp_path)

    assert "kafka-chaos check" in page.heads[1].note


def test_runs_without_faults_are_compared_as_a_whole(tmp_path: Path) -> None:
    given = [column(name, *[crash_run(tmp_path, faults=False) for _ in range(2)]) for name in ("one", "other")]
    _, page = compared(given, tmp_path)

    assert page.strips is None
    assert {row.group for row in page.phases if row.group} == {"The whole run"}
    assert page.history is not None
    assert page.history.aligned == "the load began"
    assert "No fault took effect" in html_of(given, tmp_path)


def test_runs_that_recorded_nothing_make_a_page_all_the_same(tmp_path: Path) -> None:
    given = [column(name, quiet_run(tmp_path, verdict="error", sentence="no broker")) for name in ("one", "other")]
    _, page = compared(given, tmp_path)

    assert page.accounting == []
    assert page.latencies is None
    assert page.history is None
    assert "no broker" in html_of(given, tmp_path)


def test_sums_that_do_not_add_up_are_said_beside_the_headline(tmp_path: Path) -> None:
    wrong = crash_run(tmp_path)
    verdict = json.loads((wrong / "verdict.json").read_text(encoding="utf-8"))
    verdict["accounting"]["adds_up"] = False
    (wrong / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
    comparison, _ = compared([column("one", wrong), column("other", crash_run(tmp_path))], tmp_path)

    assert any(warning.startswith("one, repeat 1: The sums differ") for warning in comparison.warnings)


# ---- the page as a file ---------------------------------------------------------------------------------------------


def test_the_page_asks_nothing_of_any_network_and_stays_small(tmp_path: Path) -> None:
    html = html_of(slow_and_quick(tmp_path, times=5), tmp_path)

    for tag, attributes in _Tags(html).tags:
        for name in ("src", "href", "action"):
            link = attributes.get(name) or ""
            assert not re.match(r"(?i)[a-z]+:|//", link), f"<{tag} {name}={link!r}>"
    assert "url(http" not in html
    assert len(html.encode()) < 1_000_000


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    given = slow_and_quick(tmp_path)
    first = html_of(given, tmp_path), (tmp_path / "comparison.json").read_bytes()

    assert (html_of(given, tmp_path), (tmp_path / "comparison.json").read_bytes()) == first


def test_names_and_reasons_are_data_and_never_markup(tmp_path: Path) -> None:
    hostile = crash_run(tmp_path, verdict="inconclusive", reasons=[HOSTILE], environment={HOSTILE: HOSTILE})
    given = [
        column(HOSTILE, hostile, change=(HOSTILE,)),
        column("plain", crash_run(tmp_path)),
        GivenColumn(label="none", runs=[GivenRun(path=None, failure=HOSTILE)]),
    ]
    html = html_of(given, tmp_path)

    assert sum(tag == "script" for tag, _ in _Tags(html).tags) == 1
    assert "</script><b>" not in html
    assert "\u202e" not in html
    assert "\x00" not in html


def test_links_lead_to_the_runs_own_pages_and_to_sections_that_are_there(tmp_path: Path) -> None:
    given = slow_and_quick(tmp_path / "runs #1", times=1)
    for each in given:
        for run in each.runs:
            assert run.path is not None
            write_report(run.path)
    out = tmp_path / "pages"
    tags = _Tags(html_of(given, out)).tags

    links = [attributes.get("href") or "" for tag, attributes in tags if tag == "a"]
    reports = {link for link in links if link.endswith("report.html")}
    assert len(reports) == 2
    assert all((out / link.replace("%20", " ").replace("%23", "#")).is_file() for link in reports)
    anchors = {attributes["id"] for _, attributes in tags if "id" in attributes}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert (out / "comparison.json").is_file()


def test_every_chart_has_words_for_those_who_do_not_see_it(tmp_path: Path) -> None:
    tags = _Tags(html_of(slow_and_quick(tmp_path), tmp_path)).tags

    for tag, attributes in tags:
        if tag == "svg" and attributes.get("role") == "img":
            assert attributes.get("aria-label")
        if attributes.get("class") == "sp":
            assert re.search(r"\d|moved no leader|nothing", attributes.get("title") or "")


def test_the_json_beside_the_page_has_the_numbers_of_every_run(tmp_path: Path) -> None:
    page, _ = write_comparison(slow_and_quick(tmp_path), out=tmp_path)
    data = json.loads((page.parent / "comparison.json").read_text(encoding="utf-8"))

    assert [each["label"] for each in data["columns"]] == ["slow", "quick"]
    assert [run["numbers"]["sums"]["lost"] for run in data["columns"][0]["runs"]] == [20, 20, 20]
    assert data["headline"] == SLOW_LOST
    [leader] = [each for each in data["measures"] if each["key"].startswith("leader/")]
    assert [each["median"] for each in leader["columns"]] == pytest.approx([4.0, 0.5])
    assert leader["kind"] == "differs"


def test_a_section_that_fails_shows_its_error_and_the_others_stay(tmp_path: Path) -> None:
    given = slow_and_quick(tmp_path)
    for each in given:
        for run in each.runs:
            assert run.path is not None
            (run.path / "tables" / "bins.parquet").write_bytes(b"not parquet")
    html = html_of(given, tmp_path)

    assert "This section could not be made" in html
    assert "quick lost none" in html
