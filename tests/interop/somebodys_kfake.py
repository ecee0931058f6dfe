"""What the operator of a kfake (tests/interop/kfake) has at hand: `somebodys_kfake.py PROGRAM FOLDER PORT ACT`, where
ACT is start, stop or kill. It knows the process that it started, by its number, and no other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import until

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGTERM}


def runs(folder: Path) -> int | None:
    """Its process, unless that has ended, whoever has still to ask how."""
    note = folder / "process"
    if not note.is_file():
        return None
    number = int(note.read_text())
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
    return None if state == "Z" else number


def act(program: Path, folder: Path, port: str, what: str) -> None:
    number = runs(folder)
    if what == "start":
        if number is None:
            command = [str(program), port, str(folder / "data")]
            with (folder / "log").open("ab") as log:
                started = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            (folder / "process").write_text(str(started.pid))
    elif number is not None:
        os.kill(number, _SIGNALS[what])
        until(lambda: runs(folder) is None, "it has ended")


if __name__ == "__main__":
    act(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
