"""Victims by role. "leader(orders/0)", "isr(orders/0) - leader(orders/0)", "random(1)": resolved when the fault begins,
from what was last observed, since a role moves."""

import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from harness.errors import HarnessError, UsageError
from harness.interfaces import NodeId


class View(Protocol):
    """What is known of roles right now."""

    @property
    def controller(self) -> int: ...

    def leader(self, topic: str, partition: int) -> int: ...

    def isr(self, topic: str, partition: int) -> tuple[int, ...]: ...


Roles = Callable[[View, str, int], Sequence[int]]

_OF_PARTITION: dict[str, Roles] = {
    "leader": lambda view, topic, part: [view.leader(topic, part)],
    "isr": lambda view, topic, part: list(view.isr(topic, part)),
    "followers": lambda view, topic, part: [node for node in view.isr(topic, part) if node != view.leader(topic, part)],
    "last_isr": lambda view, topic, part: list(view.isr(topic, part))[-1:],
}
ROLES = (*_OF_PARTITION, "controller", "random", "all", "broker")
_TERM = re.compile(r"\s*([a-z_]+|\d+)\s*(?:\(\s*([^()]*?)\s*\))?\s*")


def _wrong(expression: Any) -> UsageError:
    return UsageError(
        f'target {expression!r}: write a broker id, "leader(topic/0)", "followers(topic/0)", "isr(topic/0)", '
        '"last_isr(topic/0)", "controller", "random(1)" or "all", joined by + and -'
    )


def _partition(argument: str, expression: Any) -> tuple[str, int]:
    topic, slash, partition = argument.rpartition("/")
    if not slash or not partition.isdigit():
        raise _wrong(expression)
    return topic, int(partition)


def _term(
    word: str, argument: str | None, view: View, brokers: Sequence[NodeId], chance: random.Random, expression: Any
) -> list[int]:
    if word.isdigit():
        return [int(word)]
    if word == "all":
        return list(brokers)
    if word == "controller":
        return [view.controller]
    if word == "broker" and argument and argument.isdigit():
        return [int(argument)]
    if word == "random":
        return chance.sample(list(brokers), min(int(argument or "1"), len(brokers)))
    if word in _OF_PARTITION and argument:
        topic, partition = _partition(argument, expression)
        return list(_OF_PARTITION[word](view, topic, partition))
    raise _wrong(expression)


def parse(expression: Any) -> list[tuple[str, str, str | None]]:
    """(sign, word, argument) of every term. Raises UsageError, so that a scenario is refused before its run."""
    text = " + ".join(str(item) for item in expression) if isinstance(expression, list | tuple) else str(expression)
    terms = []
    for number, piece in enumerate(re.split(r"([+-])", text)):
        if number % 2:
            continue
        match = _TERM.fullmatch(piece)
        if match is None or not (match.group(1).isdigit() or match.group(1) in ROLES):
            raise _wrong(expression)
        terms.append(match)
    signs = ["+", *re.findall(r"[+-]", text)]
    return [(sign, term.group(1), term.group(2)) for sign, term in zip(signs, terms, strict=True)]


def resolve(
    expression: Any, *, view: View, brokers: Sequence[NodeId], chance: random.Random, apart: Sequence[NodeId] = ()
) -> list[NodeId]:
    """The victims, in order, each once. Raises HarnessError when the role is nobody's at the moment.

    `apart`: controllers and coordination services that are no brokers; they are meant by role or number alone.
    """
    victims: list[int] = []
    for sign, word, argument in parse(expression):
        found = _term(word, argument, view, brokers, chance, expression)
        if sign == "-":
            victims = [node for node in victims if node not in found]
        else:
            victims.extend(node for node in found if node not in victims)
    if not victims or any(node not in brokers and node not in apart for node in victims):
        raise HarnessError(
            f"target {expression!r}: nobody has that role now (brokers {list(brokers)}, found {victims})"
        )
    return [NodeId(node) for node in victims]
