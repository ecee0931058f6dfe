"""Where this user's runs are entered and address blocks are locked: $XDG_STATE_HOME/kafka-chaos, closed to all others.

The sweep believes what lies there, so it must be this user's own: root obeys no entry that another user could write.
"""

import os
from pathlib import Path

from harness.errors import HarnessError


def state_directory() -> Path:
    """Made if it is not there. A relative XDG_STATE_HOME is void, as the specification has it. Raises HarnessError."""
    chosen = Path(os.environ.get("XDG_STATE_HOME", ""))
    path = (chosen if chosen.is_absolute() else Path.home() / ".local" / "state") / "kafka-chaos"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            path.chmod(found.st_mode & 0o700)  # as an older kafka-chaos made it
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
