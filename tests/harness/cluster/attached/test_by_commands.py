"""The user's commands determine the capabilities of an attached cluster; their effect is observed on the brokers."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.attached.by_commands import cluster_by_commands, remedy
from harness.cluster.attached.journal import AttachedJournal
from harness.errors import HarnessError, UsageError
from harness.host.clock import SystemClock
from harness.ports.cluster import (
    CanCrash,
    CanCutLinks,
    CanPause,
    CanReconfigure,
    CanSlowLinks,
    CanStop,
    CanWipe,
    Cluster,
    Link,
    NodeId,
    SeesNodesEnd,
    ShowsLogs,
)
from harness.ports.faults import AlreadyDown
from harness.scenario.model import AttachedSpec, ClusterSpec

CAPABILITIES = (CanCrash, CanStop, CanPause, CanCutLinks, CanSlowLinks, CanWipe, ShowsLogs)


def spec(**commands: str) -> ClusterSpec:
    known = {str(node): f"127.0.0.1:{node}" for node in range(1, 4)}
    attached = AttachedSpec(nodes=known, **commands)  # type: ignore[arg-type]
    return ClusterSpec(system="attached", bootstrap="127.0.0.1:1", attached=attached)


def made(run: Path, wanted: ClusterSpec, at: Mapping[NodeId, tuple[str, int]] | None = None) -> object:
    known = {NodeId(int(node)): ("127.0.0.1", int(node)) for node in wanted.attached.nodes}
    AttachedJournal(run).found(at or known)
    return cluster_by_commands(wanted)(run_path=run, spec=wanted, clock=SystemClock())


@pytest.mark.parametrize(
    ("commands", "able"),
    [
        ((), []),
        (("kill", "start"), [CanCrash]),
        (("stop", "start"), [CanStop]),
        (("pause", "resume"), [CanPause]),
        (("cut", "heal"), [CanCutLinks]),
        (("isolate", "rejoin"), [CanCutLinks]),
        (("cut", "heal", "slow"), [CanCutLinks, CanSlowLinks]),
        (("kill", "start", "wipe"), [CanCrash, CanWipe]),
        (("read_log",), [ShowsLogs]),
    ],
)
def test_a_cluster_can_do_exactly_what_there_are_commands_for(commands: Sequence[str], able: list[type]) -> None:
    kind = cluster_by_commands(spec(**dict.fromkeys(commands, "true")))

    assert [capability for capability in CAPABILITIES if issubclass(kind, capability)] == able
    assert issubclass(kind, CanReconfigure)
    assert isinstance(kind, type)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (spec(kill="true"), "has kill and no start"),
        (spec(pause="true"), "has pause and no resume"),
        (spec(isolate="true"), "has isolate and no rejoin"),
        (spec(slow="true"), "has slow and no cut"),
        (spec(kill="kill {pid}", start="true"), "{pid} is nothing to fill in"),
        (ClusterSpec(system="attached"), "needs --bootstrap"),
        (ClusterSpec(system="attached", bootstrap="a:1", attached=AttachedSpec(nodes={"one": "a:1"})), "no broker id"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused_before_a_run(wanted: ClusterSpec, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        cluster_by_commands(wanted)
    assert message in str(refused.value)


def test_the_remedy_names_the_commands() -> None:
    assert remedy(CanCutLinks) == "give cut and heal, or isolate and rejoin in [attached]"


def links(*ends: tuple[int, int]) -> list[Link]:
    return [Link(source=NodeId(source), target=NodeId(target)) for source, target in ends]


async def test_every_link_is_cut_by_a_command_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "cut"
    cluster = made(tmp_path, spec(cut=f"echo {{link_source}}-{{link_target}} >> {out}", heal=f"rm {out}"))
    assert isinstance(cluster, CanCutLinks)

    evidence = await cluster.cut(links((2, 1), (3, 1)))

    assert out.read_text().split() == ["2-1", "3-1"]
    assert "nothing more of it is seen from outside" in evidence.sentence
    assert AttachedJournal(tmp_path).owed() == [("heal", "n2>n1 n3>n1")]


async def test_a_command_that_names_all_links_is_run_once(tmp_path: Path) -> None:
    out = tmp_path / "cut"
    cluster = made(tmp_path, spec(cut=f"echo {{links}} {{mode}} >> {out}", heal="true"))
    assert isinstance(cluster, CanCutLinks)

    await cluster.cut(links((2, 1), (3, 1)), mode="reset")
    await cluster.heal(links((2, 1), (3, 1)))

    assert out.read_text() == "2>1 3>1 reset\n"
    assert AttachedJournal(tmp_path).owed() == []


async def test_isolating_sets_a_broker_apart_from_all_others_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "isolated"
    cluster = made(tmp_path, spec(isolate=f"echo {{node}} >> {out}", rejoin="true"))
    assert isinstance(cluster, CanCutLinks)

    await cluster.cut(links((2, 1), (1, 2), (2, 3), (3, 2)))
    assert out.read_text() == "2\n"

    with pytest.raises(HarnessError, match="sets brokers apart from all others"):
        await cluster.cut(links((2, 1)))


async def test_a_kill_command_that_kills_nobody_is_found_out(
    tmp_path: Path, unused_tcp_broker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cluster.attached.by_commands.EFFECT_S", 0.3)
    wanted = ClusterSpec(
        system="attached",
        bootstrap="127.0.0.1:1",
        attached=AttachedSpec(nodes={"1": f"127.0.0.1:{unused_tcp_broker}"}, kill="true", start="true"),
    )
    AttachedJournal(tmp_path).found({NodeId(1): ("127.0.0.1", unused_tcp_broker)})
    cluster = cluster_by_commands(wanted)(run_path=tmp_path, spec=wanted, clock=SystemClock())
    assert isinstance(cluster, CanCrash)

    with pytest.raises(HarnessError, match=r"the kill command ended with 0 .* and yet .* answers"):
        await cluster.kill(NodeId(1))


_LISTENS = """
import signal, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
signal.pause()
"""


@pytest.fixture
async def silent_broker() -> AsyncIterator[tuple[int, int]]:
    """(process, port) of somebody's broker that takes connections and answers nothing."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _LISTENS, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    yield process.pid, int(await process.stdout.readline())
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def test_a_kill_is_proved_by_a_port_that_refuses(tmp_path: Path, silent_broker: tuple[int, int]) -> None:
    process, port = silent_broker
    until_gone = f"while kill -0 {process} 2>&-; do :; done"  # until then its port may still take connections
    wanted = spec(kill=f"kill -KILL {process}; {until_gone}", start="true")
    cluster = made(tmp_path, wanted, {NodeId(1): ("127.0.0.1", port)})
    assert isinstance(cluster, CanCrash)
    assert isinstance(cluster, Cluster)

    evidence = await cluster.kill(NodeId(1))

    assert f"127.0.0.1:{port} refuses connections" in evidence.sentence
    assert not cluster.is_running(NodeId(1))
    assert AttachedJournal(tmp_path).owed() == [("start", "1")]


@pytest.mark.parametrize("act", ["kill", "shut_down", "pause"])
async def test_a_broker_that_somebody_else_took_down_is_neither_ended_nor_started(tmp_path: Path, act: str) -> None:
    ran = tmp_path / "ran"
    command = f"touch {ran}"
    cluster: Any = made(tmp_path, spec(kill=command, stop=command, start=command, pause=command, resume=command))

    with pytest.raises(AlreadyDown, match=r"broker 1 is down already, and not by this run: .* it is left alone"):
        await getattr(cluster, act)(NodeId(1))
    assert AttachedJournal(tmp_path).owed() == []
    assert "was not taken down by this run, and is left as it is" in (await cluster.start_node(NodeId(1))).sentence
    assert not ran.exists()
    assert isinstance(cluster, SeesNodesEnd)
    assert [(end.node, end.exit_status, end.signal) for end in cluster.node_ends()] == [(1, None, None)]


async def test_a_kill_command_that_fails_while_the_broker_answers_is_an_error(
    tmp_path: Path, unused_tcp_broker: int
) -> None:
    nodes = {"1": f"127.0.0.1:{unused_tcp_broker}"}
    wanted = ClusterSpec(
        system="attached", bootstrap="a:1", attached=AttachedSpec(nodes=nodes, kill="false", start="x")
    )
    AttachedJournal(tmp_path).found({NodeId(1): ("127.0.0.1", unused_tcp_broker)})
    cluster = cluster_by_commands(wanted)(run_path=tmp_path, spec=wanted, clock=SystemClock())
    assert isinstance(cluster, CanCrash)

    with pytest.raises(HarnessError, match="kill for broker 1 ended with 1"):
        await cluster.kill(NodeId(1))
    assert isinstance(cluster, SeesNodesEnd)
    assert cluster.node_ends() == ()


@pytest.fixture
async def unused_tcp_broker() -> object:
    """A port where somebody answers every Metadata request with an empty cluster."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                request = await reader.readexactly(size)
                body = {18: b"\0\0\0\0\0\0", 3: b"\0\0\0\0\0\0\0\0"}[int.from_bytes(request[:2], "big")]
                response = request[4:8] + body
                writer.write(len(response).to_bytes(4, "big") + response)
                await writer.drain()
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
