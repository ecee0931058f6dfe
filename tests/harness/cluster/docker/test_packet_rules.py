"""Cut links in real containers: what the rules stop, what they pass, and the proof."""

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from harness.cluster.docker.namespace import Entry, Namespace, can_enter
from harness.cluster.docker.packet_rules import PacketRules
from harness.errors import HarnessError
from harness.ports.cluster import ClientId, Link, NodeId
from tests.harness.cluster.docker.conftest import CLIENT_1_PORT, CLIENT_2_PORT, PEER_PORT, Nodes
from tests.waiting import PATIENCE_S

TWO_TO_ONE = Link(source=NodeId(2), target=NodeId(1))
ONE_TO_TWO = Link(source=NodeId(1), target=NodeId(2))
THREE_TO_ONE = Link(source=NodeId(3), target=NodeId(1))
CLIENT_TO_ONE = Link(client=ClientId(1), target=NodeId(1))


def _namespaces(nodes: Nodes, entry: Entry) -> dict[NodeId, Namespace]:
    return {node: Namespace(infra.container, entry=entry) for node, infra in nodes.infra.items()}


async def _listening(nodes: Nodes) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for node in (1, 2, 3):
            while True:
                try:
                    _, writer = await asyncio.open_connection(nodes.address(node), CLIENT_2_PORT)
                except OSError:
                    await asyncio.sleep(0.02)
                    continue
                writer.close()
                break


@pytest.fixture(params=["nsenter", "exec"])
async def namespaces(nodes: Nodes, request: pytest.FixtureRequest) -> dict[NodeId, Namespace]:
    if request.param == "nsenter" and not (os.geteuid() == 0 and can_enter()):
        pytest.skip("nsenter needs root and iptables on the engine's own machine")
    await _listening(nodes)
    return _namespaces(nodes, request.param)


@pytest.fixture
async def rules(nodes: Nodes, namespaces: dict[NodeId, Namespace]) -> AsyncIterator[PacketRules]:
    made = PacketRules(namespaces, nodes.places)
    yield made
    await made.heal(list(made.cuts))


async def test_a_cut_link_is_closed_and_the_opposite_one_and_all_others_stay_open(
    rules: PacketRules, namespaces: dict[NodeId, Namespace], nodes: Nodes
) -> None:
    reported = await rules.cut([TWO_TO_ONE], mode="hang")
    assert reported == "packet rules stop 2>1 (no traffic; a new connection is silent)"
    one, two, three = (namespaces[NodeId(node)] for node in (1, 2, 3))
    assert two.reaches(nodes.address(1), PEER_PORT, timeout_s=0.2) == "silent"
    assert one.reaches(nodes.address(2), PEER_PORT, timeout_s=PATIENCE_S) == "open"
    assert three.reaches(nodes.address(1), PEER_PORT, timeout_s=PATIENCE_S) == "open"
    assert two.reaches(nodes.address(1), CLIENT_1_PORT, timeout_s=PATIENCE_S) == "open"
    assert two.reaches(nodes.address(3), PEER_PORT, timeout_s=PATIENCE_S) == "open"
    healed = await rules.heal([TWO_TO_ONE])
    packets = re.fullmatch(r"no packet rule is left for 2>1 \((\d+) packets had been stopped\)", healed)
    assert packets is not None
    assert int(packets[1]) >= 2, "the two connections that were tried"
    assert two.reaches(nodes.address(1), PEER_PORT, timeout_s=PATIENCE_S) == "open"


async def test_a_reset_refuses_new_connections_at_once(
    rules: PacketRules, namespaces: dict[NodeId, Namespace], nodes: Nodes
) -> None:
    reported = await rules.cut([TWO_TO_ONE, THREE_TO_ONE], mode="reset")
    assert reported.startswith("packet rules stop 2>1 (no traffic; a new connection is refused), 3>1 ")
    assert namespaces[NodeId(1)].reaches(nodes.address(2), PEER_PORT, timeout_s=PATIENCE_S) == "open"


async def test_links_cut_and_healed_one_by_one_keep_their_own_modes_and_counts(
    rules: PacketRules, namespaces: dict[NodeId, Namespace], nodes: Nodes
) -> None:
    await rules.cut([TWO_TO_ONE], mode="hang")
    seen = (await rules.stopped([TWO_TO_ONE]))[TWO_TO_ONE]
    assert seen > 0
    await rules.cut([THREE_TO_ONE, ONE_TO_TWO], mode="reset")
    assert rules.cuts == {TWO_TO_ONE: "hang", THREE_TO_ONE: "reset", ONE_TO_TWO: "reset"}
    assert (await rules.stopped([TWO_TO_ONE]))[TWO_TO_ONE] >= seen, "rules written anew go on counting"
    await rules.heal([TWO_TO_ONE, ONE_TO_TWO])
    assert namespaces[NodeId(2)].reaches(nodes.address(1), PEER_PORT, timeout_s=PATIENCE_S) == "open"
    assert namespaces[NodeId(1)].reaches(nodes.address(2), PEER_PORT, timeout_s=PATIENCE_S) == "open"
    assert namespaces[NodeId(3)].reaches(nodes.address(1), PEER_PORT, timeout_s=PATIENCE_S) == "refused"


async def test_one_client_is_cut_from_one_node_and_no_other_client_notices(rules: PacketRules, nodes: Nodes) -> None:
    reader, writer = await asyncio.open_connection(nodes.address(1), CLIENT_1_PORT)
    other_reader, other_writer = await asyncio.open_connection(nodes.address(1), CLIENT_2_PORT)
    try:
        writer.write(b"before")
        assert await asyncio.wait_for(reader.readexactly(6), 5) == b"before"
        reported = asyncio.create_task(rules.cut([CLIENT_TO_ONE], mode="hang"))
        while not rules.cuts:
            await asyncio.sleep(0.01)
        writer.write(b"during")
        assert re.fullmatch(r"packet rules stop c1>1 \(\d+ packets dropped\)", await reported), (
            "a busy link's own packets"
        )
        other_writer.write(b"other")
        assert await asyncio.wait_for(other_reader.readexactly(5), 5) == b"other"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.3)
        await rules.heal([CLIENT_TO_ONE])
        assert await asyncio.wait_for(reader.readexactly(6), PATIENCE_S) == b"during", (
            "nothing was lost, it only waited"
        )
    finally:
        writer.close()
        other_writer.close()


async def test_a_living_connection_is_reset_from_both_of_its_ends(rules: PacketRules, nodes: Nodes) -> None:
    reader, writer = await asyncio.open_connection(nodes.address(1), CLIENT_1_PORT)
    try:
        writer.write(b"before")
        assert await asyncio.wait_for(reader.readexactly(6), 5) == b"before"
        await rules.cut([CLIENT_TO_ONE], mode="reset")
        writer.write(b"during")
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.readexactly(6), PATIENCE_S)
    finally:
        writer.close()


async def test_rules_of_others_are_left_alone_and_our_chain_is_hooked_once(
    rules: PacketRules, namespaces: dict[NodeId, Namespace]
) -> None:
    one = namespaces[NodeId(1)]
    foreign = ["INPUT", "-s", "192.0.2.9/32", "-p", "tcp", "-m", "tcp", "--dport", "7", "-j", "DROP"]
    one.run(["iptables", "-A", *foreign])
    try:
        for _ in range(3):
            await rules.cut([TWO_TO_ONE], mode="hang")
            await rules.heal([TWO_TO_ONE])
        saved = one.run(["iptables-save", "-t", "filter"])
    finally:
        one.run(["iptables", "-D", *foreign])
    assert saved.count("-j KAFKA_CHAOS") == 2
    assert "-A " + " ".join(foreign) in saved
    assert "-A KAFKA_CHAOS" not in saved


async def test_a_rule_that_somebody_takes_away_is_an_error_and_no_proof(
    nodes: Nodes, namespaces: dict[NodeId, Namespace]
) -> None:
    class Undone(Namespace):
        def run(self, command: Sequence[str], *, given: str = "") -> str:
            reported = namespaces[NodeId(1)].run(command, given=given)
            if command[0] == "iptables-restore":
                namespaces[NodeId(1)].run(["iptables", "-F", "KAFKA_CHAOS"])
            return reported

    undone = Undone(nodes.infra[NodeId(1)].container, entry="exec")
    with pytest.raises(HarnessError, match="are not the ones written: 0 of 2 rules"):
        await PacketRules({**namespaces, NodeId(1): undone}, nodes.places).cut([TWO_TO_ONE], mode="hang")


def test_a_command_that_fails_says_where_and_with_what_words(namespaces: dict[NodeId, Namespace]) -> None:
    with pytest.raises(HarnessError, match=r"iptables in the network of kafka-chaos-test-.*-node1 failed with \d+: .*"):
        namespaces[NodeId(1)].run(["iptables", "-L", "NOWHERE"])


async def test_a_cut_that_fails_half_way_is_healed_whole(nodes: Nodes, namespaces: dict[NodeId, Namespace]) -> None:
    """Node 2 refuses while node 1 obeys; afterwards no rule is left at either."""

    class Refusing(Namespace):
        refuses = True

        def run(self, command: Sequence[str], *, given: str = "") -> str:
            if self.refuses and command[0] == "iptables-restore":
                raise HarnessError("iptables-restore failed")
            return super().run(command, given=given)

    refusing = Refusing(nodes.infra[NodeId(2)].container, entry="exec")
    rules = PacketRules({**namespaces, NodeId(2): refusing}, nodes.places)
    with pytest.raises(HarnessError, match="iptables-restore failed"):
        await rules.cut([TWO_TO_ONE, ONE_TO_TWO], mode="hang")
    assert namespaces[NodeId(2)].reaches(nodes.address(1), PEER_PORT, timeout_s=0.2) == "silent"
    refusing.refuses = False
    await rules.heal([TWO_TO_ONE, ONE_TO_TWO])
    for node in (1, 2):
        assert "-A KAFKA_CHAOS" not in namespaces[NodeId(node)].run(["iptables-save"])


async def test_a_cut_that_is_cancelled_while_it_is_written_leaves_nothing_after_the_heal(
    nodes: Nodes, namespaces: dict[NodeId, Namespace]
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Namespace):
        def run(self, command: Sequence[str], *, given: str = "") -> str:
            if not begun.is_set():
                begun.set()
                go_on.wait(10)
            return super().run(command, given=given)

    slow = Slow(nodes.infra[NodeId(1)].container, entry="exec")
    rules = PacketRules({**namespaces, NodeId(1): slow}, nodes.places)
    cutting = asyncio.create_task(rules.cut([TWO_TO_ONE], mode="hang"))
    await asyncio.to_thread(begun.wait, 10)
    cutting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cutting
    healing = asyncio.create_task(rules.heal([TWO_TO_ONE]))
    await asyncio.sleep(0)
    go_on.set()
    await healing
    assert "-A KAFKA_CHAOS" not in namespaces[NodeId(1)].run(["iptables-save"])
    assert namespaces[NodeId(2)].reaches(nodes.address(1), PEER_PORT, timeout_s=PATIENCE_S) == "open"
