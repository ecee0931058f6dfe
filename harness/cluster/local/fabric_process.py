"""The fabric as one process: it reads commands as lines of JSON on stdin and answers each on stdout.

`python -m harness.cluster.local.fabric_process`: the first line is the list of routes, every later one a command. When
stdin closes, the harness is gone: the fabric ends, and with it every link.
"""

import asyncio
import json
import resource
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from harness.cluster.local.fabric import LinkForwarder, Route


def links_of(routes: Iterable[Route]) -> dict[str, list[LinkForwarder]]:
    """One link per port of its target: a broker that is also a controller has two."""
    links: dict[str, list[LinkForwarder]] = {}
    for route in routes:
        links.setdefault(route.link, []).append(LinkForwarder(route))
    return links


def obey(links: dict[str, list[LinkForwarder]], command: dict[str, Any]) -> dict[str, Any]:
    chosen = {name: links[name] for name in command.get("links", links)}
    for link in [forwarder for forwarders in chosen.values() for forwarder in forwarders]:
        match command["do"]:
            case "cut":
                link.cut(command["mode"])
            case "heal":
                link.heal(command["mode"])
            case "slow":
                link.delay_s = command["delay_ms"] / 1000
            case "look":
                pass
            case unknown:
                raise ValueError(f"the fabric knows no command {unknown!r}")
    return {"id": command["id"], "links": {name: _seen(forwarders) for name, forwarders in chosen.items()}}


def _seen(forwarders: Sequence[LinkForwarder]) -> dict[str, Any]:
    return {
        "bytes": sum(each.bytes_forwarded for each in forwarders),
        "connections": sum(each.connections for each in forwarders),
        "cut": all(each.cut_now for each in forwarders),
    }


def _raise_descriptor_limit() -> None:
    """A link needs two descriptors for each connection."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=1 << 22)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    routes = json.loads(await commands.readline())
    links = links_of(
        Route(link=route["link"], listen=tuple(route["listen"]), target=tuple(route["target"])) for route in routes
    )
    forwarders = [forwarder for each in links.values() for forwarder in each]
    for forwarder in forwarders:
        await forwarder.start()
    _answer({"id": 0, "links": {name: {} for name in links}})
    while line := await commands.readline():
        _answer(obey(links, json.loads(line)))
    for forwarder in forwarders:
        forwarder.stop()


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _raise_descriptor_limit()
    asyncio.run(_serve())
