"""Cycles of dependencies between operations, searched in time linear in the records.

An operation that depends on one that depends on it in turn cannot have happened in any order. Edges: ww (the writer of
a value to the writer of the next one in the partition's order), wr (writer to every reader), realtime (an ok operation
to those invoked after its completion) and, in full mode, rw (the reader of a key's last value to the writer of the
next). Numbered by completion, every cycle needs a backward edge, so it lies inside one merged interval of backward
edges. Only these are searched, in Python. Where they are is seen in columns: of runs of ours, which may be larger than
a machine's memory, in Spark; of imported histories, which are in memory already, in place.

Two ways in (both judge many histories together; nothing is skipped in silence):

`search_histories(records=, operations=, orders=, mode=, ww_deps=)`, imported histories:
    records     run, kind, operation, partition_id, micro_operation, position, offset, value (schemas.py); any
                completion type; one writer per value: the last
    operations  run, operation, process, function, status, invoked_ns, completed_ns, invocation_index,
                completion_index: every completed txn, send and poll, the empty polls too
    orders      run, partition_id, index, value: the version order of each partition (one value per index)
    ww_deps  True or False for all runs, or the runs for which it is on
  -> Search. `search.components[run]`: one Component per strongly connected component: its operations, its statements
  (PL-1-cycle-exists ...) and its cycles with explained steps. `search.runs_with_edges`: runs whose graph is not empty.
  `search.not_searched[run]`: what was left out and why; if there is any, the run's verdict is inconclusive.
  `jepsen_errors(search, run, key_of=, value_of=)` -> {"G1c": [...], "PL-2-cycle-exists": [...],
  "empty-transaction-graph": True} in Jepsen's own form ("op-index", "a-mop-index", ...); `key_of(partition_id)` and
  `value_of(partition_id, value)` turn ids back into what the history said. `in_words(cycle, ...)` says it in English.

`native.find_cycles(spark, tables, known_operations=)` for runs of ours, and only it needs Spark: a send outside a
transaction is a vertex of its own (Kafka says nothing of a batch as a whole), a transaction or a poll is one.
  -> NativeSearch: `rows[run]`: CycleRows (kind, promised, reason, sentence, cycle, names, operations, transactions,
  values, topic, partition, first_ns, last_ns, count), one per kind: how many components hold one, and the shortest
  cycle explained; `names` says what its operations, partitions and values are called; `known_operations`: values that
  need no cycle; `not_searched[run]`: NotSearched. `CycleRow.promised` says whether Kafka promises that such a cycle
  cannot be:
    read-before-send   wr + realtime: read by a poll that had ended before the send began    violation at read_committed
    order-against-time ww + realtime: acknowledged before another send began, yet after it      violation at acks != 0
                       but through a transaction, from one of its writes to another             permitted: no isolation
    circular-reading   G1c: transactions that read each other's records                  violation at read_committed
    G0, G1c-ww         transactions interleaved in two partitions                               permitted: no isolation
"""

from harness.checks.cycles.jepsen_form import jepsen_errors
from harness.checks.cycles.model import Component, Cycle, Kind, Limits, Mode, NotSearched, Search, Statement, Step
from harness.checks.cycles.search import search_histories
from harness.checks.cycles.words import in_words

__all__ = [
    "Component",
    "Cycle",
    "Kind",
    "Limits",
    "Mode",
    "NotSearched",
    "Search",
    "Statement",
    "Step",
    "in_words",
    "jepsen_errors",
    "search_histories",
]
