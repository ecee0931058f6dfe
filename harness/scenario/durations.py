"""Durations as people write them in scenario files: "1500 ms", "2.5 s", "3 min", "2 h", or a bare number of seconds."""

import re
from typing import Any

LONGEST_S = 1e8  # three years
_UNITS_S = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


def seconds(value: Any) -> float:
    """Seconds of a written duration. Raises ValueError that shows how to write one."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LONGEST_S:
        amount = float(value)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h)\s*", str(value))
        if match is None:
            raise ValueError(f'a duration is written "500 ms", "2.5 s" or "3 min", not {value!r}')
        amount = float(match.group(1)) * _UNITS_S[match.group(2)]
    if amount > LONGEST_S:
        raise ValueError(f"a duration is at most {LONGEST_S / 3600:.0f} hours: {value!r}")
    if amount < 0:
        raise ValueError(f"a duration is not negative: {value!r}")
    return amount
