"""What one process of check_history.py measures, once its JVM has been started (check_once.py)."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.process_tree import cpu_s, tree_of
from harness import compose
from harness.checks.early_session import EarlySession
from harness.checks.judge import judge, judge_many
from harness.checks.warm_up import warm_up
from harness.history.run_folder import RunFolder
from harness.history.sealed.sealing import seal


class Steps:
    """Wall and CPU seconds of named pieces of work, the CPU of this process and all below it (the JVM)."""

    def __init__(self) -> None:
        self.measured: dict[str, float] = {}

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        pids = tree_of(os.getpid())
        began, cpu = time.perf_counter(), sum(map(cpu_s, pids))
        result = work()
        self.measured[f"{name}_s"] = round(time.perf_counter() - began, 3)
        self.measured[f"{name}_cpu_s"] = round(sum(map(cpu_s, {*pids, *tree_of(os.getpid())})) - cpu, 2)
        return result


def table_mb(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in (folder / "tables").glob("*.parquet")) / 1e6, 2)


def check(folder: Path, early: EarlySession, *, began: float, waiting: bool) -> dict[str, Any]:
    """Seal and judge. `waiting`: as beside a run, the JVM is warm before it ends."""
    steps = Steps()
    try:
        if waiting:
            warm_up(early.session())
            began = time.perf_counter()
        early.open()
        run = RunFolder(folder)
        steps.timed("load", lambda: seal(run))
        spark = steps.timed("start", early.session)
        judgement = steps.timed("check", lambda: judge(folder, spark))
        total = time.perf_counter() - began
        cpu = sum(map(cpu_s, tree_of(os.getpid())))
        steps.timed("report", lambda: compose.render(folder))
        steps.timed("warm_load", lambda: seal(run))
        again = steps.timed("warm_check", lambda: judge(folder, spark))
        assert again.counts == judgement.counts
    finally:
        early.close()
    return steps.measured | {
        "seconds_total": round(total, 3),
        "total_cpu_s": cpu,
        "verdict": judgement.sentence,
        "warm_total_s": steps.measured["warm_load_s"] + steps.measured["warm_check_s"],
        "table_mb": table_mb(folder),
    }


def many(place: Path, early: EarlySession) -> dict[str, Any]:
    folders = sorted(place.iterdir())
    steps = Steps()
    try:
        spark = steps.timed("start", early.session)
        judged = steps.timed("check", lambda: judge_many(folders, spark))
        steps.timed("warm_check", lambda: judge_many(folders, spark))
    finally:
        early.close()
    verdicts = sorted({judgement.verdict.value for judgement in judged})
    return steps.measured | {"runs": len(folders), "verdicts": " ".join(verdicts)}


def duckdb_ratio(folder: Path, early: EarlySession) -> dict[str, Any]:
    """The detection query in Spark and in DuckDB on the same file, both warm, two threads each: CPU against CPU."""
    import duckdb

    from harness.checks.catalogue import FLAGS
    from harness.checks.spark import fused_query
    from harness.checks.spark.tables import read_large

    path = folder / "tables" / "records.parquet"
    names = list(FLAGS.bits)
    steps = Steps()
    try:
        records, jumps = (
            read_large(early.session(), name, [str(path.with_name(f"{name}.parquet"))]) for name in ("records", "jumps")
        )

        def spark_counts() -> list[int]:
            rows = fused_query.flagged_rows(records, jumps, FLAGS).toArrow().to_pylist()
            return [sum(row["flags"] & bit > 0 for row in rows) for bit in FLAGS.bits.values()] + [
                sum(row["line_count"] for row in rows if row["accounts"])
            ]

        expected = spark_counts()
        assert steps.timed("spark_query", spark_counts) == expected
    finally:
        early.close()
    # The same text; hints are comments there, and the name offset needs its quotes.
    text = re.sub(r"\boffset\b", '"offset"', fused_query.query(FLAGS)).format(
        records=f"read_parquet('{path}')", jumps=f"read_parquet('{path.with_name('jumps.parquet')}')"
    )
    with duckdb.connect() as engine:
        engine.execute("set threads = 2; set enable_progress_bar = false")

        def duckdb_counts() -> list[int]:
            rows = engine.sql(text).to_arrow_table().to_pylist()
            return [sum(row["flags"] & bit > 0 for row in rows) for bit in FLAGS.bits.values()] + [
                sum(row["line_count"] for row in rows if row["accounts"])
            ]

        duckdb_counts()
        assert steps.timed("duckdb_query", duckdb_counts) == expected
    return steps.measured | {
        "duckdb_ratio": round(steps.measured["spark_query_cpu_s"] / steps.measured["duckdb_query_cpu_s"], 2),
        "flags": dict(zip((*names, "values"), expected, strict=True)),
        "duckdb": duckdb.__version__,
    }
