"""When a triggered fault begins: on what was seen to happen, or on several such things one after the other.

Half of the classical replication bugs need a second fault within one fetch round trip of what the first one brings
about; no clock can be set to that, but an observation can.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from harness.errors import UsageError
from harness.ports.requests import request_name
from harness.values import seconds

# acks: so many records were acknowledged since the load began; more_acks: since it is waited for. new_leader: another
# leader than then. epoch_change: a higher leader epoch. isr_shrinks, isr_grows: a member less or more. truncated: a
# replica's log ends sooner than it did. restarted: a node that a fault took down runs again. elapsed: since the load
# began.
TriggerKind = Literal[
    "acks",
    "more_acks",
    "elapsed",
    "restarted",
    "new_leader",
    "no_leader",
    "epoch_change",
    "isr_at_most",
    "isr_at_least",
    "isr_shrinks",
    "isr_grows",
    "truncated",
    "request",
]


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """One part of a trigger. count: of records or members, for the kinds that have one; after_s: of `elapsed`;
    request: the name of the one that is under way; count: which one since it is waited for, 0: the next."""

    kind: TriggerKind
    topic: str = ""
    partition: int = 0
    count: int = 0
    after_s: float = 0.0
    request: str = ""


_PARTITION = r"\(\s*(\S+?)/(\d+)\s*\)"
_OF_PARTITION: dict[str, TriggerKind] = {
    "new_leader": "new_leader",
    "no_leader": "no_leader",
    "epoch_change": "epoch_change",
    "isr_shrinks": "isr_shrinks",
    "isr_grows": "isr_grows",
    "truncated": "truncated",
}
_Maker = Callable[[re.Match[str]], Trigger]
_FORMS: tuple[tuple[str, _Maker], ...] = (
    (r"acks\s*>=\s*(\d+)", lambda found: Trigger(kind="acks", count=int(found[1]))),
    (r"acks\s*>=\s*\+\s*(\d+)", lambda found: Trigger(kind="more_acks", count=int(found[1]))),
    (r"elapsed\s*>=\s*(\d\S*(?:\s*[a-z]+)?)", lambda found: Trigger(kind="elapsed", after_s=seconds(found[1]))),
    (r"restarted", lambda found: Trigger(kind="restarted")),
    (
        r"request\(\s*(\w+)\s*(?:,\s*(\d{1,6})\s*)?\)",
        lambda found: Trigger(kind="request", request=request_name(found[1]), count=int(found[2] or 0)),
    ),
    (
        rf"({'|'.join(_OF_PARTITION)}){_PARTITION}",
        lambda found: Trigger(kind=_OF_PARTITION[found[1]], topic=found[2], partition=int(found[3])),
    ),
    (
        rf"isr{_PARTITION}\s*<=\s*(\d+)",
        lambda found: Trigger(kind="isr_at_most", topic=found[1], partition=int(found[2]), count=int(found[3])),
    ),
    (
        rf"isr{_PARTITION}\s*>=\s*(\d+)",
        lambda found: Trigger(kind="isr_at_least", topic=found[1], partition=int(found[2]), count=int(found[3])),
    ),
)


def parse(text: str) -> tuple[Trigger, ...]:
    """What has to be seen, in this order: `A then B` waits for B once A was seen. Raises UsageError, with the forms."""
    return tuple(_part(part, text) for part in parts(text))


def parts(text: str) -> tuple[str, ...]:
    """The parts of a trigger, as they are written: `A then B` is A, and B."""
    return tuple(part.strip() for part in re.split(r"\sthen\s", text))


def _part(part: str, text: str) -> Trigger:
    for form, made in _FORMS:
        if found := re.fullmatch(form, part):
            try:
                return made(found)
            except ValueError as error:
                raise UsageError(f"trigger {text!r}: {error}") from None
    raise UsageError(
        f'trigger {text!r}: write "acks >= 500", "acks >= +5", "elapsed >= 4 s", "restarted", '
        '"request(AlterPartition)", "request(Fetch, 3)", "isr(orders/0) <= 1", "isr(orders/0) >= 3", or '
        f'{", ".join(_OF_PARTITION)} with a partition, "new_leader(orders/0)"; several one after the other: '
        '"new_leader(orders/0) then acks >= +5"'
    )
