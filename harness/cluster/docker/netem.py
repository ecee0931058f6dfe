"""Delays, drops, duplicates and reorders a link's packets with the kernel's netem, and reads whether the kernel has it.

A queueing discipline acts on outgoing packets, so a link between nodes is impaired at both ends: requests at the
source, answers at the target. Clients run outside the nodes, so only the answers of a client's link are impaired.
Offloading is switched off first, because otherwise one "packet" would be 64 KiB of records.
"""

import contextlib
import gzip
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.docker.engine import Engine
from harness.cluster.docker.namespace import Namespace
from harness.cluster.docker.packet_rules import Places
from harness.errors import HarnessError
from harness.ports.capabilities import Impairment
from harness.ports.cluster import Link, NodeId

INTERFACE = "eth0"
_KINDS_MAX = 15  # prio has at most 16 bands; the first is for all other packets
_QUEUE_PACKETS = 100_000  # packets that netem can hold while delaying; with its default of 1000 it would drop packets


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Outgoing packets of a node, by destination."""

    peer: str | None
    server_port: int
    to_server: bool

    def match(self) -> str:
        peer = f"match ip dst {self.peer}/32 " if self.peer is not None else ""
        side = "dport" if self.to_server else "sport"
        return f"{peer}match ip protocol 6 0xff match ip {side} {self.server_port} 0xffff"


def words_of(impairment: Impairment) -> str:
    """The impairment as arguments of tc."""
    words = []
    if impairment.delay_ms:
        jitter = f" {impairment.jitter_ms:g}ms" if impairment.jitter_ms else ""
        words.append(f"delay {impairment.delay_ms:g}ms{jitter}")
    if impairment.loss_percent:
        words.append(f"loss {impairment.loss_percent:g}%")
    if impairment.duplicate_percent:
        words.append(f"duplicate {impairment.duplicate_percent:g}%")
    if impairment.reorder_percent:
        words.append(f"reorder {impairment.reorder_percent:g}%")
    return " ".join(words)


def flows_of(impaired: Mapping[Link, Impairment], places: Places) -> Mapping[NodeId, Mapping[Flow, Impairment]]:
    """The impaired flows of every node; nodes without any are included."""
    found: dict[NodeId, dict[Flow, Impairment]] = {node: {} for node in places.addresses}
    for link, impairment in sorted(impaired.items(), key=lambda each: str(each[0])):
        if impairment.nothing:
            continue
        target, address = link.target, places.source_address(link)
        for port in places.server_ports(link):
            found[target][Flow(peer=address, server_port=port, to_server=False)] = impairment
            if link.source is not None:
                flow = Flow(peer=places.addresses[target], server_port=port, to_server=True)
                found[link.source][flow] = impairment
    return found


def tc_batch(flows: Mapping[Flow, Impairment], *, interface: str = INTERFACE) -> str:
    """The input of `tc -batch -` for an interface without a queueing discipline of its own. Empty if nothing is
    impaired."""
    if not flows:
        return ""
    kinds = list(dict.fromkeys(flows.values()))
    if len(kinds) > _KINDS_MAX:
        raise HarnessError(f"{len(kinds)} different impairments at one node; tc has room for {_KINDS_MAX}")
    bands = max(len(kinds) + 1, 2)
    lines = [f"qdisc add dev {interface} root handle 1: prio bands {bands} priomap {' '.join(['0'] * 16)}"]
    for band, impairment in enumerate(kinds, 2):
        lines.append(
            f"qdisc add dev {interface} parent 1:{band:x} handle {band:x}0: "
            f"netem limit {_QUEUE_PACKETS} {words_of(impairment)}"
        )
    for flow, impairment in flows.items():
        band = kinds.index(impairment) + 2
        lines.append(f"filter add dev {interface} parent 1: protocol ip prio 1 u32 {flow.match()} flowid 1:{band:x}")
    return "\n".join([*lines, ""])


def impair(namespace: Namespace, flows: Mapping[Flow, Impairment], *, interface: str = INTERFACE) -> str:
    """Replaces the impairments of this node's packets; returns the state that tc reports afterwards."""
    if "prio 1:" in namespace.run(["tc", "qdisc", "show", "dev", interface, "root"]):
        namespace.run(["tc", "qdisc", "del", "dev", interface, "root"])
    if flows:
        namespace.run(["ip", "link", "set", "dev", interface, "gso_max_segs", "1"])
        namespace.run(["tc", "-batch", "-"], given=tc_batch(flows, interface=interface))
    shown = namespace.run(["tc", "qdisc", "show", "dev", interface])
    if ("netem" in shown) != bool(flows):
        raise HarnessError(f"{namespace.name}: tc says nothing of what was set on {interface}: {shown.strip()[:200]}")
    return shown


def not_here(kernel: str, complaint: str) -> str:
    """Why packets cannot be impaired on this engine, and what can be done."""
    return (
        f"the Docker engine's kernel {kernel} has no netem (tc: {' '.join(complaint.split())[-120:]}): delay, loss, "
        "duplication and reordering of packets cannot be made; use --world local for delays, or a kernel with sch_netem"
    )


# ---- what the kernel was built with ---------------------------------------------------------------------------------


# netem itself, and what selects a link's packets for it.
_NEEDED = ("CONFIG_NET_SCH_NETEM", "CONFIG_NET_SCH_PRIO", "CONFIG_NET_CLS_U32")
_ROOT = Path("/")


def missing_options(engine: Engine, *, root: Path = _ROOT) -> tuple[str, ...] | None:
    """The build options of netem that the engine's kernel does not have.

    None: not known, because the engine runs on another kernel than this process, or no configuration of it can be read
    here. `root`: the folder of proc/ and boot/. An option that was built as a module counts as present; whether the
    module is installed is known only when the run begins (capabilities.py).
    """
    release = platform.release()
    if engine.kernel != release:
        return None
    configuration = _configuration(root, release)
    if configuration is None:
        return None
    present = {line.partition("=")[0] for line in configuration.splitlines() if line.endswith(("=y", "=m"))}
    return tuple(option for option in _NEEDED if option not in present)


def _configuration(root: Path, release: str) -> str | None:
    with contextlib.suppress(OSError, EOFError):  # most kernels have it in boot/ only
        return gzip.decompress((root / "proc/config.gz").read_bytes()).decode("ascii", errors="replace")
    try:
        return (root / f"boot/config-{release}").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
