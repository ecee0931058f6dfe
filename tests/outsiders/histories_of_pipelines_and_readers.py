"""Pipelines that meet trouble, committed readers beside readers of everything, tools, and producer ids."""

from collections.abc import Sequence

from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led
from workloads.transactions import TransactionsSettings

COMMITTED, ABORTED, UNKNOWN, NEVER_BEGUN = 0, 1, 2, 3
FIRST = 31
OUTPUTS = 1 << 62
AGAIN = "group-redelivery observation"
UNCLEAN = "unclean.leader.election.enable"
Result = tuple[int, int, int]  # partition_id, offset, value


def _pipeline(
    *, processors: int = 3, groups: Sequence[str] = (), isolation: str = "read_committed", system: str = "reference"
) -> HistoryBuilder:
    """Inputs 0 to 3 of t-0; results go to out-0 and out-1 (numbers 1 and 2)."""
    load = TransactionsSettings(group="g", processors=processors, output="out")
    history = led(4, topics={"t": {}, "out": {}}, workload=load, system=system)
    for partition_id in (1, 2):
        history.place(partition_id, "out", partition_id - 1)
        history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=partition_id)
    for number in range(processors):
        group = groups[number] if groups else "g"
        history.client(
            FIRST + number,
            role="both",
            group=group,
            transactional_id=f"{group}-{number}",
            offset_reset="earliest",
            acks=-1,
            isolation="read_committed",
            idempotent=True,
            tells_attempts=True,
            group_protocol="classic",
        )
    return history.client(99, role="consumer", isolation=isolation, offset_reset="earliest")


def _processes(
    history: HistoryBuilder,
    transaction: int,
    outcome: int,
    inputs: Sequence[int],
    *,
    at: float,
    out: Sequence[tuple[int, int]],
    number: int = 0,
    generation: int = 1,
    group: str = "g",
) -> list[Result]:
    """One transaction of processor `number`: a result for each input, at these places (partition_id, offset)."""
    process = FIRST + number
    history.group("assigned", at=at, process=process, generation=generation, offset=inputs[0], name=group)
    history.reads(process, inputs, at=at + 0.1, assignment=transaction)
    made: list[Result] = []
    for source, (partition_id, offset) in zip(inputs, out, strict=True):
        value = OUTPUTS + len(history.rows["value_names"])
        history._add("value_names", value=value, name=f"t-0-{source}/{process}.{value - OUTPUTS}")
        history.send(
            value,
            offset,
            at=at + 0.3,
            partition_id=partition_id,
            process=process,
            transaction=transaction,
            status=outcome,
        )
        made.append((partition_id, offset, value))
    history.group(
        "committed",
        at=at + 0.6,
        process=process,
        generation=generation,
        offset=inputs[-1] + 1,
        transaction=transaction,
        status=outcome,
        name=group,
    )
    history.transaction(
        transaction,
        outcome,
        at=at + 0.2,
        until=at + 1,
        process=process,
        group=group,
        transactional_id=f"{group}-{number}",
    )
    return made


def _seen(history: HistoryBuilder, results: Sequence[Result], *, end: int = 20) -> HistoryBuilder:
    history.finish(snapshots=False)
    for partition_id in (1, 2):
        history.final(
            [(offset, value) for at, offset, value in results if at == partition_id], partition_id=partition_id
        )
        history.rows["partitions"][partition_id]["end_offset"] = end
    return history


# ---- pipelines -----------------------------------------------------------------------------------------------------


@case(
    "a pipeline's first attempt is aborted and made again by another; the last reader asked for everything "
    "and has both",
    PASS,
    also=[AGAIN],
    why="results of an aborted transaction do not count, whoever reads them",
)
def aborted_results_read_by_a_reader_of_everything() -> HistoryBuilder:
    history = _pipeline(isolation="read_uncommitted")
    first = _processes(history, 1, ABORTED, (0, 1), at=3, out=[(1, 0), (2, 0)])
    second = _processes(history, 2, COMMITTED, (0, 1), at=6, out=[(1, 2), (2, 2)], number=1, generation=2)
    return _seen(history, [*first, *second])


@case(
    "three processors in turn: the first commits, the second is fenced and was told nothing, its coordinator "
    "aborted it, "
    "the third does its work",
    PASS,
    also=[AGAIN],
    why="each input has one result that counts",
)
def fenced_in_the_middle_of_a_pipeline() -> HistoryBuilder:
    history = _pipeline()
    results = _processes(history, 1, COMMITTED, (0, 1), at=3, out=[(1, 0), (2, 0)])
    _processes(history, 2, UNKNOWN, (2, 3), at=6, out=[(1, 2), (2, 2)], number=1, generation=2)
    history.decided("CompleteAbort", at=9, transactional_id="g-1", begun_ns=int(6.25 * SECOND))
    results += _processes(history, 3, COMMITTED, (2, 3), at=12, out=[(1, 4), (2, 4)], number=2, generation=3)
    return _seen(history, results)


@case(
    "a processor's transaction timed out behind its back; its commit is refused, and its successor does the work",
    PASS,
    also=[AGAIN],
    why="what was refused with INVALID_PRODUCER_EPOCH is aborted",
)
def timed_out_processor() -> HistoryBuilder:
    history = _pipeline(system="kafka:4.3.1")
    _processes(history, 1, ABORTED, (0, 1, 2, 3), at=3, out=[(1, 0), (1, 1), (2, 0), (2, 1)])
    history.rows["transactions"][-1] |= {"completed_ns": 70 * SECOND, "error": "InvalidProducerEpoch"}
    results = _processes(
        history, 2, COMMITTED, (0, 1, 2, 3), at=72, out=[(1, 4), (1, 5), (2, 4), (2, 5)], number=1, generation=2
    )
    return _seen(history, results)


@case(
    "two pipelines read the same inputs, each for a group of its own, and each commits a result for every input",
    PASS,
    why="what several groups process has a result of each",
)
def two_pipelines_over_the_same_inputs() -> HistoryBuilder:
    history = _pipeline(processors=2, groups=("g", "h"))
    results = _processes(history, 1, COMMITTED, (0, 1, 2, 3), at=3, out=[(1, n) for n in range(4)])
    results += _processes(
        history, 2, COMMITTED, (0, 1, 2, 3), at=3.2, out=[(2, n) for n in range(4)], number=1, group="h"
    )
    return _seen(history, results)


def _half_cut(*, allowed: bool) -> HistoryBuilder:
    """Two results in out-0 and two in out-1, committed; then out-1 has an unclean election, to an empty log."""
    history = _pipeline(system="kafka:4.3.1")
    results = _processes(history, 1, COMMITTED, (0, 1, 2, 3), at=3, out=[(1, 0), (1, 1), (2, 0), (2, 1)])
    if allowed:
        history.configured(UNCLEAN, "true", name="out")
    history.state(2, 0, (2,), at=2.1, partition_id=2)
    history.fault("kill", [2], at=10, until=20)
    history.state(-1, 1, (2,), at=11, partition_id=2)
    history.state(1, 2, (1,), at=12, start=0, partition_id=2)
    history.state(1, 2, (1, 2, 3), at=22, partition_id=2)
    history.state(1, 1, (1, 3), at=11, start=4, partition_id=1)
    history.state(1, 1, (1, 2, 3), at=22, partition_id=1)
    return _seen(history, [each for each in results if each[0] == 1], end=0)


@case(
    "half of a pipeline's committed results are lost in an unclean election of their partition that its topic allows",
    PASS,
    {
        "lost-write permitted": 2,
        "torn-transaction permitted": SOME,
        "read-process-write permitted": SOME,
        "unclean-election permitted": SOME,
    },
    why="what is missing is what the loss is",
)
def half_of_the_results_lost_lawfully() -> HistoryBuilder:
    history = _half_cut(allowed=True)
    history.rows["partitions"][1]["end_offset"] = 20
    return history


@case(
    "the same, and nothing allows it",
    VIOLATION,
    {
        "lost-write violation": 2,
        "torn-transaction violation": SOME,
        "read-process-write violation": SOME,
        "unclean-election violation": SOME,
    },
    why="an election outside the ISR that nobody allowed",
)
def half_of_the_results_lost() -> HistoryBuilder:
    history = _half_cut(allowed=False)
    history.rows["partitions"][1]["end_offset"] = 20
    return history


# ---- two isolations ------------------------------------------------------------------------------------------------


def _two_isolations(*, committed_reader: Sequence[int], system: str = "kafka:4.3.1") -> HistoryBuilder:
    """Plain 0 to 2 and 6; an aborted transaction's 3 and 4, its marker at 5. Groups g (committed) and u "
    "(everything)."""
    history = HistoryBuilder(system=system).state(1, 0, (1, 2, 3), at=0, start=0)
    history.client(5, role="producer", transactional_id="p", acks=-1, idempotent=True, tells_attempts=True)
    for process, group, isolation in ((11, "g", "read_committed"), (12, "u", "read_uncommitted")):
        history.client(
            process,
            role="consumer",
            group=group,
            isolation=isolation,
            offset_reset="earliest",
            group_protocol="classic",
        )
    history.client(99, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    for value in (0, 1, 2):
        history.ack(value, at=1 + value / 10)
    history.transaction(1, ABORTED, at=1.9, until=3, process=5, transactional_id="p")
    for value in (3, 4):
        history.send(value, value, at=2 + value / 10, process=5, transaction=1, status=ABORTED)
        history.log.append((value, 0, value))
    history.send(6, 6, at=4)
    history.log.append((6, 0, 6))
    for process, group, given in ((11, "g", committed_reader), (12, "u", (0, 1, 2, 3, 4, 6))):
        history.group("assigned", at=5, process=process, generation=1, offset=0, name=group)
        history.reads(process, given, at=6)
        history.group("committed", at=7, process=process, generation=1, offset=7, name=group)
    return history.finish()


@case(
    "a committed group and a group of everything read an aborted transaction's partition, and commit the same offset",
    PASS,
    why="the one is not given what the other is",
)
def two_groups_of_two_isolations() -> HistoryBuilder:
    return _two_isolations(committed_reader=(0, 1, 2, 6))


@case(
    "the same, and the committed group is given one of the aborted records",
    VIOLATION,
    {"aborted-read violation": {4}},
    why="its abort had been answered three seconds before",
)
def committed_group_is_given_an_aborted_record() -> HistoryBuilder:
    return _two_isolations(committed_reader=(0, 1, 2, 4, 6))


@case(
    "a transaction that no broker was told of; the same values are sent again in one that commits, and are there once",
    PASS,
    why="what never began left nothing",
)
def never_begun_and_made_again() -> HistoryBuilder:
    history = led(3, system="kafka:4.3.1")
    history.client(5, role="producer", transactional_id="p", acks=-1, idempotent=True, tells_attempts=True)
    history.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")
    for transaction, outcome, status, at in ((1, NEVER_BEGUN, 1, 3.0), (2, COMMITTED, 0, 5.0)):
        history.transaction(transaction, outcome, at=at, until=at + 1, process=5, transactional_id="p")
        for number in range(2):
            offset = None if status else 3 + number
            history.send(
                50 + number, offset, at=at + 0.1 + number / 10, process=5, transaction=transaction, status=status
            )
    history.log += [(3, 0, 50), (4, 0, 51)]
    history.finish()
    history.partition["end_offset"] = 6
    return history


@case(
    "a transaction's partition loses its leader for good before the end was decided; its coordinator goes on",
    (PASS, OPEN),
    also=["hanging-transaction observation", "unseen-tail observation", "unreadable observation"],
    why="a marker is written to a leader, and there was none",
)
def no_leader_to_take_the_marker() -> HistoryBuilder:
    history = led(3, system="kafka:4.3.1", brokers=(1,))
    history.anchors = [{"monotonic_ns": 0, "wall_ns": 0}]
    history.client(5, role="producer", transactional_id="p", acks=-1, idempotent=True, tells_attempts=True)
    history.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")
    history.transaction(1, ABORTED, at=3.9, until=12, process=5, transactional_id="p")
    history.send(50, 3, at=4, process=5, transaction=1, status=ABORTED)
    history.log.append((3, 0, 50))
    history.fault("kill", [1], at=8)
    history.state(-1, 1, (1,), at=9)
    history.replica(1, history.log, at=110, high_watermark=4)
    history.rows["replica_snapshots"][-1]["open_transactions"] = [
        {"producer_id": 1001, "producer_epoch": 0, "begun_ms": 4_000, "first_offset": 3, "last_offset": 3}
    ]
    history.partition["read_to_end"] = False
    return history


# ---- producer ids ------------------------------------------------------------------------------------------------


def _ids(places: Sequence[tuple[str, int]], *, wiped: bool = False) -> HistoryBuilder:
    """The coordinators' log names these transactional ids with these producer ids, two seconds apart."""
    history = led(5, system="kafka:4.3.1")
    history._add("controllers", time_ns=0, uncertainty_ns=0, node=100, controller_epoch=1)
    if wiped:
        history.destroyed("wipe", 100, "disk", at=3, until=4)
    for number, (transactional_id, producer_id) in enumerate(places):
        at = 5.0 + 2 * number
        history.decided("Empty", at=at, transactional_id=transactional_id, producer_id=producer_id)
    return history.finish()


@case(
    "the coordinators' log gives two transactional ids one producer id, and nothing was done to the controllers",
    VIOLATION,
    {"shared-producer-id violation": SOME},
    why="KIP-98: a producer id is unique in the cluster",
)
def two_ids_with_one_producer_id() -> HistoryBuilder:
    return _ids([("orders", 1000), ("bills", 1000)])


@case(
    "the same, and the controller's disk had been wiped before",
    OPEN,
    {"shared-producer-id observation": SOME},
    why="the controllers may have forgotten which block they had handed out",
)
def two_ids_with_one_producer_id_after_a_wipe() -> HistoryBuilder:
    return _ids([("orders", 1000), ("bills", 1000)], wiped=True)


@case(
    "one transactional id has two producer ids one after the other, and the one beside it a third",
    PASS,
    why="the epochs of the first were used up",
)
def one_id_with_two_producer_ids() -> HistoryBuilder:
    return _ids([("orders", 1000), ("bills", 1001), ("orders", 2000)])
