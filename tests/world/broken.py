"""A promise that was broken otherwise than by the loss of a record, and who may tell it."""

from dataclasses import dataclass

from tests.world.chronicle import Partition
from tests.world.truth import Verdict


@dataclass(frozen=True, kw_only=True)
class Broken:
    """checks: those that may tell it; none: that it is no plain pass is all that is asked. value: of the record.
    offset: of that of its copies which is meant, or the one that a group was told."""

    kind: str
    checks: frozenset[str]
    verdict: Verdict
    story: str
    partition: Partition | None = None
    value: int | None = None
    offset: int | None = None
