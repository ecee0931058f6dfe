"""Tiny histories whose verdict turns on what the scenario states: steps, coverage, bounds, findings."""

from collections.abc import Mapping, Sequence

from harness.scenario.model import ExpectSpec, FindingPattern
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, History, scenario
from tests.harness.checks.twins.twins import (
    PASS,
    VIOLATION,
    acknowledged,
    expecting,
    failed_over,
    nothing_happened,
    story,
    unclean_election_lost_three,
)


@expecting(VIOLATION, {("expectation", "violation"): 1})
def an_expectation_failed() -> History:
    history = nothing_happened().step("act", "kill broker 1", "ok")
    return history.step("expect", "the leader is broker 2", "failed", seen="broker 3")


@expecting(Verdict.INCONCLUSIVE, {})
def a_wait_ran_out() -> History:
    return nothing_happened().step("wait", "the ISR is [0, 1]", "timeout", seen="[0, 1, 2]")


@expecting(Verdict.VACUOUS, {})
def coverage_was_not_met() -> History:
    history = nothing_happened()
    history.scenario = scenario(coverage={"elections": "1", "acks": "5", "isr_changes": "= 0"})
    return history


def _silent(bounds: Mapping[str, float]) -> History:
    history = acknowledged(3, scenario_=scenario(expect=ExpectSpec(bounds=bounds))).fault("kill", [2], at=1.5, until=7)
    history.send(50, 3, at=2, elapsed_s=5)
    return history.final([(0, 0), (1, 1), (2, 2), (3, 50)])


@expecting(PASS, {("availability", "observation"): 1, ("recovery", "observation"): 1})
def silent_for_five_seconds() -> History:
    return _silent({})


@expecting(VIOLATION, {("availability", "violation"): 1, ("recovery", "observation"): 1})
def silent_for_longer_than_the_bound() -> History:
    return _silent({"availability_gap_s": 3.0})


@story
def permitted_loss_as_the_scenario_states() -> History:
    required = (FindingPattern(check="lost-write", classification="permitted", count=3),)
    forbidden = (FindingPattern(classification="violation"),)
    history = acknowledged(scenario_=scenario(expect=ExpectSpec(required=required, forbidden=forbidden)))
    history.unclean_config("true")
    return failed_over(history, leader=2, isr_before=(1,), kept=7)


@story
def fewer_losses_than_the_scenario_states() -> History:
    history = permitted_loss_as_the_scenario_states()
    history.scenario = scenario(
        expect=ExpectSpec(required=(FindingPattern(check="lost-write", classification="permitted", at_least=4),))
    )
    return history


def _below_what_was_acknowledged(*, elected_at: float) -> History:
    """10 to 14 are acknowledged by 5.6 s; at 6 s broker 1, in epoch 0, takes value 20 at offset 10, acks=1."""
    history = acknowledged(acks=1).state(2, 1, (2, 3), at=elected_at, start=10)
    for value in range(10, 15):
        history.send(value, value, at=5.5, acks=1, process=2)
    history.send(20, 10, at=6, acks=1)
    history.truncation(1, 10, 11, epoch=1, at=9)
    history.snapshot(1, [(10, 0, 20)], at=9, reason="truncation")
    log = [(offset, 0 if offset < 10 else 1, offset) for offset in range(15)]
    for node in ISR:
        history.snapshot(node, log, high_watermark=15, epochs="0:0 1:10")
    return history.final([(offset, offset) for offset in range(15)])


@expecting(
    PASS,
    {
        ("lost-write", "permitted"): 1,
        ("inconsistent-offsets", "permitted"): 1,
        ("acknowledged-regression", "permitted"): 1,
    },
)
def zombie_leader_acknowledged_below_its_successor() -> History:
    return _below_what_was_acknowledged(elected_at=5)


@expecting(
    VIOLATION,
    {
        ("lost-write", "permitted"): 1,
        ("inconsistent-offsets", "permitted"): 1,
        ("acknowledged-regression", "violation"): 1,
    },
)
def acknowledged_below_by_the_only_leader_there_was_and_lost_later() -> History:
    return _below_what_was_acknowledged(elected_at=7)


def _acknowledged_above_its_successor_and_cut(*, cut_by: int = 1, acks: int = 1, taken: bool = True) -> History:
    """Acknowledged at 6 s, when broker 2 leads since 5 s; the cut takes the offset, and no log was read before it.

    taken: the successor gives the offset to a record of its own.
    """
    history = acknowledged(acks=acks).state(2, 1, (2, 3), at=5, start=10)
    history.send(20, 12, at=6, acks=acks)
    history.truncation(cut_by, 10, 13, epoch=1, at=9)
    end = 13 if taken else 10
    for offset in range(10, end):
        history.send(offset, offset, at=10, acks=acks, process=2)
    for node in ISR:
        log = [(offset, 0 if offset < 10 else 1, offset) for offset in range(end)]
        history.snapshot(node, log, high_watermark=end, epochs="0:0 1:10")
    return history.final([(offset, offset) for offset in range(end)])


@expecting(
    PASS,
    {
        ("lost-write", "permitted"): 1,
        ("inconsistent-offsets", "permitted"): 1,
        ("acknowledged-regression", "permitted"): 2,
    },
)
def zombie_leader_acknowledged_what_nobody_read_before_it_was_cut() -> History:
    return _acknowledged_above_its_successor_and_cut()


@expecting(Verdict.INCONCLUSIVE, {("lost-write", "observation"): 1})
def zombie_leader_or_its_successor_acknowledged_what_nobody_read() -> History:
    return _acknowledged_above_its_successor_and_cut(taken=False)


def _of_a_producer_that_knew(*leaders: tuple[float, int], acks: int = 1, library: str = "kafka-python") -> History:
    """leaders: (time, leader) as its metadata said. Its send of 6 s was answered at 6.1 s."""
    history = _acknowledged_above_its_successor_and_cut(taken=False, acks=acks).client(1)
    history.rows["processes"][-1]["library"] = library
    for at, leader in leaders:
        history.leader_known(leader, at=at)
    return history


@expecting(PASS, {("lost-write", "permitted"): 1})
def zombie_leader_acknowledged_what_a_producer_sent_that_knew_only_it() -> History:
    return _of_a_producer_that_knew((1, 1), (6.2, 2))


@expecting(VIOLATION, {("lost-write", "violation"): 1})
def zombie_leader_acknowledged_with_acks_all_what_a_producer_sent_that_knew_only_it() -> History:
    return _of_a_producer_that_knew((1, 1), (6.2, 2), acks=-1)


@story
def zombie_leader_or_its_successor_acknowledged_to_a_producer_that_learned_meanwhile() -> History:
    return _of_a_producer_that_knew((1, 1), (6.05, 2))


@story
def zombie_leader_or_its_successor_acknowledged_to_a_producer_that_learned_at_the_answer() -> History:
    return _of_a_producer_that_knew((1, 1), (6.105, 2))


@story
def zombie_leader_or_its_successor_acknowledged_to_a_producer_that_knew_no_leader_yet() -> History:
    return _of_a_producer_that_knew((6.05, 1))


@story
def zombie_leader_or_its_successor_acknowledged_to_a_producer_that_says_it_late() -> History:
    return _of_a_producer_that_knew((1, 1), (6.2, 2), library="confluent-kafka")


@expecting(Verdict.INCONCLUSIVE, {("lost-write", "observation"): 1})
def acknowledged_to_a_producer_that_knew_only_the_successor() -> History:
    return _of_a_producer_that_knew((1, 1), (5.5, 2))


@expecting(
    VIOLATION,
    {
        ("lost-write", "violation"): 1,
        ("inconsistent-offsets", "violation"): 1,
        ("acknowledged-regression", "violation"): 2,
    },
)
def zombie_leader_acknowledged_with_acks_all_what_it_cut() -> History:
    return _acknowledged_above_its_successor_and_cut(acks=-1)


@expecting(VIOLATION, {("lost-write", "violation"): 1})
def cut_by_a_broker_that_never_led_and_acknowledged_by_the_leader() -> History:
    return _acknowledged_above_its_successor_and_cut(cut_by=3, taken=False)


@expecting(
    VIOLATION,
    {
        ("lost-write", "permitted"): 3,
        ("unclean-election", "permitted"): 3,
        ("replica-divergence", "violation"): 1,
    },
)
def replicas_of_the_isr_disagree_and_one_outside_it_does_too() -> History:
    """An allowed unclean election parted broker 3 from the others; it excuses nothing between members of the ISR."""
    history = unclean_election_lost_three().state(2, 1, (1, 2), at=11)
    for node, epoch, value in ((1, 1, 20), (2, 1, 21), (3, 0, 7)):
        log = [(offset, 0, offset) for offset in range(7)]
        history.snapshot(node, [*log, (7, epoch, value)], high_watermark=8, epochs="0:0")
    return history


def _one_replica_lacks_a_record(
    cleanup_policy: str, keys: Mapping[int, int] | None = None, lacking: Sequence[int] = (4,)
) -> History:
    history = nothing_happened()
    for row in history.rows["records"]:
        row["key"] = (keys or {}).get(row["value"])
    history.partition["cleanup_policy"] = cleanup_policy
    for node in ISR:
        log = [(offset, 0, offset) for offset in range(10) if node != 3 or offset not in lacking]
        history.snapshot(node, log, high_watermark=10)
    return history


@expecting(VIOLATION, {("replica-divergence", "violation"): 1})
def a_replica_of_the_isr_lacks_a_record() -> History:
    return _one_replica_lacks_a_record("delete")


@expecting(PASS, {("replica-divergence", "observation"): 1})
def a_replica_of_the_isr_has_compacted_further_than_another() -> History:
    return _one_replica_lacks_a_record("compact")


@expecting(PASS, {("replica-divergence", "observation"): 1})
def a_replica_of_the_isr_has_compacted_what_was_overwritten() -> History:
    return _one_replica_lacks_a_record("compact", {value: value % 3 for value in range(10)})


def _damaged_and_cut(history: History) -> History:
    """Of the replica that lacks a record another one was damaged, and cut when its broker started again."""
    history.fault("damage", [3], at=5)
    return history.started(3, at=6)


@expecting(PASS, {("replica-divergence", "observation"): 1})
def a_damaged_replica_of_the_isr_has_compacted_what_was_overwritten() -> History:
    return _damaged_and_cut(a_replica_of_the_isr_has_compacted_what_was_overwritten())


@expecting(VIOLATION, {("replica-divergence", "violation"): 1})
def a_damaged_replica_of_the_isr_lacks_the_last_record_of_a_key() -> History:
    return _damaged_and_cut(a_replica_of_the_isr_lacks_the_last_record_of_a_key())


@expecting(VIOLATION, {("replica-divergence", "violation"): 1})
def a_replica_of_the_isr_lacks_the_last_record_of_a_key() -> History:
    return _one_replica_lacks_a_record("compact", {value: 4 if value == 4 else 0 for value in range(10)})


@expecting(VIOLATION, {("replica-divergence", "violation"): 1, ("replica-divergence", "observation"): 2})
def a_replica_of_the_isr_lacks_the_last_record_of_a_key_and_overwritten_ones() -> History:
    keys = {value: 4 if value == 4 else 0 for value in range(10)}
    return _one_replica_lacks_a_record("compact", keys, lacking=(3, 4, 5))


@expecting(PASS, {("replica-divergence", "observation"): 1})
def a_replica_of_the_isr_lacks_a_record_that_was_aborted() -> History:
    """Value 4 is the last of its key in the log, and no reader was ever given it."""
    history = a_replica_of_the_isr_lacks_the_last_record_of_a_key()
    of_4 = [row for row in history.rows["records"] if row["value"] == 4]
    history.rows["records"] = [row for row in history.rows["records"] if row not in of_4 or row["kind"] == 0]
    of_4[0] |= {"status": 1, "offset": None}
    for row in history.rows["records"]:
        row["last_of_poll"] = row["last_of_poll"] or (row["kind"] == 1 and row["value"] == 3)  # its poll ended there
    return history


def _aborted(history: History, value: int) -> History:
    """The transaction that sent the value was aborted; who reads uncommitted was given it."""
    history.transaction(7, 1, at=1.0, until=3.0)
    history.client(9, isolation="read_uncommitted", offset_reset="earliest")
    for row in history.rows["records"]:
        if (row["kind"], row["value"]) == (0, value):
            row |= {"status": 1, "transaction": 7}
    return history


@expecting(PASS, {("replica-divergence", "observation"): 1})
def a_replica_of_the_isr_lacks_a_record_that_was_aborted_and_read() -> History:
    return _aborted(a_replica_of_the_isr_lacks_the_last_record_of_a_key(), 4)


@expecting(VIOLATION, {("replica-divergence", "violation"): 1})
def a_replica_of_the_isr_lacks_the_last_record_of_a_key_but_for_an_aborted_one() -> History:
    keys = {value: 4 if value in (4, 9) else 0 for value in range(10)}
    return _aborted(_one_replica_lacks_a_record("compact", keys), 9)


@expecting(PASS, {("replica-divergence", "observation"): 1})
def a_replica_of_the_isr_has_no_tombstone_any_more() -> History:
    history = a_replica_of_the_isr_lacks_the_last_record_of_a_key()
    for row in history.rows["records"]:
        row["tombstone"] = row["value"] == 4
    return history
