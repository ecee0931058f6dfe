"""A process's own hosts map, for clients of brokers that advertise themselves by name.

Such names mean another address to each client: that of its own link. Only libraries that resolve names in Python are
reached, by `socket.getaddrinfo`; every name that is not in the map is resolved as ever.
"""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Names = Callable[[], Mapping[str, str]]


@contextmanager
def resolving(names: Names) -> Iterator[None]:
    """Within, each of `names` leads to its address. They are asked for at every look-up: they may come to be known."""
    before = socket.getaddrinfo
    socket.getaddrinfo = with_names(before, names)
    try:
        yield
    finally:
        socket.getaddrinfo = before


def with_names(lookup: Callable[..., Any], names: Names) -> Callable[..., Any]:
    """`lookup`, a getaddrinfo, that knows these names too."""

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode("idna") if isinstance(host, bytes) else host
        return lookup(names().get(name, host) if isinstance(name, str) else host, *arguments, **options)

    return getaddrinfo
