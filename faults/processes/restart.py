"""A restart: a crash whose victims start again after `down`; at once if it is not given."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.processes.kill import Kill
from harness.ports.faults import Aliases
from harness.values import Seconds


@dataclass(frozen=True, kw_only=True)
class Restart(Kill):
    name = "restart"
    aliases: ClassVar[Aliases] = {}
    says = "SIGKILL, and a start after `down`"
    down_s: Seconds = 0.0

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"down": f"{chance.choice((0, 200, 1000, 3000))} ms"}

    @property
    def lasts_s(self) -> float:
        return self.down_s
