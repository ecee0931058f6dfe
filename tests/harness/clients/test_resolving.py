"""The hosts map of a process: brokers' names lead where it says, everything else where it always led."""

import asyncio
import socket

import pytest

from harness.clients.resolving import resolving

NAMES = {"node1": "127.9.129.2", "node2": "127.9.129.3"}


def looked_up(host: str | bytes | None, port: int = 21_000) -> str:
    return str(socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


@pytest.mark.parametrize("host", ["node1", b"node1"])
def test_a_broker_s_name_leads_to_its_address_in_the_map(host: str | bytes) -> None:
    with resolving(lambda: NAMES):
        assert looked_up(host) == "127.9.129.2"


def test_addresses_and_unlisted_names_are_resolved_as_ever() -> None:
    with resolving(lambda: NAMES):
        assert looked_up("127.0.0.1") == "127.0.0.1"
        assert looked_up(None) == "127.0.0.1"
        with pytest.raises(socket.gaierror):
            looked_up("node1.invalid")


async def test_an_event_loop_resolves_them_too() -> None:
    with resolving(lambda: NAMES):
        found = await asyncio.get_running_loop().getaddrinfo("node2", 21_000, family=socket.AF_INET)
    assert found[0][4][0] == "127.9.129.3"


def test_names_are_asked_for_at_each_look_up_since_a_cluster_learns_its_addresses_late() -> None:
    names: dict[str, str] = {}
    with resolving(lambda: names):
        names["node1"] = "127.9.0.2"
        assert looked_up("node1") == "127.9.0.2"


def test_afterwards_nothing_is_left_of_it() -> None:
    before = socket.getaddrinfo
    with pytest.raises(ZeroDivisionError), resolving(lambda: NAMES):
        raise ZeroDivisionError
    assert socket.getaddrinfo is before
