"""The steps of an ordered plan: which words are allowed, checked when the file is read, not when the step is reached.

There are three kinds of step. `act` does something and proves it; `wait` waits for an observed condition (a time-out
makes the run inconclusive); `expect` requires one (a failure is a finding of check `expectation`). docs/scenarios.md
explains every word; a test compares it with the tables here. An act that is none of ours is a fault, by its name; a
stored run is read though the package that had the fault is not installed here.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, cast

from harness.errors import nearest
from harness.ports.faults import ACTS
from harness.scenario.model import StepSpec
from harness.values import is_number, seconds

CONDITIONS: dict[str, tuple[str, ...]] = {
    "isr": ("topic", "partition", "throughout"),
    "isr_order": ("topic", "partition", "throughout"),
    "leader": ("topic", "partition", "throughout"),
    "leader_epoch": ("topic", "partition"),
    "leaders": ("topic",),
    "leaders_each": ("topic",),
    "leader_seen_by": ("topic", "partition", "throughout"),
    "agreed": (),
    "registered": ("throughout",),
    "log_end": ("topic", "partition"),
    "high_watermark": ("topic", "partition"),
    "controller": (),
    "controller_epoch": (),
    "acks": (),
    "recovered": (),
    "elapsed": (),
}
LISTS_BROKERS = ("isr", "isr_order", "leaders", "registered")
KEYED_BY_BROKER = ("leaders_each", "leader_seen_by", "log_end", "high_watermark", "epoch_file")
EXPECTATIONS: dict[str, tuple[str, ...]] = {
    **CONDITIONS,
    "produce": ("topic", "partition", "acks", "error", "timeout", "log_end_unchanged_on", "to", "closed"),
    "read": ("topic", "partition", "from"),
    "elect": ("topic", "partition", "error"),
    "epoch_file": ("topic", "partition"),
    "fetch": ("topic", "partition", "broker", "epoch", "version", "values", "error"),
    "epoch_end": ("topic", "partition", "broker", "error"),
    "config_default": ("broker",),
    "configure": ("broker", "error"),
    "create_topic": ("partitions", "replication_factor", "assignment", "error"),
}
_NUMBERS = (
    "partition",
    "error",
    "controller",
    "controller_epoch",
    "leader_epoch",
    "to",
    "broker",
    "fetch",
    "epoch",
    "version",
)
_TABLES = {
    "leaders_each": "{ 1 = 10, 2 = 10 }",
    "leader_seen_by": "{ 1 = 1, 2 = 1 }",
    "epoch_end": "{ 0 = 100 }",
    "config_default": '{ "replica.lag.time.max.ms" = 30000 }',
    "configure": '{ "min.insync.replicas" = 1 }',
}
VALUES_MAX = 100_000
WITHIN_S = {"act": 15.0, "wait": 20.0, "expect": 10.0}


def wrong_condition(word: str, value: Any) -> tuple[str, str] | None:
    """(What is wrong, the remedy) where the condition can hold on no cluster, since its value is of another kind."""
    if word in LISTS_BROKERS and not (isinstance(value, list) and all(type(broker) is int for broker in value)):
        return f"{word} is a list of broker ids, not {value!r}", ""
    by_broker = isinstance(value, dict) and all(is_number(str(broker)) for broker in value)
    if word in KEYED_BY_BROKER and not by_broker:
        return f"{word} is a table by broker id, not {value!r}", f"write {word} = {{ 1 = … }}"
    return None


def values_of(text: str) -> list[str]:
    """The values that a produce or read names: "r0..r9" is a range, "x, y" a list, "" is none."""
    values: list[str] = []
    for part in (piece.strip() for piece in text.split(",") if piece.strip()):
        span = re.fullmatch(r"([A-Za-z_-]*)(\d+)\.\.(?:([A-Za-z_-]*))(\d+)", part)
        if span is None:
            values.append(part)
            continue
        prefix, first, other, last = span.groups()
        if other != prefix or int(last) < int(first):
            raise ValueError(f'{part!r}: a range is written "r0..r9"')
        if int(last) - int(first) >= VALUES_MAX:
            raise ValueError(f"{part!r}: more than {VALUES_MAX} values in one step")
        values.extend(f"{prefix}{number}" for number in range(int(first), int(last) + 1))
    if len(set(values)) != len(values):
        raise ValueError(f"{text!r} names a value twice; values are unique")
    return values


def _check_value(key: str, value: Any) -> None:
    if key in ("timeout", "throughout", "elapsed"):
        seconds(value)
    elif key in ("produce", "read", "values"):
        if not isinstance(value, str):
            raise ValueError(f'{key} names values as a text, for example "r0..r9"')
        if not values_of(value) and key == "produce":
            raise ValueError("produce names at least one value, for example r0")
    elif key == "acks" and not re.fullmatch(r"all|\+?\d+", str(value)):
        raise ValueError(f'acks is "0", "1" or "all" beside produce; alone a count, 500 or "+50"; not {value!r}')
    elif key == "heal" and not isinstance(value, str):
        if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
            raise ValueError(f'heal names links, for example ["2>1"], a fault or "all", not {value!r}')
    elif key in ("delete_topic", "create_topic") and not isinstance(value, str):
        raise ValueError(f"{key} names a topic of the scenario, not {value!r}")
    elif key in _NUMBERS and not isinstance(value, int):
        raise ValueError(f"{key} is a whole number, not {value!r}")
    elif key in _TABLES and (not isinstance(value, dict) or not value):
        raise ValueError(f"{key} is a table, for example {_TABLES[key]}, not {value!r}")
    elif key == "elect" and value not in ("preferred", "unclean"):
        raise ValueError(f'elect is "preferred" or "unclean", not {value!r}')


def _in_words(body: Mapping[str, Any]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, Mapping):
            return ", ".join(f"{key} = {shown(item)}" for key, item in value.items())
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return " ".join(value)
        if isinstance(value, bool):
            return str(value).lower()
        return str(value)

    first, *rest = body.items()
    words = f"{first[0].replace('_', ' ')} {shown(first[1])}"
    if rest:
        words += f" ({', '.join(f'{key} {shown(value)}' for key, value in rest)})"
    return words


def read_step(table: Any, *, line: int) -> StepSpec:
    """One [[steps]] table. Raises ValueError with the remedy; the caller adds the place."""
    kinds = {"act": ACTS, "wait": CONDITIONS, "expect": EXPECTATIONS}
    if not isinstance(table, dict):
        raise ValueError("a step is a table with act, wait or expect")
    present = [kind for kind in kinds if kind in table]
    for key in table:
        if key not in kinds and key != "within":
            raise ValueError(f"unknown key {key!r} in [[steps]]; {nearest(key, (*kinds, 'within'))}")
    if len(present) != 1:
        raise ValueError("a step has exactly one of act, wait, expect")
    kind = present[0]
    body = table[kind]
    if not isinstance(body, dict) or not body:
        word = body if isinstance(body, str) and body in kinds[kind] else next(iter(kinds[kind]))
        raise ValueError(f"{kind} is a table, for example {kind} = {{ {word} = … }}")
    main = [key for key in body if key in kinds[kind]]
    if not main and kind == "act":
        return _step(kind, body, table, line)  # a fault
    if not main:
        raise ValueError(f"unknown {kind} {next(iter(body))!r}; {nearest(next(iter(body)), kinds[kind])}")
    companions = kinds[kind][main[0]]
    for key, value in body.items():
        # "acks" is both a condition and an option of produce: the first key of the table decides.
        if key != main[0] and key not in companions:
            raise ValueError(f"unknown key {key!r} beside {main[0]!r}; {nearest(key, companions)}")
        _check_value(key, value)
        if key == "from" and not isinstance(value, int):
            raise ValueError(f"read … from is the number of a client link, not {value!r}")
    ordered = {main[0]: body[main[0]], **{key: value for key, value in body.items() if key != main[0]}}
    return _step(kind, ordered, table, line)


def _step(kind: str, body: Mapping[str, Any], table: Mapping[str, Any], line: int) -> StepSpec:
    return StepSpec(
        kind=cast(Literal["act", "wait", "expect"], kind),
        body=body,
        within_s=seconds(table.get("within", WITHIN_S[kind])),
        line=line,
        text=_in_words(body),
    )
