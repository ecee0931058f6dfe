"""A row: one promise of Kafka's protocol, the text that it follows, what it needs, and how a cluster is asked for it.

Whoever asks notes facts: what was seen and what was expected. Whether a row is kept follows from these alone. What
could not be found out is undecided, and what the cluster does not offer is neither kept nor broken.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from harness.history.facts.error_codes import error_code

if TYPE_CHECKING:
    from harness.conform.probe import Probe

_FACTS_SHOWN = 3
_BYTES_SHOWN = 64


class State(Enum):
    CONFORMS = "conforms"
    VIOLATES = "violates"
    UNDECIDED = "undecided"
    NOT_OFFERED = "not offered"


class Undecided(Exception):
    """Why a row could not be asked to its end: nothing is known against the cluster."""


class NotOffered(Exception):
    """What the cluster does not have, or was told not to do."""


class AnsweredNothing(Exception):
    """An answer can be read, and has not what was asked for: no version of the protocol allows that."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """`seen` and `expected` are as JSON has them; error codes come with their names."""

    what: str
    seen: str | int | None
    expected: str | int | None
    holds: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.seen}" if self.holds else f"{self.what}: {self.seen}, not {self.expected}"


@dataclass(frozen=True, kw_only=True)
class Undecodable:
    """An answer that is not of the version in which it was asked; `answer`: its bytes in hexadecimal digits."""

    api: str
    version: int
    why: str
    answer: str

    def __str__(self) -> str:
        shown = self.answer[: 2 * _BYTES_SHOWN]
        more = "" if shown == self.answer else f"... ({len(self.answer) // 2} bytes)"
        return f"its answer to {self.api} version {self.version} {self.why}: {shown or 'no byte'}{more}"


@dataclass
class Looked:
    """What one asking has seen."""

    facts: list[Fact] = field(default_factory=list)

    def same(self, what: str, seen: Any, expected: Any) -> bool:
        return self.note(what, seen, seen == expected, expected)

    def code(self, what: str, seen: int, *expected: int) -> bool:
        """An error code, of which one of these is expected; none given: no error."""
        allowed = expected or (0,)
        return self.note(what, _code(seen), seen in allowed, " or ".join(map(_code, allowed)))

    def note(self, what: str, seen: Any, holds: bool, expected: Any) -> bool:
        self.facts.append(Fact(what=what, seen=_plain(seen), expected=_plain(expected), holds=holds))
        return holds

    @property
    def broken(self) -> Sequence[Fact]:
        return [fact for fact in self.facts if not fact.holds]


def _code(code: int) -> str:
    return str(error_code(code)) if code else "no error"


def _plain(value: Any) -> str | int | None:
    return value if value is None or isinstance(value, str | int) else str(value)


@dataclass(frozen=True, kw_only=True)
class Need:
    """An API, in at least this version."""

    api: Any  # a request of kafka.protocol
    version: int = 0

    def __str__(self) -> str:
        name = str(self.api.__name__).removesuffix("Request")
        return f"{name} version {self.version}" if self.version else name


Asking = Callable[["Probe", Looked], Awaitable[str]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """`ask` notes facts and returns what was seen, for a row that is kept. `reads`: it leaves nothing behind, and makes
    nothing, whoever answers."""

    name: str
    expected: str
    follows: str
    needs: Collection[Need] = ()
    reads: bool = False
    brokers: int = 1  # how many the cluster must have
    ask: Asking


class Rows(list[Row]):
    """The rows of a module, each declared over the function that asks for it, in the order in which they are asked."""

    def row(
        self,
        name: str,
        *,
        expected: str,
        follows: str,
        needs: Collection[Need] = (),
        reads: bool = False,
        brokers: int = 1,
    ) -> Callable[[Asking], Asking]:
        def declared(ask: Asking) -> Asking:
            row = Row(name=name, expected=expected, follows=follows, needs=needs, reads=reads, brokers=brokers, ask=ask)
            self.append(row)
            return ask

        return declared


@dataclass(frozen=True, kw_only=True)
class Result:
    row: Row
    state: State
    seen: str
    facts: Sequence[Fact] = ()
    undecodable: Undecodable | None = None
    duration_s: float = 0.0


_WORST_FIRST = (State.VIOLATES, State.UNDECIDED, State.NOT_OFFERED, State.CONFORMS)


def together(found: Mapping[str, Result]) -> Result:
    """What a row came to at each address, as one result: the worst. It says which answered otherwise, if any did: in
    another state, or with other facts that do not hold."""
    results = list(found.values())
    worst = min(results, key=lambda each: _WORST_FIRST.index(each.state))
    alike: dict[tuple[State, frozenset[str]], list[str]] = {}
    for at, result in found.items():
        broken = frozenset(fact.what for fact in result.facts if not fact.holds)
        alike.setdefault((result.state, broken), []).append(at)
    took_s = sum(each.duration_s for each in results)
    if len(alike) == 1:
        return replace(worst, duration_s=took_s)
    order = sorted(alike.items(), key=lambda item: _WORST_FIRST.index(item[0][0]))
    said = (
        f"{', '.join(ats)}: {state.value}" + ("" if state is State.CONFORMS else f" ({found[ats[0]].seen})")
        for (state, _), ats in order
    )
    facts = [replace(fact, what=f"{at}: {fact.what}") for at, result in found.items() for fact in result.facts]
    return replace(worst, seen="; ".join(said), facts=facts, duration_s=took_s)


def words_of(broken: Sequence[Fact]) -> str:
    more = f" (and {len(broken) - _FACTS_SHOWN} more)" if len(broken) > _FACTS_SHOWN else ""
    return "; ".join(str(fact) for fact in broken[:_FACTS_SHOWN]) + more


def only(found: Sequence[Any] | None, what: str) -> Any:
    """Of an answer about one thing. Raises AnsweredNothing."""
    if not found:
        raise AnsweredNothing(f"its answer has no {what}, and was asked about one")
    return found[0]
