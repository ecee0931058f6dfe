"""Victims by role: who holds it is found out when the fault begins. Roles are joined by + and -."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Role:
    """expression: in the words of docs/scenarios.md. topics: those it names, which the cluster must be asked about."""

    expression: str
    topics: frozenset[str] = frozenset()

    def __add__(self, other: "Role") -> "Role":
        return Role(expression=f"{self.expression} + {other.expression}", topics=self.topics | other.topics)

    def __sub__(self, other: "Role") -> "Role":
        return Role(expression=f"{self.expression} - {other.expression}", topics=self.topics | other.topics)


def _of_partition(word: str, topic: str, partition: int) -> Role:
    return Role(expression=f"{word}({topic}/{partition})", topics=frozenset({topic}))


def leader(topic: str, partition: int = 0) -> Role:
    return _of_partition("leader", topic, partition)


def followers(topic: str, partition: int = 0) -> Role:
    """Those of the in-sync replicas that do not lead."""
    return _of_partition("followers", topic, partition)


def isr(topic: str, partition: int = 0) -> Role:
    """All in-sync replicas, the leader among them."""
    return _of_partition("isr", topic, partition)


def controller() -> Role:
    return Role(expression="controller")


def broker(number: int) -> Role:
    return Role(expression=str(number))


def anybody(count: int = 1) -> Role:
    """So many brokers, drawn by chance from those who are nothing else in the expression."""
    return Role(expression=f"random({count})")


def everybody() -> Role:
    return Role(expression="all")
