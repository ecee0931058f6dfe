"""Tiny histories of values at two offsets, one of which the final log has lost: it is judged by what that loss is."""

from collections.abc import Sequence

from harness.ports.load import WorkloadSpec
from harness.scenario.model import TopicSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, History, scenario
from tests.harness.checks.twins.twins import PASS, VIOLATION, expecting, story
from workloads.produce_and_poll import ProduceAndPollSettings

LOG = [(offset, offset) for offset in range(10)]


def _led(*, acks: int = -1, exact: bool = True, workload: WorkloadSpec | None = None) -> History:
    """Broker 1 leads in epoch 0 and acknowledges values 0 to 9 at their own offsets."""
    history = History(scenario_=scenario(workload=workload)).state(1, 0, ISR, at=0, start=0 if exact else None)
    for value, offset in LOG:
        history.send(value, offset, at=1 + value / 10, acks=acks)
    return history


def _written_again(history: History, *, polled: Sequence[int] = ()) -> History:
    """Of 7 to 9 the final log has 9 only, at offset 7; `polled`: where a consumer had read it."""
    for number, offset in enumerate(polled):
        history.poll([(offset, 9)], at=2.5 + 10 * number, process=30 + number)
    return history.final([*LOG[:7], (7, 9)])


def _polled_books(*, unclean: bool) -> History:
    """What brokers said of another leader is all that is known of it."""
    history = _led(exact=False).unclean_config(str(unclean).lower())
    history.state(2, 1, (2, 3), at=5)
    for row in history.rows["partition_states"]:
        row |= {"exact": False, "observer": 2}
    return _written_again(history)


@expecting(
    Verdict.INCONCLUSIVE,
    {
        ("lost-write", "observation"): 2,
        ("duplicate", "observation"): 1,
        ("inconsistent-offsets", "observation"): 1,
    },
)
def moved_by_a_loss_of_which_nobody_knows_whether_it_was_permitted() -> History:
    return _polled_books(unclean=True)


@expecting(
    VIOLATION, {("lost-write", "violation"): 2, ("duplicate", "violation"): 1, ("inconsistent-offsets", "violation"): 1}
)
def moved_by_a_loss_that_nothing_unseen_could_have_permitted() -> History:
    return _polled_books(unclean=False)


def _read_before_it_was_cut(*, unclean: bool) -> History:
    """Value 30 was read at 10, and stands at 8 in the end: above 31, which was sent after that."""
    history = _led(exact=False).unclean_config(str(unclean).lower())
    history.send(30, at=2.1, elapsed_s=17.9, process=2, status=2)
    history.poll([(10, 30)], at=3, epoch=0)
    history.state(2, 1, (2, 3), at=5)
    for row in history.rows["partition_states"]:
        row |= {"exact": False, "observer": 2}
    history.send(31, at=15, status=2)
    return history.final([*LOG[:7], (7, 31), (8, 30)])


@story
def read_above_a_loss_of_which_nobody_knows_whether_it_was_permitted() -> History:
    return _read_before_it_was_cut(unclean=True)


@story
def read_above_a_loss_that_nothing_unseen_could_have_permitted() -> History:
    return _read_before_it_was_cut(unclean=False)


@expecting(
    PASS, {("lost-write", "permitted"): 2, ("duplicate", "permitted"): 1, ("inconsistent-offsets", "permitted"): 1}
)
def moved_by_a_permitted_loss_and_read_where_it_went() -> History:
    """The place that was lost had been acknowledged by its leader alone; only the other one was read."""
    history = _led(acks=1).state(2, 1, (2, 3), at=5, start=7)
    return _written_again(history, polled=[7])


@expecting(
    VIOLATION, {("lost-write", "permitted"): 2, ("duplicate", "violation"): 1, ("inconsistent-offsets", "permitted"): 1}
)
def moved_by_a_fail_over_though_it_had_been_read_where_it_was() -> History:
    history = _led(acks=1).poll([(9, 9)], at=3)
    history.state(2, 1, (2, 3), at=5, start=7)
    return _written_again(history)


def _first_copy_removed(*, retention_ms: int, idempotence: bool) -> History:
    """Values 0 to 2, and 2 once more at offset 3 after a retry under a fault; the log begins at 3 in the end."""
    workload = ProduceAndPollSettings(idempotence=idempotence)
    topic = TopicSpec(name="t", settings={"retention.ms": str(retention_ms)})
    history = History(scenario_=scenario(workload=workload, topics=(topic,))).state(1, 0, ISR, at=0, start=0)
    history.fault("pause", [1], at=1, until=2)
    for value, offset in LOG[:3]:
        history.send(value, offset, at=1 + value / 10)
    history.partition["log_start_offset"] = 3
    return history.final([(3, 2)])


@expecting(PASS, {("removed-by-configuration", "observation"): 2, ("duplicate", "permitted"): 1})
def repeated_by_a_retry_and_its_first_copy_removed_by_retention() -> History:
    return _first_copy_removed(retention_ms=60_000, idempotence=False)


@expecting(VIOLATION, {("removed-by-configuration", "observation"): 2, ("duplicate", "violation"): 1})
def repeated_by_an_idempotent_producer_and_its_first_copy_removed_by_retention() -> History:
    return _first_copy_removed(retention_ms=60_000, idempotence=True)
