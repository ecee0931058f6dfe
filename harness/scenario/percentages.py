"""Shares as people write them in scenario files: "10 %", "0.5 %", or a bare number of percent."""

import re
from typing import Any


def percent(value: Any) -> float:
    """The number of percent. Raises ValueError that shows how to write a share."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1000:
        amount = float(value)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", str(value))
        if match is None:
            raise ValueError(f'a share is written "10 %", not {value!r}')
        amount = float(match.group(1))
    if not 0 <= amount <= 100:
        raise ValueError(f"a share lies between 0 % and 100 %: {value!r}")
    return amount
