"""Groups and transactions on real Kafka and on the reference: what members, processors and coordinators did stands in
the tables."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.history.facts.internal_topics import partition_of
from tests.end_to_end.shell import Shell
from tests.end_to_end.test_real_kafka import needs
from tests.outputs import decode_output

ROOT = Path(__file__).resolve().parents[2]
Rows = Sequence[Mapping[str, Any]]


def rows_of(folder: Path, table: str) -> Rows:
    rows: Rows = pq.read_table(folder / "tables" / f"{table}.parquet").to_pylist()
    return rows


# A run and its tables, without the verdict: that is what `scenarios --verify` is for.
RUN = """
import sys
from pathlib import Path
from harness.__main__ import leave
from harness.compose import run_scenario
from harness.preflight.looking import ready
changed = ["cluster.system=" + sys.argv[2], "workload.client=" + sys.argv[3], "workload.duration=8"]
scenario = ready(sys.argv[1], overrides=changed)
folder, outcome = run_scenario(
    scenario, runs=Path("runs"), seed=1, command=["a test"], progress=lambda _: None,
)
print(outcome)
leave(0 if outcome.status == "complete" and not outcome.inconclusive else 1)
"""


SYSTEMS = ("kafka:4.3.1", "reference")


def run(shell: Shell, scenario: str, system: str = "kafka:4.3.1", client: str = "kafka-python") -> Path:
    if system != "reference":
        needs("4.3.1")
    ended = subprocess.run(
        [sys.executable, "-c", RUN, scenario, system, client],
        cwd=shell.directory,
        env=shell.environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert shell.processes() == []
    return shell.folder


def test_a_groups_rebalances_commits_and_last_offsets_are_reported(fresh_shell: Shell) -> None:
    folder = run(fresh_shell, "consumer-groups")

    events = rows_of(folder, "group_events")
    stored = [row for row in events if row["event"] == "committed" and row["status"] == 0]
    assert {"assigned", "revoked", "committed", "fetched"} <= {row["event"] for row in events}
    assert all(row["generation"] >= 0 and row["member"] for row in stored)
    last = {
        row["partition"]: row["offset"] for row in events if row["event"] == "fetched" and row["generation"] is None
    }
    assert last == {
        part: max((r["offset"] for r in stored if r["partition"] == part), default=None) for part in range(4)
    }
    members = {row["process"] for row in rows_of(folder, "processes") if row["group"] == "readers"}
    assert {row["process"] for row in stored} <= members
    assert all(row["timestamp_ms"] for row in rows_of(folder, "records") if row["status"] == 0)


@pytest.mark.parametrize(
    ("system", "client"), [*((system, "kafka-python") for system in SYSTEMS), ("reference", "confluent-kafka")]
)
def test_a_transactions_outcome_is_that_of_its_output_and_its_offsets(
    fresh_shell: Shell, system: str, client: str
) -> None:
    folder = run(fresh_shell, "transactions", system, client)

    outcomes = {row["transaction"]: row["outcome"] for row in rows_of(folder, "transactions")}
    assert 0 in outcomes.values()
    records = rows_of(folder, "records")
    sent = [row for row in records if row["kind"] == 0 and row["transaction"] is not None]
    assert {row["status"] for row in sent if outcomes[row["transaction"]] == 0} == {0}
    assert 0 not in {row["status"] for row in sent if outcomes[row["transaction"]] != 0}
    final = {row["value"] for row in records if row["kind"] == 2 and row["topic"] == "results"}
    assert {row["value"] for row in sent if row["status"] == 0} <= final
    assert not final & {row["value"] for row in sent if row["status"] == 1}
    names = {row["value"]: decode_output(row["name"]) for row in rows_of(folder, "value_names")}
    made_of = [names[value] for value in final]
    assert None not in made_of
    assert len(made_of) == len(set(made_of))


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_the_coordinators_kept_says_what_the_clients_were_told(fresh_shell: Shell, system: str) -> None:
    """Their logs, who led them, and the versions of the requests that decide what was promised."""
    folder = run(fresh_shell, "transactions", system)

    pending: dict[int, dict[int, int]] = {}
    committed: dict[int, int] = {}
    for row in rows_of(folder, "consumer_offsets"):
        if row["kind"] == "offset":
            pending.setdefault(row["producer_id"], {})[row["topic_partition"]] = row["committed_offset"]
        elif row["kind"] == "marker":
            ended = pending.pop(row["producer_id"], {})
            committed |= ended if row["commits"] else {}
    fetches = [row for row in rows_of(folder, "group_events") if row["event"] == "fetched" and row["status"] == 0]
    last = {row["partition"]: row["offset"] for row in fetches if row["generation"] is None}
    assert last == {part: committed.get(part) for part in last}
    assert any(last.values())
    assert {row["require_stable"] for row in fetches} == {True}
    outcomes = {row["outcome"] for row in rows_of(folder, "transactions")}
    states = {row["state"] for row in rows_of(folder, "transaction_state")}
    decided = {state for outcome, state in ((0, "CompleteCommit"), (1, "CompleteAbort")) if outcome in outcomes}
    assert decided
    assert decided <= states  # what a client was told nothing of, its coordinator aborts too
    led = {(row["topic"], row["partition"]) for row in rows_of(folder, "internal_partition_states") if row["exact"]}
    ids = {row["transactional_id"] for row in rows_of(folder, "transactions")}
    used = {("__consumer_offsets", partition_of("processors", 3))}
    assert led == used | {("__transaction_state", partition_of(name, 3)) for name in ids}
    asked = {(row["request"], row["version"]) for row in rows_of(folder, "client_events") if row["event"] == "request"}
    assert {"Produce", "OffsetFetch", "EndTxn", "TxnOffsetCommit"} <= {name for name, _ in asked}
    levels = {row["key"]: row["value"] for row in rows_of(folder, "configuration") if row["scope"] == "feature"}
    assert levels.get("transaction.version") == (None if system == "reference" else "2")
