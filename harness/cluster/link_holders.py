"""Counts the faults on each link: two faults may cut the same link, which is healed when both have ended."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from harness.ports.cluster import Link

Harm = TypeVar("Harm")


class LinkHolders(Generic[Harm]):
    """One entry per active fault; the newest entry of a link determines its state."""

    def __init__(self) -> None:
        self._holds: dict[Link, list[Harm]] = {}

    def in_force(self, link: Link) -> Harm | None:
        holds = self._holds.get(link)
        return holds[-1] if holds else None

    def count(self, link: Link) -> int:
        return len(self._holds.get(link, ()))

    def hold(self, links: Sequence[Link], harm: Harm) -> None:
        for link in dict.fromkeys(links):
            self._holds.setdefault(link, []).append(harm)

    def release(self, links: Sequence[Link], harm: Harm | None = None) -> Mapping[Link, Harm | None]:
        """Removes one entry from each link, the newest of that kind of fault or else the oldest; returns the remaining
        state."""
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
