"""Reads what a run folder contains of its cluster when its harness is gone; it never acts on a cluster.

The folder may come from somebody else. So no command, container or broker of its scenario is used and no link is
followed. Information that only the cluster could provide is missing; `not_collected` says so in words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.cluster.attached.journal import AttachedJournal
from harness.cluster.brokers.system import NodeFolders, System
from harness.cluster.catalogue import system_of
from harness.cluster.coordinator_logs import read_coordinator_logs
from harness.cluster.replica_logs import read_replicas
from harness.history.run_folder import RunFolder
from harness.host import memory
from harness.host.clock import Clock
from harness.ports.cluster import ClusterHistory, NodeId, ReplicaLog
from harness.ports.coordinator_logs import CoordinatorLog
from harness.scenario.file import scenario_of
from harness.scenario.model import ClusterSpec

_NOT_READ = (".index", ".timeindex", ".txnindex")  # not read, and preallocated to their maximal size
_NOTHING = ClusterHistory(partition_states=(), controllers=(), broker_events=(), configuration=())
_IN_CONTAINERS = "the replicas' logs and the cluster's own books were not collected: they were in its containers"


@dataclass(frozen=True)
class StoredNodes:
    """A cluster that ran as processes of this folder: RUN/nodes has their files."""

    folder: RunFolder
    spec: ClusterSpec
    clock: Clock

    @property
    def not_collected(self) -> str:
        """What is missing: a folder may have been copied without some of the files."""
        nodes = [
            f"{node.role} {node.node}" for node in self._system.nodes if not self._folders(node.node).data.is_dir()
        ]
        return f"there are no data of {', '.join(nodes)} in the folder" if nodes else ""

    @cached_property
    def _system(self) -> System:
        return system_of(self.spec)

    def _folders(self, node: NodeId) -> NodeFolders:
        return NodeFolders.below(self.folder.files.top / "nodes" / str(node))

    def logs(self) -> Iterator[tuple[NodeId, Sequence[ReplicaLog]]]:
        self.folder.files.refuse_links("nodes")
        self._check_sizes()
        for node in self._system.nodes:
            if node.role == "broker":
                data = self._folders(node.node).data
                yield node.node, read_replicas(node.node, data, t_ns=self.clock.monotonic_ns())

    def coordinator_logs(self) -> Iterator[CoordinatorLog]:
        """After `logs`, which has looked at the files' sizes."""
        for node in self._system.nodes:
            if node.role == "broker":
                data, now = self._folders(node.node).data, self.clock.monotonic_ns()
                yield from read_coordinator_logs(node.node, data, t_ns=now, anchor=self.folder.anchor())

    def _check_sizes(self) -> None:
        """Raises HarnessError if a node's files, which are read as a whole, take more memory than allowed."""
        for node in self._system.nodes:
            place = self.folder.nodes / str(node.node)
            files = (path for path in place.rglob("*") if path.suffix not in _NOT_READ)
            memory.check(f"{place}: its files", sum(path.lstat().st_size for path in files))

    def history(self) -> ClusterHistory:
        return self._system.history(self._folders, self.folder.anchor())


@dataclass(frozen=True, kw_only=True)
class StoredNotes:
    """A cluster outside this folder: only what the harness had written down, if anything."""

    journal: AttachedJournal | None
    not_collected: str

    def logs(self) -> Iterator[tuple[NodeId, Sequence[ReplicaLog]]]:
        return iter(())

    def coordinator_logs(self) -> Iterator[CoordinatorLog]:
        return iter(())

    def history(self) -> ClusterHistory:
        return _NOTHING if self.journal is None else self.journal.history()


def stored_books(folder: RunFolder, clock: Clock) -> StoredNodes | StoredNotes:
    """Raises UsageError if the folder contains links."""
    spec = scenario_of(folder).cluster
    if spec.is_foreign:
        return StoredNotes(journal=AttachedJournal(folder.path), not_collected=_left_at_somebody_elses(spec))
    if spec.world == "docker" and not _were_kept(folder):
        return StoredNotes(journal=None, not_collected=_IN_CONTAINERS)
    folder.files.refuse_links("nodes")
    return StoredNodes(folder, spec, clock)


def _left_at_somebody_elses(spec: ClusterSpec) -> str:
    """Nothing if the scenario has no means to read them."""
    if not (spec.attached.data or spec.attached.commands.get("read_log")):
        return ""
    brokers = ", ".join(str(broker) for broker in sorted(spec.brokers))
    return (
        f"the replicas' logs of brokers {brokers} were not collected: only the run itself asks somebody else's cluster "
        "for them"
    )


def _were_kept(folder: RunFolder) -> bool:
    """The contents of volumes are copied into the folder when the cluster stops, before the seal."""
    phases = folder.run.get("phases") or [{"name": "start"}]
    return bool(phases[-1]["name"] == "seal")
