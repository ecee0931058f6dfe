"""Readers for options of faults that are not simply a text, a number or a boolean."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from harness.values import COUNT_MAX, percent


def one_of(*known: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value not in known:
            raise ValueError(f"one of {', '.join(known)} is needed, not {value!r}")
        return value

    return read


def link_names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise ValueError(f'a list of links is needed, for example ["2>1"], not {value!r}')
    return tuple(value)


def nth(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= COUNT_MAX:
        raise ValueError(f"a number is needed, 1 for the first or 0 for each, not {value!r}")
    return value


def first_or_later(value: Any) -> int:
    if nth(value) == 0:
        raise ValueError("a number is needed, 1 for the first, not 0")
    return int(value)


# hang: bytes wait and new connections get no answer, as with DROP. reset: as with REJECT.
Mode = Annotated[Literal["hang", "reset"], one_of("hang", "reset")]
_ORIGINS = ("peers", "coordination", "cluster", "clients", "all")
Origin = Annotated[Literal["peers", "coordination", "cluster", "clients", "all"], one_of(*_ORIGINS)]
LinkNames = Annotated[tuple[str, ...], link_names]
Percent = Annotated[float, percent]
Nth = Annotated[int, nth]
FirstOrLater = Annotated[int, first_or_later]
