"""Reads the results of a campaign from its folder, which somebody else may have written: typed rows, no link followed.

The columns are those that a campaign writes; further ones are left alone, so that an older reader reads newer folders.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.history.schema.parquet_tables import check_size

NOT_RUN = "not_run"
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
    """verdict.json of a campaign."""

    verdict: str
    exit_code: int
    sentence: str
    counts: dict[str, int] = {}
    expired: tuple[KnownFinding, ...] = ()
    unseen: tuple[KnownFinding, ...] = ()


Row = TypeVar("Row", bound=msgspec.Struct)


@dataclass(frozen=True)
class CampaignResults:
    """Reads lazily. Raises UsageError for a folder that has no results, HarnessError for one that cannot be read."""

    path: Path

    @cached_property
    def files(self) -> FilesBelow:
        if not (self.path / "tables" / "runs.parquet").is_file():
            raise UsageError(f"{self.path}: no results of a campaign (there is no tables/runs.parquet)")
        return FilesBelow(self.path)

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
        value = self._json("campaign.json")
        if not isinstance(value, dict):
            raise HarnessError(f"{self.path / 'campaign.json'}: an object is wanted")
        return value

    @property
    def name(self) -> str:
        return str(self.campaign.get("name") or self.path.resolve().name)

    def page_of(self, run: RunRow) -> str:
        """Relative to the campaign's folder; "" where there is none."""
        place = f"{run.folder}/report.html" if run.folder else ""
        return place if place and (self.path / place).is_file() else ""

    def _json(self, name: str) -> Any:
        try:
            return msgspec.json.decode(self.files.read(name))
        except FileNotFoundError:
            raise HarnessError(f"{self.path / name} is missing: the campaign has not ended") from None
        except msgspec.DecodeError as error:
            raise HarnessError(f"{self.path / name}: no JSON that can be read ({error})") from error

    def _rows(self, name: str, shape: type[Row]) -> list[Row]:
        place = f"tables/{name}.parquet"
        path = self.path / place
        try:
            with self.files.open(place) as file:
                metadata = pq.read_metadata(file)
                check_size(path, metadata, metadata.schema.to_arrow_schema().names)
                file.seek(0)
                rows = pq.read_table(file).to_pylist()
        except FileNotFoundError:
            raise HarnessError(f"{path} is missing: the campaign has not ended") from None
        except (pa.ArrowException, OSError) as error:
            raise HarnessError(f"{path}: no table that can be read ({error})") from error
        return [self._converted(row, shape, f"{place}, row {number}") for number, row in enumerate(rows)]

    def _converted(self, value: Any, shape: type[Row], place: str) -> Row:
        try:
            return msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            raise HarnessError(f"{self.path / place}: {error}") from error
