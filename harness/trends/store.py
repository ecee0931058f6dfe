"""Nights in a folder: each night is a folder of its own with Parquet tables, and appears whole or not at all.

A night is written beside its place and renamed. So any number of machines may append to a shared folder at once, a
killed writer leaves nothing that is read, and a night that is there already is never changed.
"""

import io
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError, UsageError
from harness.history.files_below import UNFINISHED, FilesBelow
from harness.history.schema.kept_tables import kept_rows
from harness.host import memory
from harness.verdict import Verdict

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,120}")
_NIGHTS = "nights"
_NAMESAKES = 100  # nights of several machines that began in one second
LATELY = 20  # nights that count as the last ones
_s, _i, _f = pa.string(), pa.int64(), pa.float64()
SCHEMAS: Mapping[str, pa.Schema] = {
    "runs": pa.schema(
        {
            "began": _s,
            "scenario": _s,
            "system": _s,
            "seed": _i,
            "verdict": _s,
            "recovery_s": _f,
            "gap_s": _f,
            "throughput_per_s": _f,
            "run": _s,
        }
    ),
    "findings": pa.schema(
        {"fingerprint": _s, "check": _s, "classification": _s, "cause": _s, "scenario": _s, "system": _s, "run": _s}
    ),
    "not_run": pa.schema({"scenario": _s, "system": _s, "count": _i, "reason": _s}),
}
_ADDED = ("not_run",)  # nights that were kept before have none


_MAY_BE_NULL = ("seed", "recovery_s", "gap_s", "throughput_per_s")
_WORDS = {
    "verdict": tuple(each.value for each in Verdict),
    "classification": ("violation", "permitted", "observation"),
}
_REMEDY = "remove that night's folder"


@dataclass(frozen=True, kw_only=True)
class RunOfNight:
    """began: UTC as ISO 8601; recovery_s, gap_s: the longest after any fault of the run; None: there was none."""

    began: str
    scenario: str
    system: str
    seed: int | None
    verdict: str
    recovery_s: float | None
    gap_s: float | None
    throughput_per_s: float | None
    run: str


@dataclass(frozen=True, kw_only=True)
class FindingOfNight:
    """A finding of a run, by what kind of thing it is."""

    fingerprint: str
    check: str
    classification: str
    cause: str
    scenario: str
    system: str
    run: str


@dataclass(frozen=True, kw_only=True)
class NotRun:
    """Planned runs of a scenario that were not begun, or not ended. reason: "" where none is known."""

    scenario: str
    system: str
    count: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Night:
    """name: sorts by time, for example 20261123-020000-nightly."""

    name: str
    runs: Sequence[RunOfNight]
    findings: Sequence[FindingOfNight]
    not_run: Sequence[NotRun] = ()

    @property
    def tables(self) -> Mapping[str, Sequence[RunOfNight | FindingOfNight | NotRun]]:
        """By the names of SCHEMAS."""
        return {"runs": list(self.runs), "findings": list(self.findings), "not_run": list(self.not_run)}


Row = TypeVar("Row", RunOfNight, FindingOfNight, NotRun)


class TakenName(UsageError):
    """Another night of that name is in the store, or the very same."""


class Store:
    """`path` is made by the first night. Reading what somebody else wrote follows no link."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, night: Night) -> Path:
        """Raises UsageError for a name that is none or is taken, HarnessError where it cannot be written."""
        if not _NAME.fullmatch(night.name) or night.name.endswith(UNFINISHED):
            raise UsageError(f"{night.name}: no name of a night: letters, digits, '.', '_' and '-' are")
        place = self.path / _NIGHTS / night.name
        unfinished = f"{_NIGHTS}/.{night.name}-{secrets.token_hex(8)}{UNFINISHED}"
        files = self.made()
        files.make_folder(unfinished)
        try:
            for name, rows in night.tables.items():
                files.replace(f"{unfinished}/{name}.parquet", _parquet([asdict(each) for each in rows], SCHEMAS[name]))
            try:
                self._night(unfinished.removeprefix(f"{_NIGHTS}/"), memory.Together())
            except HarnessError as error:
                raise HarnessError(f"{place}: not kept, since nobody could read it again: {error}") from None
            if not files.rename_folder(unfinished, f"{_NIGHTS}/{night.name}"):  # one with files in it is never replaced
                raise TakenName(f"{place}: this night is in the store already; a night is appended once")
        finally:
            files.remove_folder(unfinished)
        return place

    def made(self) -> FilesBelow:
        """Its folder, made if it is not there. Raises HarnessError where no night can be kept."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HarnessError(f"{self.path}: {error.strerror}; name another folder with --store") from error
        files = FilesBelow(self.path)
        files.make_folder(_NIGHTS)
        return files

    def keep(self, night: Night) -> Path:
        """Like `append`, but a night that another machine began in the same second costs this one only its name."""
        for number in range(1, _NAMESAKES + 1):
            name = night.name if number == 1 else f"{night.name}-{number}"
            try:
                return self.append(replace(night, name=name))
            except TakenName:
                kept = self._night(name, memory.Together())
                same = (kept.runs, kept.findings) == (list(night.runs), list(night.findings))
                if number == _NAMESAKES or same:  # whether or not it was kept when what was not run was
                    raise
        raise AssertionError("it is kept or refused")

    def names(self) -> list[str]:
        """Oldest first. A link of that name counts as a night, which cannot be read. Raises UsageError for a link in
        the place of all nights."""
        if not self.path.is_dir():
            return []
        return [
            name
            for name, mode in FilesBelow(self.path).entries(_NIGHTS)
            if _NAME.fullmatch(name) and not stat.S_ISREG(mode)
        ]

    def place_words(self, place: Path) -> str:
        """Where a night was kept, and if not as the newest one: names sort by time, and a clock can be set back."""
        newer = [name for name in self.names() if name > place.name]
        if not newer:
            return str(place)
        return f"{place}, which its name puts before {len(newer)} others, the newest {newer[-1]}: was a clock set back?"

    def readable(self) -> tuple[list[Night], list[HarnessError]]:
        """(the nights that can be read, oldest first; why others cannot). All of them fit into memory together."""
        held, nights, unfit = memory.Together(), [], []
        for name in self.names():
            try:
                nights.append(self._night(name, held))
            except HarnessError as error:
                unfit.append(error)
        return nights, unfit

    def nights(self, *, last: int | None = None) -> list[Night]:
        """Oldest first; only the `last` ones if that is said. Raises HarnessError for one that cannot be read."""
        chosen, held = (self.names()[-last:] if last is not None else self.names()), memory.Together()
        return [self._night(name, held) for name in chosen]

    def _night(self, name: str, held: memory.Together) -> Night:
        files = FilesBelow(self.path)
        return Night(
            name=name,
            runs=_rows(files, f"{_NIGHTS}/{name}/runs", RunOfNight, held),
            findings=_rows(files, f"{_NIGHTS}/{name}/findings", FindingOfNight, held),
            not_run=tuple(_rows(files, f"{_NIGHTS}/{name}/not_run", NotRun, held)),
        )


@dataclass(frozen=True, kw_only=True)
class SeenLately:
    """In how many of the last nights a finding was seen.

    first, last: of all nights that saw it; until: the newest night of the store."""

    nights: int
    of: int
    first: str
    last: str
    until: str

    @property
    def sentence(self) -> str:
        return f"seen in {self.nights} of the last {self.of} {'night' if self.of == 1 else 'nights'}"


def seen_in(nights: Sequence[Night], *, last: int = LATELY) -> dict[str, SeenLately]:
    """Fingerprint -> in how many of the `last` of these nights it was seen; nights: oldest first."""
    names: dict[str, list[str]] = {}
    for night in nights:
        for fingerprint in {each.fingerprint for each in night.findings}:
            names.setdefault(fingerprint, []).append(night.name)
    lately = [night.name for night in nights[-last:]]
    return {
        fingerprint: SeenLately(
            nights=len(set(lately) & set(seen)), of=len(lately), first=seen[0], last=seen[-1], until=lately[-1]
        )
        for fingerprint, seen in names.items()
    }


def _parquet(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), file, compression="zstd")
    return file.getvalue()


def _rows(files: FilesBelow, name: str, shape: type[Row], held: memory.Together) -> list[Row]:
    place = f"{name}.parquet"
    schema = SCHEMAS[name.rpartition("/")[2]]
    try:
        rows = kept_rows(
            files,
            place,
            schema,
            may_be_null=_MAY_BE_NULL,
            words=_WORDS,
            held=held,
            wrong=": no table of a night",
            remedy=_REMEDY,
        )
    except FileNotFoundError:
        if name.rpartition("/")[2] in _ADDED:
            return []
        raise HarnessError(f"{files.top / place} is missing: {_REMEDY}") from None
    return [shape(**row) for row in rows]
