"""A cluster that runs already, as one run sees it: the run neither starts nor stops it, and what the cluster did before
the run began is no part of the run's history.

`ReusedCluster` is for a run on a cluster on which other runs were before, with topics of the same names. What its
records say is cut to the run. What still holds from the time before is recorded as if it had come about when the run
began: who is controller, the settings of brokers, and that each broker has started.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.clock import Anchor
from harness.cluster.brokers.system import NodeFolders
from harness.cluster.local.cluster import LocalCluster
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.ports.cluster import BrokerEvent, ClusterHistory, ConfigurationChange, ControllerState, NodeEnd, NodeId

_BLOCK_BYTES = 1 << 20
_OF_A_START = frozenset({"broker_start", "broker_registered", "broker_unfenced"})


class LentCluster(LocalCluster):
    """The lender's running cluster as one run sees it. Broker events before `began_ns` are left out."""

    __slots__ = ("_began_ns",)  # everything else is the lender's: the same processes, links and connections

    def __init__(self, lender: LocalCluster, *, began_ns: int) -> None:
        self.__dict__ = lender.__dict__
        self._began_ns = began_ns

    async def start(self) -> None:
        """It runs."""

    async def stop(self) -> None:
        """Its lender stops it."""

    def node_ends(self) -> Sequence[NodeEnd]:
        """What struck the cluster before this run is not known to it."""
        return [dataclasses.replace(end, fresh=False) for end in super().node_ends()]

    def collect(self) -> ClusterHistory:
        history = super().collect()
        events = [event for event in history.broker_events if event.t_ns >= self._began_ns]
        return dataclasses.replace(history, broker_events=events)


class ReusedCluster(LentCluster):
    """For one run whose `topics` did not exist before it. The nodes' log lines are copied into its folder `into`."""

    __slots__ = ("_into", "_log_bytes", "_topics")

    def __init__(self, lender: LocalCluster, into: RunFolder, *, topics: Iterable[str], began_ns: int) -> None:
        super().__init__(lender, began_ns=began_ns)
        self._into = into
        self._topics = frozenset(topics)
        self._log_bytes = {node.node: _size(self._folders(node.node).log) for node in self.nodes}

    async def stop(self) -> None:
        self._copy_logs()

    def collect(self) -> ClusterHistory:
        """Raises HarnessError if one of the run's topics is not known to have been created during it."""
        self._copy_logs()
        anchor = self._anchor()
        whole = self._system.history(self._folders, anchor)
        # What a line means depends on the lines before it, and those of a topic that is gone must not count.
        own = self._system.history(self._with_own_logs, anchor)
        created = {life.topic for life in whole.topics if life.created_ns >= self._began_ns}
        if missing := sorted(self._topics - created):
            raise HarnessError(f"by the cluster's records topic {missing[0]!r} was not created in this run")
        return since(whole, own.broker_events, self._began_ns)

    def _anchor(self) -> Anchor:
        return self._into.anchor()

    def _with_own_logs(self, node: NodeId) -> NodeFolders:
        return dataclasses.replace(self._folders(node), log=self._own_log(node))

    def _own_log(self, node: NodeId) -> Path:
        return NodeFolders.below(self._into.nodes / str(node)).log

    def _copy_logs(self) -> None:
        for node, start in self._log_bytes.items():
            own = self._own_log(node)
            own.parent.mkdir(parents=True, exist_ok=True)
            log = self._folders(node).log
            if not log.is_file():
                continue
            with log.open("rb") as source, own.open("wb") as target:
                source.seek(start)
                while block := source.read(_BLOCK_BYTES):
                    target.write(block)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def since(whole: ClusterHistory, events: Sequence[BrokerEvent], began_ns: int) -> ClusterHistory:
    """What `whole` holds of a run that began then. events: of the run's own log lines."""
    return ClusterHistory(
        partition_states=[state for state in whole.partition_states if state.t_ns >= began_ns],
        controllers=_controllers(whole.controllers, began_ns),
        broker_events=_broker_events(whole.broker_events, events, began_ns),
        configuration=_configuration(whole.configuration, began_ns),
        topics=[life for life in whole.topics if life.created_ns >= began_ns],
    )


def _controllers(known: Sequence[ControllerState], began_ns: int) -> list[ControllerState]:
    before = [each for each in known if each.t_ns < began_ns]
    return [
        *(dataclasses.replace(each, t_ns=began_ns) for each in before[-1:]),
        *(each for each in known if each.t_ns >= began_ns),
    ]


def _broker_events(known: Sequence[BrokerEvent], events: Sequence[BrokerEvent], began_ns: int) -> list[BrokerEvent]:
    """Of the time before, how each node started last: its newest event of each kind that is about no topic."""
    last = {(event.node, event.event): event for event in known if event.t_ns < began_ns and event.event in _OF_A_START}
    began = [dataclasses.replace(event, t_ns=began_ns) for event in last.values()]
    return [*began, *sorted((event for event in events if event.t_ns >= began_ns), key=lambda event: event.t_ns)]


def _configuration(known: Sequence[ConfigurationChange], began_ns: int) -> list[ConfigurationChange]:
    """Of the time before, what is still set, for brokers and for the cluster."""
    last = {
        (change.scope, change.name, change.node, change.key, change.source): change
        for change in known
        if change.t_ns < began_ns and change.scope != "topic"
    }
    began = [dataclasses.replace(change, t_ns=began_ns) for change in last.values()]
    return [*began, *(change for change in known if change.t_ns >= began_ns)]
