"""A campaign's journal: whatever part of it a kill leaves, the campaign goes on with exactly what is left to do."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.campaign.journal import NAME, Begun, Ended, Journal, JudgedLine, Line, encoded, state_of
from harness.campaign.outcome import outcome_of
from harness.campaign.place import campaign_folder
from harness.campaign.plan import Plan, shard_of
from harness.campaign.shards import merged, read_shard
from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from tests.harness.campaign.test_campaign_outcome import TODAY, judged, planned, seen

RUNS = 5
STEPS: list[list[Line]] = [
    [
        Begun(number=number, attempt=1, at=""),
        Ended(number=number, folder=f"runs/{number}", error="", took_s=1.0),
        JudgedLine(run=judged(number, "pass")),
    ]
    for number in range(1, RUNS + 1)
]


@st.composite
def journals(draw: st.DrawFn) -> list[Line]:
    """Runs side by side: the lines of each in order."""
    left = [list(lines) for lines in STEPS]
    found: list[Line] = []
    while any(left):
        found.append(draw(st.sampled_from([lines for lines in left if lines])).pop(0))
    return found


@given(lines=journals(), share=st.floats(min_value=0, max_value=1))
def test_any_part_of_a_journal_leaves_what_is_not_told_in_it_to_be_done(lines: list[Line], share: float) -> None:
    whole = encoded(lines)
    part = whole[: int(len(whole) * share)]
    reported = lines[: part.count(b"\n")]
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / NAME).write_bytes(part)
        journal = Journal(FilesBelow(Path(place)))
        over = {line.number for line in reported if isinstance(line, Ended)}
        assert {number for number in range(1, RUNS + 1) if not journal.state.is_open(number)} == over
        assert set(journal.state.judged) == {line.run.number for line in reported if isinstance(line, JudgedLine)}
        for line in lines[len(reported) :]:  # it goes on as if nothing had been
            journal.write(line)
        journal.close()
        again = state_of((Path(place) / NAME).read_bytes(), place="journal")
    assert again == state_of(whole, place="journal")


def test_a_line_that_is_damaged_amid_others_is_refused_with_its_place() -> None:
    with pytest.raises(HarnessError, match="journal:2: no line of a campaign"):
        state_of(encoded(STEPS[0][:1]) + b"{}\n" + encoded(STEPS[1][:1]), place="journal")


@given(runs=st.integers(min_value=1, max_value=40), of=st.integers(min_value=1, max_value=9))
def test_every_run_is_in_exactly_one_shard(runs: int, of: int) -> None:
    whole = [planned(number) for number in range(1, runs + 1)]
    parts = [run for shard in range(1, of + 1) for run in shard_of(whole, shard, of)]
    assert sorted(run.number for run in parts) == [run.number for run in whole]


def _shard(place: Path, plan: Plan, index: int, of: int) -> Path:
    part = replace(plan, runs=shard_of(plan.runs, index, of), shard=(index, of))
    with campaign_folder(place, part, facts={"version": 1}) as (files, _):
        results = {run.number: judged(run.number, "violation", findings=[seen("a")]) for run in part.runs}
        files.replace(NAME, encoded(JudgedLine(run=run) for run in results.values()))
        return files.top


def test_shards_merge_to_what_the_whole_would_have_been(tmp_path: Path) -> None:
    plan = Plan(name="test", seed=1, runs=tuple(planned(number) for number in range(1, 8)))
    folders = [_shard(tmp_path, plan, index, 3) for index in (2, 1, 3)]
    together, results = merged([read_shard(folder) for folder in folders])
    unsharded = {number: judged(number, "violation", findings=[seen("a")]) for number in range(1, 8)}
    assert outcome_of(together, results, {}, today=TODAY) == outcome_of(plan, unsharded, {}, today=TODAY)


def test_shards_that_are_not_all_there_are_refused(tmp_path: Path) -> None:
    plan = Plan(name="test", seed=1, runs=tuple(planned(number) for number in range(1, 8)))
    with pytest.raises(UsageError, match="each is needed once"):
        merged([read_shard(_shard(tmp_path, plan, 1, 3))])


def test_a_campaign_whose_plan_found_no_room_begins_in_its_folder_once_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(name="test", seed=1, runs=(planned(1),))

    def without_room(self: FilesBelow, name: str, data: bytes) -> None:
        raise HarnessError(f"{name}: No space left on device")

    with monkeypatch.context() as full:
        full.setattr(FilesBelow, "replace", without_room)
        with pytest.raises(HarnessError, match="No space left"), campaign_folder(tmp_path, plan, facts={}):
            pytest.fail("it has no plan")
    for goes_on in (False, True):
        with campaign_folder(tmp_path, plan, facts={}) as (files, found):
            assert (files.top.name, found, (files.top / "campaign.json").is_file()) == ("test", goes_on, True)


def test_another_process_in_the_same_campaign_is_refused(tmp_path: Path) -> None:
    plan = Plan(name="test", seed=1, runs=(planned(1),))
    with (
        campaign_folder(tmp_path, plan, facts={}),
        pytest.raises(UsageError, match="being run by another process"),
        campaign_folder(tmp_path, plan, facts={}),
    ):
        pass
