"""Stands in for what an operator has at hand: `somebodys_machine.py FOLDER kill|start|pause|resume NODE`.

It knows the brokers of the cluster whose files are below FOLDER, and no other process.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

_SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "resume": signal.SIGCONT}


def process_of(folder: Path, node: str) -> tuple[int, list[str]]:
    (configuration,) = [str(path) for path in folder.glob(f"*/nodes/{node}/config/server.properties")]
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            words = (process / "cmdline").read_text().split("\0")[:-1]
        except OSError:
            continue
        if configuration in words:
            return int(process.name), words
    sys.exit(f"no process runs with {configuration}")


def main() -> None:
    folder, act, node = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    note = folder / f"process-{node}.json"
    if act == "start":
        known = json.loads(note.read_text())
        with (folder / f"node-{node}.log").open("ab") as log:
            started = subprocess.Popen(
                known["command"],
                env=known["environment"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (folder / f"started-{node}").write_text(str(started.pid))
        return
    pid, command = process_of(folder, node)
    lines = Path(f"/proc/{pid}/environ").read_text().split("\0")
    note.write_text(json.dumps({"command": command, "environment": dict(each.split("=", 1) for each in lines if each)}))
    os.kill(pid, _SIGNALS[act])


if __name__ == "__main__":
    main()
