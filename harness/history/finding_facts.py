"""What a finding is told with, as facts: settings, remedies, and the links of a chain of causes.

Checks store them in a finding's evidence, as JSON; pages decide on them, and make sentences of their own. What a field
does not tell is None: of findings that were stored before it was there, pages say less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

# Who set it: for a topic, for a broker or all of them, nobody, or a client.
Scope = Literal["topic", "broker", "default", "client"]
LinkEvent = Literal["fault", "isr-shrink", "acknowledged", "disk-loss", "election", "truncation"]
RemedyCode = Literal["no-unclean-election", "more-in-sync", "acks-of-all", "another-disk"]
# How a fault kept a follower from its leader: its fetches waited, or it was not there itself.
Hold = Literal["cut", "paused", "dead", "down"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a setting was when it decided something; of_scenario: by the scenario's word, and not by the books."""

    key: str
    value: str
    scope: Scope
    of_scenario: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """What would have kept a record; key, value: the setting, where it is one. in_sync: the ISR that was too small."""

    code: RemedyCode
    key: str | None = None
    value: str | None = None
    nodes: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class ChainLink:
    """One link of a chain of causes. `sentence` is the checks' own wording, for people.

    fault, t_end_ns: its number and end. isr-shrink: the ISR before and after, and what had held the leavers for how
    long. acknowledged: count, acks and the ISR that sufficed. election: unclean. truncation: reason, as its broker
    says it.
    """

    t_ns: int
    event: LinkEvent
    sentence: str
    decisive: bool = False
    nodes: tuple[int, ...] = ()
    fault: int | None = None
    t_end_ns: int | None = None
    epoch_before: int | None = None
    epoch_after: int | None = None
    offset_before: int | None = None
    offset_after: int | None = None
    unclean: bool | None = None
    isr_before: tuple[int, ...] | None = None
    isr_after: tuple[int, ...] | None = None
    held_by: Hold | None = None
    held_s: float | None = None
    leader: int | None = None
    count: int | None = None
    acks: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    reason_text: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_LISTS = frozenset(field.name for field in fields(ChainLink) if "tuple" in str(field.type))


def chain_of(evidence: Mapping[str, Any]) -> list[ChainLink]:
    """The chain as it is stored, in order; a field that this program does not know is left out."""
    return [_link(stored) for stored in evidence.get("cause_chain") or ()]


def _link(stored: Mapping[str, Any]) -> ChainLink:
    known = {field.name for field in fields(ChainLink)}
    told = {name: value for name, value in stored.items() if name in known}
    lists = {name: tuple(value) for name, value in told.items() if name in _LISTS and value is not None}
    return ChainLink(**{**told, **lists})


def remedies_of(evidence: Mapping[str, Any]) -> Sequence[Remedy]:
    return [
        Remedy(
            code=stored["code"], key=stored.get("key"), value=stored.get("value"),
            nodes=tuple(stored.get("nodes") or ()), in_sync=tuple(stored.get("in_sync") or ()),
        )
        for stored in evidence.get("remedies") or ()
    ]  # fmt: skip


def setting_of(stored: Mapping[str, Any] | None) -> Setting | None:
    if stored is None:
        return None
    return Setting(
        key=stored["key"], value=stored["value"], scope=stored["scope"], of_scenario=bool(stored.get("of_scenario")),
    )  # fmt: skip
