"""A hosts map of this process, for clients of brokers that advertise host names.

Each client resolves such a name to another address: that of its own link. This only reaches libraries that resolve
names in Python, by `socket.getaddrinfo`; names that are not in the map are resolved as usual.
"""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Names = Callable[[], Mapping[str, str]]


@contextmanager
def resolving(names: Names) -> Iterator[None]:
    """A context in which each of `names` resolves to its address. They are read at every look-up, so entries may be
    added."""
    before = socket.getaddrinfo
    socket.getaddrinfo = with_names(before, names)
    try:
        yield
    finally:
        socket.getaddrinfo = before


def with_names(lookup: Callable[..., Any], names: Names) -> Callable[..., Any]:
    """Returns `lookup`, a getaddrinfo, extended by these names."""

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode("idna") if isinstance(host, bytes) else host
        return lookup(names().get(name, host) if isinstance(name, str) else host, *arguments, **options)

    return getaddrinfo
