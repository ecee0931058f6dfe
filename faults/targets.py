"""Victims by role: "leader(orders/0)", "isr(orders/0) - leader(orders/0)", "random(1)". They are resolved when the
fault begins, from the latest observation, since roles move.

A subtracted node is removed from the whole expression: random(N) draws from the remaining nodes, without those that
other terms name. Subtracting a leader means the last known leader if there is none now.
"""

import random
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.errors import HarnessError, UsageError
from harness.ports.cluster import NodeId
from harness.values import is_number


class View(Protocol):
    """The roles as known now. last_leader: the leader, or the last known one if there is none."""

    @property
    def controller(self) -> int: ...

    def leader(self, topic: str, partition: int) -> int: ...

    def last_leader(self, topic: str, partition: int) -> int: ...

    def isr(self, topic: str, partition: int) -> tuple[int, ...]: ...

    def coordinator(self, name: str) -> int: ...  # of a group, or of a transactional id


Roles = Callable[[View, str, int], Sequence[int]]

_OF_PARTITION: dict[str, Roles] = {
    "leader": lambda view, topic, partition: [view.leader(topic, partition)],
    "isr": lambda view, topic, partition: list(view.isr(topic, partition)),
    "followers": lambda view, topic, partition: [
        node for node in view.isr(topic, partition) if node != view.leader(topic, partition)
    ],
    "last_isr": lambda view, topic, partition: list(view.isr(topic, partition))[-1:],
}
MOVING = (*_OF_PARTITION, "controller", "coordinator")
ROLES = (*MOVING, "random", "all", "broker")
_SIGN = re.compile(r"([+-])(?![^(]*\))")  # between terms: a topic's name in parentheses may have a hyphen
_TERM = re.compile(r"\s*([a-z_]+|\d+)\s*(?:\(\s*([^()]*?)\s*\))?\s*")


def _wrong(expression: Any) -> UsageError:
    return UsageError(
        f'target {expression!r}: write a broker id, "leader(topic/0)", "followers(topic/0)", "isr(topic/0)", '
        '"last_isr(topic/0)", "controller", "coordinator(group)", "random(1)" or "all", joined by + and -'
    )


class _LedLast:
    """A view in which a partition without a leader has its last known one."""

    def __init__(self, view: View) -> None:
        self.controller = view.controller
        self.isr = view.isr
        self.coordinator = view.coordinator
        self.leader = view.last_leader
        self.last_leader = view.last_leader


@dataclass(frozen=True, kw_only=True)
class Target:
    """A parsed expression. terms: (sign, word, argument), in order."""

    words: Any
    terms: tuple[tuple[str, str, str | None], ...]

    @classmethod
    def parse(cls, expression: Any) -> "Target":
        """Raises UsageError, so that a scenario is refused before its run."""
        text = " + ".join(str(item) for item in expression) if isinstance(expression, list | tuple) else str(expression)
        terms = [_TERM.fullmatch(piece) for piece in _SIGN.split(text)[::2]]
        signs = ["+", *_SIGN.findall(text)]
        found = []
        for sign, term in zip(signs, terms, strict=True):
            if term is None or not (is_number(term.group(1)) or term.group(1) in ROLES):
                raise _wrong(expression)
            found.append((sign, term.group(1), term.group(2)))
        return cls(words=expression, terms=tuple(found))

    def moved(self, move: Callable[[int], int]) -> str:
        """The expression with those nodes that stand for the ones it names by their ids."""
        text = ""
        for sign, word, argument in self.terms:
            text += f" {sign} " if text else ""
            if word == "broker" and is_number(argument or ""):
                text += f"broker({move(int(argument or ''))})"
            else:
                named = str(move(int(word))) if is_number(word) else word
                text += named if argument is None else f"{named}({argument})"
        return text

    @property
    def by_role(self) -> bool:
        """Whether it depends on roles, so that a later attempt may find nodes."""
        return any(sign == "+" and word in MOVING for sign, word, _ in self.terms)

    def resolve(
        self,
        *,
        view: View,
        brokers: Sequence[NodeId],
        chance: random.Random,
        apart: Sequence[NodeId] = (),
        unfit: Collection[NodeId] = (),
    ) -> list[NodeId]:
        """The victims, in order, each once. Raises HarnessError if no node has the role at the moment.

        apart: controllers and coordination services that are not brokers; only a role or a number can name them.
        unfit: nodes that cannot be hit now; random(N) does not draw them.
        """
        found = [
            [] if word == "random" else _term(word, argument, _LedLast(view) if sign == "-" else view, brokers, self)
            for sign, word, argument in self.terms
        ]
        named = {node for nodes in found for node in nodes}  # by other terms, added or subtracted
        pool: list[int] = [node for node in brokers if node not in named and node not in unfit]
        victims: list[int] = []
        for (sign, word, argument), nodes in zip(self.terms, found, strict=True):
            drawn = nodes
            if word == "random":
                among = victims if sign == "-" else pool
                drawn = chance.sample(among, min(_how_many(argument, self), len(among)))
            if sign == "-":
                victims = [node for node in victims if node not in drawn]
            else:
                victims.extend(node for node in drawn if node not in victims)
            pool = [node for node in pool if node not in drawn]
        if not victims or any(node not in brokers and node not in apart for node in victims):
            raise HarnessError(
                f"target {self.words!r}: nobody has that role now (brokers {list(brokers)}, found {victims})"
            )
        return [NodeId(node) for node in victims]


def _term(word: str, argument: str | None, view: View, brokers: Sequence[NodeId], target: Target) -> list[int]:
    """The nodes of a term other than random(N)."""
    if is_number(word):
        return [int(word)]
    if word == "all":
        return list(brokers)
    if word == "controller":
        return [view.controller]
    if word == "coordinator" and argument:
        return [view.coordinator(argument)]
    if word == "broker" and argument and is_number(argument):
        return [int(argument)]
    if word in _OF_PARTITION and argument:
        topic, slash, partition = argument.rpartition("/")
        if slash and is_number(partition):
            return list(_OF_PARTITION[word](view, topic, int(partition)))
    raise _wrong(target.words)


def _how_many(argument: str | None, target: Target) -> int:
    if argument and not is_number(argument):
        raise _wrong(target.words)
    return int(argument or "1")
