"""Zombie transactions (KIP-98, KIP-360): a producer committed although a newer one of its transactional id had begun.

A producer asks for its id's epoch before its first transaction, and from then on every older producer of that id is
refused. So a transaction that an older producer began after a newer one's first transaction had begun cannot commit.
The older is the one whose own first transaction came first.
"""

from harness.checks.findings import Finding, RunContext, plural
from harness.checks.tables import Row
from harness.history.schemas import STATUS_OK

CHECK = "zombie-transaction"


def find(context: RunContext) -> list[Finding]:
    by_id: dict[str, list[Row]] = {}
    for row in sorted(context.tables.get("transactions", ()), key=lambda row: row["t0"]):
        if row["transactional_id"]:
            by_id.setdefault(row["transactional_id"], []).append(row)
    found = []
    for name, transactions in sorted(by_id.items()):
        zombies: list[tuple[Row, Row]] = []
        first_of: dict[int, Row] = {}
        for row in transactions:
            first_of.setdefault(row["process"], row)
            successors = [first for process, first in first_of.items() if first["t0"] > first_of[row["process"]]["t0"]]
            if successors and row["outcome"] == STATUS_OK:
                zombies.append((row, successors[0]))
        if zombies:
            found.append(_finding(context, name, zombies))
    return found


def _finding(context: RunContext, name: str, zombies: list[tuple[Row, Row]]) -> Finding:
    first, successor = zombies[0]
    sentence = (
        f"Process {first['process']} began and committed {plural(len(zombies), 'transaction')} as {name} after process "
        f"{successor['process']} had taken over that id ({context.story.seconds(successor['t0'])}), the first "
        f"{context.story.seconds(first['t0'])}."
    )
    return Finding(
        run=context.run, check=CHECK, classification="violation", kind="fenced", count=len(zombies), sentence=sentence,
        cause="a fenced producer committed", t_first=first["t0"], t_last=zombies[-1][0]["t1"], salt=name,
        evidence={"transactional_id": name, "successor": successor["process"],
                  "transactions": [row["txn"] for row, _ in zombies[:20]]},
    )  # fmt: skip
