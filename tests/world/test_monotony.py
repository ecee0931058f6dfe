"""More evidence of survival never excuses more, and less evidence of causes never makes a doubt go away."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.world.histories import History, history
from tests.world.judging import PASSED_OVER, UNDECIDED, Judged, judged
from tests.world.truth import Lost, Verdict, lost_records
from tests.world.visibility import FULL, WITHHELD, Visibility

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = 60  # in which records were lost
SHOWN = 8
DIM = FULL.without("no reads, last snapshot", reads=False, snapshots=frozenset({"end"}), truncations=False)
SIGHTINGS = (
    DIM.without("reads", reads=True),
    DIM.without("copies", snapshots=frozenset({"kill", "heal", "end"})),
    DIM.without("cut batches", snapshots=frozenset({"truncation", "end"}), truncations=True),
)
CAUSES = tuple(visibility for visibility in WITHHELD if visibility.reads and visibility.blur_ns == FULL.blur_ns)


@pytest.fixture(scope="module")
def losing() -> list[History]:
    """Histories in which something acknowledged was lost, in order of their seeds."""
    found: list[History] = []
    seed = 0
    while len(found) < HISTORIES:
        one = history(seed)
        if lost_records(one.chronicle):
            found.append(one)
        seed += 1
    return found


def _judged_each(
    spark: "SparkSession", folder: Path, histories: list[History], sights: tuple[Visibility, ...]
) -> list[tuple[Judged, list[Judged]]]:
    """Each history under the first sight, and under the others: all in one Spark job."""
    answers = judged(spark, folder, [(one, visibility) for one in histories for visibility in sights])
    width = len(sights)
    return [(answers[at], answers[at + 1 : at + width]) for at in range(0, len(answers), width)]


def _turned(before: Judged, after: Judged, lost: Lost) -> str:
    place = f"{lost.partition[0]}-{lost.partition[1]} offset {lost.offset} value {lost.value} acks {lost.acks}"
    return (
        f"seed {before.history.setup.seed}, {place}: {before.of(lost)} with sight {before.visibility.name}, "
        f"{after.of(lost)} with {after.visibility.name}; in truth {lost.verdict.value} ({lost.fate}: {lost.story})"
    )


def _is_asked(lost: Lost) -> bool:
    """Whether the promise says something of the record, and not only by what its brokers wrote down of it."""
    return not lost.answered_only and lost.verdict is not Verdict.UNSAID


@pytest.mark.timeout(3600)
def test_a_further_sighting_never_turns_a_violation_into_a_permitted_loss(
    spark: "SparkSession", tmp_path: Path, losing: list[History]
) -> None:
    turned = [
        _turned(dim, seen, lost)
        for dim, brighter in _judged_each(spark, tmp_path, losing, (DIM, *SIGHTINGS))
        for seen in brighter
        for lost in dim.lost
        if dim.of(lost) == "violation" and seen.of(lost) == "permitted" and not lost.answered_only
    ]
    assert not turned, f"{len(turned)} records:\n" + "\n".join(turned[:SHOWN])


@pytest.mark.timeout(3600)
def test_less_evidence_of_causes_never_makes_a_doubt_go_away(
    spark: "SparkSession", tmp_path: Path, losing: list[History]
) -> None:
    gone = []
    for full, dimmer in _judged_each(spark, tmp_path, losing, (FULL, *CAUSES)):
        for less in dimmer:
            gone += [
                _turned(full, less, lost)
                for lost in full.lost
                if full.of(lost) in ("violation", UNDECIDED)
                and less.of(lost) in ("permitted", PASSED_OVER)
                and _is_asked(lost)
            ]
            doubt = any(full.of(lost) in ("violation", UNDECIDED) and _is_asked(lost) for lost in full.lost)
            if doubt and less.judgement.verdict.value == "pass":
                gone.append(f"seed {full.history.setup.seed}: the verdict is pass with sight {less.visibility.name}")
    assert not gone, f"{len(gone)} records:\n" + "\n".join(gone[:SHOWN])
