"""The facts that explain a finding: settings, remedies, and the links of its chain of causes.

Checks store them as JSON in the finding's evidence; pages decide by them and write their own sentences. An unknown
field is None: for findings stored by older versions a page shows less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

# Who set it: per topic, per broker or cluster, nobody (default), or a client.
Scope = Literal["topic", "broker", "default", "client"]
LinkEvent = Literal["fault", "node-end", "isr-shrink", "acknowledged", "disk-loss", "election", "resume", "truncation"]
RemedyCode = Literal["no-unclean-election", "more-in-sync", "acks-of-all", "another-disk"]
# How a fault separated a follower from its leader: its fetches hung, or it was down.
Hold = Literal["cut", "paused", "dead", "down"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting's value when it decided something; of_scenario: known from the scenario, not from the cluster's
    records."""

    key: str
    value: str
    scope: Scope
    of_scenario: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """What would have preserved a record; key, value: the setting, if it is one. in_sync: the ISR that
    was too small."""

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

    fault, t_end_ns: its number and end. isr-shrink: the ISR before and after, and what had held up those that left, and
    how long. acknowledged: count, acks, the ISR that was enough, who led, and whether it had been deposed already.
    election: unclean. resume: the end of a pause of the leader that went on acknowledging, how long it had been paused,
    and who led by then. truncation: the reason in its broker's words.
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
    deposed: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_LISTS = frozenset(field.name for field in fields(ChainLink) if "tuple" in str(field.type))


def chain_of(evidence: Mapping[str, Any]) -> list[ChainLink]:
    """Parses a stored chain, in order; ignores unknown fields."""
    return [_link(stored) for stored in evidence.get("cause_chain") or ()]


def _link(stored: Mapping[str, Any]) -> ChainLink:
    known = {field.name for field in fields(ChainLink)}
    known_fields = {name: value for name, value in stored.items() if name in known}
    lists = {name: tuple(value) for name, value in known_fields.items() if name in _LISTS and value is not None}
    return ChainLink(**{**known_fields, **lists})


def remedies_of(evidence: Mapping[str, Any]) -> Sequence[Remedy]:
    return [
        Remedy(
            code=stored["code"],
            key=stored.get("key"),
            value=stored.get("value"),
            nodes=tuple(stored.get("nodes") or ()),
            in_sync=tuple(stored.get("in_sync") or ()),
        )
        for stored in evidence.get("remedies") or ()
    ]


def setting_of(stored: Mapping[str, Any] | None) -> Setting | None:
    if stored is None:
        return None
    return Setting(
        key=stored["key"],
        value=stored["value"],
        scope=stored["scope"],
        of_scenario=bool(stored.get("of_scenario")),
    )


def too_late(evidence: Mapping[str, Any]) -> tuple[ChainLink, ChainLink] | None:
    """(the acknowledgement, the election before it) where a deposed leader acknowledged what was lost, and only that.

    Older findings do not store whether it was deposed: there the order of both says it.
    """
    links = chain_of(evidence)
    answers = [link for link in links if link.event == "acknowledged"]
    election = next((link for link in links if link.event == "election"), None)
    if election is None or not answers or any(link.epoch_before is None for link in answers):
        return None
    if any(link.deposed is False or link.t_ns <= election.t_ns for link in answers):
        return None
    return answers[0], election
