"""The proof of one finding as plain text, for a terminal: sentence, rules, causes, logs side by side, operations.

It is what the page shows under a finding, from the same tables. Bounded, and every cut says how much it hides;
`everything` prints all that the run folder has of it.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.history.schema.evidence_rows import LOST_RECORDS, FindingRow
from reports.evidence_model import FactTable, LogCell, LogTable, OperationRow
from reports.explanations import source_of
from reports.render import shown
from reports.run import drill_down
from reports.run.facts import ROWS_MAX, aligned, fact_tables
from reports.run.findings import title_of
from reports.run.story import cause_steps, evidence_of, rule_lines
from reports.run_data import RunData, count_of, partition_name, span_of

WIDTH = 100
_EVERYTHING = 1_000_000
_RECORDS_MAX = 20
_VALUE_MAX = 24
_OTHERS = 10
_INDENT = 6
_ANSWERS = {True: "  applies   ", False: "  does not  ", None: "  unknown   "}


def proof_of(run: Path, finding: str, *, width: int = WIDTH, everything: bool = False) -> list[str]:
    """The lines, none longer than `width`. Raises UsageError when the run has no such finding, or was not judged."""
    data = RunData(run)
    row = next((row for row in data.findings if row["finding"].lower() == finding.lower()), None)
    if row is None:
        raise UsageError(f"{run}: no finding {finding!r}; {_those_there_are(data.findings)}")
    blocks = [
        _head(data, row, width),
        _rules(data, row, width),
        _causes(data, row, width),
        _logs(data, row, width, everything),
        _operations(data, row, width, everything),
        _facts(data, row, width, everything),
        _records(data, row, width, everything),
        _foot(data, row, width, everything),
    ]
    lines = [line for block in blocks if block for line in ("", *block)]
    return [str(shown(line)) for line in lines[1:]]


def listing_of(run: Path, *, width: int = WIDTH, everything: bool = False) -> list[str]:
    """All findings, one after the other, those of one kind together; of each kind the first is shown in full."""
    data = RunData(run)
    if not data.findings:
        return ["No findings."]
    kinds: dict[str, list[FindingRow]] = {}
    for row in data.findings:
        kinds.setdefault(row["fingerprint"], []).append(row)
    lines: list[str] = []
    for rows in kinds.values():
        selected = rows if everything else rows[:1]
        for one in selected:
            lines += _entry(data, one, width)
        others = [row["finding"] for row in rows[len(selected) :]]
        if others:
            more = f" and {len(others) - _OTHERS} more" if len(others) > _OTHERS else ""
            verb = "are" if len(others) > 1 else "is"
            records = count_of(sum(row["count"] for row in rows))
            text = f"{len(others)} more of this kind {verb} {', '.join(others[:_OTHERS])}{more}; count {records} in all"
            lines += _wrapped(text, width, " " * _INDENT)
    total = f"{count_of(len(data.findings))} finding{'' if len(data.findings) == 1 else 's'}"
    kinds_words = f"{len(kinds)} kind{'' if len(kinds) == 1 else 's'}"
    lines += ["", *_wrapped(f"{total} of {kinds_words}. `kafka-chaos show {data.place} F1` proves one.", width)]
    return [str(shown(line)) for line in lines]


def _entry(data: RunData, row: FindingRow, width: int) -> list[str]:
    span = span_of(row["offset_first"], row["offset_last"])
    place = [partition_name(row), f"offsets {span}" if span else "", f"count {count_of(row['count'])}"]
    head = (
        f"{title_of(data, row)} ({row['check']}), {row['classification']}: {', '.join(part for part in place if part)}"
    )
    text = data.readable(str(row["sentence_text"]))
    return [*_wrapped(head, width, f"{row['finding']:<{_INDENT}}"), *_wrapped(text, width, " " * _INDENT)]


def _those_there_are(findings: Sequence[FindingRow]) -> str:
    names = [row["finding"] for row in findings]
    if not names:
        return "the run has none"
    return f"there are {names[0]} to {names[-1]}" if len(names) > 2 else f"there are: {', '.join(names)}"


def _head(data: RunData, row: FindingRow, width: int) -> list[str]:
    where = partition_name(row)
    span = span_of(row["offset_first"], row["offset_last"])
    lines = [
        where,
        f"offsets {span}" if span else "",
        f"count {count_of(row['count'])}",
        f"from {data.moment(row['first_ns'])}" if row["first_ns"] is not None else "",
    ]
    title = f"{row['finding']}  {title_of(data, row)}: {row['classification']}"
    sentence = _wrapped(data.readable(str(row["sentence_text"])), width)
    return [title[:width], ", ".join(part for part in lines if part)[:width], "", *sentence]


def _wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    wrapper = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=rest or " " * len(first), break_on_hyphens=False
    )
    return wrapper.wrap(text) or [first]


def _rules(data: RunData, row: FindingRow, width: int) -> list[str]:
    lines = []
    for rule in rule_lines(data, evidence_of(row)):
        lines += _wrapped(rule.rule, width, _ANSWERS[rule.holds])
        lines += _wrapped(rule.evidence, width, " " * 14)
    return ["Rule by rule", *lines] if lines else []


def _causes(data: RunData, row: FindingRow, width: int) -> list[str]:
    lines = []
    for step in cause_steps(data, row):
        mark = "=>" if step.decisive else "  "
        lines += _wrapped(f"{step.time:>16}  {step.event}", width, f"{mark} ", " " * 21)
        if step.sentence:
            lines += _wrapped(step.sentence, width, " " * 21)
    ways = evidence_of(row).get("prevention") or ()
    for number, sentence in enumerate(ways):
        head = "What would have prevented it: " if number == 0 else "This too would have: "
        lines += ["", *_wrapped(head + sentence, width, "   ")]
    return ["What happened (=> decides it)", *lines] if lines else []


def _logs(data: RunData, row: FindingRow, width: int, everything: bool) -> list[str]:
    table = drill_down.log_table(data, row, whole=everything)
    if table is None:
        return []
    heads = ("", "offset", "acknowledged", *(head.lower() for head in table.heads), "finally read")
    lines = _with_notes(heads, _log_lines(table), width)
    gone = row["check"] in drill_down.LOST_CHECKS
    cuts = any(cell.cut for line in table.rows for cell in line.replicas)
    note = [", x: truncated later" if cuts else "", ", !: lost" if gone else ", !: of this finding"]
    title = f"The logs of {partition_name(row)}, side by side (e: leader epoch{''.join(note)})"
    return [*_wrapped(title, width), *lines]


def _log_lines(table: LogTable) -> Iterator[tuple[str, Sequence[str]]]:
    """(a note above the row, the row); a fold is a note without a row."""
    for line in table.rows:
        if line.fold:
            yield f"{line.fold} more offsets like these", ()
            continue
        replicas = [_log_cell(cell) for cell in line.replicas]
        acknowledged = _short(line.acknowledged)
        yield (
            line.boundary,
            ("!" if line.lost else "", str(line.offset), acknowledged, *replicas, _log_cell(line.final)),
        )


def _log_cell(cell: LogCell) -> str:
    if cell == drill_down.NIL:
        return "-"
    return f"{cell.epoch} {_short(cell.text)}{' x' if cell.cut else ''}".strip()


def _short(text: str) -> str:
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 1]}…"


def _with_notes(heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], width: int) -> list[str]:
    """Aligned rows with notes between them, which do not count for the alignment."""
    listed = list(rows)
    if not any(row for _, row in listed):
        return [line for note, _ in listed for line in _wrapped(note, width, "  ")]
    lines = iter(aligned(FactTable(title="", heads=heads, rows=[row for _, row in listed if row]), width=width))
    made = [next(lines)]
    for note, row in listed:
        made += _wrapped(note, width, "  -- ") if note else []
        made += [next(lines)] if row else []
    return made


def _operations(data: RunData, row: FindingRow, width: int, everything: bool) -> list[str]:
    found = drill_down.operations(data, row, whole=everything)
    if not found:
        return []
    heads = ("begin", "end", "client", "operation", "value", "offset", "outcome")
    return ["Operations and events around it", *_with_notes(heads, (_operation(one) for one in found), width)]


def _operation(one: OperationRow) -> tuple[str, Sequence[str]]:
    if one.tone in ("event", "key"):
        return f"{one.begin}  {one.operation}", ()
    return "", (one.begin, one.end, one.client, one.operation, _short(one.value), one.offset, one.outcome)


def _facts(data: RunData, row: FindingRow, width: int, everything: bool) -> list[str]:
    lines: list[str] = []
    for table in fact_tables(data, evidence_of(row), rows_max=_EVERYTHING if everything else ROWS_MAX):
        lines += ["", *_title(table)] if lines else _title(table)
        lines += aligned(table, width=width) if table.heads else _pairs(table, width)
        lines += [f"  {table.hidden} more; --all prints them"] if table.hidden else []
    return lines


def _title(table: FactTable) -> list[str]:
    return [(table.title or "evidence").capitalize()]


def _pairs(table: FactTable, width: int) -> list[str]:
    names = max((len(row[0]) for row in table.rows), default=0)
    return [line for name, text in table.rows for line in _wrapped(text, width, f"  {name:<{names}}  ")]


def _records(data: RunData, row: FindingRow, width: int, everything: bool) -> list[str]:
    """Every lost record, as many as were asked for; of other findings the examples they carry."""
    lost = data.evidence_of_finding(LOST_RECORDS, row["finding"])
    most = _EVERYTHING if everything else _RECORDS_MAX
    rows: list[tuple[str, ...]]
    if lost:
        rows = [
            (
                "" if one["offset"] is None else str(one["offset"]),
                data.value(one["value"]),
                f"p{one['process']}",
                data.moment(one["completed_ns"]),
            )
            for one in lost[:most]
        ]
        heads: tuple[str, ...] = ("offset", "value", "client", "acknowledged")
    else:
        rows = [(each,) for each in drill_down.lost_values(data, row)[:most]]
        heads = ("examples",)
    if not rows:
        return []
    lines = aligned(FactTable(title="", heads=heads, rows=rows), width=width)
    total = len(lost) if lost else len(row["values"] or ())
    if total > len(rows):
        lines.append(f"  {total - len(rows)} more; --all prints them")
    if row["count"] > total and not lost:
        lines.append(f"  of {count_of(row['count'])} in all, the run folder keeps these {total} as examples")
    return ["The lost records" if lost else "Values", *lines]


def _foot(data: RunData, row: FindingRow, width: int, everything: bool) -> list[str]:
    anomaly = data.anomaly(row)
    lines = _wrapped(f"{anomaly.sentence} More: {source_of(anomaly)}", width) if anomaly else []
    same = [one["finding"] for one in data.findings if one["fingerprint"] == row["fingerprint"]]
    if len(same) > 1:
        others = [name for name in same if name != row["finding"]]
        listed = others if everything else others[:8]
        more = f" and {len(others) - len(listed)} more" if len(others) > len(listed) else ""
        sentence = f"Findings of this kind in this run: {len(same)}. The others: {', '.join(listed)}{more}."
        lines += _wrapped(sentence, width)
    return [*lines, f"check {row['check']}, kind {row['kind']}, fingerprint {row['fingerprint']}"[:width]]
