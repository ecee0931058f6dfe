"""The leader epochs that readers were given with their records, against those that the logs have."""

from collections.abc import Mapping
from typing import Any

from tests.outsiders.history_builder import OPEN, PASS, VIOLATION, HistoryBuilder, case, led

OTHER = {"leader-epochs violation": 1}


def _read(history: HistoryBuilder, epochs: Mapping[int, int], *, at: float = 30) -> HistoryBuilder:
    """A reader is given the whole log; epochs: at an offset, where it is told another than the log has."""
    for offset, epoch, value in history.log:
        history.poll([(offset, value)], at=at + offset / 10, epoch=epochs.get(offset, epoch))
    return history.finish()


def _failed_over(**more: Any) -> HistoryBuilder:
    """Ten records of epoch 0, and three of epoch 1."""
    history = led(10, **more).fail_over(2)
    for number in range(3):
        history.ack(20 + number, at=15 + number, process=2)
    return history


@case("a reader is given each record with the epoch that the logs have", PASS, why="that is as it has to be")
def read_with_its_own_epoch() -> HistoryBuilder:
    return _read(_failed_over(), {})


@case(
    "a reader is given a record of epoch 1 as of epoch 0",
    VIOLATION,
    OTHER,
    why="a leader answers with the batch as it lies in its log",
)
def read_with_the_epoch_before() -> HistoryBuilder:
    return _read(_failed_over(), {11: 0})


@case("a reader is given a record of epoch 0 as of epoch 1", VIOLATION, OTHER, why="the same")
def read_with_the_epoch_after() -> HistoryBuilder:
    return _read(_failed_over(), {4: 1})


@case(
    "a reader is given records as of an epoch that nobody led in",
    VIOLATION,
    {"leader-epochs violation": 2},
    why="the same",
)
def read_with_an_epoch_of_nobody() -> HistoryBuilder:
    return _read(_failed_over(), {4: 7, 5: 7})


@case(
    "the final read is given a record with another epoch than the logs have",
    VIOLATION,
    OTHER,
    why="it is a reader as any",
)
def read_finally_with_another_epoch() -> HistoryBuilder:
    history = _failed_over().finish()
    next(row for row in history.rows["records"] if row["kind"] == 2 and row["offset"] == 11)["leader_epoch"] = 0
    return history


@case("a reader's library tells no epochs", PASS, why="what is not known is no contradiction")
def read_without_epochs() -> HistoryBuilder:
    history = _read(_failed_over(), {})
    for row in history.rows["records"]:
        row["leader_epoch"] = None
    return history


@case("nobody read the logs", PASS, why="nothing says what they have")
def read_where_no_log_was_read() -> HistoryBuilder:
    history = _failed_over()
    for offset, epoch, value in history.log:
        history.poll([(offset, value)], at=30, epoch={4: 1}.get(offset, epoch))
    history.finish(snapshots=False)
    history.rows["replica_snapshots"].clear()
    history.rows["replica_log"].clear()
    return history


def _written_again(**more: Any) -> HistoryBuilder:
    """Value 9 is read at offset 9 in epoch 0, goes in an unclean election, and its producer's retry gets offset 9."""
    history = led(9, **more).send(9, None, at=4, elapsed_s=8.5, status=2)
    history.log.append((9, 0, 9))
    history.poll([(offset, offset) for offset in range(10)], at=5, epoch=0)
    history.state(1, 0, (1,), at=5.5)
    history.fail_over(2, kept=9, isr=(2,), back=False)
    history.log.append((9, 1, 9))
    return history.finish(only=(2,))


@case(
    "a record is read in epoch 0, cut in an unclean election that is allowed, and sent again to the same offset",
    PASS,
    {"unclean-election observation": 1},
    why="its loss was permitted, and what stands there is another attempt",
)
def read_before_it_was_written_again() -> HistoryBuilder:
    return _written_again(settings={"unclean.leader.election.enable": "true"})


@case(
    "a fault damaged a batch on one broker, and a reader is given another epoch for it",
    (OPEN, PASS),
    {"leader-epochs observation": 1},
    why="no checksum covers the epoch of a batch",
)
def read_from_a_damaged_batch() -> HistoryBuilder:
    history = _failed_over().destroyed("damage", 2, "batch", at=25, first=11, end=12, partition_id=0)
    return _read(history, {11: 0})
