"""Where what was fetched or made once is kept for later runs: the user's cache, as the XDG specification has it."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Ours below XDG_CACHE_HOME; a relative one is void, as the specification wants it."""
    chosen = Path(environment.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "kafka-chaos"
