"""A fault as a plan asks for it: which one, with which options, whom it is to strike and for how long."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from faults.catalogue import find, make, options_of
from faults.targets import Target
from harness.errors import UsageError
from harness.ports.faults import ACTS, Fault
from harness.values import seconds


@dataclass(frozen=True, kw_only=True)
class PlannedFault:
    """target, given: whom it strikes, and its options, in the scenario's words."""

    fault: Fault
    target: Any
    for_s: float | None
    given: Mapping[str, Any]

    @cached_property
    def victims(self) -> Target:
        """Raises UsageError."""
        return Target.parse(self.target)

    @classmethod
    def of_act(cls, body: Mapping[str, Any]) -> "PlannedFault | None":
        """The fault that a step begins; None if its act is another one. Raises UsageError."""
        word, value = next(iter(body.items()))
        if word in ACTS:
            return None
        kind, _ = find(word, called="act")
        given = {key: option for key, option in body.items() if key not in (word, "for")}
        if _names_links(kind, value):
            given, value = {"links": value, **given}, "all"
        fault, given_all = make(word, given)
        if "for" in body and fault.lasts_s is not None:
            raise UsageError(f"{word!r} is over by itself and has no `for`")
        try:
            for_s = seconds(body["for"]) if "for" in body else None
        except ValueError as error:
            raise UsageError(f"for: {error}") from None
        return cls(fault=fault, target=value, for_s=for_s, given=given_all)


def _names_links(kind: type[Fault], value: Any) -> bool:
    if "links" not in options_of(kind):
        return False
    return not kind.may_hit or (isinstance(value, list) and any(">" in str(each) for each in value))
