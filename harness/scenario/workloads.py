"""The workloads by name, ours and those of installed packages: classes whose fields are their keys in [workload].

A class is imported when a scenario first names it. A new workload of ours is a file in workloads/, its test, and a line
here; one of a package has an entry point (harness/extensions.py).
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from harness import extensions
from harness.errors import HarnessError
from harness.scenario.model import LoadFacts, WorkloadSpec
from harness.scenario.readers import check_declared

DEFAULT = "produce_and_poll"
_OWN: Mapping[str, str] = {
    DEFAULT: "workloads.produce_and_poll:ProduceAndPollSettings",
    "consumer_groups": "workloads.consumer_groups:ConsumerGroupsSettings",
    "transactions": "workloads.transactions:TransactionsSettings",
}
_NONE: Mapping[str, type[WorkloadSpec]] = {WorkloadSpec.name: WorkloadSpec}


def names() -> list[str]:
    """Raises HarnessError where two packages have one name."""
    return [*_OWN, *_NONE, *extensions.names(extensions.WORKLOADS)]


def settings_of(name: str) -> type[WorkloadSpec] | None:
    """The settings class of that workload; None where nobody has one. Raises HarnessError for a broken package."""
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
    """A package's workload, where that package is not installed: what its run wrote down of it. It cannot be run."""


def recorded(name: str, facts: Mapping[str, Any]) -> type[RecordedWorkload]:
    """`facts`: the fields of its LoadFacts, as run.json has them."""
    told = LoadFacts(**{**facts, "outputs": tuple(facts.get("outputs", ()))})
    own = {"name": name, "facts": property(lambda self: told), "__module__": __name__}
    return type("Recorded", (RecordedWorkload,), own)


def _check_defaults(place: str, settings: type[WorkloadSpec]) -> None:
    """Raises HarnessError: a scenario may leave every key out."""
    if not hasattr(settings, "make_worker"):
        raise HarnessError(f"{place}: derive {settings.__name__} from harness.extending.workloads.WorkloadSettings")
    try:
        settings()
    except (TypeError, ValueError) as error:
        raise HarnessError(f"{place}: {settings.__name__}: {error}") from error
