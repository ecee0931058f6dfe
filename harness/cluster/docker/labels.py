"""Labels that identify the owner of a container, network or volume, even after the harness was killed."""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from harness.cluster.local.processes import boot_id
from harness.user_state import state_directory

RUN = "kafka-chaos.run"  # the run folder's resolved path; its lock shows whether the run is active
HOST = "kafka-chaos.host"  # boot id of the machine that created it
OWNER = "kafka-chaos.owner"  # identifies the user and machine: an engine may serve several
NODE = "kafka-chaos.node"  # the node's id, if it belongs to a node


def labels_of(run: Path, **more: str) -> Mapping[str, str]:
    """The labels of everything that a run creates in the engine."""
    extra = {f"kafka-chaos.{key}": value for key, value in more.items()}
    return {RUN: str(run.resolve()), HOST: boot_id(), OWNER: owner(), **extra}


def still_there() -> Path:
    """A file that is there while the engine may have something that a sweep could not remove.

    Sweeps strike runs off the list, whether or not the engine let go of all they had; without this nobody would ask the
    engine again.
    """
    return state_directory() / "containers-left"


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
