"""Collecting the cluster's books: the replicas' logs as they lie on disk, and what the system journalled about itself.

They go into RUN/history/books, which is begun anew each time: a collection cut short by a kill is simply repeated.
"""

import asyncio
import shutil
from collections.abc import Set
from dataclasses import replace

from harness.clock import Clock
from harness.controller.recorder import Recorder
from harness.controller.truncation_cuts import history_with_cuts
from harness.errors import HarnessError
from harness.history.controller_rows import BOOKS, ROWS, read_rows
from harness.history.run_folder import RunFolder
from harness.history.sealing import seal
from harness.history.values import ValueNames
from harness.interfaces import Cluster, ClusterHistory, ShowsLogs


async def collect_books(folder: RunFolder, *, cluster: Cluster, clock: Clock, after: Recorder) -> None:
    """Reads from disk in a thread, so that the run's other tasks go on."""
    await asyncio.to_thread(_collect, folder, cluster, clock, after)


def _collect(folder: RunFolder, cluster: Cluster, clock: Clock, after: Recorder) -> None:
    books = folder.history / BOOKS
    shutil.rmtree(books, ignore_errors=True)
    recorder = Recorder(folder=books, clock=clock, after=after)
    topics = folder.scenario().topic_names
    try:
        for node in cluster.nodes:
            if node.role == "broker" and isinstance(cluster, ShowsLogs):
                logs = [log for log in cluster.read_replicas(node.node) if log.topic in topics]
                recorder.replica_logs("end", int(node.node), logs)
        recorder.cluster_history(history_with_cuts(_watched(cluster.collect(), topics), folder.history))
    finally:
        recorder.close()
    folder.update(collected=True)


def _watched(history: ClusterHistory, topics: Set[str]) -> ClusterHistory:
    """Of the scenario's topics only: nobody writes to, reads or judges those that Kafka or a step makes beside them."""
    return replace(
        history,
        partition_states=[state for state in history.partition_states if state.topic in topics],
        broker_events=[event for event in history.broker_events if event.topic is None or event.topic in topics],
    )


def seal_unfinished(folder: RunFolder, *, cluster: Cluster | None, clock: Clock) -> None:
    """Makes the tables of a run whose harness was killed, from its journals and node folders; then `check` works.

    `cluster`: the run's cluster as made for this folder and not started; None where its books cannot be read any more.
    Does nothing for a run that was sealed.
    """
    run = folder.run
    if run.get("status") != "started" and folder.sealed:
        return
    phases = run.get("phases") or [{"name": "start"}]
    reasons = [*run.get("inconclusive", []), f"the harness was ended in phase {phases[-1]['name']!r}"]
    if cluster is not None and not run.get("collected"):
        rows = read_rows(folder.history / ROWS)
        first = Recorder(folder=folder.history, clock=clock)
        first.resume(
            names=ValueNames((row["value"], row["text"]) for row in rows.get("value_names", ())),
            snapshots=1 + max((row["snapshot"] for row in rows.get("replica_snapshots", ())), default=-1),
        )
        first.close()
        try:
            _collect(folder, cluster, clock, first)
        except (HarnessError, OSError) as error:
            reasons.append(f"the cluster's books could not be read: {error}")  # killed before they were begun
    seal(folder)
    if run.get("status") == "started":
        folder.update(status="unfinished", inconclusive=reasons)
