"""Situations are counted from the tables of a run alone."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.campaign.situations import Outline, Situation, Situations, situations_of
from harness.history.run_folder import RunFolder
from harness.history.schema.cluster_rows import ControllerRow, FaultRow, PartitionStateRow
from harness.history.schema.schemas import KIND_SEND, TABLES
from tests.reports.stories.build_run import FixedClock
from tests.rows import row_of

S = 1_000_000_000


def state(at_s: float, leader: int, epoch: int, isr: list[int], **more: Any) -> PartitionStateRow:
    fields: dict[str, Any] = {
        "run": 0,
        "topic": "orders",
        "partition": 0,
        "exact": True,
        "observer": -1,
        "replicas": [1, 2, 3],
    }
    return row_of(
        PartitionStateRow, **{**fields, **more}, time_ns=int(at_s * S), leader=leader, leader_epoch=epoch, isr=isr
    )


def fault(number: int, kind: str, nodes: list[int], begin_s: float | None, end_s: float | None = None) -> FaultRow:
    return row_of(
        FaultRow,
        run=0,
        fault=number,
        kind=kind,
        nodes=nodes,
        proved=begin_s is not None,
        asked_ns=None if begin_s is None else int(begin_s * S),
        begin_ns=None if begin_s is None else int(begin_s * S),
        end_ns=None if end_s is None else int(end_s * S),
    )


def counted(
    folder: Path,
    faults: list[FaultRow],
    states: list[PartitionStateRow],
    sends: list[tuple[float, float]],
    controller: int = 4,
) -> Counter[Situation]:
    run = RunFolder.create(folder, scenario="drawn", clock=FixedClock(), seed=1, stamp="20261123-120000")
    records = [
        dict.fromkeys(TABLES["records"].names)
        | {
            "run": 0,
            "kind": KIND_SEND,
            "status": 0,
            "operation": 0,
            "process": 1,
            "assignment": 0,
            "topic": "orders",
            "partition": 0,
            "partition_id": 0,
            "acks": -1,
            "offset": number,
            "position": 0,
            "value": number,
            "invoked_ns": int(sent * S),
            "completed_ns": int(done * S),
        }
        for number, (sent, done) in enumerate(sends)
    ]
    controllers = [row_of(ControllerRow, run=0, time_ns=0, node=controller)]
    tables = {"faults": faults, "partition_states": states, "controllers": controllers, "records": records}
    for name, rows in tables.items():
        run.write_table(name, pa.Table.from_pylist(rows, schema=TABLES[name]))
    return situations_of(run)


def situation(kind: str, role: Any, isr_size: int, **more: Any) -> Situation:
    fields: dict[str, Any] = {"epoch_change": False, "in_flight": "nothing", "before": ""}
    return Situation(kind=kind, role=role, isr_size=isr_size, **{**fields, **more})


def test_role_isr_epoch_records_in_flight_and_the_fault_before_make_a_situation(tmp_path: Path) -> None:
    states = [state(0, 1, 0, [1, 2, 3]), state(9, 1, 0, [1, 2]), state(11, 2, 1, [2])]
    faults = [
        fault(0, "kill", [3], 8.0, 8.5),
        fault(1, "cut", [1, 3], 10.0, 10.5),
        fault(2, "pause", [2], 12.0, 13.0),
        fault(3, "power-loss", [4], 20.0),
        fault(4, "kill", [2], None),
    ]

    assert counted(tmp_path, faults, states, [(9.9, 10.1), (14, 15)]) == Counter(
        [
            situation("kill", "follower", 3),
            situation("cut", "leader", 2, in_flight="records", before="kill"),
            situation("cut", "out_of_isr", 2, in_flight="records", before="kill"),
            situation("pause", "leader", 1, epoch_change=True, before="cut"),
            situation("power-loss", "controller", 1),
        ]
    )


def test_what_brokers_said_counts_only_where_the_books_are_not_there(tmp_path: Path) -> None:
    polled = state(0, 2, 5, [2], exact=False, observer=1)
    kill = [fault(0, "kill", [1], 5.0)]

    assert counted(tmp_path / "both", kill, [state(0, 1, 0, [1, 2, 3]), polled], []) == Counter(
        [situation("kill", "leader", 3)]
    )
    assert counted(tmp_path / "polled", kill, [polled], []) == Counter([situation("kill", "out_of_isr", 1)])


def test_a_fault_of_no_node_has_no_role(tmp_path: Path) -> None:
    found = counted(tmp_path, [fault(0, "election", [], 5.0)], [state(0, 1, 0, [1, 2])], [])

    assert found == Counter([situation("election", "other", 2)])


def test_what_was_never_reached_is_worth_most_and_is_reported() -> None:
    once = Situations(reached=Counter([situation("kill", "leader", 3)]))
    both = once + Situations(reached=Counter([situation("kill", "leader", 2, epoch_change=True)]))
    leader, follower = (Outline(kind="kill", role=role, before="") for role in ("leader", "follower"))

    assert both.worth(follower) == 1 > once.worth(leader) > both.worth(leader)
    assert leader not in both.never(["kill"])
    assert follower in both.never(["kill"])
    assert len(both.never(["kill"])) == 4 * 2 - 1
