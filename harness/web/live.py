"""A run as it goes on, from its folder alone: run.json says the phase, the journals say what clients and faults do.

Journals only grow, so each look reads what was appended since the last one, and at most BYTES_A_LOOK of it: of a long
run that is looked at late, only the end is read. What cannot be read is counted and left out, for a run is judged
elsewhere.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import msgspec

from harness.cluster.local.ownership import LOCK
from harness.history.files_below import FilesBelow
from harness.history.journals.journal import CONTROLLER_ROWS, STATUS, Line, Read, Sent
from harness.history.run_folder import RunFolder
from harness.host.clock import Clock

BYTES_A_LOOK = 16 << 20
SECONDS_SHOWN = 90
_RATE_OVER_S = 5
_SECOND_NS = 1_000_000_000
_STARTED = "started"
_LOCKS = Path("/proc/locks")
_LARGEST = (1 << 63) - 1
_Whole = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]  # what the tables can hold


class _Row(msgspec.Struct):
    table: str
    row: dict[str, Any]


class _Fault(msgspec.Struct):
    fault: _Whole
    kind: str
    label_text: str | None = None
    begin_ns: _Whole | None = None
    end_ns: _Whole | None = None


class _State(msgspec.Struct):
    topic: str
    partition: _Whole
    time_ns: _Whole
    leader: _Whole
    leader_epoch: _Whole
    isr: list[_Whole]
    partition_epoch: _Whole | None = None
    replicas: list[_Whole] | None = None


class _Controller(msgspec.Struct):
    node: _Whole


_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_ROW = msgspec.json.Decoder(_Row)
_UNFIT = (msgspec.DecodeError, msgspec.ValidationError, RecursionError)


@dataclass(kw_only=True)
class _Tail:
    """How far a file was read; `begun`: its beginning was read, too."""

    offset: int = 0
    begun: bool = True


@dataclass(kw_only=True)
class LiveRun:
    """One run, looked at again and again. Not for several threads at a time."""

    path: Path
    clock: Clock
    acknowledged: Counter[int] = field(default_factory=Counter)  # second of the run's clock -> records
    read: Counter[int] = field(default_factory=Counter)
    unknown: int = 0
    unreadable: int = 0
    faults: dict[int, _Fault] = field(default_factory=dict)
    states: dict[tuple[str, int], _State] = field(default_factory=dict)
    controller: int | None = None
    _tails: dict[str, _Tail] = field(default_factory=dict)

    def look(self) -> dict[str, Any]:
        """What is known now, as JSON has it; times are seconds since the run began. Raises HarnessError."""
        folder = RunFolder(self.path)
        run = folder.run
        verdict = folder.verdict() if (folder.path / "verdict.json").is_file() else None
        began_ns = next(
            (each["monotonic_ns"] for each in run.get("anchors", ())[:1] if _is_time(each["monotonic_ns"])), 0
        )
        going_on = run.get("status") == _STARTED and is_locked(folder.path / LOCK)
        now_ns = self.clock.monotonic_ns() if going_on else self._last_ns(run, began_ns)
        if run.get("status") == _STARTED:
            self._read_on(folder.files)
        phases = [each for each in run.get("phases", ()) if _is_time(each.get("t"))]
        last = max([*self.acknowledged, *self.read], default=now_ns // _SECOND_NS)
        last = max(last, now_ns // _SECOND_NS) if going_on else last
        return {
            "id": str(run.get("id", self.path.name)),
            "scenario": str(run.get("scenario", "")),
            "system": str(run.get("system", "")),
            "world": str(run.get("world", "")),
            "seed": run.get("seed"),
            "status": _status_words(str(run.get("status", "")), going_on=going_on),
            "going_on": going_on,
            "elapsed_s": round(max(now_ns - began_ns, 0) / 1e9, 1),
            "phase": phases[-1]["name"] if phases else "",
            "phases": [{"name": each["name"], "at_s": round((each["t"] - began_ns) / 1e9, 1)} for each in phases],
            "acknowledged": sum(self.acknowledged.values()),
            "read": sum(self.read.values()),
            "unknown": self.unknown,
            "from_the_beginning": all(tail.begun for tail in self._tails.values()),
            "acknowledged_per_s": _rate(self.acknowledged, last),
            "read_per_s": _rate(self.read, last),
            "seconds": [
                {"at_s": second - began_ns // _SECOND_NS, "acknowledged": self.acknowledged.get(second, 0)}
                for second in range(max(last - SECONDS_SHOWN, began_ns // _SECOND_NS), last)
            ],
            "faults": [self._fault(each, now_ns) for each in self._in_force()],
            "faults_over": sum(each.end_ns is not None for each in self.faults.values()),
            "controller": self.controller,
            "partitions": [
                {
                    "name": f"{state.topic}-{state.partition}",
                    "leader": state.leader,
                    "epoch": state.leader_epoch,
                    "isr": state.isr,
                    "replicas": state.replicas or [],
                }
                for _, state in sorted(self.states.items())
            ],
            "unreadable": self.unreadable + len(run.get("phases", ())) - len(phases),
            "verdict": str(verdict["verdict"]) if verdict else "",
            "sentence": str(verdict["sentence"]) if verdict else "",
        }

    def _last_ns(self, run: Mapping[str, Any], began_ns: int) -> int:
        times = [run.get("ended_ns"), *(each["monotonic_ns"] for each in run.get("anchors", ()))]
        return max(filter(_is_time, times), default=began_ns)

    def _in_force(self) -> list[_Fault]:
        return [each for _, each in sorted(self.faults.items()) if each.end_ns is None and each.begin_ns is not None]

    @staticmethod
    def _fault(fault: _Fault, now_ns: int) -> dict[str, Any]:
        since = round((now_ns - (fault.begin_ns or now_ns)) / 1e9, 1)
        return {"kind": fault.kind, "label": fault.label_text or fault.kind, "since_s": since}

    # -- journals ------------------------------------------

    def _read_on(self, files: FilesBelow) -> None:
        for path in sorted((self.path / "history").glob("*.jsonl")):
            for text in self._new_lines(files, path.name):
                if path.name == CONTROLLER_ROWS:
                    self._take_row(text)
                else:
                    self._take_line(text)

    def _new_lines(self, files: FilesBelow, name: str) -> Iterator[bytes]:
        tail = self._tails.setdefault(name, _Tail())
        try:
            with files.open(f"history/{name}") as file:
                size = os.fstat(file.fileno()).st_size
                if size - tail.offset > BYTES_A_LOOK and name != CONTROLLER_ROWS:
                    tail.offset, tail.begun = size - BYTES_A_LOOK, False
                    file.seek(tail.offset)
                    tail.offset += len(file.readline(BYTES_A_LOOK))
                file.seek(tail.offset)
                text = file.read(BYTES_A_LOOK)
        except FileNotFoundError:
            return  # sealed a moment ago: what was in it is in the tables
        end = text.rfind(b"\n") + 1
        if not end and len(text) == BYTES_A_LOOK:
            self.unreadable += 1  # no line of ours is so long
            end = len(text)
        tail.offset += end
        yield from (line for line in text[:end].split(b"\n") if line)

    def _take_line(self, text: bytes) -> None:
        try:
            line = _LINE.decode(text)
        except _UNFIT:
            self.unreadable += 1
            return
        if isinstance(line, Sent | Read) and not _is_time(line.time_ns):
            self.unreadable += 1
        elif isinstance(line, Sent):
            self.acknowledged[line.time_ns // _SECOND_NS] += line.statuses.count(STATUS["ok"])
            self.unknown += line.statuses.count(STATUS["info"])
        elif isinstance(line, Read):
            self.read[line.time_ns // _SECOND_NS] += sum(len(part.offsets) for part in line.parts)

    def _take_row(self, text: bytes) -> None:
        try:
            row = _ROW.decode(text)
            match row.table:
                case "faults":
                    fault = msgspec.convert(row.row, _Fault)
                    self.faults[fault.fault] = fault
                case "partition_states":
                    state = msgspec.convert(row.row, _State)
                    known = self.states.get((state.topic, state.partition))
                    if known is None or _newness(state) >= _newness(known):
                        self.states[state.topic, state.partition] = state
                case "controller_seen":
                    self.controller = msgspec.convert(row.row, _Controller).node
        except _UNFIT:
            self.unreadable += 1


def _is_time(given: object) -> TypeGuard[int]:
    """Whether it can be one of a run's clock; who wrote it is not known."""
    return isinstance(given, int) and 0 <= given <= _LARGEST


def _newness(state: _State) -> tuple[int, int, int]:
    return state.leader_epoch, -1 if state.partition_epoch is None else state.partition_epoch, state.time_ns


def _rate(counts: Counter[int], last: int) -> float:
    """Of the last whole seconds."""
    return round(sum(counts.get(second, 0) for second in range(last - _RATE_OVER_S, last)) / _RATE_OVER_S, 1)


def _status_words(status: str, *, going_on: bool) -> str:
    if status != _STARTED:
        return status
    return "in progress" if going_on else "its harness is gone"


def is_locked(path: Path) -> bool:
    """Whether a process of this machine holds the file's lock. Asked of the kernel: trying the lock would take it."""
    try:
        found = path.stat(follow_symlinks=False)
        locks = _LOCKS.read_text(encoding="ascii")
    except OSError:
        return False
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any(device in line.split() and "FLOCK" in line.split() for line in locks.splitlines())


class LiveRuns:
    """Those that somebody looks at: the last few stay open."""

    def __init__(self, *, clock: Clock, most: int = 8) -> None:
        self._clock = clock
        self._most = most
        self._runs: dict[Path, LiveRun] = {}

    def of(self, path: Path) -> LiveRun:
        run = self._runs.pop(path, None) or LiveRun(path=path, clock=self._clock)
        self._runs[path] = run
        while len(self._runs) > self._most:
            del self._runs[next(iter(self._runs))]
        return run
