"""The checks against the other worlds that know the truth: transactions, groups, settings and the rest, each with its
own seeds.

Nothing that was broken is passed over, nothing is invented, and hardly anything stays undecided with full evidence.
`python -m tests.world.as_text SEED transactions` prints a history.
"""

from typing import TYPE_CHECKING

import pytest

from tests.world.drawing import CLEANING, ENDS, GROUPS, IN_FLIGHT, PROCESSING, SETTINGS, TRANSACTIONS
from tests.world.histories import history
from tests.world.judging import judged
from tests.world.nightly import sights, withheld
from tests.world.tally import Tally, tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = 72  # of each world; the nightly has the rest of the seeds
IN_PART = 14
UNDECIDED_MAX = 0.05
SHOWN = 8
ENOUGH = {
    TRANSACTIONS: {"aborted-read violation", "hidden violation", "passed violation", "hanging violation"},
    GROUPS: {"lost offset violation", "lost offset permitted", "zombie commit violation", "two owners violation"},
    SETTINGS: {"lost violation", "lost permitted", "lost unsaid"},
    PROCESSING: {"wrong offset violation"},
    ENDS: {"node end violation", "node end permitted", "node end open"},
    CLEANING: {"compacted violation", "lost violation", "lost permitted"},
    IN_FLIGHT: {"disorder violation", "disorder permitted", "doubled violation", "doubled permitted"},
}


@pytest.fixture(scope="module", params=list(ENOUGH))
def tallied(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[str, Tally]:
    played = [history(seed, request.param) for seed in range(HISTORIES)]
    cases = [(one, next(sights(one))) for one in played]
    cases += [(one, withheld(one)) for one in played[:IN_PART]]
    return request.param, tally(judged(spark, tmp_path_factory.mktemp(request.param), cases))


@pytest.mark.timeout(3600)
def test_no_broken_promise_is_passed_over_and_none_invented(tallied: tuple[str, Tally]) -> None:
    _, found = tallied
    assert not found.wrong, f"{len(found.wrong)} wrong:\n" + "\n".join(each.text for each in found.wrong[:SHOWN])


@pytest.mark.timeout(3600)
def test_hardly_anything_stays_undecided_with_full_evidence(tallied: tuple[str, Tally]) -> None:
    _, found = tallied
    assert found.undecided.total() <= UNDECIDED_MAX * found.asked, f"{found.undecided.total()} of {found.asked}"


@pytest.mark.timeout(3600)
def test_enough_happens_in_each_world(tallied: tuple[str, Tally]) -> None:
    name, found = tallied
    assert ENOUGH[name] <= {kind for kind, count in found.truth.items() if count > 2}, found.truth
