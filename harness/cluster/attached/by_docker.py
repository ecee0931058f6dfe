"""`--system compose:FILE`: the containers of a user's compose file; faults are injected through the Docker engine."""

import asyncio
import contextlib
import math
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from docker.errors import NotFound

from harness.cluster.attached import compose_project
from harness.cluster.attached.administration import ADDRESS, address_of
from harness.cluster.attached.cluster import ForeignCluster, registered
from harness.cluster.attached.container_rules import (
    ChangedRules,
    ContainerRules,
    can_cut,
    goes_around,
    shares_a_network,
)
from harness.cluster.attached.journal import DELETIONS
from harness.cluster.attached.reachability import is_answering, is_gone, is_silent
from harness.cluster.confined import empty
from harness.cluster.docker import file_export
from harness.cluster.docker.engine import Engine, connect, engine_errors, unless_ended
from harness.errors import HarnessError, UsageError
from harness.host.clock import Clock
from harness.ports.cluster import CanCutLinks, Evidence, Link, NodeId, PartitionState, ReplicaLog, ShowsLogs
from harness.scenario.model import ClusterSpec

_KILLED = 137
_MARK = "meta.properties"
_HIGH_WATERMARKS = "replication-offset-checkpoint"
_ATTEMPTS = 3


class ComposeCluster(ForeignCluster):
    """Implements CanCrash, CanStop and CanPause in addition to what every attached cluster can do."""

    title = "containers of a compose file"

    def __init__(self, *, run_path: Path, spec: ClusterSpec, clock: Clock) -> None:
        super().__init__(run_path=run_path, spec=spec, clock=clock)
        self._engine: Engine | None = None
        self._containers: dict[NodeId, Any] = {}
        self._rules = ContainerRules(self._containers)
        self._stop_s = math.ceil(spec.attached.command_timeout_s)  # Docker takes whole seconds

    async def find(self) -> Mapping[NodeId, ADDRESS]:
        self._look_up()
        given = {
            NodeId(int(node)): address_of(text, f"[attached] nodes {node}")
            for node, text in self._spec.attached.nodes.items()
        }
        bootstrap = self._spec.bootstrap or compose_project.published(self._containers.values())
        known = await registered(bootstrap, self._spec.system, security=self._spec.attached.security)
        without = [node for node in known if node not in self._containers]
        if without:
            raise HarnessError(
                f"broker {without[0]} is registered, and no service of the compose file is it: "
                f"services = {{ {without[0]} = ... }} in [attached]"
            )
        return {node: given.get(node, address) for node, address in sorted(known.items())}

    def _look_up(self) -> None:
        if not self._containers:
            self._engine, found = compose_project.find(self._spec)
            self._containers.update(found)
            if not self._journal.containers():
                ids = {node: container.id for node, container in found.items()}
                self._journal.in_containers(ids, engine=self._engine.address)

    def _find_again(self) -> None:
        """The very containers that the run began in, as far as they are there, in the engine they were made in."""
        if self._containers:
            return
        began_in = self._journal.containers()
        if not began_in:  # former releases did not note them
            self._look_up()
            return
        self._engine = connect(self._journal.engine())
        for node, identity in began_in.items():
            with engine_errors(f"looking for the container of {self._name(node)}"), contextlib.suppress(NotFound):
                self._containers[node] = self._engine.client.containers.get(identity)

    def known(self) -> Sequence[NodeId]:
        return list(self._containers)

    async def stop(self) -> None:
        await super().stop()
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def environment(self) -> Mapping[str, str]:
        engine = self._engine.environment() if self._engine is not None else {}
        images = sorted({str(each.attrs["Config"]["Image"]) for each in self._containers.values()})
        return {**super().environment(), **engine, "images": ", ".join(images)}

    async def undo(self, what: str, subject: str) -> Evidence:
        if what in DELETIONS:
            return await super().undo(what, subject)
        self._find_again()
        links = [Link.parse(name) for name in subject.split()] if what == "heal" else []
        touched = {link.target for link in links} if links else {NodeId(int(subject))}
        gone = sorted(touched - set(self._containers))
        if touched == set(gone):
            self._journal.paid(what, subject)
            names = " and ".join(self._name(node) for node in gone)
            return self._seen(f"the container of {names} is not there any more; one made anew since is left alone")
        if what == "start":
            return await self.start_node(NodeId(int(subject)))
        if what == "resume":
            return await self.resume(NodeId(int(subject)))
        with self._undoing(what, subject):
            return self._seen(await self._rules.heal([link for link in links if link.target not in gone]))

    async def exit_code_of(self, node: NodeId) -> int | None:
        state = await self._state(self._containers[node])
        return None if state["Running"] else int(state["ExitCode"])

    # -- CanCrash, CanStop, CanPause ----------------------------------------------------------------------------------

    async def kill(self, node: NodeId) -> Evidence:
        return await self._end(node, _kill, "SIGKILL")

    async def shut_down(self, node: NodeId) -> Evidence:
        return await self._end(node, lambda container: container.stop(timeout=self._stop_s), "SIGTERM")

    async def _end(self, node: NodeId, act: Any, signal: str) -> Evidence:
        container = self._containers[node]
        if not self._stopped_by_us(node) and not (await self._state(container))["Running"]:
            await self._has_ended(node)
            raise self._down_by_others(node, f"container {container.name} is {container.attrs['State']['Status']}")
        self._journal.owe("start", str(node))
        await self._do(container, f"ending it by {signal}", act)
        self._down.add(node)
        shown = await self._shows(node, is_gone, after=f"container {container.short_id} was ended by {signal}")
        state = await self._state(container)
        if signal == "SIGTERM" and state["ExitCode"] == _KILLED:
            within = f"within {self._stop_s} s of SIGTERM; give [attached] a longer timeout"
            raise HarnessError(f"container {container.name} did not end by itself {within}")
        if state["Running"]:
            raise HarnessError(f"container {container.name} came back by itself; take its restart policy away")
        ended = f"{shown.sentence}, and the container is {state['Status']} with code {state['ExitCode']}"
        return replace(shown, sentence=ended)

    async def start_node(self, node: NodeId) -> Evidence:
        if not self._stopped_by_us(node):
            return self._seen(f"{self._name(node)} was not taken down by this run, and is left as it is")
        container = self._containers[node]
        with self._undoing("start", str(node)):
            await self._do(container, "starting it", lambda container: container.start())
            await self._rules.renew(node)
            shown = await self._shows(node, is_answering, after=f"container {container.short_id} was started")
            self._down.discard(node)
        return shown

    async def pause(self, node: NodeId) -> Evidence:
        container = self._containers[node]
        state = await self._state(container)
        if state["Paused"] and not self._owes("resume", node):
            raise HarnessError(f"container {container.name} is paused already, by somebody else, and is left alone")
        if state["Running"]:
            self._journal.owe("resume", str(node))
            await self._do(container, "pausing it", _pause)
            state = await self._state(container)
        if not state["Running"]:
            self._journal.paid("resume", str(node))
            await self._has_ended(node)
            raise self._down_by_others(node, f"container {container.name} is {state['Status']}")
        return await self._shows(node, is_silent, after=f"container {container.short_id} was paused")

    async def resume(self, node: NodeId) -> Evidence:
        container = self._containers[node]
        if not self._owes("resume", node):
            return self._seen(f"{self._name(node)} was not paused by this run, and is left as it is")
        if not (await self._state(container))["Paused"]:
            self._journal.paid("resume", str(node))
            return self._seen(f"{self._name(node)} is not paused any more")
        with self._undoing("resume", str(node)):
            await self._do(container, "resuming it", lambda container: container.unpause())
            return await self._shows(node, is_answering, after=f"container {container.short_id} was resumed")

    async def _do(self, container: Any, what: str, act: Any) -> None:
        def doing() -> None:
            with engine_errors(f"container {container.name}: {what}"):
                act(container)

        await asyncio.to_thread(doing)

    async def _state(self, container: Any) -> Mapping[str, Any]:
        await self._do(container, "looking at it", lambda container: container.reload())
        state: Mapping[str, Any] = container.attrs["State"]
        return state


class _Cuts(ComposeCluster):
    def links(self) -> Sequence[Link]:
        return self._node_links()

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        await self._rules.keep([node for node in self._containers if not self._owes("start", node)])
        return await super().live_partition_states(topics)

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence:
        if not links:
            raise HarnessError("there is no link to cut")
        self._journal.owe("heal", " ".join(str(link) for link in links))
        return self._seen(await self._rules.cut(links, mode=mode))

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence:
        subject = " ".join(str(link) for link in links)
        try:
            with self._undoing("heal", subject):
                return self._seen(await self._rules.heal(links))
        except ChangedRules:
            self._journal.paid("heal", subject)
            raise


class _ReadsLogs(ComposeCluster):
    """Reads a container's files through the engine, whether the container runs or not."""

    async def start(self) -> None:
        await super().start()
        for node in self.brokers:
            await asyncio.to_thread(self._check_data, node)

    def _check_data(self, node: NodeId) -> None:
        """Every broker keeps a file of that name beside its logs; without it the run would go on and read nothing."""
        container, place = self._containers[node], self._spec.attached.data
        with engine_errors(f"looking for {place} in container {container.name}"):
            try:
                pieces, _ = container.get_archive(f"{place}/{_MARK}")
            except NotFound:
                if why := _gone(container):
                    raise HarnessError(why) from None
                raise HarnessError(
                    f"container {container.name} has no {place}/{_MARK}: name the broker's data directory, one of its "
                    "log.dirs, with data in [attached]"
                ) from None
        pieces.close()

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        return self._replicas_in(node, self._bring(node, self._partitions()))

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        return self._log_end_in(self._bring(node, [(self._names.there(topic), partition)]), topic, partition)

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None:
        return self._high_watermark_in(self._bring(node, []), topic, partition)

    def _bring(self, node: NodeId, partitions: Sequence[tuple[str, int]]) -> Path:
        """The node's replicas of these partitions, and its high watermarks: what else lies there is not asked for."""
        target = self._data(node)
        target.mkdir(parents=True, exist_ok=True)
        empty(target, top=self._run)
        left_out = self._bring_one(node, _HIGH_WATERMARKS, target)
        for topic, partition in partitions:
            left_out += self._bring_one(node, f"{topic}-{partition}", target)
        file_export.note(left_out, target.parent)
        return target

    def _bring_one(self, node: NodeId, name: str, target: Path) -> list[str]:
        """Nothing where it has none, but has the directory. Returns what was skipped."""
        container, place = self._containers[node], f"{self._spec.attached.data}/{name}"
        problem = ""
        for _ in range(_ATTEMPTS):
            with engine_errors(f"reading {place} of container {container.name}"):
                try:
                    pieces, _ = container.get_archive(place)
                except NotFound:
                    self._check_data(node)
                    return []
                archive = file_export.joined(pieces, f"{place} of container {container.name}")
            try:
                return file_export.extract(archive, target)
            except (
                tarfile.TarError,
                OSError,
            ) as error:  # of a file that grew meanwhile it ends early
                problem = str(error)
                if (target / name).is_dir():
                    empty(target / name, top=self._run)
        raise HarnessError(f"{place} of container {container.name} came broken {_ATTEMPTS} times ({problem})")


def _gone(container: Any) -> str:
    """Empty: it is there."""
    with engine_errors(f"looking at container {container.name}"):
        try:
            container.reload()
        except NotFound:
            return f"container {container.name} is not there any more: somebody else removed it while the run went on"
    return ""


def _kill(container: Any) -> None:
    with unless_ended():  # since it was looked at
        container.kill()


def _pause(container: Any) -> None:
    with unless_ended():
        container.pause()


def cluster_by_docker(spec: ClusterSpec) -> type[ComposeCluster]:
    """Returns the class of clusters for what is possible here. Raises UsageError if the containers do not exist."""
    if spec.attached.commands:
        name = next(iter(spec.attached.commands))
        raise UsageError(f"[attached] {name}: a compose file's containers are harmed through Docker; leave it out")
    if spec.attached.front_ends:
        raise UsageError("[attached] front_ends: a compose file's services are told apart by name; leave it out")
    compose_project.file_of(spec)
    return _made_of(cuts=can_cut(), reads=bool(spec.attached.data))


def why_no_cut(spec: ClusterSpec) -> str:
    """Of the first of its containers whose links cannot be cut. Empty: of none."""
    engine, found = compose_project.find(spec)
    try:
        containers = list(found.values())
        alone = (shares_a_network(each) for each in containers)
        around = (goes_around(source, target) for source in containers for target in containers if source is not target)
        return next((why for why in (*alone, *around) if why), "")
    finally:
        engine.close()


@cache
def _made_of(*, cuts: bool, reads: bool) -> type[ComposeCluster]:
    parts = [part for part, wanted in ((_Cuts, cuts), (_ReadsLogs, reads)) if wanted]
    return type("ComposeCluster", (*parts, ComposeCluster), {})


def remedy(need: type) -> str:
    if need is CanCutLinks:
        return "run as root on the engine's machine, with nsenter and iptables"
    return "give data in [attached]" if need is ShowsLogs else "Docker has no means for it"
