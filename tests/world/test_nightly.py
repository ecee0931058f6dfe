"""The nightly of the world: its counts, what it exits with, and seeds that are new every day."""

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.world import nightly
from tests.world.judging import Reason
from tests.world.nightly import TOO_MUCH_UNDECIDED, WRONG, exit_code, fresh_first, judged_batch, lines, main, shared_out
from tests.world.tally import Tally, Wrong

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSED_OVER = Wrong(seed=7, kind="passed over", text="a lost record")


def _open(count: int) -> Counter[Reason]:
    return Counter({("lost-write", "unknown"): count})


def test_each_day_has_seeds_that_no_other_day_has_and_no_test() -> None:
    today = date(2026, 11, 25)
    assert fresh_first(today) >= 1_000_000
    assert fresh_first(today + timedelta(days=1)) - fresh_first(today) >= 10_000


def test_only_a_wrong_verdict_exits_with_1() -> None:
    assert exit_code([Tally(histories=10, asked=100, undecided=_open(5)), Tally()]) == 0
    assert exit_code([Tally(), Tally(histories=10, asked=100, undecided=_open(6))]) == TOO_MUCH_UNDECIDED == 3
    assert exit_code([Tally(histories=10, asked=100, undecided=_open(100), wrong=[PASSED_OVER])]) == WRONG == 1


def test_a_wrong_verdict_is_printed_with_the_command_that_repeats_it() -> None:
    invented = Wrong(seed=8, kind="invented", text="nothing was lost")
    text = "\n".join(lines("groups", Tally(histories=2, asked=2, wrong=[PASSED_OVER, invented])))
    assert "passed over: 1" in text
    assert "invented: 1" in text
    assert (
        "WRONG seed 7: passed over: a lost record\n  repeat: make nightly-world WORLDS=groups SEED=7 HISTORIES=1"
        in text
    )


def test_why_something_stayed_undecided_is_printed_by_its_codes_most_frequent_first() -> None:
    why = Counter({("dirty-read", "unknown", "what-the-disks-held"): 1, ("lost-write", "fail-over"): 2})
    shown = lines("records", Tally(histories=2, asked=100, undecided=why))
    place = shown.index("undecided with full evidence: 3 of 100 (3.0%)")
    assert shown[place + 1 :] == [
        "  2 (2.0%): lost-write, fail-over",
        "  1 (1.0%): dirty-read, unknown, what-the-disks-held",
    ]


def test_counts_of_several_processes_are_added() -> None:
    total = Tally(histories=1, asked=3, undecided=_open(1), wrong=[PASSED_OVER])
    total.said["lost-write", "violation"] = 2
    total.plus(total)
    assert (total.histories, total.asked, total.undecided, total.of("passed over")) == (2, 6, _open(2), 2)
    assert total.said["lost-write", "violation"] == 4


def test_the_night_judges_each_seed_seen_in_full_and_in_part(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def at_once(names: Sequence[str], seeds: Sequence[int], _: int) -> dict[str, Tally]:
        return {name: judged_batch(spark, name, of_name) for name, of_name in shared_out(names, seeds)}

    monkeypatch.setattr(nightly, "judge_all", at_once)
    assert main(["--seed", "4", "--histories", "2", "--worlds", "records"]) == 0
    shown = capsys.readouterr().out
    assert "seeds 4 to 5\nrecords: 5 histories judged" in shown
    assert "passed over: 0\ninvented: 0\nundecided with full evidence: 0 of" in shown


def test_worlds_take_turns_in_the_seeds() -> None:
    assert shared_out(["records", "groups"], range(5)) == [("records", range(0, 5, 2)), ("groups", range(1, 5, 2))]


@pytest.mark.parametrize("arguments", [["--histories", "0"], ["--jobs", "none"], ["--seed", "x"], ["--worlds", "x"]])
def test_arguments_that_make_no_sense_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert f"argument {arguments[0]}: invalid" in capsys.readouterr().err
