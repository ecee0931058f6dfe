"""Where the names of systems and worlds become clusters: what runs, where, and what a scenario may ask of it."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cluster.attached.journal import AttachedJournal
from harness.cluster.brokers.catalogue import traits_of as traits_of_brokers
from harness.cluster.docker.labels import entered
from harness.cluster.local import ownership
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import LeftRun
from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.history.run_folder import RunFolder
from harness.history.schema.texts import text_of
from harness.host.clock import SystemClock
from harness.scenario.file import parse
from harness.scenario.model import ATTACHED, AttachedSpec, ClusterSpec, Scenario
from harness.scenario.names import nearest
from harness.scenario.variants import Traits

if TYPE_CHECKING:
    from harness.cluster.attached.cluster import ForeignCluster
    from harness.cluster.docker.cluster import DockerCluster

__all__ = [
    "WORLDS",
    "cluster_kind",
    "cluster_of",
    "docker_health",
    "is_anything_left",
    "made",
    "owes",
    "remedy",
    "sweep_containers",
    "traits_of",
    "undo_left_behind",
]

WORLDS = ("local", "docker")
# What a scenario or a book that was damaged leads to, which must not keep the other runs from being swept.
_UNFIT = (HarnessError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def cluster_kind(spec: ClusterSpec) -> "type[LocalCluster | DockerCluster | ForeignCluster]":
    """The class whose capabilities say what can be done. Raises UsageError for what nobody knows, or lacks."""
    if spec.world not in WORLDS:
        raise UsageError(f"unknown world {spec.world!r}; {nearest(spec.world, WORLDS)}")
    if spec.is_foreign:
        if spec.world != "local":
            raise UsageError(f"--world {spec.world}: a cluster that somebody else runs is where it is; leave it out")
        if spec.system == ATTACHED:
            from harness.cluster.attached.by_commands import cluster_by_commands

            return cluster_by_commands(spec)
        from harness.cluster.attached.by_docker import cluster_by_docker  # its libraries take a while to load

        return cluster_by_docker(spec)
    if spec.bootstrap or spec.attached != AttachedSpec():
        raise UsageError(f"--bootstrap and [attached] are for --system attached and compose:FILE, not {spec.system}")
    if spec.world == "docker":
        from harness.cluster.docker.cluster import DockerCluster

        return DockerCluster
    return LocalCluster


def remedy(spec: ClusterSpec, need: type) -> str:
    """What somebody would have to give so that the cluster can do it."""
    if spec.system == ATTACHED:
        from harness.cluster.attached import by_commands

        return by_commands.remedy(need)
    if spec.is_foreign:
        from harness.cluster.attached import by_docker

        return by_docker.remedy(need)
    return "choose another --world"


def traits_of(spec: ClusterSpec) -> Traits:
    """What the system is like, for scenarios that differ from one to the other. Raises UsageError."""
    if spec.is_foreign:
        world = ATTACHED if spec.system == ATTACHED else "compose"
        return Traits(kind=ATTACHED, coordination="unknown", world=world)
    return traits_of_brokers(spec)


def cluster_of(scenario: Scenario, folder: RunFolder) -> "LocalCluster | DockerCluster | ForeignCluster":
    workload = scenario.workload
    return made(scenario.cluster, folder.path, client_links=max(workload.workers, 1))


def made(spec: ClusterSpec, folder: Path, *, client_links: int) -> "LocalCluster | DockerCluster | ForeignCluster":
    kind = cluster_kind(spec)
    return kind(run_path=folder, spec=spec, client_links=client_links, clock=SystemClock())


def docker_health() -> tuple[str, bool, str]:
    """In the form of `doctor`. No engine is no fault: only --world docker and compose:FILE need one."""
    from harness.cluster.docker.engine import connect
    from harness.cluster.docker.images import infra_recipe

    try:
        engine = connect()
    except HarnessError as error:
        return "Docker", True, f"not here, for --world docker and compose:FILE: {error}"
    words = f"engine {engine.version} at {engine.address}; images are made from {infra_recipe().base}"
    engine.close()
    return "Docker", True, words


def sweep_containers() -> list[str]:
    """What killed runs left in the Docker engine; asks it only where a run of this user's can have left anything."""
    if not entered():
        return []
    from harness.cluster.docker.sweep import sweep  # its libraries take a while to load

    return sweep()


def is_anything_left() -> bool:
    """Whether runs that are over have left something that no sweep could end, undo or remove."""
    if ownership.is_anything_over():
        return True
    if not entered():
        return False
    from harness.cluster.docker.sweep import left_by

    return bool(left_by())


def owes(run: Path) -> bool:
    """Whether a run has left somebody else's cluster harmed."""
    return bool(AttachedJournal(run).owed())


def undo_left_behind(left: LeftRun) -> tuple[list[str], bool]:
    """Undoes what a run did to somebody else's cluster and, being killed, could not; whether all of it was undone.

    What is owed, and the commands that undo it, come from the very folder of the run and from nowhere else.
    """
    journal = AttachedJournal(left.folder)
    try:
        owed = journal.owed()
    except (HarnessError, OSError) as error:
        sentence = f"{error}; undo by hand what that run did, and remove {journal.path}"
        return [sentence.replace(str(left.folder), str(left.path))], False
    lines = []
    for what, subject in owed:
        try:
            evidence = asyncio.run(_cluster_left_by(left).undo(what, subject))
            lines.append(f"{what} {subject}, which {left.path} owed: {evidence.sentence}")
        except _UNFIT as error:
            lines.append(
                f"{what} {subject}, which {left.path} owes, failed: {error}; the next command tries again, unless you "
                f"do it yourself and remove {journal.path}"
            )
    return [sentence.replace(str(left.folder), str(left.path)) for sentence in lines], not journal.owed()


def _cluster_left_by(left: LeftRun) -> Any:
    place, files = left.path / "scenario.toml", FilesBelow(left.folder)
    text = text_of(place, opened=lambda: files.open("scenario.toml"))  # a link would lead to somebody else's commands
    scenario = parse(text, name=left.path.name, place=str(place), traits_of=traits_of)
    if not scenario.cluster.is_foreign:
        raise HarnessError(f"{place} is of no cluster that somebody else runs")
    return made(scenario.cluster, left.folder, client_links=1)
