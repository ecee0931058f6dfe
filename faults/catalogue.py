"""Every fault by name: our own, and those of installed packages. To add one: a file, its test, and a line here.

Schedules and steps use the same faults, written differently: `kind = "slow"`, `options = { delay = "1 s" }`
in [[faults]], `act = { slow = 2, delay = "1 s" }` in [[steps]].
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from faults.disks.damage import Damage
from faults.disks.fail_at_write import FailAtWrite
from faults.disks.fill import Fill
from faults.disks.power_loss import PowerLoss
from faults.disks.power_off import PowerOff
from faults.disks.wipe import Wipe
from faults.network.bridge import Bridge
from faults.network.cut import Cut
from faults.network.halves import Halves
from faults.network.hold_fetches import HoldFetches
from faults.network.hold_requests import HoldRequests, LoseRequests
from faults.network.impair import Impair
from faults.network.isolate import Isolate
from faults.network.majority_ring import MajorityRing
from faults.network.slow import Slow
from faults.processes.kill import Kill
from faults.processes.kill_at_write import KillAtWrite
from faults.processes.pause import Pause
from faults.processes.restart import Restart
from faults.processes.rolling_restart import RollingRestart
from faults.processes.stop import Stop
from faults.topics.preferred_election import PreferredElection
from faults.topics.reconfigure import Reconfigure
from faults.topics.unclean_election import UncleanElection
from harness.errors import UsageError
from harness.extensions import FAULTS, load_classes, package_of
from harness.ports.faults import ACTS, Fault
from harness.values import Reader, check_declared, keys_of

OURS: tuple[type[Fault], ...] = (
    Kill,
    KillAtWrite,
    FailAtWrite,
    Stop,
    Restart,
    RollingRestart,
    Pause,
    Isolate,
    Halves,
    MajorityRing,
    Bridge,
    Cut,
    HoldFetches,
    HoldRequests,
    LoseRequests,
    Slow,
    Impair,
    Wipe,
    PowerLoss,
    PowerOff,
    Damage,
    Fill,
    PreferredElection,
    UncleanElection,
    Reconfigure,
)


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
