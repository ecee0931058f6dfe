"""Collects the cluster's books: the replicas' logs on disk, and what the system recorded about itself.

They are written to RUN/history/books, which is emptied first: a collection that was interrupted by a kill is repeated.
The run collects them from its cluster; a later sealing reads only what is in the folder.
"""

import asyncio
import struct
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Protocol

from harness.controller.coordinators import Coordinators
from harness.controller.recorder import Recorder, SoFar
from harness.controller.truncation_cuts import history_with_cuts
from harness.errors import MISFITS, HarnessError, misfit
from harness.history.facts.values import ValueNames
from harness.history.journals.controller_rows import BOOKS, ROWS, read_rows, snapshot_path
from harness.history.run_folder import RunFolder
from harness.history.schema.client_rows import VALUE_NAMES
from harness.history.schema.cluster_rows import REPLICA_SNAPSHOTS
from harness.history.schema.internal_rows import INTERNAL_SNAPSHOTS
from harness.history.sealed.sealing import seal
from harness.host.clock import Clock
from harness.ports.cluster import Cluster, ClusterHistory, NodeId, ReplicaLog, ShowsLogs
from harness.ports.coordinator_logs import CoordinatorLog, ShowsCoordinatorLogs
from harness.scenario.file import scenario_of

# What reading a damaged file, or one written to cause an error, can raise.
_UNREADABLE = (
    HarnessError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    struct.error,
    RecursionError,
)


class Books(Protocol):
    """The replicas' logs, broker by broker, the cluster's own history, and a text that names what is missing."""

    @property
    def not_collected(self) -> str: ...

    def logs(self) -> Iterable[tuple[NodeId, Sequence[ReplicaLog]]]: ...

    def coordinator_logs(self) -> Iterable[CoordinatorLog]: ...

    def history(self) -> ClusterHistory: ...


@dataclass(frozen=True)
class RunningBooks:
    """The books of a cluster that this harness runs."""

    cluster: Cluster
    not_collected: str = ""

    def logs(self) -> Iterator[tuple[NodeId, Sequence[ReplicaLog]]]:
        for node in self.cluster.nodes:
            if node.role == "broker" and isinstance(self.cluster, ShowsLogs):
                yield node.node, self.cluster.read_replicas(node.node)

    def coordinator_logs(self) -> Iterator[CoordinatorLog]:
        if isinstance(self.cluster, ShowsCoordinatorLogs):
            for node in self.cluster.nodes:
                if node.role == "broker":
                    yield from self.cluster.read_coordinator_logs(node.node)

    def history(self) -> ClusterHistory:
        return self.cluster.collect()


async def collect_books(folder: RunFolder, *, cluster: Cluster, clock: Clock, after: SoFar) -> None:
    """Reads from disk in a thread, so that the run's other tasks go on. Raises HarnessError, OSError."""
    try:
        await asyncio.to_thread(_collect, folder, RunningBooks(cluster), clock, after)
    except (*MISFITS, struct.error) as error:  # a node may have made up what it left there
        raise misfit(folder.path / "nodes", error, what="what its nodes left on their disks") from error


def _collect(folder: RunFolder, books: Books, clock: Clock, after: SoFar) -> None:
    place = f"history/{BOOKS}"
    folder.files.remove_folder(place)
    folder.files.make_folder(place)
    recorder = Recorder(folder=folder.history / BOOKS, clock=clock, after=after)
    scenario = scenario_of(folder)
    topics = scenario.topic_names
    try:
        for node, logs in books.logs():
            recorder.replica_logs("end", int(node), [log for log in logs if log.topic in topics])
        kept = list(books.coordinator_logs())
        recorder.coordinator_logs("end", kept)
        history = books.history()
        coordinators = Coordinators.of(scenario.workload.facts, history.partition_states)
        own = coordinators.partitions | {(log.topic, log.partition) for log in kept}
        recorder.cluster_history(history_with_cuts(_watched(history, topics, own), folder.history))
    finally:
        recorder.close()
    folder.update(collected=True)


def _watched(history: ClusterHistory, topics: Set[str], coordinators: Set[tuple[str, int]]) -> ClusterHistory:
    """Keeps only the scenario's topics: topics created by Kafka or by a step are not written, read or judged. Of the
    internal topics' partitions, those that coordinate something are known besides."""
    return replace(
        history,
        partition_states=[
            state
            for state in history.partition_states
            if state.topic in topics or (state.topic, state.partition) in coordinators
        ],
        topics=[life for life in history.topics if life.topic in topics],
        broker_events=[
            event
            for event in history.broker_events
            if event.topic is None or event.topic in topics or (event.topic, event.partition) in coordinators
        ],
    )


def seal_unfinished(folder: RunFolder, *, books: Books, clock: Clock) -> None:
    """Writes the tables of a run whose harness was killed, from its folder alone; then `check` works.

    What was not collected makes the run inconclusive. Does nothing if the run was sealed.
    """
    run = folder.run
    was_killed = run.get("status") == "started"
    if not was_killed and folder.sealed:
        return
    phases = run.get("phases") or [{"name": "start"}]
    reasons = list(run.get("inconclusive", []))
    if was_killed:
        reasons.append(f"the harness was ended in phase {phases[-1]['name']!r}")
    try:
        if not (run.get("collected") and (folder.history / BOOKS / ROWS).is_file()):
            reasons.extend(_collected_later(folder, books, clock))
        reasons.extend(_missing_snapshots(folder))
        seal(folder)
    except OSError as error:  # for example a folder in the place of a file
        raise HarnessError(f"{error.filename or folder.path} cannot be read: {error.strerror or error}") from error
    except MISFITS as error:
        raise misfit(folder.path, error, what="what its journals hold") from error
    folder.update(inconclusive=reasons, **({"status": "unfinished"} if was_killed else {}))


def _collected_later(folder: RunFolder, books: Books, clock: Clock) -> list[str]:
    """Continues the recording of the killed harness. Returns why the run is inconclusive."""
    rows = read_rows(folder.history / ROWS)
    after = SoFar(
        names=ValueNames((row["value"], row["name"]) for row in rows[VALUE_NAMES]),
        snapshots=1
        + max(
            (row["snapshot"] for snapshots in (rows[REPLICA_SNAPSHOTS], rows[INTERNAL_SNAPSHOTS]) for row in snapshots),
            default=-1,
        ),
    )
    reasons = []
    try:
        reasons += [books.not_collected] if books.not_collected else []
        _collect(folder, books, clock, after)
    except _UNREADABLE as error:
        reasons.append(f"the cluster's books could not be read: {error}")  # killed before their collection began
    return reasons


def _missing_snapshots(folder: RunFolder) -> list[str]:
    """Snapshots are files beside the rows that name them; a copied folder may lack some of the files."""
    missing = [
        row["snapshot"]
        for place in (folder.history, folder.history / BOOKS)
        for row in read_rows(place / ROWS)[REPLICA_SNAPSHOTS]
        if not snapshot_path(place, row["snapshot"]).is_file()
    ]
    if not missing:
        return []
    return [f"{len(missing)} of the snapshots of replicas' logs are not in the folder, first number {missing[0]}"]
