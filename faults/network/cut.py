"""A partition of exactly the links that a scenario names, such as "2>1"."""

from dataclasses import dataclass
from typing import ClassVar

from faults.network.link_fault import CutFault, NamedOrPeerLinks
from harness.ports.faults import Aliases


@dataclass(frozen=True, kw_only=True)
class Cut(NamedOrPeerLinks, CutFault):
    name = "cut"
    aliases: ClassVar[Aliases] = {"cut-link": {}}
    says = "the named links are cut, and no others"
    may_hit = ()
    weight = 0.0  # never drawn by chance: it needs names of links

    def __post_init__(self) -> None:
        if not self.links:
            raise ValueError('name the links, for example links = ["2>1"]')
