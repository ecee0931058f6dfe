"""Planted flaws: historical bugs and hazards, each a replacement of rules (docs/replication.md, planted flaws).

They prove that the checks detect such bugs. All are off by default, and every run records which were on.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from reference_impl.core.rules import Rules, sound

__all__ = ["FLAWS", "Flaw", "sound", "with_flaws"]


@dataclass(frozen=True, kw_only=True)
class Flaw:
    name: str
    origin: str
    description: str
    apply: Callable[[Rules], Rules]


def _acknowledge_at_once(required_offset: int, high_watermark: int) -> bool:
    return True


def _cut_to_high_watermark_on_follow(log_end_offset: int, high_watermark: int, has_leader_epochs: bool) -> int:
    return high_watermark


def _ask_without_epoch(latest_epoch: int) -> int:
    return -1


def _cut_to_high_watermark_at_start(log_end_offset: int, checkpointed_high_watermark: int) -> int:
    return min(log_end_offset, checkpointed_high_watermark)


def _end_as_it_took_over(readable_end: int, leader_epoch_start_offset: int) -> int:
    return min(readable_end, leader_epoch_start_offset)


_ALL = (
    Flaw(
        name="acknowledge-before-replication",
        origin="M20, hazard",
        description="acks=all is answered after the local append, without waiting for the in-sync replicas",
        apply=lambda rules: replace(rules, acknowledges=_acknowledge_at_once),
    ),
    Flaw(
        name="truncate-to-high-watermark-on-follow",
        origin="M01, KIP-101, KAFKA-1211",
        description="a new follower cuts its log to its own high watermark and never asks where the epochs part",
        apply=lambda rules: replace(
            rules, follow_truncation=_cut_to_high_watermark_on_follow, fetch_epoch=_ask_without_epoch
        ),
    ),
    Flaw(
        name="truncate-to-high-watermark-at-start",
        origin="M02, KIP-101 scenario 1",
        description="a starting broker cuts its logs to the last checkpointed high watermark",
        apply=lambda rules: replace(rules, startup_truncation=_cut_to_high_watermark_at_start),
    ),
    Flaw(
        name="answer-end-as-of-election",
        origin="M36, KIP-207, KAFKA-2334",
        description="a leader answers the latest offset that it knew when it was elected, whatever was committed since",
        apply=lambda rules: replace(rules, latest=_end_as_it_took_over),
    ),
)

FLAWS: dict[str, Flaw] = {flaw.name: flaw for flaw in _ALL}


def with_flaws(names: Iterable[str]) -> Rules:
    """Returns the sound rules with the named flaws planted. An unknown name is an error that lists the known ones."""
    rules = sound()
    for name in names:
        flaw = FLAWS.get(name)
        if flaw is None:
            raise ValueError(f"unknown flaw {name!r}; known: {', '.join(sorted(FLAWS))}")
        rules = flaw.apply(rules)
    return rules
