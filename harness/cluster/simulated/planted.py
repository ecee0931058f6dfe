"""What the flaws are that the reference can be told to follow, and which part of it each changes."""

from dataclasses import dataclass
from functools import cache

from reference_impl.core.flaws import FLAWS
from reference_impl.core.planted.flaw import Part

__all__ = ["Part", "PlantedFlaw", "planted_flaws"]


@dataclass(frozen=True, kw_only=True)
class PlantedFlaw:
    name: str
    origin: str
    description: str
    part: Part
    hidden_by: str


@cache
def planted_flaws() -> tuple[PlantedFlaw, ...]:
    """In the reference's order."""
    return tuple(
        PlantedFlaw(
            name=flaw.name,
            origin=flaw.origin,
            description=flaw.description,
            part=flaw.part,
            hidden_by=flaw.hidden_by,
        )
        for flaw in FLAWS.values()
    )
