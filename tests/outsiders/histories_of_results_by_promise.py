"""Read, process, write as Kafka promises it: one result for each input, whatever became of the attempts."""

from collections.abc import Sequence

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led
from workloads.transactions import TransactionsSettings

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
FIRST, SECOND_ONE = 31, 32
OUTPUTS = 1 << 62


def _pipeline() -> HistoryBuilder:
    """Inputs 0 to 3 of t-0; results go to out-0; two processors of group g, the second after the first."""
    load = TransactionsSettings(group="g", processors=2, output="out")
    history = led(4, topics={"t": {}, "out": {}}, workload=load).place(1, "out", 0)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    for number, process in enumerate((FIRST, SECOND_ONE), start=1):
        history.client(
            process,
            role="both",
            group="g",
            transactional_id=f"g-{number}",
            offset_reset="earliest",
            acks=-1,
            isolation="read_committed",
            idempotent=True,
            tells_attempts=True,
        )
    return history.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")


def _processes(
    history: HistoryBuilder,
    transaction: int,
    outcome: int,
    inputs: Sequence[int],
    *,
    at: float,
    out: int,
    process: int = FIRST,
    results: Sequence[int] | None = None,
) -> list[tuple[int, int]]:
    """One transaction: its results from offset `out` on, and the offset behind its inputs. Answers its results."""
    history.group("assigned", at=at, process=process, generation=process - FIRST + 1, offset=inputs[0])
    history.reads(process, inputs, at=at + 0.1, assignment=transaction)
    made = []
    for number, source in enumerate(inputs if results is None else results):
        value = OUTPUTS + len(history.rows["value_names"])
        history._add("value_names", value=value, name=f"t-0-{source}/{process}.{value - OUTPUTS}")
        history.send(
            value,
            out + number,
            at=at + 0.3,
            elapsed_s=0.1,
            partition_id=1,
            process=process,
            transaction=transaction,
            status=outcome,
        )
        made.append((out + number, value))
    history.group(
        "committed",
        at=at + 0.6,
        process=process,
        generation=process - FIRST + 1,
        offset=inputs[-1] + 1,
        transaction=transaction,
        status=outcome,
    )
    history.transaction(
        transaction,
        outcome,
        at=at + 0.2,
        until=at + 1,
        process=process,
        group="g",
        transactional_id=f"g-{process - FIRST + 1}",
    )
    return made


def _results(history: HistoryBuilder, seen: Sequence[tuple[int, int]]) -> HistoryBuilder:
    history.finish(snapshots=False)
    history.final(seen, partition_id=1)
    history.rows["partitions"][1]["end_offset"] = 20
    return history


@case(
    "a transaction with two results is aborted, and the next processor makes them again",
    PASS,
    also=["group-redelivery observation"],
    why="each input has one committed result",
)
def processed_again_after_an_abort() -> HistoryBuilder:
    history = _pipeline()
    _processes(history, 1, ABORTED, (0, 1), at=3, out=0)
    return _results(history, _processes(history, 2, COMMITTED, (0, 1, 2, 3), at=6, out=3, process=SECOND_ONE))


@case(
    "nobody knows the first outcome; its results are visible, and the next processor makes them again",
    VIOLATION,
    {"read-process-write violation": SOME},
    also=["group-redelivery observation", "group-redelivery violation"],
    why="visible to committed readers is committed: its inputs have two results",
)
def processed_twice_by_an_unknown_one() -> HistoryBuilder:
    history = _pipeline()
    seen = _processes(history, 1, UNKNOWN, (0, 1), at=3, out=0)
    return _results(history, [*seen, *_processes(history, 2, COMMITTED, (0, 1, 2, 3), at=6, out=3, process=SECOND_ONE)])


@case(
    "the same, and its results are not visible",
    PASS,
    also=["group-redelivery observation"],
    why="it was aborted in the end",
)
def processed_again_after_an_unknown_one() -> HistoryBuilder:
    history = _pipeline()
    _processes(history, 1, UNKNOWN, (0, 1), at=3, out=0)
    return _results(history, _processes(history, 2, COMMITTED, (0, 1, 2, 3), at=6, out=3, process=SECOND_ONE))


@case(
    "a transaction passes four inputs, makes three results, and commits: the third input has none",
    VIOLATION,
    {"read-process-write violation": SOME},
    why="each input below the committed offset has exactly one result",
)
def input_without_a_result() -> HistoryBuilder:
    history = _pipeline()
    return _results(history, _processes(history, 1, COMMITTED, (0, 1, 2, 3), at=3, out=0, results=(0, 1, 3)))


@case(
    "results of a transaction of unknown outcome are visible, and the next processor goes on behind its inputs",
    PASS,
    why="it was committed, with its offset",
)
def went_on_behind_an_unknown_one() -> HistoryBuilder:
    history = _pipeline()
    seen = _processes(history, 1, UNKNOWN, (0, 1), at=3, out=0)
    return _results(history, [*seen, *_processes(history, 2, COMMITTED, (2, 3), at=6, out=3, process=SECOND_ONE)])


def _answered_again(fault: str | None) -> HistoryBuilder:
    """Broker 1 coordinates until 5, and knows 1; its successor knows 4. The second processor is told 1 at 20."""
    history = _pipeline()
    for leader, epoch, isr, at in ((1, 0, (1, 2, 3), 0), (2, 1, (2, 3), 5)):
        history.kept_state(("__consumer_offsets", 3), leader, epoch, isr, at=at)
    seen = _processes(history, 1, COMMITTED, (0,), at=3, out=0)
    if fault is not None:
        history.fault(fault, [1], at=4.5, until=30)
    history.state(2, 1, (2, 3), at=5, start=4)
    seen += _processes(history, 2, COMMITTED, (1, 2, 3), at=6, out=2)
    history.group("fetched", at=20, process=SECOND_ONE, offset=1, require_stable=True)
    seen += _processes(history, 3, COMMITTED, (1, 2, 3), at=21, out=6, process=SECOND_ONE)
    return _results(history, seen)


AGAIN = "group-redelivery observation"


@case(
    "a coordinator that is cut off tells the second processor an old offset, from which it makes results again",
    (PASS, OPEN),
    also=[AGAIN, "lost-group-offset observation", "read-process-write observation"],
    why="an OffsetFetch asks no replica",
)
def processed_again_by_the_word_of_a_deposed_coordinator() -> HistoryBuilder:
    return _answered_again("cut")


@case(
    "the same, and nothing kept that coordinator from hearing of its successor",
    VIOLATION,
    {"lost-group-offset violation": SOME, "read-process-write violation": SOME},
    also=[AGAIN, "group-redelivery violation"],
    why="each input has one result",
)
def processed_again_by_the_word_of_a_coordinator_nobody_held_up() -> HistoryBuilder:
    return _answered_again(None)


def _doubled_beside_an_answer(*, again: Sequence[int], answered_at: float, answered: int = 2) -> HistoryBuilder:
    """Broker 1 coordinates until 5, and knows 2; its successor knows 4. The second processor reads `again` at 21, and
    makes results of it; the first coordinator tells it `answered`."""
    history = _pipeline()
    for leader, epoch, isr, at in ((1, 0, (1, 2, 3), 0), (2, 1, (2, 3), 5)):
        history.kept_state(("__consumer_offsets", 3), leader, epoch, isr, at=at)
    seen = _processes(history, 1, COMMITTED, (0, 1), at=3, out=0)
    history.fault("cut", [1], at=4.5, until=30)
    history.state(2, 1, (2, 3), at=5, start=4)
    seen += _processes(history, 2, COMMITTED, (2, 3), at=6, out=3)
    history.group("fetched", at=answered_at, process=SECOND_ONE, offset=answered, require_stable=True)
    seen += _processes(history, 3, COMMITTED, again, at=21, out=6, process=SECOND_ONE)
    return _results(history, seen)


@case(
    "the coordinator that is cut off tells it 2, and the processor makes results again from 0 on",
    VIOLATION,
    {"read-process-write violation": 2, "read-process-write observation": 2},
    also=[AGAIN, "group-redelivery violation", "lost-group-offset observation"],
    why="nobody sent it back below 2",
)
def processed_again_from_below_the_word_of_a_deposed_coordinator() -> HistoryBuilder:
    return _doubled_beside_an_answer(again=(0, 1, 2, 3), answered_at=20)


@case(
    "it makes results of 2 and 3 again, and only then that coordinator tells it 2",
    VIOLATION,
    {"read-process-write violation": 2},
    also=[AGAIN, "group-redelivery violation", "lost-group-offset observation"],
    why="what is told afterwards sent nobody back",
)
def processed_again_before_the_word_of_a_deposed_coordinator() -> HistoryBuilder:
    return _doubled_beside_an_answer(again=(2, 3), answered_at=25)


@case(
    "that coordinator tells it 2, and it makes results of 2 and 3 again",
    (PASS, OPEN),
    {"read-process-write observation": 2},
    also=[AGAIN, "lost-group-offset observation"],
    why="an OffsetFetch asks no replica",
)
def processed_again_from_the_word_of_a_deposed_coordinator() -> HistoryBuilder:
    return _doubled_beside_an_answer(again=(2, 3), answered_at=20)
