"""The evidence of a finding as frozen data: logs side by side, operations and events, and small tables of facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class LogCell:
    text: str
    epoch: str
    colour: int
    cut: str  # when it was truncated, or ""


@dataclass(frozen=True, kw_only=True)
class LogRow:
    offset: int
    acknowledged: str
    replicas: Sequence[LogCell]
    final: LogCell
    lost: bool
    boundary: str  # a line drawn above this row
    fold: int = 0  # so many rows like this come between, and are folded or left out
    inside: "Sequence[LogRow]" = ()  # those of them that open in place


@dataclass(frozen=True, kw_only=True)
class LogTable:
    heads: Sequence[str]
    rows: Sequence[LogRow]


@dataclass(frozen=True, kw_only=True)
class OperationRow:
    begin: str
    end: str
    client: str
    operation: str
    value: str
    offset: str
    outcome: str
    tone: Literal["yes", "no", "na", "event", "key"]
    inside: "Sequence[OperationRow]" = ()  # folded rows that open in place of this one, which counts them


@dataclass(frozen=True, kw_only=True)
class FactTable:
    """A part of a finding's evidence as a small table; no heads: pairs of a name and what is known of it."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    hidden: int = 0  # so many rows more
