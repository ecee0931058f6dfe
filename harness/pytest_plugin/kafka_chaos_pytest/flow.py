"""What an application promises its own users: what it has committed of one topic has come out in another.

Which output is of which input the records say: the id of an output's input, and the id of an input, are made of their
values. Left out, each value is its own id.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_chaos_pytest.errors import ChaosError

Id = str | bytes | int | None
OfValue = Callable[[bytes], Id]


@dataclass(frozen=True, kw_only=True)
class Flow:
    """group: whose commits count; the only one that commits the input, if not given. exactly_once: an input with two
    outputs is a finding too, as where both are written in transactions.

    origin: of an output's value, the id of its input; None: it is of no input. id: of an input's value, its id; None:
    it need not have an output.
    """

    input: str
    output: str
    group: str | None = None
    exactly_once: bool = False
    origin: OfValue | None = None
    id: OfValue | None = None

    def asked(self) -> Mapping[str, Any]:
        """As the request `check` has it (docs/control.md)."""
        with_ids = [topic for topic, function in self.functions() if function is not None]
        group = {} if self.group is None else {"group": self.group}
        return {
            "input": self.input,
            "output": self.output,
            **group,
            "exactly_once": self.exactly_once,
            "told": with_ids,
        }

    def functions(self) -> Sequence[tuple[str, OfValue | None]]:
        return ((self.input, self.id), (self.output, self.origin))


Flows = Mapping[str, str] | Flow | Sequence[Flow] | None


def flows_of(given: Flows) -> list[Flow]:
    if given is None:
        return []
    if isinstance(given, Flow):
        return [given]
    if isinstance(given, Mapping):
        return [Flow(input=each, output=output) for each, output in given.items()]
    return list(given)


def functions_of(flows: Sequence[Flow]) -> Mapping[str, OfValue]:
    """By topic. Raises ChaosError where two are given for one."""
    found: dict[str, OfValue] = {}
    for topic, function in (each for flow in flows for each in flow.functions()):
        if function is None:
            continue
        if found.setdefault(topic, function) is not function:
            what = f"two flows make other ids of the values of {topic}"
            raise ChaosError("bad-request", what, "give both the same function, or check them in two recordings")
    return found


def ids_of(topic: str, values: Iterable[bytes], function: OfValue) -> Mapping[bytes, bytes | None]:
    """Raises ChaosError for a function that fails, or that answers nothing which can be an id."""
    return {value: _id_of(topic, value, function) for value in values}


def _id_of(topic: str, value: bytes, function: OfValue) -> bytes | None:
    try:
        found = function(value)
    except Exception as error:
        what = f"flow: the id of {value[:100]!r} of {topic} cannot be made: {type(error).__name__}: {error}"
        raise ChaosError("bad-request", what, "let the function return None for a record of no input") from error
    if found is None or isinstance(found, bytes):
        return found
    if isinstance(found, str) or type(found) is int:
        return str(found).encode()
    what = f"flow: {found!r}, made of {value[:100]!r} of {topic}, is no id"
    raise ChaosError("bad-request", what, "return a text, bytes, a whole number or None")
