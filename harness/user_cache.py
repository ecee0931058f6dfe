"""Where what was fetched or made once is kept for later runs: the user's cache, as the XDG specification has it."""

import os
from collections.abc import Mapping
from pathlib import Path

from harness.errors import HarnessError


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Ours below XDG_CACHE_HOME; a relative one is void, as the specification wants it."""
    chosen = Path(environment.get("XDG_CACHE_HOME", ""))
    try:
        return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "kafka-chaos"
    except RuntimeError as error:
        raise HarnessError(f"{error} HOME or XDG_CACHE_HOME says where the cache is; set one of them") from None


def made_in_cache(partition: str, environment: Mapping[str, str] = os.environ) -> Path:
    """A folder of the cache, made if it is not there. What lies in the cache is run: a new one is its user's alone."""
    top = cache_directory(environment)
    top.mkdir(mode=0o700, parents=True, exist_ok=True)
    (top / partition).mkdir(exist_ok=True)
    return top / partition
