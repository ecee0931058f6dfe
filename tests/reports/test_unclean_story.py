"""The page of an unclean election, read by someone who has nothing else, and the pages of runs that came to nothing."""

import html as escapes
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.scenario.file import load
from reports.model import Page
from reports.render import write_report
from reports.run.chart import latency_lines
from reports.run.page import build
from reports.run_data import RunData, readable
from tests.reports.stories.judged_folder import FIRST_LOST, HOSTILE, LOST, quiet_run
from tests.reports.stories.unclean_story import loss_run


def page_of(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8")


def text_of(page: str) -> str:
    """What a reader sees of it: no style, no script, no tags."""
    body = re.sub(r"<(style|script)>.*?</\1>|<wbr>", "", page, flags=re.DOTALL)
    return escapes.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body)))


class _Nanoseconds:
    """A run whose second is a nanosecond."""

    def seconds(self, t_ns: int) -> float:
        return float(t_ns)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, str]:
    run = loss_run(tmp_path_factory.mktemp("runs"))
    return build(run), page_of(run)


def test_no_section_of_a_whole_story_fails(story: tuple[Page, str]) -> None:
    assert story[0].problems == []


def test_the_page_says_which_when_why_whether_permitted_and_what_would_have_prevented_it(
    story: tuple[Page, str],
) -> None:
    page_text = text_of(story[1])
    for answer in (
        "orders-0, offsets 260–296",
        "Lost at 8.440 s",
        "Acknowledged 7.513–8.006 s",
        "Unclean election of broker 2, epoch 2",
        "Topic setting unclean.leader.election.enable=true.",
        "What would have prevented it. With unclean.leader.election.enable=false",
        "This too would have. With min.insync.replicas=2",
        "By either of two settings",
    ):
        assert answer in page_text


def test_the_command_that_changes_one_thing_is_the_prevention_and_is_accepted(tmp_path: Path) -> None:
    run = loss_run(tmp_path)
    change = dict(build(run).commands)["One thing changed"].partition("--set ")[2]
    assert change == "unclean.leader.election.enable=false"
    assert load(str(run), overrides=[change]).topics[0].settings["unclean.leader.election.enable"] == "false"


def test_a_long_word_without_a_space_is_cut_in_the_table(tmp_path: Path) -> None:
    causes = [finding.cause for finding in build(loss_run(tmp_path, hostile="x" * 500)).findings]
    assert causes[1] == "x" * 60 + " …"


def test_the_lead_does_not_repeat_the_headline(story: tuple[Page, str]) -> None:
    page = story[0]
    assert page.lead != page.headline
    assert page.lead.startswith("Only broker 1 was in the ISR. Broker 2, outside it,")


def test_causes_stand_in_order_of_time_and_one_decides(story: tuple[Page, str]) -> None:
    assert story[0].story is not None
    steps = story[0].story.steps
    assert [step.event for step in steps] == [
        "Links 2→1 and 3→1 are cut",
        "The ISR shrinks from [1, 3] to [1]",
        "Offsets 260–296 are acknowledged",
        "Broker 1 is killed",
        "Broker 2 is elected uncleanly, epoch 1 → 2",
        "Broker 1 truncates its log from 297 to 260",
    ]
    assert [step.number for step in steps if step.decisive] == [5]


def test_a_sentence_under_a_cause_adds_to_its_title(story: tuple[Page, str]) -> None:
    assert story[0].story is not None
    assert all(step.event not in step.sentence for step in story[0].story.steps)


def test_the_coordination_service_is_called_by_its_name_everywhere(story: tuple[Page, str]) -> None:
    page_text = text_of(story[1])
    assert "broker 3 to the coordination service untouched" in page_text
    assert not re.search(r"\bn100\b|\bnode 100\b", page_text)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("cut n2>n100", "cut 2→coordination service"),
        ("cut c1>n2", "cut client 1→2"),
        ("node100 answered", "the coordination service answered"),
        ("unanswered for 100 ms, offset 100, acks >= 100", "unanswered for 100 ms, offset 100, acks >= 100"),
    ],
)
def test_only_names_of_nodes_are_rewritten(written: str, read: str) -> None:
    assert readable(written) == read


def test_a_fault_without_proof_is_said_to_be_planned_and_never_drawn(story: tuple[Page, str]) -> None:
    page = story[0]
    unseen = [proof for proof in page.proofs if not proof.seen]
    assert [(proof.label, proof.proof, proof.end) for proof in unseen] == [
        ("pause broker 3", "planned, no effect seen", "")
    ]
    assert page.overview is not None
    assert all("pause" not in span.title for lane in page.overview.lanes for span in lane.spans)


def test_the_plan_is_a_lane_in_words_and_a_table_with_numbers(story: tuple[Page, str]) -> None:
    page = story[0]
    assert page.overview is not None
    plan = next(lane for lane in page.overview.lanes if lane.kind == "step")
    assert [span.text for span in plan.spans] == ["until acks 400", "cut 2→1 3→1", "kill 1", "heal all", "start 1"]
    assert [step.number for step in page.steps] == list(range(1, 11))
    assert page.steps[1].text == "cut 2→1 3→1"
    assert page.steps[2].text == "isr 1 (topic orders)"


def test_a_dead_leader_is_drawn_dead_until_the_election_and_an_unclean_one_stays_one_interval(
    story: tuple[Page, str],
) -> None:
    assert story[0].overview is not None
    leaders = next(lane for lane in story[0].overview.lanes if lane.label == "orders-0")
    assert [(span.text, span.at, set(span.style.split()) & {"unc", "dead"}) for span in leaders.spans] == [
        ("broker 1 · e1", 0.0, set()),
        ("broker 1 dead · e1", 8.022, {"dead"}),
        ("broker 2 · e2", 8.44, {"unc"}),
    ]


def test_the_settings_that_are_marked_are_those_that_would_have_prevented_it(story: tuple[Page, str]) -> None:
    page = story[0]
    marked = {setting.text.partition("=")[0] for setting in page.settings if setting.role == "why"}
    assert marked == {"unclean.leader.election.enable", "min.insync.replicas"}
    assert page.story is not None
    assert all(any(f"With {key}=" in sentence for sentence in page.story.prevention) for key in marked)
    assert dict(page.commands)["Another thing changed"].endswith("--set min.insync.replicas=2")
    assert "and min.insync.replicas=1 accepts so few" in page.story.also


def test_what_was_done_is_a_timed_list_with_healing_and_restarts(story: tuple[Page, str]) -> None:
    assert [(row.at, row.until, row.what) for row in story[0].done] == [
        ("4.004 s", "10.502 s", "Links 2→1 and 3→1 are cut"),
        ("8.022 s", "13.310 s", "Broker 1 is killed"),
        ("10.481 s", "", "Heal all"),
        ("12.400 s", "", "Start 1"),
    ]


def test_every_finding_with_a_moment_has_its_mark_there_and_none_covers_another(story: tuple[Page, str]) -> None:
    page = story[0]
    assert page.overview is not None
    about_data, observations = page.overview.finding_marks, page.overview.observation_marks
    assert [(mark.text, mark.at) for mark in about_data] == [("F1", 7.513), ("F2", 8.44)]
    assert [(mark.text, mark.at) for mark in observations] == [("F3", 8.019)]
    for marks in (about_data, observations, page.overview.marks):
        for one in marks:
            near = [mark for mark in marks if mark is not one and mark.row == one.row]
            assert all(abs(mark.at - one.at) > page.overview.duration * 0.025 for mark in near)


def test_a_cut_of_links_is_drawn_once_and_its_arrow_is_explained_in_words(story: tuple[Page, str]) -> None:
    assert story[0].overview is not None
    cuts = [span for lane in story[0].overview.lanes for span in lane.spans if span.style == "iso"]
    assert [span.text for span in cuts] == ["cut 2→1 3→1"]
    assert "2→1 is the connections that broker 2 opens to broker 1" in text_of(story[1])


def test_latency_breaks_where_nothing_was_answered() -> None:
    row = {"width_ns": 500, "p50_ns": 10**6}
    bins = [{**row, "time_ns": t, "p50_ns": None if t == 1000 else 10**6} for t in (0, 500, 1000, 1500)]
    stretches = latency_lines(_Nanoseconds(), bins, "p50_ns", 10**9)  # type: ignore[arg-type]
    assert len(stretches) == 2


def test_the_legend_names_what_is_drawn_and_nothing_else(story: tuple[Page, str]) -> None:
    assert story[0].overview is not None
    fields = {entry.text for entry in story[0].overview.legend}
    assert {"killed or stopped", "links cut", "e2: leader epoch 2", "finding: permitted", "indeterminate"} <= fields
    assert not fields & {"paused", "slowed", "disk lost", "no leader", "finding: violation"}


def test_the_picture_says_where_it_begins_and_ends_and_who_alone_had_the_records(story: tuple[Page, str]) -> None:
    assert story[0].story is not None
    picture = story[0].story.picture
    assert picture is not None
    assert (picture.first, picture.boundary, picture.end) == (219, 260, 297)
    assert picture.caption == "Only broker 1 had offsets 260 and up."
    assert picture.rest_text == ""


def test_the_first_moment_of_a_finding_says_what_happened_then(story: tuple[Page, str]) -> None:
    assert [(finding.first, finding.first_is) for finding in story[0].findings] == [
        ("7.513 s", "first acknowledged"),
        ("8.440 s", "elected"),
        ("8.019 s", "last write before"),
    ]


@pytest.mark.parametrize(
    ("system", "coordination", "link", "node"),
    [
        ("Apache Kafka 4.3.1 (KRaft)", "kraft", "2→controller", "the controller"),
        ("Apache Kafka 1.1.1 (ZooKeeper)", "zookeeper", "2→ZooKeeper", "ZooKeeper"),
        ("reference cluster", "own", "2→coordination service", "the coordination service"),
        (
            "Apache Kafka 4.3.1 (KRaft)",
            "",
            "2→coordination service",
            "the coordination service",
        ),  # of before it was told
    ],
)
def test_node_100_is_called_what_the_system_has_there(
    tmp_path: Path, system: str, coordination: str, link: str, node: str
) -> None:
    run = loss_run(tmp_path, system=system, coordination=coordination)
    data = RunData(run)
    assert data.readable("n2>n100; node 100 answered") == f"{link}; {node} answered"
    assert ("System", system) in build(run).facts


@pytest.mark.parametrize(
    ("kind", "lost"),
    [("wipe", "the disk of the last in-sync broker"), ("power-loss", "the unflushed records of the last")],
)
def test_a_destroyed_copy_is_reported_by_what_was_lost_of_it(tmp_path: Path, kind: str, lost: str) -> None:
    run = loss_run(tmp_path)
    for name, changed in (("faults", {"kind": kind}), ("findings", {})):
        path = run / "tables" / f"{name}.parquet"
        table = pq.read_table(path)
        rows = [{**row, **changed} for row in table.to_pylist()]
        if name == "findings":
            evidence = {
                **json.loads(rows[0]["evidence"]),
                "cause": "destruction",
                "disk_losses": [{"node": 1, "fault": 1}],
            }
            rows[0]["evidence"] = json.dumps(evidence)
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    page = build(run)
    assert lost in page.headline
    assert page.lead.startswith("Only broker 1 was in the ISR. It lost the ")


def test_eligible_leader_replicas_stand_beside_the_isr(tmp_path: Path) -> None:
    page = build(loss_run(tmp_path, elr=[3]))
    assert page.overview is not None
    isr = next(lane for lane in page.overview.lanes if lane.label == "ISR, ELR")
    assert [span.text for span in isr.spans][:3] == ["[1, 2, 3]", "[1, 3]", "[1] ELR [3]"]


def test_what_is_folded_is_counted_and_opens_in_place(story: tuple[Page, str]) -> None:
    finding = story[0].findings[0]
    assert finding.log is not None
    (log,) = [row for row in finding.log.rows if row.fold]
    assert (log.fold, len(log.inside)) == (27, 27)
    (operations,) = [row for row in finding.operations if row.inside]
    assert (operations.operation, len(operations.inside)) == ("25 more operations on these records", 25)
    page_text = text_of(story[1])
    assert "27 more offsets like these" in page_text
    offsets = [row.offset for row in (*finding.log.rows, *log.inside) if not row.fold]
    assert sorted(offsets) == list(range(FIRST_LOST - 5, FIRST_LOST + LOST + 5))


def test_every_lost_record_is_in_the_page(story: tuple[Page, str]) -> None:
    listed = story[0].findings[0].lost_values
    assert len(listed) == LOST
    assert listed[0] == f"{FIRST_LOST}: p1-000180"
    assert all(line in story[1] for line in listed)


def test_every_finding_is_an_anchor_and_the_file_is_small(story: tuple[Page, str]) -> None:
    assert [finding.id for finding in story[0].findings] == ["F1", "F2", "F3"]
    assert all(f'<tbody id="{finding.id}"' in story[1] for finding in story[0].findings)
    assert len(story[1].encode()) < 300_000


def test_the_sums_of_the_partitions_are_the_sums_of_the_outcomes(story: tuple[Page, str]) -> None:
    sums = story[0].accounting
    assert sums is not None
    assert sum(row.sent for row in sums.partitions) == sum(row.sent for row in sums.outcomes) == sums.sent == 2000
    assert sum(row.lost for row in sums.partitions) == sums.lost_permitted == LOST
    assert "Total 2\u202f000 1\u202f975 12 13 37".replace("\u202f", " ") in text_of(story[1]).replace("\u202f", " ")


def test_a_violation_lists_each_exception_that_was_tried_and_failed(tmp_path: Path) -> None:
    run = loss_run(tmp_path, classification="violation")
    partition_history = build(run).story
    assert partition_history is not None
    assert [rule.holds for rule in partition_history.rules] == [False, False, False]
    page = page_of(run)
    what = text_of(page[page.index('id="what"') : page.index('id="acc"')])
    assert all(rule.rule in what for rule in partition_history.rules)
    assert "What would have prevented it" not in what


def test_hostile_text_is_data_wherever_a_run_may_bring_it(tmp_path: Path) -> None:
    page = page_of(loss_run(tmp_path, hostile=HOSTILE + "x" * 500))

    assert page.count("</script>") == 1
    assert "<b>\"'" not in page
    assert not {"\x00", "\u202e", "\u200f"} & set(page)
    assert "&lt;/script&gt;" in page


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        ("inconclusive", "Inconclusive: step 3 (line 12): no leader within 10 s."),
        ("vacuous", "Vacuous: Coverage: elections (elections of a leader): required 1, seen 0."),
        ("error", "Error: The run could not be done: broker 2 did not start."),
    ],
)
def test_a_run_without_a_conclusion_says_what_is_missing_and_claims_nothing(
    tmp_path: Path, verdict: str, sentence: str
) -> None:
    run = quiet_run(tmp_path, verdict=verdict, sentence=sentence)
    assert build(run).problems == []
    page_text = text_of(page_of(run))
    assert sentence in page_text
    assert "Nothing was lost" not in page_text
    assert "all read back" not in page_text


def test_a_quiet_pass_says_that_nothing_was_lost(tmp_path: Path) -> None:
    page_text = text_of(page_of(quiet_run(tmp_path)))
    assert "PASS" in page_text
    assert "Nothing was lost or broken" in page_text
    assert "all read back in the end" in page_text


def test_evidence_that_was_never_written_leaves_a_page_without_it(tmp_path: Path) -> None:
    run = loss_run(tmp_path)
    for table in (run / "tables").glob("evidence_*.parquet"):
        table.unlink()
    page = build(run)
    assert page.problems == []
    assert page.findings[0].log is None
    assert page.story is not None
