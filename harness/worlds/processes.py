"""The worlds of processes: nodes and clients run beside the harness, or somebody else runs them."""

import sys

from harness.clients import catalogue as clients
from harness.cluster.catalogue import made_of_processes
from harness.controller.workers.processes import WorkerProcesses
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.ports.capabilities import SharedWithOthers
from harness.ports.own_names import AS_WRITTEN
from harness.scenario.model import Scenario
from harness.worlds import World


def world_of(scenario: Scenario, folder: RunFolder) -> World:
    """Nothing is started. Raises UsageError."""
    cluster = made_of_processes(scenario.cluster, folder.path, client_links=max(scenario.workload.workers, 1))
    names = cluster.own_names if isinstance(cluster, SharedWithOthers) else AS_WRITTEN
    by_library = clients.clients_for(scenario.traits.silent_version, scenario.cluster.attached.security, names)
    workers = WorkerProcesses(
        scenario=scenario,
        cluster=cluster,
        command=[sys.executable, "-m", "harness", "worker"],
        history=folder.history,
        folder=folder.path / "workers",
        spawn=cluster.spawn_worker,
    )
    return World(cluster=cluster, workers=workers, make_client=by_library[clients.OWN], clock=SystemClock())
