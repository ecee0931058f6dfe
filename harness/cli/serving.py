"""A cluster alone, for whoever wants to try something: it serves until Ctrl-C, and every node that ends is reported.

A file says where it is: there while the cluster is, and never an older one's.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.cli.controlled import Control
from harness.cluster.base_cluster import BrokerCluster
from harness.cluster.catalogue import made
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import RunOwnership
from harness.compose import catch_signals
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.history.run_origin import stamp
from harness.host.clock import SystemClock
from harness.host.scratch import Scratch, scratch_folder
from harness.ports.cluster import ClientId, NodeId
from harness.scenario.model import ClusterSpec

LOOK_EVERY_S = 0.2
Ready = Callable[[dict[str, Any]], None]  # gets the addresses, the nodes, the processes and the folders


def run_cluster(
    spec: ClusterSpec, *, ready: Ready, tell: Callable[[str], None], control: Control | None = None
) -> None:
    """In a temporary folder, until SIGINT or SIGTERM, or until `control` ends it. `tell` gets lines: a node's logs are
    gone when this returns."""
    with scratch_folder("kafka-chaos-cluster-") as folder:
        if control is not None:  # the cluster's books are read by the anchor of its folder
            clock = SystemClock()
            folder = RunFolder.create(
                folder, scenario="cluster", clock=clock, seed=1, stamp=stamp(clock.wall_ns())
            ).path
        with RunOwnership(folder):
            asyncio.run(_serve(folder, spec, ready, tell, control))


@contextlib.contextmanager
def starters(folder: Path | None) -> Iterator[None]:
    """A folder of whoever starts the cluster, and may be killed: it goes with the cluster once he is gone, or by the
    sweep. While he lives it is his own."""
    if folder is None:
        yield
        return
    held, parent = Scratch.of_starter(folder), os.getppid()
    try:
        yield
    finally:
        if os.getppid() == parent:
            held.let_go()
        else:
            held.remove()


async def _serve(
    folder: Path, spec: ClusterSpec, ready: Ready, tell: Callable[[str], None], control: Control | None
) -> None:
    interrupt = asyncio.Event()
    catch_signals(asyncio.get_running_loop(), interrupt, remedy="`kafka-chaos sweep` ends what is left of the cluster")
    cluster = made(spec, folder, client_links=1)
    try:
        await cluster.start()
        facts = {
            "bootstrap": cluster.bootstrap(ClientId(1)),
            "coordination": cluster.coordination(),
            "process": os.getpid(),
            "folder": str(folder),
            "nodes": cluster.whereabouts() if isinstance(cluster, LocalCluster) else [],
        }
        if control is not None:
            assert isinstance(cluster, LocalCluster), "the command line refuses others"
            facts["control"] = str(control.path)
            for line in await control.serve(cluster, spec, folder, interrupt=interrupt, ready=lambda: ready(facts)):
                tell(line)
            return
        ready(facts)
        watching = asyncio.ensure_future(_report_endings(cluster, tell)) if isinstance(cluster, BrokerCluster) else None
        await interrupt.wait()
        if watching is not None:
            watching.cancel()
    finally:
        await cluster.stop()


async def _report_endings(cluster: BrokerCluster, tell: Callable[[str], None]) -> None:
    known: set[NodeId] = set()
    while True:
        for node, lines in cluster.endings().items():
            if node not in known:
                known.add(node)
                for line in lines:
                    tell(line)
        await asyncio.sleep(LOOK_EVERY_S)


class ReadyFile:
    """Raises HarnessError where it cannot be written, or an old one cannot be removed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written: os.stat_result | None = None

    def __enter__(self) -> "ReadyFile":
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise HarnessError(f"--ready-file {self._path} cannot be removed: {error.strerror}") from error
        return self

    def write(self, facts: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        unfinished = self._path.with_name(self._path.name + ".unfinished")
        try:
            unfinished.write_text(json.dumps(facts), encoding="utf-8")
            self._written = unfinished.stat()
            unfinished.replace(self._path)
        except OSError as error:
            raise HarnessError(f"--ready-file {self._path} cannot be written: {error.strerror}") from error

    def __exit__(self, *_: object) -> None:
        """Another cluster's, which took its place, stays."""
        if self._path is None or self._written is None:
            return
        with contextlib.suppress(OSError):  # gone already, with its folder
            if os.path.samestat(self._written, self._path.lstat()):
                self._path.unlink()
