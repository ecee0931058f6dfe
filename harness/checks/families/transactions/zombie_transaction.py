"""Zombie transactions (KIP-98, KIP-360): a producer committed although a newer one of its transactional id had begun.

A producer requests its id's epoch before or at the begin of its first transaction; from then on every older producer of
that id is refused. So a transaction that an older producer began after a newer one's first transaction had ended cannot
commit. The older producer is the one whose first transaction ended before the other's began; if the two overlap, the
one that was not the last to commit. A producer whose only transaction was not committed may never have got an epoch,
and proves nothing. Neither does a transaction that no broker was told of.
"""

from collections.abc import Mapping, Sequence

from harness.checks.contract.rulings import Cause
from harness.checks.findings import Finding, RunContext
from harness.checks.wording.words import plural
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.schemas import NEVER_BEGUN, STATUS_OK

CHECK = "zombie-transaction"


def find(context: RunContext) -> list[Finding]:
    zombies: dict[str, list[tuple[TransactionRow, TransactionRow]]] = {}
    for name, transaction, successor in fenced(context.tables[TRANSACTIONS]):
        zombies.setdefault(name, []).append((transaction, successor))
    return [_finding(context, name, found) for name, found in sorted(zombies.items())]


def fenced(transactions: Sequence[TransactionRow]) -> list[tuple[str, TransactionRow, TransactionRow]]:
    """(transactional id, transaction that cannot have been committed, its successor's first), in order of time."""
    by_id: dict[str, dict[int, list[TransactionRow]]] = {}
    for row in sorted(transactions, key=lambda row: row["invoked_ns"]):
        if row["transactional_id"] and row["outcome"] != NEVER_BEGUN:
            by_id.setdefault(row["transactional_id"], {}).setdefault(row["process"], []).append(row)
    found = []
    for name, producers in by_id.items():
        for own in producers.values():
            newer = _newer_than(own, producers)
            for row in own:
                first = next((first for first in newer if first["completed_ns"] < row["invoked_ns"]), None)
                if first is not None and row["outcome"] == STATUS_OK:
                    found.append((name, row, first))
    return sorted(found, key=lambda zombie: zombie[1]["invoked_ns"])


def _newer_than(
    own: Sequence[TransactionRow], producers: Mapping[int, Sequence[TransactionRow]]
) -> list[TransactionRow]:
    """The first transactions of the id's producers that certainly got a later epoch, in order of their ends."""
    newer = []
    for theirs in producers.values():
        proved = len(theirs) > 1 or theirs[0]["outcome"] == STATUS_OK
        if theirs is not own and proved and _began_later(theirs, own):
            newer.append(theirs[0])
    return sorted(newer, key=lambda first: first["completed_ns"])


def _began_later(theirs: Sequence[TransactionRow], own: Sequence[TransactionRow]) -> bool:
    if theirs[0]["invoked_ns"] > own[0]["completed_ns"] or theirs[0]["completed_ns"] < own[0]["invoked_ns"]:
        return bool(theirs[0]["invoked_ns"] > own[0]["completed_ns"])
    # Who requested first is unknown; but one that commits now and began after the other got its epoch is current.
    last = max((_last_commit(theirs), _last_commit(own)))
    return last == _last_commit(theirs) and last[0] > own[0]["completed_ns"]


def _last_commit(transactions: Sequence[TransactionRow]) -> tuple[int, int]:
    return max(
        ((row["invoked_ns"], row["process"]) for row in transactions if row["outcome"] == STATUS_OK), default=(-1, -1)
    )


def _finding(context: RunContext, name: str, zombies: list[tuple[TransactionRow, TransactionRow]]) -> Finding:
    first, successor = zombies[0]
    sentence = (
        f"Process {first['process']} began and committed {plural(len(zombies), 'transaction')} as {name} after process "
        f"{successor['process']} had taken over that id ({context.history.seconds(successor['completed_ns'])}), the "
        f"first {context.history.seconds(first['invoked_ns'])}."
    )
    return Finding(
        run=context.run, check=CHECK, classification="violation", kind="fenced", count=len(zombies), sentence=sentence,
        cause=Cause(code="fenced-producer-committed"), first_ns=first["invoked_ns"],
        last_ns=zombies[-1][0]["completed_ns"], evidence={"transactional_id": name, "successor": successor["process"],
                  "transactions": [row["transaction"] for row, _ in zombies[:20]]},
    )  # fmt: skip
