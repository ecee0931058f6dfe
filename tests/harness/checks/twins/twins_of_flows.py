"""Tiny histories of an application from topic in to topic t: what its group committed, and what came out."""

from collections.abc import Sequence

from harness.ports.load import WorkloadSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, SECOND, History, scenario
from tests.harness.checks.twins.twins import failed_over
from tests.harness.checks.twins.twins_of_clients import expecting

BAD, LAWFUL, NOTED = "violation", "permitted", "observation"
SOURCE, READER, WRITER = 1, 41, 2
COMMITTED, ABORTED, UNKNOWN = 0, 1, 2
OUTPUT = 100  # outputs that are told their inputs have these values and more
ALL = (0, 1, 2)


NAME = "application-flow"
_LOST = (Verdict.VIOLATION, {(NAME, "lost", BAD): 1})
_UNKNOWN = (Verdict.INCONCLUSIVE, {(NAME, "lost", NOTED): 1})
_UNDECIDED = (Verdict.INCONCLUSIVE, {(NAME, "undecided", NOTED): 1})
_PASS: tuple[Verdict, dict[tuple[str, str, str], int]] = (Verdict.PASS, {})


def _application(
    *, reads_for: str | None = "g", given: Sequence[int] = ALL, exactly_once: bool = False, with_origins: bool = False
) -> History:
    """Inputs 0 to 2, given to the application's consumer and in the final log. No part of the load is ours."""
    history = History(scenario_=scenario(workload=WorkloadSpec())).state(1, 0, ISR, at=0, start=0)
    history._add("partitions", partition_id=1, topic="in", partition=0, replicas=list(ISR), read_to_end=True)
    history.client(SOURCE, role="producer", idempotent=True)
    history.client(WRITER, role="producer", idempotent=True)
    history.client(READER, role="consumer", reads_for=reads_for, offset_reset="latest", isolation="read_committed")
    for value in ALL:
        history.send(value, value, at=0.5 + value / 100, elapsed_s=0.005, partition_id=1, process=SOURCE)
    if given:
        history.poll([(value, value) for value in given], at=1, process=READER, partition_id=1)
    history.final([(value, value) for value in ALL], partition_id=1)
    history._add(
        "internal_replica_snapshots",
        snapshot=0,
        node=1,
        time_ns=90 * SECOND,
        reason="end",
        topic="__consumer_offsets",
        partition=7,
        log_start_offset=0,
        log_end_offset=10,
        leader_epochs="0:0",
        kept_from=0,
    )
    history._add(
        "flows",
        flow=0,
        input="in",
        output="t",
        group=None,
        exactly_once=exactly_once,
        input_told=with_origins,
        output_told=with_origins,
        asked_ns=50 * SECOND,
    )
    for value in ALL if with_origins else ():
        history._add("value_origins", topic="in", value=value, origin=value)
    return history


def _logged(history: History, *, at: float, **columns: object) -> None:
    rows = history.rows["consumer_offsets"]
    committed = {"kind": "offset", "group": "g", "topic": "in", "topic_partition": 0, "transactional": False}
    placed = {"snapshots": [0], "partition": 7, "offset": len(rows), "time_ns": int(at * SECOND), "removed": False}
    history._add("consumer_offsets", **{**committed, **placed, **columns})


def _commits(history: History, offset: int, *, at: float = 4, **columns: object) -> None:
    _logged(history, at=at, committed_offset=offset, **columns)


def _writes(history: History, values: Sequence[int], *, kept: Sequence[int] | None = None, **columns: object) -> None:
    """Outputs, and the final log of t, which has `kept` of them."""
    for offset, value in enumerate(values):
        history.send(value, offset, at=2 + offset / 10, elapsed_s=0.01, process=WRITER, **columns)  # type: ignore[arg-type]
    history.final([(offset, value) for offset, value in enumerate(values) if kept is None or value in kept])


@expecting(*_PASS)
def every_committed_input_came_out() -> History:
    history = _application()
    _writes(history, ALL)
    _commits(history, 3)
    return history


@expecting(*_LOST)
def committed_before_an_output_was_sent() -> History:
    history = _application()
    _writes(history, (0, 1))
    _commits(history, 3)
    return history


@expecting(*_PASS)
def not_sent_and_not_committed() -> History:
    history = _application()
    _writes(history, (0, 1))
    _commits(history, 2)
    return history


@expecting(*_PASS)
def committed_only_after_the_check_was_asked_for() -> History:
    history = _application()
    _writes(history, (0, 1))
    _commits(history, 2)
    _commits(history, 3, at=51)
    return history


@expecting(*_PASS)
def committed_and_gone_back() -> History:
    """It will be given the input again."""
    history = _application()
    _writes(history, (0, 1))
    _commits(history, 3)
    _commits(history, 2, at=5)
    return history


def _commits_in_a_transaction(history: History, *, commits: bool | None) -> History:
    _writes(history, (0, 1))
    _commits(history, 2)
    _commits(history, 3, at=5, transactional=True, producer_id=4)
    if commits is not None:
        _logged(history, at=6, kind="marker", producer_id=4, transactional=True, commits=commits, group=None)
    return history


@expecting(*_LOST)
def committed_in_a_transaction_and_not_sent() -> History:
    return _commits_in_a_transaction(_application(), commits=True)


@expecting(*_PASS)
def committed_in_a_transaction_that_was_aborted() -> History:
    return _commits_in_a_transaction(_application(), commits=False)


@expecting(*_PASS)
def committed_in_a_transaction_that_never_ended() -> History:
    return _commits_in_a_transaction(_application(), commits=None)


@expecting(*_LOST)
def committed_though_its_output_was_refused() -> History:
    history = _application()
    _writes(history, (0, 1))
    history.send(2, None, at=3, status=1, process=WRITER)
    _commits(history, 3)
    return history


@expecting(*_LOST)
def committed_though_nobody_acknowledged_its_output() -> History:
    history = _application()
    _writes(history, (0, 1))
    history.send(2, None, at=3, status=2, process=WRITER)
    _commits(history, 3)
    return history


@expecting(*_PASS)
def unacknowledged_output_that_is_there() -> History:
    history = _application()
    for value in (0, 1):
        history.send(value, value, at=2 + value / 10, elapsed_s=0.01, process=WRITER)
    history.send(2, None, at=3, status=2, process=WRITER)
    history.final([(value, value) for value in ALL])
    _commits(history, 3)
    return history


@expecting(Verdict.PASS, {("lost-write", "lost", LAWFUL): 1, (NAME, "lost", LAWFUL): 1})
def acknowledged_output_that_a_fail_over_took() -> History:
    history = _application(given=(0,))
    for value in range(10):
        history.send(200 + value if value < 9 else 0, value, at=2 + value / 10, elapsed_s=0.01, acks=1, process=WRITER)
    _commits(history, 1)
    history.rows["flows"][0]["output_told"] = True
    for value in range(9):
        history._add("value_origins", topic="t", value=200 + value, origin=None)
    history._add("value_origins", topic="t", value=0, origin=0)
    failed_over(history, leader=2, isr_before=ISR, kept=9)
    history.rows["records"] = [row for row in history.rows["records"] if row["kind"] != 2 or row["partition_id"] == 1]
    history.rows["replica_log"], history.rows["replica_snapshots"] = [], []
    return history.final([(value, 200 + value) for value in range(9)])


def _lost_beside_a_fail_over(*, cut: bool) -> History:
    """Nothing of input 1 is there, and an output of input 0 went with a leader."""
    history = acknowledged_output_that_a_fail_over_took().poll([(1, 1)], at=1.5, process=READER, partition_id=1)
    _commits(history, 2, at=4.5)
    for row in history.rows["processes"]:
        row["journal_complete"] = not (cut and row["process"] == WRITER)
    return history


@expecting(Verdict.VIOLATION, {("lost-write", "lost", LAWFUL): 1, (NAME, "lost", LAWFUL): 1, (NAME, "lost", BAD): 1})
def never_sent_and_another_output_is_lost() -> History:
    return _lost_beside_a_fail_over(cut=False)


@expecting(
    Verdict.INCONCLUSIVE, {("lost-write", "lost", LAWFUL): 1, (NAME, "lost", LAWFUL): 1, (NAME, "lost", NOTED): 1}
)
def never_sent_as_far_as_a_journal_without_its_end_tells_and_another_output_is_lost() -> History:
    return _lost_beside_a_fail_over(cut=True)


@expecting(Verdict.INCONCLUSIVE, {(NAME, "lost", NOTED): 3})
def nobody_who_was_recorded_wrote() -> History:
    history = _application()
    history.rows["processes"] = [row for row in history.rows["processes"] if row["process"] != WRITER]
    history.final([])
    _commits(history, 3)
    return history


@expecting(Verdict.VIOLATION, {(NAME, "lost", BAD): 3})
def a_recorded_producer_never_wrote() -> History:
    history = _application().final([])
    _commits(history, 3)
    return history


@expecting(Verdict.VIOLATION, {("phantom", "nobody-sent-it", BAD): 1, (NAME, "lost", NOTED): 1})
def somebody_who_was_not_recorded_wrote_too() -> History:
    history = _application().send(1, 0, at=2, elapsed_s=0.01, process=WRITER)
    history.final([(0, 1), (1, 0)])
    _commits(history, 3)
    return history


def _in_an_open_transaction(history: History) -> History:
    """Output 2 is in the log, and nobody knows what became of its transaction."""
    _writes(history, (0, 1))
    history.send(2, 2, at=3, status=2, transaction=0, process=WRITER)
    history.transaction(0, UNKNOWN, at=2.9, until=3.2, process=WRITER)
    history.poll([(2, 2)], at=100, final=True, process=99)
    history.partition["end_offset"] = 3
    return history


@expecting(*_UNKNOWN)
def committed_though_its_output_may_be_aborted() -> History:
    history = _in_an_open_transaction(_application())
    _commits(history, 3)
    return history


@expecting(*_PASS)
def committed_with_its_output_as_a_whole() -> History:
    history = _in_an_open_transaction(_application())
    _commits(history, 3, transactional=True, producer_id=4)
    _logged(history, at=6, kind="marker", producer_id=4, transactional=True, commits=True, group=None)
    return history


@expecting(*_PASS)
def never_given_to_the_application() -> History:
    """Its group had begun at the end of the log."""
    history = _application(given=(1, 2))
    _writes(history, (1, 2))
    _commits(history, 3)
    return history


@expecting(*_UNKNOWN)
def given_to_somebody_of_whom_nobody_told_the_group() -> History:
    history = _application(reads_for=None)
    _writes(history, (0, 1))
    _commits(history, 3)
    return history


@expecting(*_PASS)
def given_to_somebody_who_is_in_no_group() -> History:
    history = _application(reads_for="")
    _writes(history, (0, 1))
    _commits(history, 3)
    return history


@expecting(*_UNDECIDED)
def two_groups_and_nobody_told_which_is_the_applications() -> History:
    history = _application(reads_for=None)
    _writes(history, (0, 1))
    _commits(history, 3)
    _commits(history, 3, group="audit")
    return history


@expecting(*_LOST)
def two_groups_of_which_one_reads_for_the_application() -> History:
    history = _application()
    _writes(history, (0, 1))
    _commits(history, 3)
    _commits(history, 1, group="audit")
    return history


@expecting(*_UNDECIDED)
def nobody_committed_anything() -> History:
    history = _application()
    _writes(history, (0, 1))
    return history


@expecting(*_UNKNOWN)
def output_topic_not_read_to_its_end() -> History:
    history = committed_before_an_output_was_sent()
    history.partition["read_to_end"] = False
    return history


def _with_origins(*, exactly_once: bool = False, reads_for: str | None = "g", given: Sequence[int] = ALL) -> History:
    history = _application(with_origins=True, exactly_once=exactly_once, reads_for=reads_for, given=given)
    _commits(history, 3)
    return history


def _writes_told(history: History, origins: Sequence[int | None], *, unnamed: Sequence[int] = ()) -> None:
    values = [OUTPUT + place for place in range(len(origins))]
    _writes(history, values)
    for value, origin in zip(values, origins, strict=True):
        if value - OUTPUT not in unnamed:
            history._add("value_origins", topic="t", value=value, origin=origin)


@expecting(*_PASS)
def outputs_that_were_told_their_inputs() -> History:
    history = _with_origins()
    _writes_told(history, [2, 0, None, 1])
    return history


@expecting(*_LOST)
def outputs_that_were_told_their_inputs_and_one_lacks() -> History:
    history = _with_origins()
    _writes_told(history, [2, 0, None])
    return history


@expecting(*_UNKNOWN)
def an_output_that_was_not_told_its_input() -> History:
    history = _with_origins()
    _writes_told(history, [2, 0, 1], unnamed=[2])
    return history


@expecting(Verdict.INCONCLUSIVE, {(NAME, "lost", NOTED): 3})
def outputs_of_inputs_that_nobody_knows() -> History:
    """Whoever asked forgot to say which output is of which input."""
    history = _application()
    _commits(history, 3)
    _writes(history, (7, 8, 9))
    return history


@expecting(*_PASS)
def an_input_that_needs_no_output() -> History:
    history = _with_origins()
    _writes_told(history, [0, 1])
    history.rows["value_origins"][2]["origin"] = None
    return history


@expecting(*_PASS)
def sent_twice_at_least_once() -> History:
    history = _with_origins()
    _writes_told(history, [0, 1, 2, 2])
    return history


@expecting(Verdict.VIOLATION, {(NAME, "doubled", BAD): 1})
def sent_twice_exactly_once() -> History:
    history = _with_origins(exactly_once=True)
    _writes_told(history, [0, 1, 2, 2])
    return history


def _sent_twice_by_whom_nobody_recorded_reading(**of_the_input: object) -> History:
    """With an input that nobody sees, of the same id, each output would have its own."""
    history = _with_origins(exactly_once=True, reads_for="", given=())
    _writes_told(history, [0, 1, 2, 2])
    (place,) = [row for row in history.rows["partitions"] if row["topic"] == "in"]
    place |= of_the_input
    return history


@expecting(Verdict.VIOLATION, {(NAME, "doubled", BAD): 1})
def sent_twice_by_whom_nobody_recorded_reading() -> History:
    return _sent_twice_by_whom_nobody_recorded_reading(log_start_offset=0)


@expecting(Verdict.INCONCLUSIVE, {(NAME, "doubled", NOTED): 1})
def sent_twice_and_the_input_is_not_read_to_its_end() -> History:
    return _sent_twice_by_whom_nobody_recorded_reading(log_start_offset=0, read_to_end=False)


@expecting(Verdict.INCONCLUSIVE, {(NAME, "doubled", NOTED): 1})
def sent_twice_and_the_first_inputs_are_there_no_more() -> History:
    return _sent_twice_by_whom_nobody_recorded_reading(log_start_offset=1)


@expecting(Verdict.PASS, {("lost-write", "lost", LAWFUL): 1, (NAME, "doubled", LAWFUL): 1})
def sent_twice_after_its_inputs_were_lawfully_lost_and_they_are_not_read_to_their_end() -> History:
    """From t to in: a fail-over takes the last input, which nobody had in sync."""
    history = _with_origins(exactly_once=True, reads_for="", given=())
    history.rows["flows"][0].update(input="t", output="in")
    for value, row in zip((0, 1, 1), history.rows["value_origins"], strict=True):
        row["origin"] = value
    for value in range(10):
        history.send(200 + value, value, at=2 + value / 10, elapsed_s=0.01, acks=1, process=SOURCE)
        history._add("value_origins", topic="t", value=200 + value, origin=value)
    _commits(history, 3, topic="t")
    failed_over(history, leader=2, isr_before=ISR, kept=9)
    history.rows["records"] = [row for row in history.rows["records"] if row["kind"] != 2 or row["partition_id"] == 1]
    history.rows["replica_log"], history.rows["replica_snapshots"] = [], []
    return history.final([(value, 200 + value) for value in range(9)])


@expecting(*_PASS)
def sent_once_exactly_once() -> History:
    history = _with_origins(exactly_once=True)
    _writes_told(history, [0, 1, 2])
    return history


@expecting(*_PASS)
def sent_twice_and_once_in_an_aborted_transaction() -> History:
    history = _with_origins(exactly_once=True)
    _writes_told(history, [0, 1, 2])
    history.send(OUTPUT + 3, 3, at=3, status=1, transaction=0, process=WRITER)
    history.transaction(0, ABORTED, at=2.9, until=3.2, process=WRITER)
    history.poll([(3, OUTPUT + 3)], at=100, final=True, process=99)
    history.partition["end_offset"] = 4
    history._add("value_origins", topic="t", value=OUTPUT + 3, origin=2)
    return history


@expecting(*_PASS)
def sent_once_for_each_of_two_inputs_of_one_id() -> History:
    history = _with_origins(exactly_once=True)
    _writes_told(history, [0, 1, 1])
    history.rows["value_origins"][2]["origin"] = 1
    return history


@expecting(Verdict.INCONCLUSIVE, {("lost-write", "undecided", NOTED): 1, (NAME, "doubled", NOTED): 1})
def sent_twice_after_its_inputs_were_lost() -> History:
    """Who commits to a log that was cut reads another record, or the same again."""
    history = _with_origins(exactly_once=True)
    _writes_told(history, [0, 1, 2, 2])
    return history.send(50, 3, at=5, acks=1, process=SOURCE, partition_id=1)
