"""Numbers, names and lists in words."""

from collections.abc import Iterable, Sequence

from harness.checks.spark.detection import Flagged


def plural(count: int, noun: str) -> str:
    many = {"is": "are", "was": "were", "has": "have", "lies": "lie"}.get(noun)
    if many is not None:
        return noun if count == 1 else many
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def ranges(numbers: Iterable[int | None], *, most: int = 4) -> str:
    """1247-1283, or 3, 5-7 and 9; a cut says how many it hides."""
    ordered = sorted({number for number in numbers if number is not None})
    spans: list[list[int]] = []
    for number in ordered:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in spans[:most]]
    if len(spans) > most:
        return ", ".join(words) + f" and {len(spans) - most} more ranges up to {ordered[-1]}"
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else "unknown"


def span_words(low: int, high: int) -> str:
    return f"offset {low}" if low == high else f"offsets {low} to {high}"


def offsets_words(rows: Sequence[Flagged]) -> str:
    known = [row.offset for row in rows if row.offset is not None]
    if not known:
        return "at unknown offsets"
    return f"at offset{'s' if len(set(known)) > 1 else ''} {ranges(known)}"


def acks_words(rows: Sequence[Flagged]) -> str:
    names = {-1: "acks=all", 1: "acks=1", 0: "acks=0"}
    return " or ".join(sorted({names.get(row.acks if row.acks is not None else -1, "unknown acks") for row in rows}))


def epochs_words(numbers: Iterable[int | None]) -> str:
    known = {number for number in numbers if number is not None}
    if not known:
        return "in an unknown epoch"
    return f"in epoch{'s' if len(known) > 1 else ''} {ranges(known)}"


def nodes_words(nodes: Iterable[int], noun: str = "broker") -> str:
    """noun: what the run's nodes are (RunHistory.node_noun)."""
    ordered = [str(node) for node in nodes]
    if not ordered:
        return f"no {noun}"
    return f"{noun}{'s' * (len(ordered) > 1)} " + (
        ordered[0] if len(ordered) == 1 else ", ".join(ordered[:-1]) + " and " + ordered[-1]
    )
