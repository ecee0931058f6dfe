"""What lawfully took a record from a coordinator's log, and which election is known to have taken none."""

import pytest

from harness.checks.contract.coordinators_log import Stored, taken_from
from harness.checks.contract.timelines import Timelines
from harness.checks.families.transactions.transaction_forgetting import CODES
from tests.harness.checks.contract.test_survival import LOG, partition_of
from tests.harness.checks.histories.build import SECOND, History


def elected_uncleanly(*, read_at: float = 6, back_at: float = 20, start: int = 10, epochs: str = "0:0 2:10") -> str:
    """Broker 1, alone in sync, is down when broker 2 is elected; what that took of the log, in a word."""
    history = History().unclean_config("true")
    history.state(1, 0, (1, 2), at=0, start=0)
    history.state(1, 0, (1,), at=3)
    history.fault("kill", [1], at=6, until=back_at)
    history.snapshot(1, LOG, at=read_at, reason="kill", epochs="0:0")
    history.state(2, 2, (2,), at=8, start=start)
    history.snapshot(2, [*LOG, (10, 2, 10)], epochs=epochs)
    stored = Stored(sent_ns=SECOND, stored_ns=SECOND, gone_ns=9 * SECOND)
    place = partition_of(history)
    taken = taken_from(place, Timelines(place), stored, CODES)
    return "nothing" if taken is None else taken[0]


def test_an_unclean_election_of_one_that_had_the_whole_log_of_the_one_in_sync_took_nothing() -> None:
    assert elected_uncleanly() == "nothing"
    assert elected_uncleanly(start=12, epochs="0:0 2:12") == "nothing"


@pytest.mark.parametrize(
    "otherwise",
    [
        {"start": 9, "epochs": "0:0 2:9"},  # it lacked the last one
        {"read_at": 5},  # it may have written until it died
        {"back_at": 7},  # so it may have once it was back
        {"epochs": "0:0 1:8 2:10"},  # what it had at the end was another leader's
    ],
)
def test_unless_the_log_may_have_had_more(otherwise: dict[str, float | int | str]) -> None:
    assert elected_uncleanly(**otherwise) == "permitted"  # type: ignore[arg-type]
