"""What a run comes to, and the exit code that says so to a shell or a CI."""

from enum import Enum


class Verdict(Enum):
    PASS = "pass"
    VIOLATION = "violation"
    INCONCLUSIVE = "inconclusive"
    VACUOUS = "vacuous"
    ERROR = "error"

    @property
    def exit_code(self) -> int:
        """0, 1, 3, 3, 4; 2 is a usage error and never a verdict (DESIGN 6)."""
        return {"pass": 0, "violation": 1, "inconclusive": 3, "vacuous": 3, "error": 4}[self.value]
