"""Results that are made again: after the group was forgotten, lawfully or not, after a commit that nobody heard of."""

from collections.abc import Sequence
from typing import Any

from harness.history.facts.internal_topics import partition_of
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import PASS, SOME, VIOLATION, HistoryBuilder, case, led
from workloads.transactions import TransactionsSettings

COMMITTED, UNKNOWN = 0, 2
PRODUCER_ID = 1001
PLACE = partition_of("g", 50)
KEPT = ("__consumer_offsets", PLACE)
AGAIN = "group-redelivery observation"


def _processed_twice(outcome: int, *, copies: Sequence[int] = (1, 2, 3)) -> HistoryBuilder:
    """Two processors of group g: the first makes results of 0 to 3 at second 3, the second once more at second 30."""
    load = TransactionsSettings(group="g", processors=2, output="out")
    history = led(4, topics={"t": {}, "out": {}}, workload=load, system="kafka:4.3.1")
    history.anchors = [{"monotonic_ns": 0, "wall_ns": 0}]
    history.place(1, "out", 0)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.kept_state(KEPT, copies[-1], 0, copies, at=0, replicas=copies)
    for name in ("g-1", "g-2"):  # where it is decided how their transactions end: on no disk that is lost
        history.kept_state(("__transaction_state", partition_of(name, 50)), 1, 0, (1,), at=0, replicas=(1,))
    history.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")
    seen = []
    for number, (at, ended) in enumerate(((3.0, outcome), (30.0, COMMITTED)), start=1):
        process = 30 + number
        own: dict[str, Any] = {"group": "g", "transactional_id": f"g-{number}"}
        history.client(
            process,
            role="both",
            offset_reset="earliest",
            acks=-1,
            isolation="read_committed",
            idempotent=True,
            tells_attempts=True,
            **own,
        )
        history.group("assigned", at=at, process=process, generation=number, offset=0)
        history.reads(process, range(4), at=at + 0.1)
        for source in range(4):
            value, out = (1 << 62) + 10 * number + source, 5 * (number - 1) + source
            history._add("value_names", value=value, name=f"t-0-{source}/{process}.{number}{source}")
            history.send(value, out, at=at + 0.3, partition_id=1, process=process, transaction=number, status=ended)
            seen.append((out, value))
        history.group(
            "committed", at=at + 0.6, process=process, generation=number, offset=4, transaction=number, status=ended
        )
        history.transaction(number, ended, at=at + 0.2, until=at + 1, process=process, **own)
        if number == 1:
            history.group("revoked", at=at + 2, process=process, generation=number)
    history.finish(snapshots=False)
    history.final(seen, partition_id=1)
    history.rows["partitions"][1]["end_offset"] = 10
    return history


WHAT_FOLLOWS = [
    f"{check} {classification}"
    for check in ("group-redelivery", "lost-group-offset", "generation-regression")
    for classification in ("permitted", "violation", "observation")
]


def _wiped(history: HistoryBuilder, node: int) -> HistoryBuilder:
    history.destroyed("wipe", node, "disk", at=20)
    return history.started(node, at=21)


@case(
    "the only copy of the group's partition is wiped between; the inputs come again, and have two results each",
    PASS,
    {"read-process-write permitted": SOME},
    also=[AGAIN, "group-redelivery permitted", "lost-group-offset permitted"],
    why="exactly once is as durable as the group's offsets",
)
def made_again_after_the_group_was_lawfully_forgotten() -> HistoryBuilder:
    return _wiped(_processed_twice(COMMITTED, copies=(3,)), 3)


@case(
    "the same, and the disk that was wiped was another broker's",
    VIOLATION,
    {"read-process-write violation": SOME},
    also=WHAT_FOLLOWS,
    why="the group's only copy is whole",
)
def made_again_though_the_group_was_not_forgotten() -> HistoryBuilder:
    return _wiped(_processed_twice(COMMITTED, copies=(3,)), 2)


@case(
    "the first processor died before it was told; the logs say that it was committed, its offset with it, and its "
    "inputs have two results",
    VIOLATION,
    {"read-process-write violation": SOME},
    also=WHAT_FOLLOWS,
    why="what the coordinator decided is decided, whoever was told: the inputs had to be past",
)
def committed_by_the_log_and_made_again() -> HistoryBuilder:
    history = _processed_twice(UNKNOWN)
    for node in history.brokers:
        history.kept_log(KEPT, node, 2)
    history.kept_offset(PLACE, 4, at=3.605, producer_id=PRODUCER_ID, producer_epoch=0, transactional=True)
    history.kept_marker(PLACE, at=3.95, producer_id=PRODUCER_ID, producer_epoch=0)
    for at, state in ((3.3, "Ongoing"), (3.9, "PrepareCommit"), (3.96, "CompleteCommit")):
        history.decided(state, at=at, transactional_id="g-1", producer_id=PRODUCER_ID, begun_ns=int(3.3 * SECOND))
    return history
