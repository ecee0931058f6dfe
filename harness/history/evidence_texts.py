"""The column `evidence` of findings: JSON, held against what pages and terminals read of it; other keys are free."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from harness.errors import HarnessError
from harness.history.texts import json_of


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


class _Rule(msgspec.Struct):
    rule: str
    holds: bool | None
    evidence: str


class _LogEnd(msgspec.Struct):
    replica: int
    log_end: int | None
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


def check_evidence(findings: Iterable[Mapping[str, Any]], place: object, remedy: str) -> None:
    """Raises HarnessError for the first finding whose evidence is of another shape."""
    for row in findings:
        if not row["evidence"]:
            continue
        try:
            msgspec.convert(json_of(row["evidence"]), _Evidence)
        except (ValueError, msgspec.ValidationError) as error:
            raise HarnessError(f"{place}: the evidence of {row['finding']} is unfit ({error}): {remedy}") from error
