"""Links of a fault as a run's table has them, written as people write them: "2>1 c1>3"."""

from typing import Any

from harness.history.schema.version_1_words import links_of


def struck(links: str) -> list[dict[str, Any]]:
    found = links_of(links)
    assert found is not None, links
    return found
