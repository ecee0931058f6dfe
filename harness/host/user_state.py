"""The state directory, $XDG_STATE_HOME/kafka-chaos: registered runs and locked address blocks, private to this user.

The sweep trusts its contents, so it must belong to this user: root follows no entry that another user could write.
"""

import os
from pathlib import Path

from harness.errors import HarnessError


def state_directory() -> Path:
    """Created if missing. A relative XDG_STATE_HOME is ignored, as its specification says. Raises HarnessError."""
    chosen = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        path = (chosen if chosen.is_absolute() else Path.home() / ".local" / "state") / "kafka-chaos"
    except RuntimeError as error:
        raise HarnessError(f"{error} HOME or XDG_STATE_HOME says where runs leave word; set one of them") from None
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            path.chmod(found.st_mode & 0o700)  # as an older kafka-chaos created it
    except OSError as error:
        raise HarnessError(
            f"{path}: no place for what runs leave word of ({error.strerror}); XDG_STATE_HOME chooses another"
        ) from None
    if found.st_uid != os.geteuid():
        raise HarnessError(
            f"{path} belongs to user {found.st_uid} and this is user {os.geteuid()}, who must not do what is written "
            "there; XDG_STATE_HOME chooses another place"
        )
    return path
