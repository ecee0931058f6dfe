"""Which frames a fault strikes on its links: those of one kind, each of them or the nth, which wait or are lost.

A frame is counted once, when it would pass: what waits behind another one, or for a cut to end, has not passed yet.
"""

from dataclasses import dataclass, field

from harness.cluster.simulated.frames import Frame
from harness.ports.requests import API_KEYS, Requests


@dataclass(kw_only=True, eq=False)
class Striking:
    """One fault in force, on all of its links. struck: how many frames it has held or lost."""

    requests: Requests
    struck: int = 0
    _seen: int = 0

    def strikes(self, frame: Frame, *, is_answer: bool) -> bool:
        requests = self.requests
        if frame.api_key != API_KEYS[requests.request] or is_answer != requests.answers:
            return False
        self._seen += 1
        hit = requests.nth in (0, self._seen)
        self.struck += hit
        return hit


@dataclass(kw_only=True, eq=False)
class Waiting:
    """A frame on its way. counted: by these faults already; by: these strike it."""

    frame: Frame
    counted: list[Striking] = field(default_factory=list)
    by: list[Striking] = field(default_factory=list)

    def is_struck(self, in_force: list[Striking], *, is_answer: bool) -> list[Striking]:
        """The faults that strike it now."""
        for each in in_force:
            if each not in self.counted:
                self.counted.append(each)
                if each.strikes(self.frame, is_answer=is_answer):
                    self.by.append(each)
        self.by = [each for each in self.by if each in in_force]
        return self.by
