"""What a request of `check` holds the application to: that what its group commits of one topic comes out in another.

It becomes rows of the table flows, before anything is read back: what the group commits later does not count.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from harness.controller.control.requests import Refused, fields_of

_FIELDS: Mapping[str, type] = {"input": str, "output": str, "group": str, "exactly_once": bool, "told": list}
_EXAMPLE = '{"input": "orders", "output": "invoices"}'
FLOWS_MAX = 20


def flows_of(tables: Sequence[Any], *, topics: Collection[str]) -> list[Mapping[str, Any]]:
    """As rows of the table, but for their time. topics: those of the recording. Raises Refused."""
    if len(tables) > FLOWS_MAX:
        raise Refused("bad-request", f"check: {len(tables)} flows", f"give {FLOWS_MAX} at most")
    return [_flow(number, table, topics) for number, table in enumerate(tables)]


def _flow(number: int, table: Any, topics: Collection[str]) -> Mapping[str, Any]:
    fields = fields_of(table, _FIELDS, of="check: flows")
    for side in ("input", "output"):
        if fields.get(side) not in topics:
            what = f"check: flows: {side} {fields.get(side, '')[:100]!r} is no topic of the recording"
            raise Refused("bad-request", what, f"name topics that record was given, for example {_EXAMPLE}")
    if fields["input"] == fields["output"]:
        raise Refused("bad-request", "check: flows: input and output are one topic", f"give two, as in {_EXAMPLE}")
    with_ids = fields.get("told", [])
    if not all(topic in (fields["input"], fields["output"]) for topic in with_ids):
        raise Refused("bad-request", "check: flows: told is a list of its input and its output, or of one of them")
    return {
        "flow": number,
        "input": fields["input"],
        "output": fields["output"],
        "group": fields.get("group"),
        "exactly_once": fields.get("exactly_once", False),
        "input_told": fields["input"] in with_ids,
        "output_told": fields["output"] in with_ids,
    }
