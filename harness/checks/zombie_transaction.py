"""Zombie transactions (KIP-98, KIP-360): a producer committed although a newer one of its transactional id had begun.

A producer asks for its id's epoch before its first transaction or in beginning it, and from then on every older
producer of that id is refused. So a transaction that an older producer began after a newer one's first transaction had
ended cannot commit. The older is the one whose own first transaction ended before the other's began; where the two
overlap, the one that was not the last to commit. A producer whose only transaction was not committed may never have
got an epoch, and proves nothing.
"""

from collections.abc import Mapping, Sequence

from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Cause
from harness.checks.tables import Row
from harness.checks.wording.words import plural
from harness.history.schemas import STATUS_OK

CHECK = "zombie-transaction"


def find(context: RunContext) -> list[Finding]:
    zombies: dict[str, list[tuple[Row, Row]]] = {}
    for name, transaction, successor in fenced(context.tables.get("transactions", ())):
        zombies.setdefault(name, []).append((transaction, successor))
    return [_finding(context, name, found) for name, found in sorted(zombies.items())]


def fenced(transactions: Sequence[Row]) -> list[tuple[str, Row, Row]]:
    """(transactional id, transaction that cannot have been committed, its successor's first), in order of time."""
    by_id: dict[str, dict[int, list[Row]]] = {}
    for row in sorted(transactions, key=lambda row: row["t0"]):
        if row["transactional_id"]:
            by_id.setdefault(row["transactional_id"], {}).setdefault(row["process"], []).append(row)
    found = []
    for name, producers in by_id.items():
        for own in producers.values():
            newer = _newer_than(own, producers)
            for row in own:
                first = next((first for first in newer if first["t1"] < row["t0"]), None)
                if first is not None and row["outcome"] == STATUS_OK:
                    found.append((name, row, first))
    return sorted(found, key=lambda zombie: zombie[1]["t0"])


def _newer_than(own: Sequence[Row], producers: Mapping[int, Sequence[Row]]) -> list[Row]:
    """The first transactions of the producers of the id that certainly got its epoch later, in order of their ends."""
    newer = []
    for theirs in producers.values():
        proved = len(theirs) > 1 or theirs[0]["outcome"] == STATUS_OK
        if theirs is not own and proved and _asked_later(theirs, own):
            newer.append(theirs[0])
    return sorted(newer, key=lambda first: first["t1"])


def _asked_later(theirs: Sequence[Row], own: Sequence[Row]) -> bool:
    if theirs[0]["t0"] > own[0]["t1"] or theirs[0]["t1"] < own[0]["t0"]:
        return bool(theirs[0]["t0"] > own[0]["t1"])
    # Nobody knows who asked first; but who commits now, and began when the other had its epoch, has the current one.
    last = max((_last_commit(theirs), _last_commit(own)))
    return last == _last_commit(theirs) and last[0] > own[0]["t1"]


def _last_commit(transactions: Sequence[Row]) -> tuple[int, int]:
    return max(((row["t0"], row["process"]) for row in transactions if row["outcome"] == STATUS_OK), default=(-1, -1))


def _finding(context: RunContext, name: str, zombies: list[tuple[Row, Row]]) -> Finding:
    first, successor = zombies[0]
    sentence = (
        f"Process {first['process']} began and committed {plural(len(zombies), 'transaction')} as {name} after process "
        f"{successor['process']} had taken over that id ({context.story.seconds(successor['t1'])}), the first "
        f"{context.story.seconds(first['t0'])}."
    )
    return Finding(
        run=context.run, check=CHECK, classification="violation", kind="fenced", count=len(zombies), sentence=sentence,
        cause=Cause(code="fenced-producer-committed"), t_first=first["t0"], t_last=zombies[-1][0]["t1"],
        evidence={"transactional_id": name, "successor": successor["process"],
                  "transactions": [row["txn"] for row, _ in zombies[:20]]},
    )  # fmt: skip
