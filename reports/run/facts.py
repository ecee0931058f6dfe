"""A finding's evidence as small tables, whatever family it is from: what a page and a terminal print of it.

Evidence is JSON: plain facts, lists of facts, and lists of rows. Names end in their unit, and that is how they are
written: times become seconds since the load began, a record's value its text.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reports.evidence_model import FactTable
from reports.run_data import RunData

ROWS_MAX = 40
CELL_MAX = 400
_CELL_LEAST = 6
# Shown in words, pictures and tables of their own wherever a finding has them.
SHOWN_ELSEWHERE = frozenset(
    {
        "rules",
        "cause_chain",
        "prevention",
        "log_ends",
        "truncation",
        "truncations",
        "lost_range",
        "by_time",
        "cause",
        "elected",
        "elected_epoch",
        "elected_log_end",
        "elected_log_end_from",
        "unclean",
        "leader_before",
        "isr_before",
        "elr_before",
        "isr_after",
        "disk_losses",
        "isr_at_acknowledgement",
        "remedies",
        "facts",
    }
)
_TIMES = ("time_ns", "invoked_ns", "completed_ns", "at")


def fact_tables(
    data: RunData, evidence: Mapping[str, Any], *, rows_max: int = ROWS_MAX, shown_elsewhere: bool = True
) -> list[FactTable]:
    """`rows_max`: of each list; what is left out is counted. Facts without a value are left out."""
    left = {
        name: value
        for name, value in evidence.items()
        if not (shown_elsewhere and name in SHOWN_ELSEWHERE) and value not in (None, "", [], {})
    }
    pairs = [(name, value) for name, value in left.items() if not _is_table(value)]
    tables = []
    if pairs:
        rows = [(words(name), cell(data, name, value)) for name, value in pairs]
        tables.append(FactTable(title="", heads=(), rows=rows))
    return tables + [_table(data, name, value, rows_max) for name, value in left.items() if _is_table(value)]


def _is_table(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(isinstance(each, Mapping | list) for each in value.values()) or len(value) > 3
    return isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value)


def _table(data: RunData, name: str, value: Any, rows_max: int) -> FactTable:
    if isinstance(value, Mapping):
        pairs = [(words(key), cell(data, key, each)) for key, each in value.items()]
        return FactTable(title=words(name), heads=(), rows=pairs[:rows_max], hidden=max(0, len(pairs) - rows_max))
    listed = [each if isinstance(each, Mapping) else {name: each} for each in value]
    kept = listed[:rows_max]
    heads = list(dict.fromkeys(key for row in kept for key, each in row.items() if each not in (None, "", [])))
    rows = [tuple(cell(data, key, row.get(key)) for key in heads) for row in kept]
    return FactTable(
        title=words(name), heads=[words(head) for head in heads], rows=rows, hidden=len(listed) - len(kept)
    )


def words(name: str) -> str:
    """`first_offset` as people read it; a unit that the cell writes itself is left out."""
    label = name.removesuffix("_ns") if name.endswith("_ns") else name
    label = {
        "time_ns": "time",
        "invoked_ns": "begin",
        "completed_ns": "end",
        "offset": "offset",
        "partition": "partition",
        "operation": "operation",
    }.get(label, label)
    return label.replace("_", " ")


def cell(data: RunData, name: str, value: Any) -> str:
    text = _text(data, name, value)
    return text if len(text) <= CELL_MAX else f"{text[: CELL_MAX - 1]}…"


def _text(data: RunData, name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and (name.endswith("_ns") or name in _TIMES):
        return data.moment(value)
    if isinstance(value, int) and name.removesuffix("s").rpartition("_")[2] == "value":
        return data.value(value)
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return ", ".join(f"{words(key)} {_text(data, key, each)}" for key, each in value.items() if each is not None)
    if isinstance(value, Iterable) and not isinstance(value, str):
        items = list(value)
        text = ", ".join(_text(data, name, each) for each in items[:12])
        return text + (f" and {len(items) - 12} more" if len(items) > 12 else "")
    return str(value)


def aligned(table: FactTable, *, width: int, indent: str = "  ") -> list[str]:
    """Lines of text with columns that line up, none longer than `width`: the widest column gives way."""
    rows: Sequence[Sequence[str]] = [table.heads, *table.rows] if table.heads else table.rows
    if not rows:
        return []
    columns = max(len(row) for row in rows)
    sizes = [max(len(row[place]) if place < len(row) else 0 for row in rows) for place in range(columns)]
    room = width - len(indent) - 2 * (columns - 1)
    fitting = _given_way(sizes, room)
    lines = []
    for row in rows:
        cells = [_fitted(text, size) for text, size in zip(row, fitting, strict=False)]
        lines.append((indent + "  ".join(cells)).rstrip()[:width])
    return lines


def _given_way(sizes: Sequence[int], room: int) -> list[int]:
    """The widest columns, those on the left first, made narrower until all fit; none below what can be read."""
    low, high = min(_CELL_LEAST, max(sizes)), max(sizes)
    while low < high:  # the most that a column may have
        most = (low + high + 1) // 2
        low, high = (most, high) if sum(min(size, most) for size in sizes) <= room else (low, most - 1)
    fitted = [min(size, low) for size in sizes]
    spare = room - sum(fitted)
    for place in reversed(range(len(sizes))):
        if spare > 0 and sizes[place] > low:
            fitted[place], spare = low + 1, spare - 1
    return fitted


def _fitted(text: str, size: int) -> str:
    return (text if len(text) <= size else text[: max(size - 1, 0)] + "…").ljust(size)
