"""The fabric as one process, commanded by lines of JSON on stdin and answering each on stdout.

`python -m harness.cluster.local.fabric_process`: the first line is the list of routes, every later one a command. A
closed stdin means that the harness is gone: the fabric ends, and with it every link.
"""

import asyncio
import json
import sys
from typing import Any

from harness.cluster.local.fabric import LinkForwarder, Route


def _obey(links: dict[str, LinkForwarder], command: dict[str, Any]) -> dict[str, Any]:
    chosen = [links[name] for name in command.get("links", links)]
    for link in chosen:
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
    seen = {
        link.route.link: {"bytes": link.bytes_forwarded, "connections": link.connections, "cut": link.cut_now}
        for link in chosen
    }
    return {"id": command["id"], "links": seen}


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=1 << 22)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    routes = json.loads(await commands.readline())
    links = {
        route["link"]: LinkForwarder(
            Route(link=route["link"], listen=tuple(route["listen"]), target=tuple(route["target"]))
        )
        for route in routes
    }
    for link in links.values():
        await link.start()
    _answer({"id": 0, "links": {name: {} for name in links}})
    while line := await commands.readline():
        _answer(_obey(links, json.loads(line)))
    for link in links.values():
        link.stop()


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve())
