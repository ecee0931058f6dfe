"""Planted flaws: historical bugs and hazards, each a replacement of rules (docs/replication.md, planted flaws).

They prove that the checks detect such bugs. All are off by default, and every run records which were on.
"""

from collections.abc import Iterable

from reference_impl.core.planted.compaction import COMPACTION
from reference_impl.core.planted.controller import CONTROLLER
from reference_impl.core.planted.flaw import Flaw
from reference_impl.core.planted.groups import GROUPS
from reference_impl.core.planted.in_sync import IN_SYNC
from reference_impl.core.planted.producers import PRODUCERS
from reference_impl.core.planted.replication import REPLICATION
from reference_impl.core.planted.storage import STORAGE
from reference_impl.core.planted.transactions import TRANSACTIONS
from reference_impl.core.rules import Rules, sound

__all__ = ["FLAWS", "Flaw", "sound", "with_flaws"]

_ALL = (*REPLICATION, *IN_SYNC, *CONTROLLER, *PRODUCERS, *GROUPS, *TRANSACTIONS, *COMPACTION, *STORAGE)

FLAWS: dict[str, Flaw] = {flaw.name: flaw for flaw in _ALL}


def with_flaws(names: Iterable[str]) -> Rules:
    """Returns the sound rules with the named flaws planted. An unknown name is an error that lists the known ones."""
    rules = sound()
    for name in names:
        flaw = FLAWS.get(name)
        if flaw is None:
            raise ValueError(f"unknown flaw {name!r}; known: {', '.join(sorted(FLAWS))}")
        rules = flaw.apply(rules)
    return rules
