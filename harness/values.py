"""Values as people write them in files and options, with one reader for each kind. Errors say what is needed.

The types of a settings class's fields say how they are read: `bool`, `int`, `float`, `str` and tuples, and the types
of this module for numbers with a unit or a range. A field `stay_s` of type `Seconds` is the key `stay`: "2.5 s".
"""

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from harness.errors import HarnessError

LONGEST_S = 1e8  # three years
_UNITS_S = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_DIGITS_MAX = 10  # of what Kafka has 32 bits for
COUNT_MAX = 10_000
Reader = Callable[[Any], Any]


def seconds(value: Any) -> float:
    """Seconds of a written duration. Raises ValueError that shows how to write one."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LONGEST_S:
        amount = float(value)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h)\s*", str(value))
        if match is None:
            raise ValueError(f'a duration is written "500 ms", "2.5 s" or "3 min", not {value!r}')
        amount = float(match.group(1)) * _UNITS_S[match.group(2)]
    if amount > LONGEST_S:
        raise ValueError(f"a duration is at most {LONGEST_S / 3600:.0f} hours: {value!r}")
    if amount < 0:
        raise ValueError(f"a duration is not negative: {value!r}")
    return amount


def percent(value: Any) -> float:
    """The number of percent. Raises ValueError that shows how to write a share."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1000:
        amount = float(value)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", str(value))
        if match is None:
            raise ValueError(f'a share is written "10 %", not {value!r}')
        amount = float(match.group(1))
    if not 0 <= amount <= 100:
        raise ValueError(f"a share lies between 0 % and 100 %: {value!r}")
    return amount


def is_number(text: str) -> bool:
    """Whether `int` takes it: not every digit of Unicode, and no number without end."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a text is needed, not {value!r}")
    return value


def target(value: Any) -> str:
    """A broker's id may stand as a number."""
    return str(whole(value)) if isinstance(value, int) else text(value)


def whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a whole number is needed, not {value!r}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"a whole number of 64 bits is needed, not {value!r}")
    return value


def count(value: Any) -> int:
    """A number of things that are started or created one by one."""
    if whole(value) > COUNT_MAX:
        raise ValueError(f"at most {COUNT_MAX} are possible, not {value!r}")
    return int(value)


def number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 2**63:
        raise ValueError(f"a number is needed, not {value!r}")
    return float(value)


def share(value: Any) -> float:
    if not 0 <= number(value) <= 1:
        raise ValueError(f"a share between 0 and 1 is needed, not {value!r}")
    return number(value)


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is needed, not {value!r}")
    return value


def whole_numbers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"a list of whole numbers is needed, not {value!r}")
    return tuple(whole(item) for item in value)


def texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"a list of texts is needed, not {value!r}")
    return tuple(text(item) for item in value)


def acks(value: Any) -> str:
    if str(value) not in ("0", "1", "all"):
        raise ValueError(f'acks is "0", "1" or "all", not {value!r}')
    return str(value)


def group_protocol(value: Any) -> str:
    if value not in ("classic", "consumer"):
        raise ValueError(f'a group\'s protocol is "classic" or "consumer" (KIP-848), not {value!r}')
    return str(value)


def table_of(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a table is needed, not {value!r}")
    return dict(value)


def settings_table(value: Any) -> dict[str, str]:
    """Kafka's own keys, as in server.properties; true/false and numbers may be written bare."""
    if not isinstance(value, dict):
        raise ValueError(f"a table of Kafka settings is needed, not {value!r}")
    for key, item in value.items():
        if isinstance(item, dict | list):
            raise ValueError(f'setting {key!r} must be one value; write keys with dots in quotes: "{key}.…" = …')
    return {key: str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}


Count = Annotated[int, count]
Share = Annotated[float, share]
Seconds = Annotated[float, seconds]
GroupProtocol = Annotated[Literal["classic", "consumer"], group_protocol]  # how members join: JoinGroup, or KIP-848
Acks = Annotated[Literal["0", "1", "all"], acks]
_BY_TYPE: Mapping[Any, Reader] = {
    bool: flag,
    int: whole,
    float: number,
    str: text,
    tuple[str, ...]: texts,
    tuple[int, ...]: whole_numbers,
}


def keys_of(settings: type) -> Mapping[str, tuple[str, Reader]]:
    """Key in the file -> (field of the settings class, its reader). Raises TypeError for a type without a reader."""
    hints = _types_of(settings)
    known: dict[str, tuple[str, Reader]] = {}
    for field in fields(settings):
        reader = _reader(hints[field.name])
        if reader is None:
            raise TypeError(
                f"field {field.name!r} is of no type that a scenario can give; use bool, int, float, str, tuple[str, "
                "...], tuple[int, ...], Count, Share, Seconds or Acks, or one of these or None"
            )
        known[field.name.removesuffix("_s") if reader is seconds else field.name] = (field.name, reader)
    return known


@cache  # drawing one schedule asks hundreds of times, and evaluating type hints is slow
def _types_of(settings: type) -> Mapping[str, Any]:
    return get_type_hints(settings, include_extras=True)


def check_declared(settings: type, *, place: str) -> None:
    """Raises HarnessError, beginning with the place, if a scenario cannot set the fields of a package's class."""
    if "__dataclass_fields__" not in vars(settings):
        raise HarnessError(f"{place}: decorate {settings.__name__} with @dataclass(frozen=True, kw_only=True)")
    try:
        keys_of(settings)
    except (TypeError, NameError) as error:
        raise HarnessError(f"{place}: {settings.__name__}: {error}") from error


def _reader(kind: Any) -> Reader | None:
    if get_origin(kind) in (Union, types.UnionType):
        others = [each for each in get_args(kind) if each is not type(None)]
        return _reader(others[0]) if len(others) == 1 else None  # None: the key is not written
    if get_origin(kind) is Annotated:
        return next((each for each in get_args(kind)[1:] if callable(each)), None)
    return _BY_TYPE.get(kind)
