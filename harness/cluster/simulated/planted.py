"""What the flaws are that the reference can be told to follow, and which part of it each changes."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from reference_impl.core.flaws import FLAWS, Flaw, sound

Part = Literal["replication", "groups", "transactions", "compaction"]


@dataclass(frozen=True, kw_only=True)
class PlantedFlaw:
    name: str
    origin: str
    description: str
    part: Part


@cache
def planted_flaws() -> tuple[PlantedFlaw, ...]:
    """In the reference's order."""
    return tuple(
        PlantedFlaw(name=flaw.name, origin=flaw.origin, description=flaw.description, part=_part(flaw))
        for flaw in FLAWS.values()
    )


def _part(flaw: Flaw) -> Part:
    """By the rules that it replaces. The order matters: reading of transactions is a rule of replication, too."""
    rules, kept = flaw.apply(sound()), sound()
    if rules.cleaning != kept.cleaning:
        return "compaction"
    is_of_producers = rules.producers != kept.producers or rules.stable_end != kept.stable_end
    if is_of_producers or rules.transactions != kept.transactions or _counts_otherwise(flaw):
        return "transactions"
    return "groups" if rules.groups != kept.groups else "replication"


def _counts_otherwise(flaw: Flaw) -> bool:
    """Whether it is of offsets that are sent to a transaction."""
    rules, kept = flaw.apply(sound()), sound()
    return replace(rules.groups, counts_in_transaction=kept.groups.counts_in_transaction) == kept.groups != rules.groups
