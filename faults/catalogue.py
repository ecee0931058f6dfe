"""Every fault by name: our own, and those of installed packages. To add one: a file, its test, and a line here.

Schedules and steps use the same faults, written differently: `kind = "slow"`, `options = { delay = "1 s" }`
in [[faults]], `act = { slow = 2, delay = "1 s" }` in [[steps]].
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal

from faults import targets, triggers
from faults.disks.damage import Damage
from faults.disks.fill import Fill
from faults.disks.power_loss import PowerLoss
from faults.disks.wipe import Wipe
from faults.network.bridge import Bridge
from faults.network.cut import Cut
from faults.network.halves import Halves
from faults.network.hold_fetches import HoldFetches
from faults.network.impair import Impair
from faults.network.isolate import Isolate
from faults.network.majority_ring import MajorityRing
from faults.network.slow import Slow
from faults.processes.kill import Kill
from faults.processes.pause import Pause
from faults.processes.restart import Restart
from faults.processes.rolling_restart import RollingRestart
from faults.processes.stop import Stop
from faults.topics.preferred_election import PreferredElection
from faults.topics.reconfigure import Reconfigure
from faults.topics.unclean_election import UncleanElection
from harness.errors import UsageError
from harness.extensions import FAULTS, load_classes, package_of
from harness.ports.faults import Fault, PlannedFault
from harness.scenario.model import FaultSpec, Scenario, StepSpec
from harness.scenario.steps import ACTS
from harness.values import Reader, check_declared, keys_of, seconds

OURS: tuple[type[Fault], ...] = (
    Kill, Stop, Restart, RollingRestart, Pause,
    Isolate, Halves, MajorityRing, Bridge, Cut, HoldFetches, Slow, Impair,
    Wipe, PowerLoss, Damage, Fill,
    PreferredElection, UncleanElection, Reconfigure,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A fault that makes no sense: its index (from 0) among the scenario's [[faults]] or [[steps]], and why."""

    section: Literal["faults", "steps"]
    index: int
    what: str


def by_name() -> Mapping[str, type[Fault]]:
    """Each fault under its name, without aliases. Raises HarnessError for a package that does not fit."""
    others = load_classes(FAULTS, Fault, own=[*_ours(), *ACTS])  # type: ignore[type-abstract]
    for fault in others:
        check_declared(fault, place=f"package {package_of(FAULTS, fault.name)}: fault {fault.name!r}")
    return {**{fault.name: fault for fault in OURS}, **{fault.name: fault for fault in others}}


@cache
def _ours() -> Mapping[str, tuple[type[Fault], Mapping[str, Any]]]:
    """Our faults by name and alias, with the options that an alias stands for."""
    found: dict[str, tuple[type[Fault], Mapping[str, Any]]] = {}
    for fault in OURS:
        found[fault.name] = (fault, {})
        found |= {alias: (fault, options) for alias, options in fault.aliases.items()}
    return found


def options_of(fault: type[Fault]) -> Mapping[str, tuple[str, Reader]]:
    """A fault's options: key in a scenario -> (field, reader)."""
    return {key.removesuffix("_"): entry for key, entry in keys_of(fault).items()}


def find(word: str, *, called: str = "fault") -> tuple[type[Fault], Mapping[str, Any]]:
    """The fault of a name or alias, and the alias's options. Raises UsageError; `called`: what the message calls it."""
    name = word.replace("_", "-")
    if name in _ours():
        return _ours()[name]
    known: dict[str, tuple[type[Fault], Mapping[str, Any]]] = {}
    for fault in by_name().values():
        known |= {fault.name: (fault, {}), **{alias: (fault, options) for alias, options in fault.aliases.items()}}
    if name not in known:
        close = get_close_matches(name[:100], [*known, *ACTS], n=1)
        others = ACTS if called == "act" else ()
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join([*by_name(), *others])}"
        raise UsageError(f"unknown {called} {word[:100]!r}; {hint}")
    return known[name]


def is_fault(word: str) -> bool:
    """Whether it is the name or an alias of one."""
    name = word.replace("_", "-")
    return name in _ours() or any(name == fault.name or name in fault.aliases for fault in by_name().values())


def make(word: str, given: Mapping[str, Any]) -> tuple[Fault, Mapping[str, Any]]:
    """A fault with the options that a scenario gives, and these options. Raises UsageError if they are wrong."""
    kind, meant = find(word)
    known, fields = options_of(kind), {}
    for key, value in {**meant, **given}.items():
        if key not in known:
            close = get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"its options: {', '.join(known) or 'none'}"
            raise UsageError(f"fault {word!r} has no option {str(key)[:100]!r}; {hint}")
        field, read = known[key]
        try:
            fields[field] = read(value)
        except ValueError as error:
            raise UsageError(f"fault {word!r}: {key}: {error}") from None
    try:
        return kind(**fields), {**meant, **given}
    except ValueError as error:
        raise UsageError(f"fault {word!r}: {error}") from None


def of_schedule(spec: FaultSpec) -> PlannedFault:
    """The fault that one of [[faults]] plans. Raises UsageError."""
    fault, given = make(spec.kind, spec.options)
    return PlannedFault(fault=fault, target=spec.target or "all", for_s=spec.for_s, given=given)


def of_step(step: StepSpec) -> PlannedFault | None:
    """The fault that a step begins; None if the step does something else. Raises UsageError."""
    word, value = next(iter(step.body.items()))
    if step.kind != "act" or word in ACTS:
        return None
    kind, _ = find(word, called="act")
    given = {key: option for key, option in step.body.items() if key not in (word, "for")}
    if _names_links(kind, value):
        given, value = {"links": value, **given}, "all"
    fault, given_all = make(word, given)
    if "for" not in step.body:
        return PlannedFault(fault=fault, target=value, for_s=None, given=given_all)
    if fault.lasts_s is not None:
        raise UsageError(f"{word!r} is over by itself and has no `for`")
    try:
        return PlannedFault(fault=fault, target=value, for_s=seconds(step.body["for"]), given=given_all)
    except ValueError as error:
        raise UsageError(f"for: {error}") from None


def _names_links(kind: type[Fault], value: Any) -> bool:
    if "links" not in options_of(kind):
        return False
    return not kind.may_hit or (isinstance(value, list) and any(">" in str(each) for each in value))


def planned(scenario: Scenario) -> Iterator[tuple[Literal["faults", "steps"], int, PlannedFault]]:
    """Every valid fault that a scenario plans, with its section and its index there (`wrong` returns the others)."""
    for index, spec in enumerate(scenario.faults):
        with suppress(UsageError):
            yield "faults", index, of_schedule(spec)
    for index, step in enumerate(scenario.steps):
        with suppress(UsageError):
            fault = of_step(step)
            if fault is not None:
                yield "steps", index, fault


def wrong(scenario: Scenario) -> Iterator[Wrong]:
    """The faults of a scenario that are wrong on any cluster."""
    for index, spec in enumerate(scenario.faults):
        for what in (_refused(of_schedule, spec), _refused(_check_moment, spec)):
            if what:
                yield Wrong(section="faults", index=index, what=what)
    for index, step in enumerate(scenario.steps):
        if what := _refused(_check_step, step):
            yield Wrong(section="steps", index=index, what=what)


def _refused(check: Callable[[Any], Any], spec: FaultSpec | StepSpec) -> str:
    try:
        check(spec)
    except UsageError as error:
        return str(error)
    return ""


def _check_moment(spec: FaultSpec) -> None:
    targets.parse(spec.target or "all")
    if spec.when is not None:
        triggers.parse(spec.when)


def _check_step(step: StepSpec) -> None:
    fault = of_step(step)
    word, value = next(iter(step.body.items()))
    if fault is not None:
        targets.parse(fault.target)
    elif step.kind == "act" and word in ("start", "resume", "free"):
        targets.parse(value)
    elif step.kind == "act" and word == "heal" and isinstance(value, str) and value != "all":
        _check_healed(value)


def _check_healed(name: str) -> None:
    undone_by = find(name)[0].undone_by
    if undone_by != "heal":
        raise UsageError(f"heal does not undo {name!r}; {undone_by} does")
