"""What says whose a container, network or volume is: labels, which also outlive a harness that was killed."""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from harness.cluster.local.processes import boot_id
from harness.cluster.local.state import state_directory

RUN = "kafka-chaos.run"  # the run folder's resolved path; its lock says whether the run goes on
HOST = "kafka-chaos.host"  # boot id of the machine that made it
OWNER = "kafka-chaos.owner"  # whose run folders the path belongs to: an engine may serve several machines and users
NODE = "kafka-chaos.node"  # the node's id, where it belongs to one


def labels_of(run: Path, **more: str) -> Mapping[str, str]:
    """For everything a run makes in the engine."""
    extra = {f"kafka-chaos.{key}": value for key, value in more.items()}
    return {RUN: str(run.resolve()), HOST: boot_id(), OWNER: owner(), **extra}


def owner() -> str:
    """One value for all runs entered in this state directory, made at its first use."""
    file = state_directory() / "owner"
    try:
        return file.read_text(encoding="ascii")
    except FileNotFoundError:
        draft = file.with_suffix(f".{uuid.uuid4().hex}.new")
        draft.write_text(uuid.uuid4().hex, encoding="ascii")
        try:
            os.link(draft, file)  # fails where another command was first: then its value holds
        except FileExistsError:
            return file.read_text(encoding="ascii")
        finally:
            draft.unlink()
        return file.read_text(encoding="ascii")
