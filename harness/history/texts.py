"""Texts of a run folder, which somebody else may have written: bounded, and told in one line when they are unfit.

run.json and verdict.json are held against what the harness writes itself, so that whoever reads them finds what they
expect. Keys that are not known stay as they are.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from harness.errors import HarnessError

BYTES_MAX = 16 << 20  # of run.json, verdict.json, a scenario; ours are some thousand
NESTING_MAX = 100
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
    why: Literal["no-trigger", "no-victim"]


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


Opened = Callable[[], BinaryIO] | None  # how a file is opened where not by its path: without following links, say


def read_run(path: Path, *, opened: Opened = None) -> dict[str, Any]:
    """run.json. Raises HarnessError."""
    return _object(path, _Run, opened)


def read_verdict(path: Path, *, opened: Opened = None) -> dict[str, Any]:
    """verdict.json. Raises HarnessError."""
    return _object(path, _Verdict, opened)


def text_of(path: Path, *, bytes_max: int = BYTES_MAX, opened: Opened = None) -> str:
    """The whole text. Raises HarnessError where it is too long, no UTF-8, or not to be had."""
    try:
        with path.open("rb") if opened is None else opened() as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from error
    if len(content) > bytes_max:
        raise HarnessError(f"{path}: longer than the {bytes_max >> 20} MB that such a file may have")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HarnessError(f"{path}: byte {error.start} is no UTF-8") from error


def json_of(text: str) -> Any:
    """Raises ValueError that says what is wrong."""
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is no JSON ({error.msg})") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        raise ValueError(f"no JSON that can be read ({error})") from None
    check_nesting(told)
    return told


def check_nesting(told: Any) -> None:
    """Raises ValueError where lists and tables lie too deep in each other for those who walk through them."""
    level = [told]
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


def _object(path: Path, shape: type[msgspec.Struct], opened: Opened) -> dict[str, Any]:
    text = text_of(path, opened=opened)
    try:
        told = json_of(text)
        if not isinstance(told, dict):
            raise ValueError(f"an object is wanted, not {_KINDS.get(type(told), 'a number')}")
        msgspec.convert(told, shape)
    except (ValueError, msgspec.ValidationError) as error:
        raise HarnessError(f"{path}: {error}") from error
    return told


_KINDS: dict[type, str] = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
