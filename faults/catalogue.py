"""Every kind of fault a scenario may name, in one table. Adding one: a file, its test, and a line here."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from faults import cut
from faults.crash import Crash, ShutDown
from faults.disk_damage import DiskDamage
from faults.disk_full import DiskFull
from faults.disk_loss import DiskLoss
from faults.impaired_links import ImpairedLinks
from faults.pause import Pause
from faults.rolling_restart import RollingRestart
from faults.slow_link import SlowLink
from harness.durations import seconds
from harness.errors import UsageError
from harness.harms import Impairment, Place
from harness.interfaces import Fault
from harness.percentages import percent
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
    return SlowLink(_peer_links(options), delay_ms=delay_ms)


def _peer_links(options: Mapping[str, Any]) -> cut.Pattern:
    return cut.named(_links(options)) if "links" in options else cut.isolate_from("peers")


def _impaired(share: str) -> Maker:
    """The maker of a fault that does one thing to a share of the packets: loss, duplicate or reorder."""

    def made(options: Mapping[str, Any], topics: Sequence[str]) -> Fault:
        try:
            shares = {f"{share}_percent": percent(options[share])}
            delay_ms = 1000 * seconds(options.get("delay", "20 ms" if share == "reorder" else 0))
        except (KeyError, ValueError):
            raise UsageError(f'this fault needs options = {{ {share} = "10 %" }}') from None
        return ImpairedLinks(_peer_links(options), Impairment(delay_ms=delay_ms, **shares))

    return made


def _damage(options: Mapping[str, Any], topics: Sequence[str]) -> Fault:
    at, running, partition = options.get("at", "last"), options.get("running", False), options.get("partition", 0)
    if at not in ("last", "middle"):
        raise UsageError(f'damage lies at = "last" or "middle", not {at!r}')
    if not isinstance(running, bool) or not isinstance(partition, int):
        raise UsageError('disk-damage takes options = { topic = "orders", partition = 0, running = true }')
    place: Place = "middle" if at == "middle" else "last"
    return DiskDamage(str(options.get("topic", topics[0])), partition, at=place, running=running)


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
    "packet-loss": (
        "packets lost on the victims' peer links, or on the named ones",
        ("loss", "links"),
        _impaired("loss"),
    ),
    "packet-duplication": (
        "packets sent twice on such links",
        ("duplicate", "links"),
        _impaired("duplicate"),
    ),
    "packet-reordering": (
        "packets on such links overtake others, which wait for a delay",
        ("reorder", "delay", "links"),
        _impaired("reorder"),
    ),
    "disk-loss": ("SIGKILL, an empty disk, then a start", (), lambda o, t: DiskLoss()),
    "disk-damage": (
        "SIGKILL, bits flipped in one batch of a replica, then a start",
        ("topic", "partition", "at", "running"),
        _damage,
    ),
    "disk-full": ("no byte is free on the disk; then room again, and a start", (), lambda o, t: DiskFull()),
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
