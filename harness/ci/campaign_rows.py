"""Reads the results of a campaign from its folder, which somebody else may have written: typed rows, no link followed.

The columns are those that a campaign writes; further ones are left alone, so that an older reader reads newer folders.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

import msgspec
import pyarrow as pa

from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.history.schema.kept_tables import kept_rows
from harness.history.schema.texts import json_below
from harness.host import memory
from harness.verdict import Verdict

NOT_RUN = "not_run"
_AGAIN = "start the campaign again, with the same plan, seed and --runs: that writes it anew"
_WORDS = {
    "verdict": (*(each.value for each in Verdict), NOT_RUN),
    "class": ("violation", "permitted", "observation"),
}
CAMPAIGN_PAGE = "campaign.html"


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A planned run. folder: relative to the campaign's, "" if it is gone; took_s: None where it did not run."""

    number: int
    scenario: str
    system: str
    world: str
    client: str
    seed: int | None
    folder: str
    verdict: str
    sentence_text: str
    began: str
    took_s: float | None
    records_acknowledged: int | None
    stated: str = ""
    as_stated: bool | None = None


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group of findings of one fingerprint. accepted_reason: "" where nobody accepted it."""

    fingerprint: str
    check: str
    classification: str = msgspec.field(name="class")
    cause: str
    count: int
    runs: int
    look_at: int | None = None
    flaky: bool | None = None
    accepted_reason: str = ""
    accepted_until: str = ""


class OccurrenceRow(msgspec.Struct, frozen=True, kw_only=True):
    fingerprint: str
    run: int
    count: int


class MeasureRow(msgspec.Struct, frozen=True, kw_only=True):
    """Of a fault of a run; seconds and records per second, None where there is none."""

    run: int
    system: str
    fault: str = ""
    recovery_s: float | None = None
    gap_s: float | None = None
    throughput_per_s: float | None = None


class KnownFinding(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted finding. until: its last day, as YYYY-MM-DD."""

    fingerprint: str
    reason: str
    until: str


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """verdict.json of a campaign. stop: what ended it before all of its runs were done; "": nothing that is known."""

    verdict: str
    exit_code: int
    sentence: str
    counts: dict[str, int] = {}
    stop: str = ""
    expired: tuple[KnownFinding, ...] = ()
    unseen: tuple[KnownFinding, ...] = ()


Row = TypeVar("Row", bound=msgspec.Struct)


@dataclass(frozen=True)
class CampaignResults:
    """Reads lazily. Raises UsageError for a folder that has no results, HarnessError for one that cannot be read."""

    path: Path

    @cached_property
    def files(self) -> FilesBelow:
        files = FilesBelow(self.path)
        if not files.has_file("tables/runs.parquet"):
            raise UsageError(f"{self.path}: no results of a campaign (there is no tables/runs.parquet)")
        return files

    @cached_property
    def _held(self) -> memory.Together:
        return memory.Together()

    @cached_property
    def runs(self) -> list[RunRow]:
        return self._rows("runs", RunRow)

    @cached_property
    def findings(self) -> list[FindingRow]:
        return self._rows("findings", FindingRow)

    @cached_property
    def occurrences(self) -> list[OccurrenceRow]:
        return self._rows("occurrences", OccurrenceRow)

    @cached_property
    def measures(self) -> list[MeasureRow]:
        return self._rows("measures", MeasureRow)

    @cached_property
    def summary(self) -> Summary:
        return self._converted(self._json("verdict.json"), Summary, "verdict.json")

    @cached_property
    def campaign(self) -> Mapping[str, Any]:
        """campaign.json; name, seed and command are in it."""
        return self._json("campaign.json")

    @property
    def name(self) -> str:
        return str(self.campaign.get("name") or self.path.resolve().name)

    def page_of(self, run: RunRow) -> str:
        """Relative to the campaign's folder; "" where there is none. Raises UsageError for a link on the way."""
        place = f"{run.folder}/report.html"
        return place if self.files.has_file(place) else ""

    def was_judged(self, run: RunRow) -> bool:
        """Whether its folder was kept, and lies in the campaign's. Raises UsageError for a link on the way."""
        return bool(run.folder) and self.files.has_file(f"{run.folder}/verdict.json")

    def _json(self, name: str) -> Mapping[str, Any]:
        try:
            return json_below(self.files, name)
        except FileNotFoundError:
            raise HarnessError(f"{self.path / name} is missing: the campaign has not ended") from None

    def _rows(self, name: str, shape: type[Row]) -> list[Row]:
        place = f"tables/{name}.parquet"
        schema, may_lack, may_be_null = _columns(shape)
        try:
            rows = kept_rows(
                self.files,
                place,
                schema,
                may_lack=may_lack,
                may_be_null=may_be_null,
                words=_WORDS,
                held=self._held,
                wrong=": no table that can be read",
                remedy=_AGAIN,
            )
        except FileNotFoundError:
            raise HarnessError(f"{self.path / place} is missing: the campaign has not ended") from None
        return [self._converted(row, shape, f"{place}, row {number}") for number, row in enumerate(rows)]

    def _converted(self, value: Any, shape: type[Row], place: str) -> Row:
        try:
            return msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            raise HarnessError(f"{self.path / place}: {error}") from error


def _columns(shape: type[msgspec.Struct]) -> tuple[pa.Schema, set[str], set[str]]:
    """(the columns that hold it, those that may be missing, those that may hold nothing)"""
    fields = msgspec.structs.fields(shape)
    kinds = {each.encode_name: set(get_args(each.type) or (each.type,)) for each in fields}
    schema = pa.schema({name: next(_TYPES[kind] for kind in kinds[name] if kind in _TYPES) for name in kinds})
    may_lack = {each.encode_name for each in fields if not each.required}
    return schema, may_lack, {name for name, kind in kinds.items() if NoneType in kind}


_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
