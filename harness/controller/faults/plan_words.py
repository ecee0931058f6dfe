"""A plan's result for the terminal: when each scheduled fault was planned, when it began, and which ones were late.

Steps have no planned times; of their faults only the late ones are listed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.history.facts.fault_facts import WHY_SKIPPED, late_words
from harness.history.run_folder import RunFolder
from harness.history.schema.cluster_rows import FaultRow
from harness.history.schema.typed_rows import typed


def plan_words(folder: RunFolder) -> list[str]:
    """One line per fault; none if no fault was planned by time, late or skipped. Times are since the load began."""
    rows = typed(FaultRow, folder.table("faults"))
    zero_ns = int(folder.run.get("load_began_ns") or 0)
    lines = [*_of_rows(rows, zero_ns), *(_of_skipped(each) for each in folder.run.get("skipped_faults", ()))]
    return ["Faults, in seconds since the load began:", *lines] if lines else []


def _of_rows(rows: list[FaultRow], zero_ns: int) -> Iterator[str]:
    known = [(row["planned_ns"], row["fault"], row) for row in rows if row["planned_ns"] is not None]
    for planned_ns, _, row in sorted(known, key=lambda each: each[:2]):
        late = late_words(row)
        if row["scheduled"] is None and not late:
            continue
        planned = f"planned {(planned_ns - zero_ns) / 1e9:.3f}"
        seen = "no effect seen" if row["begin_ns"] is None else f"began {(row['begin_ns'] - zero_ns) / 1e9:.3f}"
        warning = f"  WARNING: {late}" if late else ""
        yield f"  {planned}, {seen}: {row['label_text']}{warning}"


def _of_skipped(fault: Mapping[str, Any]) -> str:
    whose = f" of {fault['target']}" if fault["target"] else ""
    return f"  skipped: {fault['kind']}{whose} ({fault['trigger']}): {WHY_SKIPPED[fault['why']]}"
