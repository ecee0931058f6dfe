"""What a run exercised, counted as situations: whom a fault struck, and what was so when it did.

Counted from the sealed tables of a run alone.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["leader", "follower", "out_of_isr", "controller", "other"]
InFlight = Literal["nothing", "records"]


@dataclass(frozen=True, kw_only=True, order=True)
class Situation:
    """role: the victim's, in the partition it mattered most to; links and topics alone have "other". isr_size: of that
    partition, 0: not known. epoch_change: its leader epoch had changed within 3 s before. in_flight: whether records
    were sent and not yet answered. before: the kind of fault that was in force, or over within 3 s; "": none."""

    kind: str
    role: Role
    isr_size: int
    epoch_change: bool
    in_flight: InFlight
    before: str


@dataclass(frozen=True, kw_only=True)
class Situations:
    """How often each was reached by the runs so far."""

    reached: Mapping[Situation, int] = field(default_factory=Counter)

    def worth(self, kind: str, role: str, before: str) -> float:
        """What a fault is worth that is planned so: the less often that was reached, the more."""
        like = sum(
            count
            for situation, count in self.reached.items()
            if situation.kind == kind and situation.before == before and situation.role == _ROLES.get(role, "other")
        )
        return 1.0 / (1 + like)


_ROLES: Mapping[str, Role] = {
    "leader": "leader", "isr": "leader", "follower": "follower", "followers": "follower", "last_isr": "follower",
    "controller": "controller",
}  # fmt: skip
