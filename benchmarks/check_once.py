"""One measured process of check_history.py: `cold`, `after-run`, `duckdb` or `many`; the last line printed is JSON.

As in the command `check`, the JVM starts first and the rest of the program is read beside it.
"""

import time

BEGAN = time.perf_counter()

import argparse  # noqa: E402  # the clock starts before anything is imported
import json  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.checks.spark.jvm import start_jvm_early  # noqa: E402
from harness.host.memory import DEFAULT_MB  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["cold", "after-run", "duckdb", "many"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--memory-mb", type=int, default=DEFAULT_MB)
    parser.add_argument("--large", action="store_true", help="so many rows that the full compiler pays")
    options = parser.parse_args()
    jvm = start_jvm_early(memory_mb=options.memory_mb, large=options.large)

    from benchmarks import check_steps
    from harness.checks.early_session import EarlySession

    early = EarlySession(master="local[2]", jvm=jvm)
    if options.mode == "many":
        results = check_steps.many(options.folder, early)
    elif options.mode == "duckdb":
        results = check_steps.duckdb_ratio(options.folder, early)
    else:
        results = check_steps.check(options.folder, early, began=BEGAN, waiting=options.mode == "after-run")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
