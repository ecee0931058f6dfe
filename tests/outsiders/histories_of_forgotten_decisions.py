"""A transaction whose coordinator lawfully forgot that it was committed: the group's offset from before is answered,
and whoever runs this wants to know that an offset was lost, and by which leave."""

from collections.abc import Sequence
from typing import Any

from harness.history.facts.internal_topics import partition_of
from tests.outsiders.history_builder import OPEN, PASS, VIOLATION, HistoryBuilder, case, led

COMMITTED = 0
PROCESSOR, READER = 21, 22
OFFSETS = ("__consumer_offsets", partition_of("g", 50))
STATE = ("__transaction_state", partition_of("p", 50))
UNCLEAN = "unclean.leader.election.enable"
LAWFUL = {"lost-group-offset permitted": 2}
MISSED = {"lost-group-offset violation": 2}


def _processed(*, replicas: Sequence[int] = (3,), isr: Sequence[int] | None = None, **more: Any) -> HistoryBuilder:
    """A processor commits 2 plainly at second 4, and sends 4 to a transaction that it is told is committed at second 8.
    replicas: of its coordinator's log; none: nobody recorded them."""
    history = led(10, **more).kept_state(OFFSETS, 1, 0, (1, 2, 3), at=0)
    if replicas:
        history.kept_state(STATE, replicas[0], 0, isr or replicas, at=0, replicas=replicas)
    history.client(PROCESSOR, role="both", group="g", transactional_id="p", offset_reset="latest", acks=-1)
    history.client(READER, role="consumer", group="g", offset_reset="latest", isolation="read_committed")
    history.group("assigned", at=2.5, process=PROCESSOR, generation=1, offset=0)
    history.reads(PROCESSOR, range(4), at=3)
    history.group("committed", at=4, process=PROCESSOR, generation=1, offset=2)
    history.transaction(1, COMMITTED, at=7, until=8, process=PROCESSOR, transactional_id="p", group="g")
    return history.group("committed", at=7.5, elapsed_s=0.1, process=PROCESSOR, generation=1, offset=4, transaction=1)


def _asked(history: HistoryBuilder, offset: int = 2) -> HistoryBuilder:
    """Twice, long after."""
    for at in (80, 90):
        history.group("fetched", at=at, process=READER, offset=offset, require_stable=True)
    return history.finish()


def _wiped(history: HistoryBuilder, node: int = 3) -> HistoryBuilder:
    history.destroyed("wipe", node, "disk", at=8.2, until=9)
    return history.started(node, at=9.2)


@case(
    "told committed; then the only copy of its coordinator's log is wiped, and the offset from before is answered",
    PASS,
    LAWFUL,
    why="the decision was lost with the only copy that was promised; the loss is told, once",
)
def decision_lost_with_the_only_copy() -> HistoryBuilder:
    return _asked(_wiped(_processed()))


@case("the same, and its own offset is answered", PASS, why="nothing is lost: its markers had been written")
def decision_lost_after_its_markers() -> HistoryBuilder:
    return _asked(_wiped(_processed()), 4)


@case("the disk of a broker without a copy of that log is wiped", VIOLATION, MISSED, why="its coordinator knew still")
def decision_kept_elsewhere() -> HistoryBuilder:
    return _asked(_wiped(_processed(), 2))


@case(
    "a broker out of sync is elected leader of that log, which the brokers' setting allows",
    PASS,
    LAWFUL,
    why="an unclean election that is allowed may cost what its coordinator had decided",
)
def decision_lost_in_an_allowed_election() -> HistoryBuilder:
    history = _processed(replicas=(3, 1, 2), isr=(3,), settings={UNCLEAN: "true"}).fault("kill", [3], at=8.2, until=20)
    history.kept_state(STATE, 1, 1, (1,), at=9)
    return _asked(history)


@case(
    "a disk is wiped, and nobody recorded where that log was",
    OPEN,
    {"lost-group-offset observation": 2},
    why="it may have had the only copy",
)
def decision_lost_perhaps() -> HistoryBuilder:
    return _asked(_wiped(_processed(replicas=())))


def _elected_without_the_newest(*, kept_from: int) -> HistoryBuilder:
    """A broker out of sync is elected leader of that log, at 40. The log of the one before was read while that was
    down: it ended at 60, and nothing from `kept_from` on, which was kept, is of the id."""
    history = _processed(replicas=(3, 1, 2), isr=(3,), settings={UNCLEAN: "true"}).fault("kill", [3], at=8.2, until=20)
    history.kept_log(STATE, 3, 60, at=8.3)
    history.rows["internal_replica_snapshots"][-1].update(reason="wipe", kept_from=kept_from)
    history.kept_state(STATE, 1, 1, (1,), at=9)
    history.kept_log(STATE, 1, 45)
    history.rows["internal_replica_snapshots"][-1].update(leader_epochs="0:0 1:40", kept_from=45)
    return _asked(history)


@case(
    "an allowed election took what stood from 40 on in its coordinator's log, of which only what stands from 50 on was "
    "kept",
    PASS,
    LAWFUL,
    why="the decision may have stood between",
)
def decision_lost_with_what_was_not_kept() -> HistoryBuilder:
    return _elected_without_the_newest(kept_from=50)


@case(
    "the same, and all of that was kept",
    VIOLATION,
    MISSED,
    why="the election took nothing of the id",
)
def decision_not_among_what_an_election_took() -> HistoryBuilder:
    return _elected_without_the_newest(kept_from=40)


def _decision_dropped(*, in_sync_of_offsets: Sequence[int]) -> HistoryBuilder:
    """Of three in sync one is elected leader of the coordinator's log, and that has nothing of the id at the end. The
    leader of the offsets' log goes, too, and another broker leads that."""
    history = _processed(replicas=(3, 1, 2), settings={UNCLEAN: "true"})
    history.kept_state(OFFSETS, 1, 0, in_sync_of_offsets, at=6).fault("kill", [1, 3], at=8.2, until=20)
    history.kept_state(STATE, 2, 1, (2,), at=9).kept_state(OFFSETS, 2, 1, (2,), at=9)
    return _asked(history.kept_log(STATE, 2, 45))


@case(
    "the next leader of its coordinator's log dropped it, and an allowed unclean election took the offset's record",
    PASS,
    LAWFUL,
    why="without that record no coordinator could have told it, whatever it knew of its transaction",
)
def decision_dropped_and_its_offset_lawfully_lost() -> HistoryBuilder:
    return _decision_dropped(in_sync_of_offsets=(1,))


@case("the same, and who leads the offsets' log was in sync", VIOLATION, MISSED, why="no loss of the offset is lawful")
def decision_dropped() -> HistoryBuilder:
    return _decision_dropped(in_sync_of_offsets=(1, 2, 3))
