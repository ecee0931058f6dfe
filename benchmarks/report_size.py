"""How large the page of a large run is and how fast it opens: `python benchmarks/report_size.py [--operations N]`.

Makes a judged run folder, writes its page, opens it in headless Chromium and prints bytes and seconds.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.browser import chromium, timings  # a benchmark is a script beside its parts
from benchmarks.large_run import write_large_run
from harness.host.scratch import scratch_folder
from reports.render import write_report

AIM_BYTES, AIM_S = 10_000_000, 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--findings", type=int, default=10_000)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--opened", type=int, default=3, help="How often the page is opened; medians are printed.")
    parser.add_argument("--page", type=Path, help="Opens this page and makes none.")
    parser.add_argument("--keep", type=Path, help="Where to leave the run folder.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with scratch_folder("kafka-chaos-benchmark-") as place:
        sizes: dict[str, float | int | None] = {}
        page = options.page
        if page is None:
            run = write_large_run(
                options.keep or Path(place),
                operations=options.operations,
                findings=options.findings,
                faults=options.faults,
                partitions=options.partitions,
            )
            began = time.perf_counter()
            page = write_report(run)
            sizes["written_s"] = round(time.perf_counter() - began, 2)
        sizes["bytes"] = page.stat().st_size
        program = chromium()
        if program is not None:
            sizes |= _opened(program, page, options.opened)
            blank = Path(place) / "blank.html"
            blank.write_text("<!doctype html><title>blank</title><p>blank", encoding="utf-8")
            # A busy machine takes its time over this one too.
            sizes["blank_load_s"] = _opened(program, blank, options.opened)["load_s"]
    print(json.dumps(sizes) if options.json else _table(sizes, program))


def _opened(program: str, page: Path, times: int) -> dict[str, float]:
    runs = [timings(program, page) for _ in range(times)]
    return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}


def _table(sizes: dict[str, float | int | None], program: str | None) -> str:
    lines = [f"{name:<14}{value}" for name, value in sizes.items()]
    lines.append(f"aims: at most {AIM_BYTES:,} bytes, loaded in {AIM_S:g} s")
    return "\n".join(lines if program else [*lines, "no Chromium on this machine: not opened"])


if __name__ == "__main__":
    main()
