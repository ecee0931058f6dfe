"""What other people's packages add: faults, workloads, checks and systems, found by their entry points.

A package says in its pyproject.toml what it has, under the group of its kind, and to install it is all there is to do
(docs/extending.md). Nothing of it is imported before somebody asks for things of that kind. One that cannot be loaded,
or that takes a name which is taken, is refused in one line that names package, entry point and remedy: left out in
silence, a check would be one that nobody asked.
"""

import traceback
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, distributions, entry_points
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import HarnessError, in_short

FAULTS = "kafka_chaos.faults"
WORKLOADS = "kafka_chaos.workloads"
CHECKS = "kafka_chaos.checks"
SYSTEMS = "kafka_chaos.systems"
GROUPS = (FAULTS, WORKLOADS, CHECKS, SYSTEMS)
Thing = TypeVar("Thing")


def load(group: str, kind: type[Thing], *, own: Iterable[str] = ()) -> list[Thing]:
    """The installed things of a group, in the order of their names; each is a `kind` and has its entry point's name.

    `own`: names that are ours, and taken. Raises HarnessError.
    """
    return [_loaded(entry, kind) for entry in _entries(group, own).values()]


def named(group: str, name: str, kind: type[Thing], *, own: Iterable[str] = ()) -> Thing | None:
    """The installed thing of that name, as `load` gives it; imports no other. None where no package has it."""
    entry = _entries(group, own).get(name)
    return None if entry is None else _loaded(entry, kind)


def load_classes(group: str, base: type[Thing], *, own: Iterable[str] = ()) -> list[type[Thing]]:
    """Like `load` where the things are classes: each derives from `base` and leaves nothing of it undone."""
    return [_loaded_class(entry, base) for entry in _entries(group, own).values()]


def class_named(group: str, name: str, base: type[Thing], *, own: Iterable[str] = ()) -> type[Thing] | None:
    """The installed class of that name, as `load_classes` gives it; imports no other. None where no package has it."""
    entry = _entries(group, own).get(name)
    return None if entry is None else _loaded_class(entry, base)


def names(group: str) -> list[str]:
    """What is installed, by name; imports nothing. Raises HarnessError where two packages have one name."""
    return list(_entries(group, ()))


def health(objects: Mapping[str, type], classes: Mapping[str, type]) -> list[tuple[str, bool, str]]:
    """(package, whether all that it adds is right, what that is or what is wrong), for `doctor`.

    objects, classes: by group, what its entry points lead to: an object of that type, or a class derived from it.
    """
    found: dict[str, list[EntryPoint]] = {}
    for entry in (entry for group in GROUPS for entry in _found(group)):
        found.setdefault(_package(entry), []).append(entry)
    rows = []
    for package, entries in sorted(found.items()):
        try:
            for entry in entries:
                _entries(entry.group, ())
                if entry.group in classes:
                    _loaded_class(entry, classes[entry.group])
                else:
                    _loaded(entry, objects[entry.group])
            words = [f"{entry.group.rpartition('.')[2].removesuffix('s')} {entry.name}" for entry in entries]
            rows.append((f"package {package}", True, ", ".join(words)))
        except HarnessError as error:
            rows.append((f"package {package}", False, str(error)))
    return rows


def packages() -> dict[str, str]:
    """The packages that add anything, and their versions."""
    found = {entry.dist.name: entry.dist.version for group in GROUPS for entry in _found(group) if entry.dist}
    return dict(sorted(found.items()))


def package_of(group: str, name: str) -> str:
    """The package that has it, with its version; empty where none has."""
    return next((_package(entry) for entry in _found(group) if entry.name == name), "")


@cache
def _found(group: str) -> tuple[EntryPoint, ...]:
    """What is installed does not change while a command runs."""
    try:
        found = entry_points(group=group)
    except ValueError as error:  # no UTF-8, for example
        raise HarnessError(f"{_unreadable()}: its entry points cannot be read ({error}): install it anew") from None
    return tuple(sorted(found, key=lambda entry: (entry.name, _package(entry))))


def _unreadable() -> str:
    for distribution in distributions():
        try:
            _ = distribution.entry_points
        except ValueError:
            return f"package {distribution.name} {distribution.version}"
    return "a package"


def forget() -> None:
    """For tests, which install while they run."""
    _found.cache_clear()


def _entries(group: str, own: Iterable[str]) -> Mapping[str, EntryPoint]:
    taken, entries = frozenset(own), dict[str, EntryPoint]()
    for entry in _found(group):
        if entry.name in taken:
            raise HarnessError(
                f"{_place(entry)}: the name {entry.name!r} is kafka-chaos's own; choose another one, or "
                f"{_uninstall(entry)}"
            )
        if entry.name in entries:
            raise HarnessError(
                f"{_place(entry)}: package {_package(entries[entry.name])} has one of that name, too; "
                f"{_uninstall(entry)}, or the other one"
            )
        entries[entry.name] = entry
    return entries


def _loaded(entry: EntryPoint, kind: type[Thing]) -> Thing:
    thing = _imported(entry)
    if not isinstance(thing, kind):
        raise HarnessError(
            f"{_place(entry)}: leads to {_kind(thing)}, and must lead to one of type {kind.__name__}; see "
            f"docs/extending.md, or {_uninstall(entry)}"
        )
    _check_name(entry, thing)
    return thing


def _loaded_class(entry: EntryPoint, base: type[Thing]) -> type[Thing]:
    found = _imported(entry)
    if not (isinstance(found, type) and issubclass(found, base)):
        what = f"the class {found.__name__}" if isinstance(found, type) else _kind(found)
        raise HarnessError(
            f"{_place(entry)}: leads to {what}, and must lead to a class that derives from {base.__name__}; see "
            f"docs/extending.md, or {_uninstall(entry)}"
        )
    undone = sorted(getattr(found, "__abstractmethods__", ()))
    if undone:
        raise HarnessError(
            f"{_place(entry)}: {found.__name__} lacks {', '.join(undone)}; add it, or {_uninstall(entry)}"
        )
    _check_name(entry, found)
    return found


def _imported(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except (Exception, SystemExit) as error:  # whatever a stranger's module does while it is imported
        raise HarnessError(
            f"{_place(entry)}: {entry.value} cannot be loaded ({_reason(error)}): mend it, install what it lacks, or "
            f"{_uninstall(entry)}"
        ) from error


def _check_name(entry: EntryPoint, thing: Any) -> None:
    name = getattr(thing, "name", None)
    if name != entry.name:
        raise HarnessError(
            f"{_place(entry)}: what it leads to calls itself {name!r}; give both the same name, or {_uninstall(entry)}"
        )


def _reason(error: BaseException) -> str:
    """What went wrong, and in which line of whose file."""
    raised = [each for each in traceback.extract_tb(error.__traceback__) if each.filename not in (__file__, "<string>")]
    frames = [
        each for each in raised if not {"importlib", "<frozen importlib._bootstrap>"} & {*Path(each.filename).parts}
    ]
    where = f", {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
    return f"{in_short(error)}{where}"


def _place(entry: EntryPoint) -> str:
    return f"package {_package(entry)}, entry point {entry.name!r} of {entry.group}"


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "without a name"


def _uninstall(entry: EntryPoint) -> str:
    return f"`pip uninstall {entry.dist.name}`" if entry.dist else "remove the package"


def _kind(thing: Any) -> str:
    return f"an object of type {type(thing).__name__}"
