"""Links of a fault as a run's table has them, written as people write them: "2>1 c1>3"."""

from typing import Any

from harness.ports.cluster import Link


def struck(links: str) -> list[dict[str, Any]]:
    return [
        {"source": link.source, "client": link.client, "target": link.target} for link in map(Link.parse, links.split())
    ]
