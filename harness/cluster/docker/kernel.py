"""Reads from this machine's kernel configuration whether the Docker engine's kernel was built without netem."""

import contextlib
import gzip
import platform
from pathlib import Path

from harness.cluster.docker.engine import Engine

# netem itself, and what selects a link's packets for it (netem.py).
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
