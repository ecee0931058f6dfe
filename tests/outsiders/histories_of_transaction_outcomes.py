"""What became of transactions, by what clients were told: committed, aborted, unknown, or never begun at a broker."""

from typing import Any

from harness.history.facts.values import NAMED_FROM
from tests.outsiders.history_builder import PASS, SOME, VACUOUS, VIOLATION, HistoryBuilder, case, led
from workloads.transactions import TransactionsSettings

COMMITTED, ABORTED, UNKNOWN, NEVER_BEGUN = 0, 1, 2, 3
PROCESSOR, READER = 21, 9


def _load(**more: Any) -> HistoryBuilder:
    """Inputs of a load of transactions, and its clients."""
    history = led(10, workload=TransactionsSettings(group="g", processors=1, output="results"), **more)
    history.client(PROCESSOR, role="both", group="g", transactional_id="g-1", isolation="read_committed", acks=-1)
    return history.client(READER, role="consumer", isolation="read_committed")


def _ends(*outcomes: int, **more: Any) -> HistoryBuilder:
    history = _load(**more)
    for number, outcome in enumerate(outcomes):
        history.transaction(
            number, outcome, at=3 + number, until=3.5 + number, process=PROCESSOR, transactional_id="g-1"
        )
    return history.finish()


@case("a load of transactions, and all five were aborted", VACUOUS, why="what commits promise was never asked for")
def all_were_aborted() -> HistoryBuilder:
    return _ends(*[ABORTED] * 5)


@case("the same, and one was committed", PASS, why="what that one promised was looked at")
def all_but_one_were_aborted() -> HistoryBuilder:
    return _ends(*[ABORTED] * 4, COMMITTED)


@case("a load of transactions that begins none", VACUOUS, why="no promise was made")
def none_was_begun() -> HistoryBuilder:
    return _ends()


@case("every transaction was refused by the client: the broker does not offer them", VACUOUS, why="none was committed")
def none_reached_a_broker() -> HistoryBuilder:
    return _ends(*[NEVER_BEGUN] * 3)


@case("all were aborted, and the scenario says so beforehand", PASS, why="that is what it is about")
def all_were_aborted_as_foreseen() -> HistoryBuilder:
    return _ends(ABORTED, ABORTED, coverage={"transactions_committed": "= 0", "transactions_aborted": "2"})


@case(
    "it wants an aborted one, and both were refused by the client",
    VACUOUS,
    why="what no broker was told of was not aborted",
)
def refused_is_not_aborted() -> HistoryBuilder:
    return _ends(NEVER_BEGUN, NEVER_BEGUN, COMMITTED, coverage={"transactions_aborted": "1"})


def _of_unknown_outcome(*, seen: bool) -> HistoryBuilder:
    history = _load().transaction(1, UNKNOWN, at=3, until=4, process=PROCESSOR, transactional_id="g-1")
    history.send(70, 10, at=3.2, status=2, process=PROCESSOR, transaction=1)
    if seen:
        history.log.append((10, 0, 70))
        history.poll([(10, 70)], at=5)
    return history.finish()


@case("nobody knows the outcome of the only one, and nobody saw it committed", VACUOUS, why="it may have been aborted")
def nobody_saw_it_committed() -> HistoryBuilder:
    return _of_unknown_outcome(seen=False)


@case("nobody was told its outcome, and a reader of committed records has one of it", PASS, why="it was committed")
def a_reader_saw_it_committed() -> HistoryBuilder:
    return _of_unknown_outcome(seen=True)


def _read_openly(outcome: int) -> HistoryBuilder:
    """A reader of everything returns a record of a transaction with this outcome."""
    history = led(10).client(PROCESSOR, role="both", transactional_id="p", acks=-1)
    history.client(READER, role="consumer", isolation="read_uncommitted")
    history.transaction(1, outcome, at=3, until=4, process=PROCESSOR, transactional_id="p")
    history.send(70, None, at=3.2, status=1, process=PROCESSOR, transaction=1)
    return history.poll([(10, 70)], at=3.5).finish()


@case(
    "a reader of everything returns a record that was sent in a transaction that no broker was told of",
    VIOLATION,
    {"aborted-read violation": {70}},
    why="it was refused, so that there is nothing to read",
    also=("dirty-read violation", "dirty-read permitted", "dirty-read observation"),
)
def read_though_it_was_never_begun() -> HistoryBuilder:
    return _read_openly(NEVER_BEGUN)


@case("the same of an aborted transaction", PASS, why="readers of everything may return it")
def read_before_it_was_aborted() -> HistoryBuilder:
    return _read_openly(ABORTED)


def _successor(outcome: int) -> HistoryBuilder:
    """A producer whose two first transactions end so, and then one of its id that began before it commits."""
    history = led(10)
    for process in (PROCESSOR, PROCESSOR + 1):
        history.client(process, role="both", transactional_id="p", acks=-1)
    history.transaction(1, COMMITTED, at=3, until=4, process=PROCESSOR, transactional_id="p")
    history.transaction(2, outcome, at=5, until=6, process=PROCESSOR + 1, transactional_id="p")
    history.transaction(3, outcome, at=6.5, until=7, process=PROCESSOR + 1, transactional_id="p")
    return history.transaction(4, COMMITTED, at=8, until=9, process=PROCESSOR, transactional_id="p").finish()


@case(
    "a newer producer aborted two transactions, and the one before it commits",
    VIOLATION,
    {"zombie-transaction violation": SOME},
    why="its second transaction says that it got an epoch, which fences the other",
)
def fenced_by_one_that_aborted() -> HistoryBuilder:
    return _successor(ABORTED)


@case("the newer one was refused twice by its client", PASS, why="it may never have got an epoch")
def not_fenced_by_one_that_never_began() -> HistoryBuilder:
    return _successor(NEVER_BEGUN)


def _fetched(offset: int, *, outputs: int) -> HistoryBuilder:
    """A transaction over the inputs 0 to 3 whose outcome nobody was told; this many of its outputs are in the final
    log, which is what read_committed readers get, and then a member of the group asks for the group's offset."""
    history = led(4, topics={"t": {}, "results": {}}).place(1, "results", 0)
    history.state(1, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.client(PROCESSOR, role="both", group="g", transactional_id="g-1", offset_reset="earliest", acks=-1)
    for process in (READER, 99):
        history.client(process, role="consumer", isolation="read_committed")
    history.client(22, role="consumer", group="g", offset_reset="earliest")
    history.group("assigned", at=2.5, process=PROCESSOR, generation=1, offset=0)
    history.reads(PROCESSOR, range(4), at=3)
    history.transaction(1, UNKNOWN, at=4, until=6, process=PROCESSOR, transactional_id="g-1", group="g")
    for place in range(4):
        value = NAMED_FROM + place
        history._add("value_names", value=value, name=f"t-0-{place}/{PROCESSOR}.{place}")
        history.send(value, place, at=5, status=2, process=PROCESSOR, transaction=1, partition_id=1)
    history.group("committed", at=5.5, process=PROCESSOR, generation=1, offset=4, transaction=1, status=2)
    history.group("fetched", at=50, process=22, offset=offset)
    history.finish()
    return history.final([(place, NAMED_FROM + place) for place in range(outputs)], partition_id=1)


@case(
    "nobody was told its outcome; the group's offset is answered as it had been sent, and no output is there",
    VIOLATION,
    {"read-process-write violation": SOME},
    why="what is fetched lawfully was committed, and the outputs with it",
)
def fetched_and_no_output() -> HistoryBuilder:
    return _fetched(4, outputs=0)


@case("the same, and its outputs are there", PASS, why="it was committed as a whole")
def fetched_and_all_outputs() -> HistoryBuilder:
    return _fetched(4, outputs=4)
