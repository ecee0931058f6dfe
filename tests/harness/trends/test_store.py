"""Nights are kept whole, once, by any number of writers; numbers that changed for good are marked, noise is not."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.ci.campaign_rows import CampaignResults
from harness.errors import HarnessError, UsageError
from harness.trends.changes import change_points
from harness.trends.nights import night_of_campaign, night_of_runs
from harness.trends.store import FindingOfNight, Night, NotRun, RunOfNight, Store, seen_in
from tests.harness.ci.campaign_folder import campaign_folder, group_row, run_row
from tests.reports.stories.unclean_story import loss_run


def night(number: int, *fingerprints: str, recovery_s: float | None = 2.0, verdict: str = "pass") -> Night:
    run = RunOfNight(
        began=f"2026-11-{number:02}T02:00:00Z",
        scenario="leader-crash",
        system="reference",
        seed=1,
        verdict=verdict,
        recovery_s=recovery_s,
        gap_s=3.0,
        throughput_per_s=200.0,
        run="r",
    )
    found = [
        FindingOfNight(
            fingerprint=each,
            check="lost-write",
            classification="violation",
            cause="",
            scenario="leader-crash",
            system="reference",
            run="r",
        )
        for each in fingerprints
    ]
    return Night(name=f"202611{number:02}-020000-nightly", runs=[run], findings=found)


def test_what_is_appended_is_read_again_oldest_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "trends")
    for number in (3, 1, 2):
        store.append(night(number, "aa"))
    assert store.nights() == [night(1, "aa"), night(2, "aa"), night(3, "aa")]
    assert [each.name for each in store.nights(last=1)] == [night(3).name]


def test_what_was_not_run_is_kept_and_older_nights_have_none(tmp_path: Path) -> None:
    store = Store(tmp_path / "trends")
    left_out = (NotRun(scenario="crash", system="reference", count=2, reason="its time is over"),)
    place = store.append(replace(night(1), not_run=left_out))
    assert store.nights() == [replace(night(1), not_run=left_out)]
    (place / "not_run.parquet").unlink()
    assert store.nights() == [night(1)]
    with pytest.raises(UsageError, match="this night is in the store already"):
        store.keep(replace(night(1), not_run=left_out))


def test_a_night_that_is_not_the_newest_is_told_to_be_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "trends")
    newest = store.keep(night(2, "aa"))
    assert store.place_words(newest) == str(newest)
    assert store.place_words(store.keep(night(2, "bb"))).endswith("nightly-2"), "of one second"
    older = store.keep(night(1, "aa"))
    assert store.place_words(older) == (
        f"{older}, which its name puts before 2 others, the newest 20261102-020000-nightly-2: was a clock set back?"
    )


def test_many_writers_at_once_lose_no_night_and_of_one_name_exactly_one_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "trends")

    def append(number: int) -> bool:
        try:
            store.append(night(number // 2))
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(append, range(2, 42)))
    assert sum(kept) == 20
    assert len(store.nights()) == 20
    assert [path.name for path in (tmp_path / "trends" / "nights").iterdir() if path.name.startswith(".")] == []


def test_nights_of_several_machines_that_began_in_one_second_are_all_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "trends")
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda number: store.keep(night(1, f"of machine {number}")), range(8)))
    names = [night(1).name, *(f"{night(1).name}-{number}" for number in range(2, 9))]
    assert sorted(path.name for path in kept) == names
    assert {each.findings[0].fingerprint for each in store.nights()} == {f"of machine {number}" for number in range(8)}
    with pytest.raises(UsageError, match="this night is in the store already"):
        store.keep(night(1, store.nights()[0].findings[0].fingerprint))


def test_a_night_that_was_not_written_whole_is_no_night(tmp_path: Path) -> None:
    store = Store(tmp_path / "trends")
    store.append(night(1))
    (tmp_path / "trends" / "nights" / ".20261102-x.unfinished").mkdir()
    assert store.names() == [night(1).name]


def test_a_night_that_cannot_be_read_or_named_is_one_line(tmp_path: Path) -> None:
    store = Store(tmp_path / "trends")
    with pytest.raises(UsageError, match="no name of a night"):
        store.append(Night(name="../x", runs=[], findings=[]))
    place = store.append(night(1))
    (place / "runs.parquet").write_bytes(b"no table")
    with pytest.raises(HarnessError, match=r"runs\.parquet: no table of a night"):
        store.nights()
    (place / "runs.parquet").unlink()
    (place / "runs.parquet").symlink_to("/etc/hostname")
    with pytest.raises(HarnessError, match="symbolic link"):
        store.nights()


def test_a_finding_is_counted_once_a_night_among_the_last_nights(tmp_path: Path) -> None:
    store = Store(tmp_path / "trends")
    for number in range(1, 26):
        store.append(night(number, *(["aa", "aa"] if number in (1, 10, 20, 25) else [])))
    assert seen_in(store.readable()[0])["aa"].sentence == "seen in 3 of the last 20 nights"
    assert seen_in(Store(tmp_path / "none").readable()[0]) == {}


def test_a_level_that_changed_for_good_is_one_change_and_noise_is_none() -> None:
    chance = random.Random(7)
    steady = [2.0 + chance.gauss(0, 0.1) for _ in range(40)]
    moved = [*steady[:20], *(each + 1.5 for each in steady[20:])]
    outlier = [*steady[:20], 30.0, *steady[21:]]
    assert change_points(steady) == []
    assert change_points(outlier) == []
    assert change_points([2.0] * 40) == []
    assert change_points([]) == []
    (change,) = change_points(moved)
    assert abs(change.place - 20) <= 1
    assert abs(change.before - 2.0) < 0.2
    assert abs(change.after - 3.5) < 0.2
    (change,) = change_points([2.0] * 10 + [3.0] * 10)
    assert change.place == 10


def test_a_campaign_is_a_night_with_the_longest_times_of_each_run(tmp_path: Path) -> None:
    measures = [
        {"run": 1, "system": "reference", "fault": "kill", "recovery_s": 1.0, "gap_s": 2.5, "throughput_per_s": 190.0},
        {"run": 1, "system": "reference", "fault": "cut", "recovery_s": 4.0, "gap_s": None, "throughput_per_s": 190.0},
    ]
    runs = [
        run_row(1, verdict="violation"),
        run_row(2, verdict="not_run", began="", sentence_text="its time is over"),
        run_row(3, world="docker"),
        run_row(4, system="attached", world="attached"),
    ]
    folder = campaign_folder(
        tmp_path / "c", runs, findings=[group_row("aa")], occurrences=[("aa", 1)], measures=measures
    )
    made = night_of_campaign(CampaignResults(folder))
    assert made.name == "20261123-020000-nightly"
    assert [(run.system, run.recovery_s, run.gap_s) for run in made.runs] == [
        ("reference", 4.0, 2.5),
        ("reference (docker)", None, None),
        ("attached", None, None),
    ]
    assert [(each.fingerprint, each.scenario) for each in made.findings] == [("aa", "leader-crash")]
    assert [(each.scenario, each.count, each.reason) for each in made.not_run] == [
        ("leader-crash", 1, "its time is over")
    ]
    none = campaign_folder(tmp_path / "none", [run_row(1, verdict="not_run", began="")])
    with pytest.raises(UsageError, match="no run of this campaign was made"):
        night_of_campaign(CampaignResults(none))


def test_a_night_that_nobody_could_read_again_is_not_kept(tmp_path: Path) -> None:
    """Tables of a run that somebody else wrote may hold a time that is no number."""
    store = Store(tmp_path / "store")
    made = night_of_runs([loss_run(tmp_path, classification="violation")])
    spoilt = replace(made, runs=[replace(run, recovery_s=float("nan")) for run in made.runs])
    with pytest.raises(HarnessError, match="not kept, since nobody could read it again"):
        store.append(spoilt)
    assert store.names() == []
    store.append(made)
    assert len(store.nights()) == 1


@pytest.mark.parametrize("number", [1e16, -1e308, float("nan"), float("inf")])
def test_a_number_whose_sums_are_none_is_not_kept(tmp_path: Path, number: float) -> None:
    store = Store(tmp_path / "trends")
    with pytest.raises(HarnessError, match=r"column recovery_s has a number (beyond 1e\+15|that is not finite)"):
        store.append(night(1, recovery_s=number))
    assert store.names() == []


def test_runs_are_a_night_too(tmp_path: Path) -> None:
    made = night_of_runs([loss_run(tmp_path, classification="violation")])
    assert [run.scenario for run in made.runs] == ["unclean-election"]
    assert "violation" in {each.classification for each in made.findings}
    assert made.name.endswith("-runs")
    with pytest.raises(UsageError, match="no run folders"):
        night_of_runs([])
