"""The input that a processor's output is named after, read with the pattern of the check for exactly-once."""

import re

from harness.checks.families.transactions import exactly_once

_NAME = re.compile(exactly_once._NAME)


def decode_output(name: str) -> tuple[str, int, int] | None:
    """(topic, partition, offset) of the input of a named output; None for any other name."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match[1], int(match[2]), int(match[3]))
