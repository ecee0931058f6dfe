"""Small histories in a shorthand, and Jepsen's own cases (jepsen.tests.kafka-test).

`0I send s:x=1; 0O send s:x@0=1; 1I poll p; 1O poll p{x@0=1}`: process, type (I invoke, O ok, F fail, N info), f and
micro-operations. Behind `!` an event has more: `!seek` sought to the beginning, `!assigned:x` and `!revoked:x` entries
of its rebalance log, `!end:x@3` the end offset that a :debug-topic-partitions (f `ends`) told.
"""

import json
import re
from pathlib import Path
from typing import Any

from harness.history.jepsen.imported import ImportedHistory
from harness.history.jepsen.jepsen_import import import_text

ORACLE = Path(__file__).parent / "oracle"
_TYPES = {"I": ":invoke", "O": ":ok", "F": ":fail", "N": ":info"}


def _named(name: str) -> str:
    return name if re.fullmatch(r"-?[0-9]+", name) else f":{name}"


def _micro(text: str) -> str:
    if text.startswith("s:"):
        key, offset, value = re.fullmatch(r"s:(\w+)(?:@(\d+))?=(\w+)", text).groups()  # type: ignore[union-attr]
        sent = _named(value) if offset is None else f"[{offset} {_named(value)}]"
        return f"[:send {_named(key)} {sent}]"
    if text == "p":
        return "[:poll]"
    keys: dict[str, list[str]] = {}
    for part in filter(None, text.removeprefix("p{").removesuffix("}").split(",")):
        key, offset, value = re.fullmatch(r"(\w+)(?:@(\w+)=(\w+))?", part).groups()  # type: ignore[union-attr]
        pairs = keys.setdefault(_named(key), [])
        if value is not None:
            pairs.append(f"[{offset} {_named(value)}]")
    return "[:poll {" + " ".join(f"{key} [{' '.join(pairs)}]" for key, pairs in keys.items()) + "}]"


def _event(index: int, text: str) -> str:
    (who, f, *rest), *more = [part.split() for part in text.split("!")]
    fields = f":index {index} :time {index} :process {who[:-1]} :type {_TYPES[who[-1]]}"
    moves = []
    ends = ""
    for extra in more:
        kind, _, what = extra[0].partition(":")
        if kind == "seek":
            fields += " :seek-to-beginning? true"
        elif kind == "end":
            key, _, offset = what.partition("@")
            ends += f" {_named(key)} {{:end-offset {offset}}}"
        else:
            moves.append(f"{{:type :{kind} :keys [{_named(what)}]}}")
    if moves:
        fields += f" :rebalance-log [{' '.join(moves)}]"
    if f == "ends":
        return f"{{{fields} :f :debug-topic-partitions :value {{:partitions {{{ends}}}}}}}"
    if f == "crash":
        return f"{{{fields} :f :crash :value nil}}"
    if f in ("assign", "subscribe"):
        keys = " ".join(_named(key) for key in rest[0].split(",")) if rest else ""
        return f"{{{fields} :f :{f} :value [{keys}]}}"
    return f"{{{fields} :f :{f} :value [{' '.join(map(_micro, rest))}]}}"


def edn(story: str) -> str:
    return "\n".join(_event(index, event.strip()) for index, event in enumerate(filter(None, story.split(";"))))


def history(name: str, story: str) -> ImportedHistory:
    return import_text(name, edn(story))


def cases() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((ORACLE / "cases_in.json").read_text(encoding="utf-8"))
    return [{**case, "edn": "\n".join(event["edn"] for event in case["ops"])} for case in loaded]


def golden() -> list[dict[str, Any]]:
    lines = (ORACLE / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
