"""Records share a ruling only where each would get the same alone: of every hand-told history, whatever is asked first.

A ruling is kept by what it reads: on which side of each offset and each time of its story a record lies. A mark that
is forgotten there gives one record the ruling of its neighbour, silently.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.checks.contract.rule import Judge
from harness.checks.contract.rulings import Ruling
from harness.checks.model.lost_records import LostRecord, Rewrite
from harness.checks.model.partition_history import PartitionHistory, read_run_history
from harness.checks.spark.detection import Copy, EpochRead
from tests.harness.checks.contract.test_contract_against_model import small_tables
from tests.harness.checks.contract.test_deposed_leaders import left_behind
from tests.harness.checks.contract.test_survival import back_and_lost_by_a_clean_election, wiped
from tests.harness.checks.contract.test_unknown_log_end import led_twice
from tests.harness.checks.histories import model
from tests.harness.checks.histories.build import SECOND, History
from tests.harness.checks.twins import twins_of_copies, twins_of_removal, twins_of_scenarios
from tests.harness.checks.twins.twins import STORIES

assert all(each.__doc__ for each in (twins_of_copies, twins_of_removal, twins_of_scenarios)), "their stories are there"
HISTORIES = STORIES | {
    "wiped": lambda: wiped(seen_at=None),
    "wiped_and_seen": lambda: wiped(seen_at=20),
    "led_twice": led_twice,
    "left_behind": left_behind,
    "back": lambda: back_and_lost_by_a_clean_election(again=True),
}
FATES, VARIANTS = 25, 12
OFFSETS = 14


def variants_of(history: History, chance: random.Random) -> Iterator[LostRecord]:
    """Records, and others that differ from them in one place or one time."""
    log = [row for row in history.rows["replica_log"] if row["partition_id"] == 0]
    edges = sorted(
        {
            row[name]
            for table in ("partition_states", "faults", "replica_snapshots", "broker_events", "disk_events")
            for row in history.rows[table]
            for name in ("time_ns", "begin_ns", "end_ns")
            if row.get(name) is not None
        }
        | {0}
    )

    def moment() -> int:
        """Beside what happened, a second after it, or somewhere in between."""
        later = chance.choice((0, SECOND)) + chance.choice((-1, 0, 1, -SECOND // 4, SECOND // 4))
        return max(0, chance.choice(edges) + later)

    for _ in range(FATES):
        place, was_read = chance.randrange(OFFSETS), chance.random() < 0.5
        copies = frozenset(Copy(*copy) for copy in model.copies(log, 0, place, place))
        copies = copies if chance.random() < 0.5 else frozenset()
        one = LostRecord(
            offset=place,
            epoch=chance.choice((None, 0, 1)),
            acks=chance.choice((-1, 1)),
            t_acknowledged=moment(),
            committed=was_read,
            in_a_log=bool(copies),
            copies=copies,
            others=frozenset(Copy(*copy) for copy in model.copies_beside(log, 0, place, place)),
            t_last_read=moment() if was_read else None,
            rewritten=tuple(written_anew(moment(), moment()) for _ in range(chance.choice((0, 0, 1, 2)))),
        )
        yield lawful(one)
        for _ in range(VARIANTS):
            ways: list[dict[str, object]] = [{"offset": chance.randrange(OFFSETS)}, {"t_acknowledged": moment()}]
            ways += [{"rewritten": (written_anew(moment(), moment()),)}] if one.rewritten else []
            yield lawful(replace(one, **chance.choice([*ways, {"t_last_read": moment()}] if was_read else ways)))  # type: ignore[arg-type]


def lawful(lost: LostRecord) -> LostRecord:
    """What was written anew was sent after the record was last known."""
    known = max(lost.t_acknowledged or 0, lost.t_last_read or 0)
    return replace(lost, rewritten=tuple(each for each in lost.rewritten if each.sent_ns > known))


def written_anew(sent_ns: int, later_ns: int) -> Rewrite:
    return Rewrite(epoch=0, sent_ns=sent_ns, seen_ns=sent_ns + abs(later_ns - sent_ns))


def reads_of(story: PartitionHistory, chance: random.Random) -> list[EpochRead]:
    first = chance.randrange(OFFSETS)
    epochs = [election.epoch for election in story.elections] or [0]
    return [
        EpochRead(
            epoch=chance.choice(epochs), is_final=chance.random() < 0.5, first_offset=first, last_offset=first + 2
        )
    ]


def said(ruling: Ruling) -> tuple[object, ...]:
    doubt = ruling.undecided.code if ruling.undecided else None
    return ruling.classification, ruling.cause, ruling.cause_epoch, doubt


@pytest.mark.parametrize("name", HISTORIES)
def test_a_ruling_that_records_share_is_the_one_that_each_would_get_alone(name: str) -> None:
    history, chance = HISTORIES[name](), random.Random(name)
    story = read_run_history(small_tables(history), 0, history.scenario, 0).partitions[0]
    reads = reads_of(story, chance)
    judge = Judge(story, reads)
    for fate in variants_of(history, chance):
        assert said(judge.rule(fate)) == said(Judge(story, reads).rule(fate)), fate
