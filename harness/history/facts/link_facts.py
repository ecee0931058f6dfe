"""The links that a fault affected: source and target of their connections."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.history.schema.cluster_rows import FaultRow


@dataclass(frozen=True, kw_only=True)
class StruckLink:
    """The connections that the node `source`, or the client `client`, opens to the node `target`.

    Both None: unknown.
    """

    source: int | None
    client: int | None
    target: int

    def __str__(self) -> str:
        if self.source is not None:
            return f"n{self.source}>n{self.target}"
        return f"{'?' if self.client is None else f'c{self.client}'}>n{self.target}"

    def touches(self, node: int) -> bool:
        return node in (self.source, self.target)


def struck_links(fault: FaultRow) -> Sequence[StruckLink]:
    """From a row of `faults`; none if it affected no link, or if they are unknown."""
    return [
        StruckLink(source=link["source"], client=link["client"], target=link["target"]) for link in fault["links"] or ()
    ]
