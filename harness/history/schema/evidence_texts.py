"""Validates the column `evidence` of findings, JSON: the keys that pages and terminals read; others are free."""

from collections.abc import Iterable
from typing import Any

import msgspec

from harness.errors import HarnessError
from harness.history.schema.evidence_rows import FindingRow
from harness.history.schema.texts import json_of


class _Link(msgspec.Struct):
    t_ns: int
    event: str
    sentence: str
    decisive: bool
    fault: int | None = None
    t_end_ns: int | None = None
    epoch_before: int | None = None
    epoch_after: int | None = None
    offset_before: int | None = None
    offset_after: int | None = None
    nodes: list[int] | None = None
    leader: int | None = None
    held_s: float | None = None
    deposed: bool | None = None


class _Rule(msgspec.Struct):
    rule: str
    holds: bool | None
    evidence: str


class _LogEnd(msgspec.Struct):
    replica: int
    log_end_offset: int | None
    state: str | None
    in_isr: bool | None


class _Range(msgspec.Struct):
    first: int
    last: int


class _Loss(msgspec.Struct):
    fault: int | None = None


class _Evidence(msgspec.Struct):
    cause: str | None = None
    cause_chain: list[_Link] | None = None
    rules: list[_Rule] | None = None
    prevention: list[str] | None = None
    log_ends: list[_LogEnd] | None = None
    lost_range: _Range | None = None
    disk_losses: list[_Loss] | None = None
    elected: int | None = None
    elected_epoch: int | None = None
    elected_log_end: int | None = None
    unclean: bool | None = None
    isr_before: list[int] | None = None
    elr_before: list[int] | None = None
    isr_at_acknowledgement: list[int] | None = None
    truncations: list[dict[str, Any]] | None = None
    group: str | None = None
    transactions: list[int | dict[str, Any]] | None = None


def check_evidence(findings: Iterable[FindingRow], place: object, remedy: str) -> None:
    """Raises HarnessError for the first finding whose evidence has an invalid form."""
    for row in findings:
        text = row["evidence"]
        if not text:
            continue
        try:
            msgspec.convert(json_of(text), _Evidence)
        except (ValueError, msgspec.ValidationError) as error:
            raise HarnessError(f"{place}: the evidence of {row['finding']} is unfit ({error}): {remedy}") from error
