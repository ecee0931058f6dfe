"""What a check costs, from journals to findings: `python benchmarks/check_history.py [--read-records N] [--json]`.

Writes the journals of four producers, eight consumers and a final read as a run would have (a send is one record, a
poll 25), then seals, judges and renders the folder in fresh processes. CPU seconds stand beside the wall clock because
machines are shared. `--growth`: four sizes and one slope. `--hot`: 80 % of the records in one partition against even.
`--runs N`: N small run folders in one job. `--edn`: the same history once more as Jepsen writes it, judged by
`check --format jepsen` beside the check of the run. `--transactions N`: a history of transactions as Jepsen writes it.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.history_writing import write_many, write_run  # a benchmark is a script beside its parts
from benchmarks.needed import give_up, need
from benchmarks.process_tree import ProcessTree
from benchmarks.transactions_writing import write_transactions
from harness.history.facts.extent import MANY_ROWS
from harness.history.jepsen.edn import export
from harness.history.run_folder import RunFolder
from harness.history.sealed.sealing import seal
from harness.host import memory
from harness.host.scratch import scratch_folder

DEFAULT_READS = 1_250_000
GROWTH = (625_000, 1_250_000, 2_500_000, 5_000_000)
CHILD = Path(__file__).resolve().parent / "check_once.py"
GIB = 2**30
EXPORT_MB = 16_384
ANSWERED = (0, 1, 3)  # exit codes: there was an answer, whatever it was


def measured(folder: Path, mode: str, *, memory_mb: int | None = None, large: bool = False) -> dict[str, Any]:
    """One fresh process that does `mode` (see check_once.py), with the memory and CPU of it and all its children."""
    command = [sys.executable, str(CHILD), mode, str(folder)]
    if memory_mb is not None:
        command += ["--memory-mb", str(memory_mb)]
    command += ["--large"] * large
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with ProcessTree(process.pid) as tree:
        output, _ = process.communicate()
    if process.returncode:
        give_up(f"{' '.join(command)} ended with code {process.returncode}")
    numbers: dict[str, Any] = json.loads(output.splitlines()[-1])
    return numbers | {
        "seconds_process": time.perf_counter() - began,
        "peak_gib": tree.peak_bytes / GIB,
        "cpu_s": tree.cpu_s,
        "load": os.getloadavg()[0],
    }


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    first = runs[0]
    numbers = [name for name, value in first.items() if isinstance(value, int | float)]
    return first | {name: round(statistics.median(each[name] for each in runs), 3) for name in numbers}


def benchmark(
    reads: int,
    place: Path,
    *,
    repeat: int,
    hot: bool = False,
    memory_mb: int | None = None,
    duckdb: bool = True,
    reads_per_send: int = 25,
) -> dict[str, Any]:
    folder = place / f"run-{reads}{'-hot' if hot else ''}"
    wrote = write_run(folder, reads, hot=hot, reads_per_send=reads_per_send)
    large = wrote.rows > MANY_ROWS
    cold = medians([measured(folder, "cold", memory_mb=memory_mb, large=large) for _ in range(repeat)])
    after = medians([measured(folder, "after-run", memory_mb=memory_mb, large=large) for _ in range(repeat)])
    result = {
        "read_records": wrote.reads,
        "records": wrote.rows,
        "operations": wrote.operations,
        "hot": hot,
        "journal_mb": round(wrote.journal_bytes / 1e6, 1),
        "table_mb": cold["table_mb"],
        "seconds_cold": cold["seconds_total"],
        "seconds_after_run": after["seconds_total"],
        "seconds_warm": cold["warm_total_s"],
        **{
            name: cold[name]
            for name in (
                "start_s",
                "load_s",
                "check_s",
                "report_s",
                "warm_load_s",
                "warm_check_s",
                "peak_gib",
                "load",
                "verdict",
            )
        },
        "cpu_s": cold["total_cpu_s"],
        "after_run_load_s": after["load_s"],
        "after_run_check_s": after["check_s"],
        "repeats": repeat,
    }
    if duckdb:
        compared = measured(folder, "duckdb", memory_mb=memory_mb, large=large)
        names = ("duckdb_ratio", "spark_query_cpu_s", "duckdb_query_cpu_s", "spark_query_s", "duckdb_query_s", "flags")
        result |= {name: compared[name] for name in names}
    return result


def edn_beside(reads: int, place: Path, *, repeat: int) -> dict[str, Any]:
    """One history twice: as a run, from journals to findings, and as Jepsen's EDN, from the file to the answer."""
    native = benchmark(reads, place, repeat=repeat, duckdb=False)
    folder = next(place.glob("run-*"))
    file = place / "history.edn"
    memory.allow(EXPORT_MB)  # of this process alone, which holds a history's rows; what is measured are others
    lines = export(RunFolder(folder), file)
    edn = medians([judged_as_jepsen(file) for _ in range(repeat)])
    return native | {"edn_mb": round(file.stat().st_size / 1e6, 1), "edn_lines": lines} | edn


def edn_of_transactions(count: int, place: Path, *, repeat: int) -> dict[str, Any]:
    folder, file = place / f"run-{count}-transactions", place / "history.edn"
    write_transactions(folder, count)
    memory.allow(EXPORT_MB)
    seal(RunFolder(folder))
    lines = export(RunFolder(folder), file)
    edn = medians([judged_as_jepsen(file) for _ in range(repeat)])
    return {"transactions": count, "edn_mb": round(file.stat().st_size / 1e6, 1), "edn_lines": lines} | edn


def judged_as_jepsen(file: Path) -> dict[str, Any]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "harness", "check", str(file), "--format", "jepsen", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=CHILD.parent.parent)
    with ProcessTree(process.pid) as tree:
        process.communicate()
    if process.returncode not in ANSWERED:
        give_up(f"{' '.join(command)} ended with code {process.returncode}")
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "edn_s": seconds,
        "edn_cpu_s": cpu,
        "edn_peak_gib": tree.peak_bytes / GIB,
        "load": os.getloadavg()[0],
    }


def growth(place: Path, sizes: tuple[int, ...], *, repeat: int) -> dict[str, Any]:
    rows = [benchmark(size, place, repeat=repeat, duckdb=False) for size in sizes]
    xs = [row["records"] / 1e6 for row in rows]
    lines = {name: line_of(xs, [row[name] for row in rows]) for name in ("seconds_cold", "seconds_warm", "cpu_s")}
    return {"rows": rows, "line": lines}


def line_of(millions: list[float], seconds: list[float]) -> dict[str, float]:
    """What a check costs whatever its size, and what each further million of records adds."""
    fit = statistics.linear_regression(millions, seconds)
    return {"fixed_s": round(fit.intercept, 2), "per_million_records_s": round(fit.slope, 2)}


def show(row: dict[str, Any]) -> str:
    return (
        f"{row['read_records']:>11,} read, {row['records']:>11,} records: cold {row['seconds_cold']:6.1f} s "
        f"(load {row['load_s']:.1f}, check {row['check_s']:.1f}; report {row['report_s']:.1f} more), after a run "
        f"{row['seconds_after_run']:.1f} s, warm {row['seconds_warm']:.1f} s; {row['cpu_s']:.0f} CPU s, peak "
        f"{row['peak_gib']:.2f} GiB"
        + (f"; {row['duckdb_ratio']:.1f} x DuckDB" if "duckdb_ratio" in row else "")
        + f"; machine load {row['load']:.1f}"
    )


def show_edn(row: dict[str, Any]) -> str:
    return (
        f"{row['edn_lines']:,} lines of EDN, {row['edn_mb']} MB: {row['edn_s']:.1f} s, {row['edn_cpu_s']:.1f} CPU s, "
        f"peak {row['edn_peak_gib']:.2f} GiB; machine load {row['load']:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--read-records", type=int, default=DEFAULT_READS)
    parser.add_argument("--reads-per-send", type=int, default=25)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--memory-mb", type=int, help="heap of the JVM")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-duckdb", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--hot", action="store_true")
    parser.add_argument("--edn", action="store_true")
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--transactions", type=int, default=0)
    parser.add_argument("--place", type=Path, help="where the histories lie; default: a temporary folder")
    options = parser.parse_args()
    if not (options.no_duckdb or options.growth or options.edn or options.runs or options.hot or options.transactions):
        need("duckdb")
    with scratch_folder("kafka-chaos-benchmark-") as temporary:
        place = options.place or Path(temporary)
        result: dict[str, Any]
        if options.growth:
            result = growth(place, GROWTH, repeat=options.repeat)
            lines = [*map(show, result["rows"]), *(f"{name}: {line}" for name, line in result["line"].items())]
        elif options.edn:
            result = edn_beside(options.read_records, place, repeat=options.repeat)
            lines = [show(result), show_edn(result)]
        elif options.transactions:
            result = edn_of_transactions(options.transactions, place, repeat=options.repeat)
            lines = [show_edn(result)]
        elif options.runs:
            folders = write_many(place / "many", options.runs)
            result = medians([measured(folders, "many") for _ in range(options.repeat)])
            lines = [f"{name}: {value}" for name, value in result.items()]
        elif options.hot:
            even, hot = (
                benchmark(options.read_records, place, repeat=options.repeat, hot=hot, duckdb=False)
                for hot in (False, True)
            )
            ratio = {name: round(hot[name] / even[name], 2) for name in ("seconds_cold", "seconds_warm", "cpu_s")}
            result = {"even": even, "hot": hot, "ratio": ratio}
            lines = [show(even), show(hot), f"hot to even: {ratio}"]
        else:
            result = benchmark(
                options.read_records,
                place,
                repeat=options.repeat,
                memory_mb=options.memory_mb,
                duckdb=not options.no_duckdb,
                reads_per_send=options.reads_per_send,
            )
            lines = [show(result)]
    print(json.dumps(result) if options.json else "\n".join(lines))


if __name__ == "__main__":
    main()
