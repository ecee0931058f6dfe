"""Labels that identify the owner of a container, network or volume, even after the harness was killed."""

import contextlib
import hashlib
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.local.processes import boot_id
from harness.host.user_folders import state_directory

RUN = "kafka-chaos.run"  # the run folder's resolved path; its lock shows whether the run is active
HOST = "kafka-chaos.host"  # boot id of the machine that created it
OWNER = "kafka-chaos.owner"  # identifies the user and machine: an engine may serve several
NODE = "kafka-chaos.node"  # the node's id, if it belongs to a node


def labels_of(run: Path, **more: str) -> Mapping[str, str]:
    """The labels of everything that a run creates in the engine; whoever asks for them is about to, and is entered."""
    enter(run.resolve())
    extra = {f"kafka-chaos.{key}": value for key, value in more.items()}
    return {RUN: str(run.resolve()), HOST: boot_id(), OWNER: owner(), **extra}


def engine_address() -> str:
    """Where the engine of this command is."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Says that the engine at `address` may have something of the run's; `file` is where that is noted."""

    run: Path
    address: str
    file: Path


def enter(run: Path) -> None:
    """Until `forget`, this engine may have something of the run's, whatever became of its entry among the runs.

    Sweeps strike runs off that list when no engine answers, too, or when it does not let go of all they had.
    """
    content = os.fsencode(run) + b"\0" + os.fsencode(engine_address())
    mark = _marks() / (hashlib.sha256(content).hexdigest()[:24] + ".run")
    if not mark.exists():
        draft = mark.with_suffix(f".{uuid.uuid4().hex}.new")
        draft.write_bytes(content)
        draft.replace(mark)


def forget(run: Path, address: str) -> None:
    """The engine there has nothing of it any more."""
    for mark in entered():
        if (mark.run, mark.address) == (run, address):
            mark.file.unlink(missing_ok=True)


def entered() -> list[Mark]:
    """The runs of which an engine may have something, whether or not they go on. Former releases noted no address."""
    found = []
    for file in sorted(_marks().glob("*.run")):
        with contextlib.suppress(FileNotFoundError):  # its run, or another sweep, was faster
            run, _, address = file.read_bytes().partition(b"\0")
            found.append(Mark(run=Path(os.fsdecode(run)), address=os.fsdecode(address) or engine_address(), file=file))
    return found


def _marks() -> Path:
    folder = state_directory() / "containers"
    folder.mkdir(exist_ok=True)
    return folder


def owner() -> str:
    """One value for all runs registered in this state directory, created at its first use."""
    file = state_directory() / "owner"
    try:
        return file.read_text(encoding="ascii")
    except FileNotFoundError:
        draft = file.with_suffix(f".{uuid.uuid4().hex}.new")
        draft.write_text(uuid.uuid4().hex, encoding="ascii")
        try:
            os.link(draft, file)  # fails if another command was first: then that value applies
        except FileExistsError:
            return file.read_text(encoding="ascii")
        finally:
            draft.unlink()
        return file.read_text(encoding="ascii")
