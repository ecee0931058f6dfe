"""The workloads by name, our own and those of installed packages: classes whose fields are their keys in [workload].

A class is imported when a scenario first names it. To add one here: a file in workloads/, its test, and a line in this
file; a package uses an entry point (harness/extensions.py).
"""

from collections.abc import Mapping
from importlib import import_module

from harness import extensions
from harness.errors import HarnessError
from harness.ports.load import WorkloadSpec
from harness.values import check_declared

DEFAULT = "produce_and_poll"
_OWN: Mapping[str, str] = {
    DEFAULT: "workloads.produce_and_poll:ProduceAndPollSettings",
    "consumer_groups": "workloads.consumer_groups:ConsumerGroupsSettings",
    "transactions": "workloads.transactions:TransactionsSettings",
}
_NONE: Mapping[str, type[WorkloadSpec]] = {WorkloadSpec.name: WorkloadSpec}


def names() -> list[str]:
    """All names. Raises HarnessError if two packages use the same one."""
    return [*_OWN, *_NONE, *extensions.names(extensions.WORKLOADS)]


def is_own(name: str) -> bool:
    """Whether it is a workload of this project with producers and consumers of its own."""
    return name in _OWN


def settings_of(name: str) -> type[WorkloadSpec] | None:
    """The settings class of that workload; None if it is unknown. Raises HarnessError for a broken package."""
    if name in _NONE:
        return _NONE[name]
    if name in _OWN:
        module, _, settings = _OWN[name].partition(":")
        own: type[WorkloadSpec] = getattr(import_module(module), settings)
        return own
    found = extensions.class_named(extensions.WORKLOADS, name, WorkloadSpec, own=(*_OWN, *_NONE))
    if found is not None:
        place = f"package {extensions.package_of(extensions.WORKLOADS, name)}: workload {name!r}"
        check_declared(found, place=place)
        _check_defaults(place, found)
    return found


class RecordedWorkload(WorkloadSpec):
    """The workload of a package that is not installed, as a run recorded it. It cannot be run."""


def _check_defaults(place: str, settings: type[WorkloadSpec]) -> None:
    """Raises HarnessError if a field has no default: a scenario may leave out every key."""
    if not hasattr(settings, "make_worker"):
        raise HarnessError(f"{place}: derive {settings.__name__} from harness.extending.workloads.WorkloadSettings")
    try:
        settings()
    except (TypeError, ValueError) as error:
        raise HarnessError(f"{place}: {settings.__name__}: {error}") from error
