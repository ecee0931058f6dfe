"""Harms that only some worlds can do: to packets, to the bits on a disk, to the room on it. Asked for as capabilities.

What a world can do in principle may be missing on the machine at hand (a kernel without netem). That is known once the
cluster runs, and is said then, before any load: see `TellsWhatIsMissing`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from harness.errors import UsageError
from harness.interfaces import Evidence, Link, NodeId

Place = Literal["last", "middle"]


@dataclass(frozen=True, kw_only=True)
class Impairment:
    """What happens to packets, each way."""

    delay_ms: float = 0
    jitter_ms: float = 0
    loss_percent: float = 0
    duplicate_percent: float = 0
    reorder_percent: float = 0

    def __post_init__(self) -> None:
        for name in ("loss_percent", "duplicate_percent", "reorder_percent"):
            if not 0 <= getattr(self, name) <= 100:
                raise UsageError(f"{name} lies between 0 and 100, not {getattr(self, name):g}")
        if self.delay_ms < 0 or self.jitter_ms < 0:
            raise UsageError(f"a delay is not negative: {min(self.delay_ms, self.jitter_ms):g} ms")
        if (self.reorder_percent or self.jitter_ms) and not self.delay_ms:
            raise UsageError("reordering and jitter need a delay: packets overtake those that wait")

    @property
    def nothing(self) -> bool:
        return self == Impairment()

    def described(self) -> str:
        """For people: "lose 10 % of their packets, delay each by 20 ms"."""
        told = []
        if self.loss_percent:
            told.append(f"lose {self.loss_percent:g} % of their packets")
        if self.duplicate_percent:
            told.append(f"send {self.duplicate_percent:g} % of their packets twice")
        if self.reorder_percent:
            told.append(f"let {self.reorder_percent:g} % of their packets overtake others")
        if self.delay_ms:
            jitter = f" and up to {self.jitter_ms:g} ms more or less" if self.jitter_ms else ""
            told.append(f"delay every packet by {self.delay_ms:g} ms{jitter}")
        return ", ".join(told) or "pass packets as they come again"


@runtime_checkable
class CanImpairPackets(Protocol):
    async def impair(self, links: Sequence[Link], impairment: Impairment) -> Evidence: ...  # an empty one ends it


@runtime_checkable
class CanDamageDisks(Protocol):
    async def damage(self, node: NodeId, topic: str, partition: int, *, at: Place) -> Evidence:
        """Flips bits in one batch of a replica's log, of a node that is down or runs; its checksum is void then."""
        ...


@runtime_checkable
class CanFillDisks(Protocol):
    async def fill_disk(self, node: NodeId) -> Evidence: ...  # no byte is free afterwards

    async def free_disk(self, node: NodeId) -> Evidence: ...  # what filled it is gone


@runtime_checkable
class CanDeleteTopics(Protocol):
    async def delete_topic(self, topic: str) -> None: ...  # returns when it was answered


@runtime_checkable
class TellsWhatIsMissing(Protocol):
    def missing(self, need: type) -> str | None:
        """Asked of a running cluster: why this machine cannot do what this kind of cluster can; None: it can."""
        ...
