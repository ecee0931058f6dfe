"""What the verdict of a small run costs: `python benchmarks/small_run.py [RUN] [--beside CHECKOUT] [--repeat N]`.

Runs the demo and takes how long after its end the verdict came, here and with an empty cache, as after an installation.
Then whole processes of `check RUN`, each with a JVM of its own: wall clock and CPU seconds, the JVM's among them. RUN:
one that is there already, instead of the demo. --beside: another checkout with its own .venv, whose checks are measured
in turns with these, because machines are shared.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.needed import give_up
from harness.host.scratch import scratch_folder

HERE = Path(__file__).resolve().parent.parent
DEMO = "unclean-election"
ANSWERED = (0, 1, 3)  # exit codes: there was a verdict, whatever it was
_AFTER = re.compile(r"verdict ([0-9.]+) s after it ended")


def program(checkout: Path) -> list[str]:
    python = Path(sys.executable) if checkout == HERE else checkout / ".venv" / "bin" / "python"
    if not python.exists():
        give_up(f"{checkout} has no .venv/bin/python: make it there first")
    return [str(python), "-m", "harness"]


def ended(command: Sequence[str], checkout: Path, environment: Mapping[str, str] = os.environ) -> tuple[str, float]:
    """What it printed, and its wall seconds. It must come to a verdict. An installed program is compiled once, so this
    one is too, wherever the environment says that what is compiled is not kept."""
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=checkout, env=kept, capture_output=True, text=True, check=False)
    if done.returncode not in ANSWERED:
        give_up(f"{' '.join(command)} ended with code {done.returncode}: {done.stderr[-500:]}")
    return done.stdout, time.perf_counter() - began


def demo(runs: Path, environment: Mapping[str, str] = os.environ) -> tuple[Path, float]:
    """The folder of its run, and how long after its end the verdict came."""
    printed, _ = ended([*program(HERE), "run", DEMO, "--runs", str(runs)], HERE, environment)
    after = _AFTER.search(printed)
    if after is None:
        give_up(f"the demo did not say when its verdict came: {printed[-500:]}")
    return (runs / "latest").resolve(), float(after[1])


def checked(folder: Path, checkout: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one process and of all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, wall_s = ended([*program(checkout), "check", str(folder)], checkout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turns(folder: Path, checkouts: Sequence[Path], repeat: int) -> dict[str, dict[str, float]]:
    """Medians; the first round is not counted: it may have classes to keep."""
    measured: dict[Path, list[tuple[float, float]]] = {checkout: [] for checkout in checkouts}
    for round_number in range(repeat + 1):
        for checkout in checkouts:
            found = checked(folder, checkout)
            if round_number:
                measured[checkout].append(found)
    return {
        str(checkout): {
            "check_s": round(statistics.median(wall for wall, _ in found), 2),
            "check_cpu_s": round(statistics.median(cpu for _, cpu in found), 2),
        }
        for checkout, found in measured.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?", help="a run folder; without one the demo is run")
    parser.add_argument("--beside", type=Path, help="another checkout to measure in turns with this one")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    checkouts = [HERE] + ([options.beside.resolve()] if options.beside else [])
    results: dict[str, object] = {}
    with scratch_folder("kafka-chaos-benchmark-") as place:
        folder = options.run.resolve() if options.run else None
        if folder is None:
            anew = {**os.environ, "XDG_CACHE_HOME": str(place / "cache")}
            _, results["demo_first_verdict_s"] = demo(place / "first", anew)
            demos = [demo(place / "runs") for _ in range(options.repeat)]
            folder = demos[-1][0]
            results["demo_verdict_s"] = round(statistics.median(after for _, after in demos), 2)
        results |= in_turns(folder, checkouts, options.repeat)
    print(json.dumps(results | {"load": round(os.getloadavg()[0], 1)}, indent=2))


if __name__ == "__main__":
    main()
