"""Reads text files of a run folder, which somebody else may have written: bounded, and errors in one line.

run.json and verdict.json are validated against what the harness writes, so readers find what they expect. Unknown keys
stay.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from harness.errors import HarnessError
from harness.history.files_below import FilesBelow

BYTES_MAX = 16 << 20  # bytes of run.json, verdict.json, a scenario; ours have some thousand
TEXT_MAX = 1 << 20  # bytes of a text in what is shown: findings, their evidence, what campaigns and nights keep
NESTING_MAX = 100
_NUMBER_MAX = (1 << 63) - 1
_TOO_DEEP = f"nested more than {NESTING_MAX} deep"


class _Phase(msgspec.Struct):
    name: str


class _Anchor(msgspec.Struct):
    monotonic_ns: int
    wall_ns: int


class _SkippedFault(msgspec.Struct):
    kind: str
    target: str
    trigger: str
    why: Literal["no-trigger", "no-victim", "not-alone"]


class _Workload(msgspec.Struct, forbid_unknown_fields=True):
    clients: dict[str, int] = {}
    group: str = ""
    session_timeout_ms: int = 0
    group_protocol: Literal["classic", "consumer"] = "classic"
    outputs: list[str] = []
    transactional_ids: list[str] = []
    value_bytes: int = 32
    in_flight: int = 1


class _Given(msgspec.Struct):
    """What was run, as the user named it: a scenario's name, file or run folder, and KEY=VALUE overrides."""

    scenario: str
    overrides: list[str] = []


class _Commit(msgspec.Struct):
    commit: str
    state: Literal["as committed", "modified", "not committed"]


class _BrokenInvariant(msgspec.Struct):
    """harness/cluster/simulated/invariants.py: Broken."""

    invariant: str
    topic: str
    partition: int
    node: int
    leader_epoch: int
    wanted: int
    seen: int
    at_ns: int
    events: list[dict[str, Any]]


class _Run(msgspec.Struct):
    id: str = ""
    scenario: str = ""
    seed: int | None = None
    schema_version: int = 0
    status: str = ""
    error: str | None = None
    interrupted: bool = False
    phases: list[_Phase] = []
    anchors: list[_Anchor] = []
    inconclusive: list[str] = []
    plan_ended_at_step: int | None = None
    missing: list[str] = []
    journals: dict[str, int] = {}
    journals_may_lack_their_end: bool = False
    skipped_faults: list[_SkippedFault] = []
    load_began_ns: int | None = None
    load_ended_ns: int | None = None
    ended_ns: int | None = None
    versions: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    workload: _Workload | None = None
    given: _Given | None = None
    commits: dict[str, _Commit] = {}
    names_there: dict[str, str] = {}  # what the run's names are on a cluster that others use
    broken_invariant: _BrokenInvariant | None = None
    brokers_there: dict[str, int] = {}  # which of its brokers stands for which of the scenario's


class _Condition(msgspec.Struct):
    condition: str
    meaning: str
    required: Any
    seen: Any
    met: bool


class _Expectation(msgspec.Struct):
    expectation: str
    required: Any
    seen: Any
    met: bool


class _Anomaly(msgspec.Struct):
    page: str
    names: list[str]
    title: str
    family: str
    sentence: str
    markdown: str
    package: str


class _Verdict(msgspec.Struct):
    verdict: Literal["pass", "violation", "inconclusive", "vacuous", "error"]
    exit_code: int
    sentence: str
    counts: dict[str, int]
    reasons: list[str] = []
    coverage: list[_Condition] = []
    expectations: list[_Expectation] = []
    as_expected: bool = False
    expected: str = ""
    accounting: dict[str, int | bool | float | None] = {}
    anomalies: list[_Anomaly] = []  # of installed packages' checks
    broken_invariant: str = ""
    set_aside: list[dict[str, str]] = []  # violations that are known


class Unfit(HarnessError):
    """The file is there, and holds what no such file may hold."""


Opened = Callable[[], BinaryIO] | None  # how a file is opened if not by its path, for example without following links


def read_run(path: Path, *, opened: Opened = None) -> dict[str, Any]:
    """run.json. Raises HarnessError."""
    return _object(path, _Run, opened)


def read_verdict(path: Path, *, opened: Opened = None) -> dict[str, Any]:
    """verdict.json. Raises HarnessError."""
    return _object(path, _Verdict, opened)


def text_of(path: Path, *, bytes_max: int = BYTES_MAX, opened: Opened = None) -> str:
    """The whole text. Raises HarnessError: Unfit if it is too long or not UTF-8, else if it is unreadable."""
    try:
        with path.open("rb") if opened is None else opened() as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from error
    if len(content) > bytes_max:
        raise Unfit(f"{path}: longer than the {bytes_max >> 20} MB that such a file may have")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unfit(f"{path}: byte {error.start} is no UTF-8") from error


def json_of(text: str) -> Any:
    """Raises ValueError with the problem."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is no JSON ({error.msg})") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        raise ValueError(f"no JSON that can be read ({error})") from None
    check_nesting(value)
    return value


def check_nesting(value: Any) -> None:
    """Raises ValueError if lists and tables are nested too deeply for recursive readers."""
    level = [value]
    for _ in range(NESTING_MAX):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def check_values(value: Any) -> None:
    """Raises ValueError for nesting that is too deep, a text that is too long and a number that no table can hold."""
    check_nesting(value)
    level = [value]
    while level:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.keys()
                inner += each.values()
            elif isinstance(each, list):
                inner += each
            elif isinstance(each, str) and len(each) > TEXT_MAX:
                raise ValueError(f"a text of {len(each)} characters, more than {TEXT_MAX}")
            elif isinstance(each, int) and not -_NUMBER_MAX - 1 <= each <= _NUMBER_MAX:
                raise ValueError("a whole number of more than 64 bits")
            elif isinstance(each, float) and not math.isfinite(each):
                raise ValueError("a number that is not finite")
        level = inner


def json_below(files: FilesBelow, name: str) -> dict[str, Any]:
    """The object in a file that somebody else may have written, with values that can be shown and kept.

    Raises FileNotFoundError if there is none, UsageError for a link, HarnessError for anything else.
    """
    place = files.top / name
    with files.open(name) as file:
        text = text_of(place, opened=lambda: file)
    try:
        value = json_of(text)
        check_values(value)
        json.dumps(value, ensure_ascii=False).encode()
        return _object_in(value)
    except UnicodeEncodeError:
        raise HarnessError(f"{place}: a text in it holds half a character, which no table can hold") from None
    except ValueError as error:
        raise HarnessError(f"{place}: {error}") from None


def _object(path: Path, shape: type[msgspec.Struct], opened: Opened) -> dict[str, Any]:
    text = text_of(path, opened=opened)
    try:
        value = _object_in(json_of(text))
        check_values(value)
        msgspec.convert(value, shape)
    except (ValueError, msgspec.ValidationError) as error:
        raise HarnessError(f"{path}: {error}") from error
    return value


def _object_in(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"an object is wanted, not {_KINDS.get(type(value), 'a number')}")
    return value


_KINDS: dict[type, str] = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
