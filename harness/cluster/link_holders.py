"""Who keeps a link harmed: faults overlap, and a link that two of them cut passes again only when both are over."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from harness.interfaces import Link

Harm = TypeVar("Harm")


class LinkHolders(Generic[Harm]):
    """One hold for each fault that began; what is in force on a link is what its newest hold says."""

    def __init__(self) -> None:
        self._holds: dict[Link, list[Harm]] = {}

    def in_force(self, link: Link) -> Harm | None:
        holds = self._holds.get(link)
        return holds[-1] if holds else None

    def hold(self, links: Sequence[Link], harm: Harm) -> None:
        for link in dict.fromkeys(links):
            self._holds.setdefault(link, []).append(harm)

    def release(self, links: Sequence[Link], harm: Harm | None = None) -> Mapping[Link, Harm | None]:
        """Takes one hold off each link, the newest of that harm or else the oldest; what is in force then."""
        for link in dict.fromkeys(links):
            holds = self._holds.pop(link, [])
            if harm in holds:
                holds.reverse()
                holds.remove(harm)
                holds.reverse()
            else:
                del holds[:1]
            if holds:
                self._holds[link] = holds
        return {link: self.in_force(link) for link in links}
