"""Every kind of fault a scenario may name, in one table. Adding one: a file, its test, and a line here."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from faults import cut
from faults.crash import Crash, ShutDown
from faults.disk_loss import DiskLoss
from faults.pause import Pause
from faults.rolling_restart import RollingRestart
from faults.slow_link import SlowLink
from harness.durations import seconds
from harness.errors import UsageError
from harness.interfaces import Fault
from harness.scenario import FaultSpec

Maker = Callable[[Mapping[str, Any], Sequence[str]], Fault]


def _links(options: Mapping[str, Any]) -> list[str]:
    names = options.get("links")
    if not isinstance(names, list) or not names:
        raise UsageError('this fault needs options = { links = ["2>1"] }')
    return [str(name) for name in names]


def _mode(options: Mapping[str, Any]) -> cut.Mode:
    mode = options.get("mode", "hang")
    if mode not in ("hang", "reset"):
        raise UsageError(f'mode is "hang" or "reset", not {mode!r}')
    return "reset" if mode == "reset" else "hang"


def _slow(options: Mapping[str, Any], topics: Sequence[str]) -> Fault:
    try:
        delay_ms = 1000 * seconds(options["delay"])
    except (KeyError, ValueError):
        raise UsageError('slow-link needs options = { delay = "500 ms" }') from None
    pattern = cut.named(_links(options)) if "links" in options else cut.isolate_from("peers")
    return SlowLink(pattern, delay_ms=delay_ms)


# Kind -> (what it does, the options it takes, how it is made).
FAULTS: Mapping[str, tuple[str, tuple[str, ...], Maker]] = {
    "crash": ("SIGKILL, then a restart on the same disk", (), lambda o, t: Crash()),
    "shut-down": ("a clean stop, then a start", (), lambda o, t: ShutDown()),
    "rolling-restart": ("clean restarts, one after the other", (), lambda o, t: RollingRestart(t)),
    "pause": ("SIGSTOP, then SIGCONT", (), lambda o, t: Pause()),
    "isolate": (
        "cut from all other brokers, both directions",
        ("mode",),
        lambda o, t: cut.Cut(cut.isolate_from("peers"), mode=_mode(o)),
    ),
    "halves": (
        "victims on one side, the rest on the other",
        ("mode",),
        lambda o, t: cut.Cut(cut.halves, mode=_mode(o)),
    ),
    "majority-ring": (
        "every broker sees a majority, no two the same",
        ("mode",),
        lambda o, t: cut.Cut(cut.majority_ring, mode=_mode(o)),
    ),
    "bridge": (
        "two halves that meet in the first victim only",
        ("mode",),
        lambda o, t: cut.Cut(cut.bridge, mode=_mode(o)),
    ),
    "cut-link": (
        "the named links only",
        ("links", "mode"),
        lambda o, t: cut.Cut(cut.named(_links(o)), mode=_mode(o)),
    ),
    "cut-coordination": (
        "cut from the coordination service only: a zombie leader",
        ("mode",),
        lambda o, t: cut.Cut(cut.isolate_from("coordination"), mode=_mode(o)),
    ),
    "cut-clients": (
        "cut from every client",
        ("mode",),
        lambda o, t: cut.Cut(cut.isolate_from("clients"), mode=_mode(o)),
    ),
    "hold-fetches": (
        "the other brokers' fetches from the victims stop",
        ("mode",),
        lambda o, t: cut.Cut(cut.held_fetches, mode=_mode(o)),
    ),
    "slow-link": ("a delay on the victims' peer links, or on the named ones", ("delay", "links"), _slow),
    "disk-loss": ("SIGKILL, an empty disk, then a start", (), lambda o, t: DiskLoss()),
}


def make(spec: FaultSpec, topics: Sequence[str]) -> Fault:
    """A fresh fault for one interval. Raises UsageError for an unknown kind or option."""
    if spec.kind not in FAULTS:
        close = get_close_matches(spec.kind, FAULTS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(FAULTS)}"
        raise UsageError(f"unknown fault {spec.kind!r}; {hint}")
    _, options, maker = FAULTS[spec.kind]
    for key in spec.options:
        if key not in options:
            raise UsageError(f"fault {spec.kind!r} has no option {key!r}; its options: {', '.join(options) or 'none'}")
    return maker(spec.options, topics)
