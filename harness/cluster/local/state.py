"""Where this user's runs are entered and address blocks are locked: $XDG_STATE_HOME/kafka-chaos."""

import os
from pathlib import Path


def state_directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    path = Path(base) / "kafka-chaos"
    path.mkdir(parents=True, exist_ok=True)
    return path
