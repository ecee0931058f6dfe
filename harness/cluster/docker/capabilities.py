"""What this Docker engine supports, tried once in a temporary container instead of guessed from versions."""

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from docker.models.containers import Container

from harness.cluster.docker.engine import Engine, engine_errors
from harness.cluster.docker.infra import start_infra
from harness.cluster.docker.namespace import Entry, Namespace, can_enter, pid_of
from harness.cluster.docker.netem import not_here
from harness.cluster.docker.packet_rules import CHAIN, HOOKS, Rule, read_saved, restore_text
from harness.errors import HarnessError

_PLACE = "/probe"
_RULES = [Rule(inbound=True, peer="192.0.2.1", port=9, mode=mode) for mode in ("hang", "reset")]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """None: supported; otherwise a sentence with the reason and its consequence."""

    entry: Entry  # how namespaces are entered: nsenter as root on the engine's machine, or the engine's exec
    packet_rules: str | None
    netem: str | None
    volumes: str | None  # whether the harness can read and write named volumes as folders of this machine

    def explained(self) -> Mapping[str, str]:
        """The lines for `doctor` and for a report."""
        return {
            "enters networks by": self.entry,
            "packet rules": self.packet_rules or "yes",
            "delay, loss, duplication, reordering": self.netem or "yes",
            "volumes as folders": self.volumes or "yes",
        }


def probe(engine: Engine, infra_image: str, labels: Mapping[str, str]) -> Capabilities:
    """Leaves nothing behind. Raises HarnessError if not even the container starts."""
    name = f"kafka-chaos-probe-{uuid.uuid4().hex[:12]}"
    with engine_errors(f"making volume {name}"):
        volume = engine.client.volumes.create(name, labels=dict(labels))
    try:
        infra = start_infra(infra_image, name=name, network=None, labels=labels, volumes=[(name, _PLACE)])
        try:
            container = infra.container
            entry: Entry = "nsenter" if _is_entered(container) else "exec"
            namespace = Namespace(container, entry=entry)
            return Capabilities(
                entry=entry,
                packet_rules=_packet_rules(namespace),
                netem=_netem(namespace, engine.kernel),
                volumes=_volumes(container, Path(volume.attrs["Mountpoint"])),
            )
        finally:
            with engine_errors(f"removing container {name}"):
                infra.container.remove(force=True)
    finally:
        with engine_errors(f"removing volume {name}"):
            volume.remove(force=True)


def _is_entered(container: Container) -> bool:
    """True if this is root with the tools, and both sides see the same namespace: a remote engine has other numbers."""
    if os.geteuid() != 0 or not can_enter():
        return False
    link = "/proc/self/ns/net"
    try:
        inside = Namespace(container, entry="exec").run(["readlink", link]).strip()
        here = os.readlink(f"/proc/{pid_of(container)}/ns/net")
        entered = Namespace(container, entry="nsenter").run(["readlink", link]).strip()
        Namespace(container, entry="nsenter").run(["iptables-save", "-t", "filter"])
    except (HarnessError, OSError):
        return False
    return inside == here == entered


def _packet_rules(namespace: Namespace) -> str | None:
    try:
        namespace.run(["iptables-restore", "--noflush"], given=restore_text(_RULES, hooked=()))
        standing = read_saved(namespace.run(["iptables-save", "-c", "-t", "filter"]))
    except HarnessError as error:
        return f"no packet rules can be set, so nothing can be partitioned here: {error}"
    if set(standing.packets) != set(_RULES) or standing.hooked != frozenset(HOOKS):
        return f"packet rules were set and not read back as written (chain {CHAIN}), so nothing can be partitioned here"
    return None


def _netem(namespace: Namespace, kernel: str) -> str | None:
    """Checks netem and the two other kernel modules that selecting a link's packets needs."""
    for command in (
        "qdisc add dev lo root handle 1: prio bands 2",
        "qdisc add dev lo parent 1:2 handle 20: netem delay 1ms",
        "filter add dev lo parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff flowid 1:2",
    ):
        try:
            namespace.run(["tc", *command.split()])
        except HarnessError as error:
            return not_here(kernel, str(error).partition(" failed with ")[2].partition(": ")[2] or str(error))
    return None


def _volumes(container: Container, mountpoint: Path) -> str | None:
    """Checks that a word written in the container can be read here: the same path may belong to another machine."""
    word = f"{socket.gethostname()}-{uuid.uuid4().hex}"
    namespace = Namespace(container, entry="exec")
    try:
        namespace.run(["sh", "-c", f"printf %s {word} > {_PLACE}/word"])
        if (mountpoint / "word").read_text(encoding="ascii") == word:
            (mountpoint / "word").unlink()
            return None
        seen = "holds something else"
    except (OSError, HarnessError) as error:
        seen = str(error)
    return f"named volumes are not folders of this machine ({seen}); disks are read through the infra container"
