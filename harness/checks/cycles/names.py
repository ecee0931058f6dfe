"""What a reader calls the things on the chosen cycles: operations, transactions, partitions, values. Few look-ups."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.cycles.model import Cycle
from harness.checks.cycles.native_graph import PLACES, operation_of, transaction_of
from harness.checks.spark.tables import Tables
from harness.history.facts.values import NAMED_FROM, text
from harness.history.schema.client_rows import TRANSACTIONS
from harness.history.schema.cluster_rows import PARTITIONS


@dataclass(frozen=True, kw_only=True)
class Names:
    """Of one run. `processes`: by operation; `values`: of those only that the workload's producers did not make."""

    partitions: Mapping[int, tuple[str, int]]
    transactional_ids: Mapping[int, str]
    processes: Mapping[int, int] = field(default_factory=dict)
    values: Mapping[int, str] = field(default_factory=dict)

    def operation(self, name: int) -> str:
        """Of a vertex: "transaction 7 of id-1", "poll 3 of process 9", "record 2 of send 4 of process 1"."""
        transaction = transaction_of(name)
        if transaction is not None:
            whose = self.transactional_ids.get(transaction)
            return f"transaction {transaction}" + (f" of {whose}" if whose else "")
        operation, place = operation_of(name), name % PLACES
        process = self.processes.get(operation or 0)
        what = "poll" if place == 0 else "send"
        record = f"record {place} of " if place > 1 else ""
        return f"{record}{what} {operation}" + (f" of process {process}" if process is not None else "")

    def partition(self, partition_id: int | None) -> str | None:
        if partition_id is None:
            return None
        topic, part = self.partitions.get(partition_id, (None, partition_id))
        return f"{topic}-{part}" if topic is not None else f"partition {part}"

    def value(self, value: int | None) -> str | None:
        return None if value is None else text(value, self.values)

    def record(self, partition_id: int, value: int) -> str:
        return f"{self.value(value)} to {self.partition(partition_id)}"


def names_of(tables: Tables, cycles: Mapping[int, Iterable[Cycle]]) -> dict[int, Names]:
    """`cycles`: of each run."""
    operations: set[tuple[int, int]] = set()
    values: set[tuple[int, int]] = set()
    for run, chosen in cycles.items():
        for cycle in chosen:
            operations |= {(run, each) for name in cycle.operations if (each := operation_of(name)) is not None}
            named = {each for step in cycle.steps for each in (step.value, step.next_value) if each is not None}
            values |= {(run, value) for value in named if value >= NAMED_FROM}
    processes = _looked_up(tables.records, ("operation", "process"), operations)
    texts = _looked_up(tables.value_names, ("value", "name"), values)
    return {
        run: Names(
            partitions={row["partition_id"]: (row["topic"], row["partition"]) for row in tables.rows(PARTITIONS, run)},
            transactional_ids={
                row["transaction"]: row["transactional_id"]
                for row in tables.rows(TRANSACTIONS, run)
                if row["transactional_id"]
            },
            processes=processes.get(run, {}),
            values=texts.get(run, {}),
        )
        for run in cycles
    }


def _looked_up(table: DataFrame, columns: tuple[str, str], wanted: set[tuple[int, int]]) -> dict[int, dict[int, Any]]:
    key, answer = columns
    if not wanted:
        return {}
    asked = sf.broadcast(table.sparkSession.createDataFrame(sorted(wanted), f"run int, {key} long"))
    found: dict[int, dict[int, Any]] = {}
    for row in table.join(asked, ["run", key], "left_semi").select("run", key, answer).distinct().collect():
        found.setdefault(row["run"], {})[row[key]] = row[answer]
    return found
