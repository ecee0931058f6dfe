"""When a triggered fault begins: after the n-th acknowledgement, on a new leader, when an ISR has shrunk.

Half of the classical replication bugs need a second fault within one fetch round trip of the first; no clock can be
set to that, but an observation can.
"""

import re
from dataclasses import dataclass
from typing import Literal

from harness.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """acks: `count` records were acknowledged. new_leader: another leader than now. isr: at most `count` members."""

    kind: Literal["acks", "new_leader", "isr"]
    topic: str = ""
    partition: int = 0
    count: int = 0


def parse(text: str) -> Trigger:
    """Raises UsageError that lists the forms."""
    if match := re.fullmatch(r"\s*acks\s*>=\s*(\d+)\s*", text):
        return Trigger(kind="acks", count=int(match.group(1)))
    if match := re.fullmatch(r"\s*new_leader\(\s*(\S+?)/(\d+)\s*\)\s*", text):
        return Trigger(kind="new_leader", topic=match.group(1), partition=int(match.group(2)))
    if match := re.fullmatch(r"\s*isr\(\s*(\S+?)/(\d+)\s*\)\s*<=\s*(\d+)\s*", text):
        return Trigger(kind="isr", topic=match.group(1), partition=int(match.group(2)), count=int(match.group(3)))
    raise UsageError(f'trigger {text!r}: write "acks >= 500", "new_leader(orders/0)" or "isr(orders/0) <= 1"')
