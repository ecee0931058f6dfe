"""The run folder: the only connection between running a scenario and judging it.

Everything after a run uses this folder alone, later and on another machine. run.json is replaced as a whole, never
edited; tables have a schema version, and a folder of a newer program is refused. The folder may come from somebody
else: no link in it is followed (files_below.py).
"""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.history.schema.lawful_rows import REMEDY, check_table
from harness.history.schema.parquet_tables import read_table
from harness.history.schema.schemas import ADDED_TABLES, FINDINGS, ROW_GROUP, SCHEMA_VERSION, TABLES
from harness.history.schema.texts import read_run, read_verdict
from harness.host.clock import Anchor, Clock

# Files that every command reads by path; checked for links first.
_READ = ("run.json", "scenario.toml", "scenario.source.toml", "verdict.json", "attached.jsonl", "history", "tables")
_DELTA = ("operation", "offset", "value", "invoked_ns", "completed_ns")  # measured: a fifth to a third smaller


class RunFolder:
    """An existing run folder. `RunFolder(path)` raises UsageError if there is none, or one with links in it.

    `path` itself may be a link, such as RUNS/latest.
    """

    def __init__(self, path: str | Path) -> None:
        self.files = FilesBelow(Path(path))
        self.path = self.files.top
        if not os.path.lexists(self.path / "run.json"):
            raise UsageError(f"{path}: no run folder (it has no run.json); `kafka-chaos list` shows the runs")
        self.files.refuse_links(*_READ)
        version = self.run.get("schema_version", 0)
        if version > SCHEMA_VERSION:
            raise UsageError(
                f"{path}: written by a newer kafka-chaos (schema {version}, this one knows {SCHEMA_VERSION}); "
                "use that version to read it"
            )

    @classmethod
    def create(cls, runs: Path, *, scenario: str, clock: Clock, seed: int, stamp: str) -> "RunFolder":
        """Creates RUNS/<stamp>-<scenario>, numbered if that exists; `stamp` is a time, e.g. 20250131-120000."""
        try:
            name = cls._take_a_name(runs, f"{stamp}-{scenario}")
            path = runs / name
            for part in ("history", "tables", "nodes"):
                (path / part).mkdir()
        except OSError as error:
            raise HarnessError(f"{runs}: no run folder can be made there: {error.strerror}; see --runs") from error
        first = {"id": name, "scenario": scenario, "seed": seed, "schema_version": SCHEMA_VERSION}
        FilesBelow(path).replace("run.json", _json(first))
        folder = cls(path)
        folder.update(status="started", phases=[], anchors=[folder._anchor(clock)], interrupted=False)
        return folder

    @staticmethod
    def _take_a_name(runs: Path, wanted: str) -> str:
        """Creates the folder. Raises OSError."""
        runs.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 1000):
            name = wanted + (f"-{attempt}" if attempt > 1 else "")
            with contextlib.suppress(FileExistsError):
                (runs / name).mkdir(mode=0o700)  # private to the user, and the sweep acts on its contents
                return name
        raise HarnessError(f"{runs}: no free name for a run folder; clear it out")

    # -- run.json -----------------------------------------

    @property
    def run(self) -> dict[str, Any]:
        return read_run(self.path / "run.json", opened=lambda: self.files.open("run.json"))

    def verdict(self) -> dict[str, Any]:
        """verdict.json. Raises HarnessError, also if there is none."""
        return read_verdict(self.path / "verdict.json", opened=lambda: self.files.open("verdict.json"))

    def update(self, **fields: Any) -> None:
        self.files.replace("run.json", _json(self.run | fields))

    def add_anchor(self, clock: Clock) -> None:
        """Adds a pair of run clock and wall clock; the first pair is stored when the folder is created."""
        self.update(anchors=[*self.run.get("anchors", []), self._anchor(clock)])

    @staticmethod
    def _anchor(clock: Clock) -> dict[str, int]:
        return {"monotonic_ns": clock.monotonic_ns(), "wall_ns": clock.wall_ns()}

    def anchor(self) -> Anchor:
        anchors = self.run.get("anchors")
        if not anchors:
            raise HarnessError(f"{self.path / 'run.json'}: no anchors, so nothing is known of the time of the run")
        return Anchor(monotonic_ns=anchors[0]["monotonic_ns"], wall_ns=anchors[0]["wall_ns"])

    # -- files --------------------------------------------

    @property
    def history(self) -> Path:
        return self.path / "history"

    @property
    def nodes(self) -> Path:
        return self.path / "nodes"

    def write_text(self, name: str, text: str) -> Path:
        """Replaces a file as a whole; returns its path."""
        return self.files.replace(name, text.encode())

    def write_scenario(self, text: str, *, source: str | None = None) -> None:
        """The scenario as it ran, with every random draw written out; `source`: the file as the user wrote it."""
        self.write_text("scenario.toml", text)
        if source is not None:
            self.write_text("scenario.source.toml", source)

    def link_latest(self) -> str:
        """Points RUNS/latest to this folder, in one step so that it never dangles. A run works without it: returns the
        reason if it could not be changed, else "". A file of that name that is not a link is left alone."""
        latest, link = self.path.parent / "latest", self.path.parent / f".latest-{os.getpid()}"
        if not latest.is_symlink() and os.path.lexists(latest):
            return f"{latest} is no link, so it is left alone; `latest` does not name this run"
        try:
            link.unlink(missing_ok=True)
            link.symlink_to(self.path.name)
            link.replace(latest)
        except OSError as error:
            with contextlib.suppress(OSError):
                link.unlink()
            return f"{latest} cannot be made: {error.strerror}; `latest` does not name this run"
        return ""

    # -- tables -------------------------------------------

    def _table_path(self, name: str) -> Path:
        return self.path / "tables" / f"{name}.parquet"

    def has_table(self, name: str) -> bool:
        return self._table_path(name).is_file()

    @property
    def sealed(self) -> bool:
        """True if nothing is left to seal. Tables of an older version whose journals are gone stay as they are."""
        if all(self.has_table(name) for name in TABLES if name not in ADDED_TABLES):
            return True
        return self.has_table("records") and not any(self.history.glob("*.jsonl"))

    def write_table(self, name: str, table: pa.Table) -> None:
        """Replaces a table; readers see the old one or the new one."""
        self.write_tables(name, [table])

    def write_tables(self, name: str, pieces: Iterable[pa.Table]) -> None:
        """The same for a table that comes in pieces of at most about a row group."""
        schema = FINDINGS if name == "findings" else TABLES[name]
        encodings = {column: "DELTA_BINARY_PACKED" for column in _DELTA if name == "records"}
        self.files.make_folder("tables")
        with (
            self.files.replacing(f"tables/{name}.parquet") as file,
            pq.ParquetWriter(
                file,
                schema,
                compression="zstd",
                use_dictionary=[column for column in schema.names if column not in encodings],
                column_encoding=encodings or None,
            ) as writer,
        ):
            for piece in pieces:
                writer.write_table(piece.select(schema.names).cast(schema), row_group_size=ROW_GROUP)

    def table(self, name: str) -> pa.Table:
        path = self._table_path(name)
        try:
            with self.files.open(f"tables/{path.name}") as file:
                table = read_table(path, name, source=file)
                remedy = f"`kafka-chaos check {self.path}` writes it again" if name == "findings" else REMEDY
                check_table(name, table, lambda run: path, remedy)
                return table
        except FileNotFoundError:
            if name in ADDED_TABLES:  # the run was sealed before there was this table
                return TABLES[name].empty_table()
            remedy = f"`kafka-chaos check {self.path}` builds it"
            raise HarnessError(f"{self.path}: table {name} is missing; {remedy}") from None


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
