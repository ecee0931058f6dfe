"""Address blocks are unique while held and free afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.cluster.local.addresses import CLIENT_LINKS_MAX, AddressBlock
from harness.errors import HarnessError
from harness.ports.cluster import COORDINATION, ClientId, NodeId

pytestmark = pytest.mark.cluster

_NODES = [COORDINATION, NodeId(3), NodeId(1)]
_HOLDER = """
import sys
from harness.cluster.local.addresses import AddressBlock
from harness.ports.cluster import NodeId
with AddressBlock([NodeId(1)], client_links=1) as block:
    print(block.block, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_two_blocks_of_one_process_differ() -> None:
    with AddressBlock(_NODES, client_links=1) as one, AddressBlock(_NODES, client_links=1) as other:
        assert one.block != other.block
        assert one.node(NodeId(1)) != other.node(NodeId(1))


def test_a_block_of_another_process_is_not_taken_before_that_process_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            theirs = int(holder.stdout.readline())
            with AddressBlock(_NODES, client_links=1) as ours:
                assert ours.block != theirs
            monkeypatch.setattr("harness.cluster.local.addresses._BLOCKS", range(theirs, theirs + 1))
            with pytest.raises(HarnessError, match="kafka-chaos sweep"):
                AddressBlock(_NODES, client_links=1)
        finally:
            holder.kill()
            holder.wait()
    with AddressBlock(_NODES, client_links=1) as freed:
        assert freed.block == theirs


def test_a_released_block_can_be_taken_again() -> None:
    with AddressBlock(_NODES, client_links=1) as first:
        number = first.block
    with AddressBlock(_NODES, client_links=1) as second:
        assert second.block == number
        second.release()
        second.release()


def test_every_node_link_and_client_has_its_address_and_every_listener_its_port() -> None:
    with AddressBlock(_NODES, client_links=2) as block:
        start = f"127.{block.block}."
        assert block.node(COORDINATION) == start + "0.1"
        assert block.node(NodeId(3)) == start + "0.2"
        assert block.link(NodeId(3), NodeId(1)) == start + "2.3"
        assert block.link(NodeId(1), COORDINATION) == start + "3.1"
        assert block.client(ClientId(2), NodeId(1)) == start + "130.3"
        ports = [block.internal_port, block.client_port(ClientId(1)), block.client_port(ClientId(2)), block.admin_port]
        assert ports == list(range(block.port, block.port + 4))


def test_more_clients_than_addresses_are_refused_and_nothing_is_locked() -> None:
    with pytest.raises(HarnessError, match=f"at most {CLIENT_LINKS_MAX}"):
        AddressBlock(_NODES, client_links=CLIENT_LINKS_MAX + 1)
