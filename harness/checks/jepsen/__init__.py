"""Jepsen's Kafka checker, rule for rule, over any number of his histories at once; and what it cannot see.

`check_histories(histories, ww_deps=, sub_via=, compatible=)` -> one HistoryAnswer for each, in order.
    histories   from harness.history.jepsen.jepsen_import (read_histories, import_text)
    ww_deps     True, False, or the places in `histories` that infer edges between writes
    sub_via     {"assign"} or {"subscribe"}: decides `bad`, the names that make the history invalid
    compatible  True: Jepsen's answer, also where it is wrong. A history that kills Jepsen's checker is answered with
                {"name": ..., "unknown": KIND}, the first of these that applies: ClassCastException (it must sort keys
                or values that are not of one kind), IndexOutOfBoundsException (an ok poll names a key of which no
                value read has a known place), no-writer-of, no-writer-of-value (nobody completed a send of a value).
                False: the same where Jepsen is right (where not: tests/harness/checks/jepsen/stories.py): an aborted
                poll's values are neither lost nor unseen; a seek to the beginning and a rebalance that moved the key
                excuse what follows; values only just read are not unseen; empty-transaction-graph is
                `insufficient-evidence` or `no-data`, no verdict instead of a bad one; and kinds of our own
                (own_rules.py) stand beside Jepsen's.
`HistoryAnswer.as_json()` is one line in the form of golden.jsonl; `inconclusive` names why there is no verdict.

Most records say nothing but that the log is as it should be, and all of them are in memory since they were read. So
what is known of the records is a pass over columns each: version_orders (offsets to indexes), values (what became of
each), steps (a record and the one before it in its operation), walks (what came before each operation's first record).
The rules and own_rules flag rows of those, and answers and own_answers write them down. Cycles are
harness.checks.cycles', of the histories in which there can be any (searches).
"""

from harness.checks.jepsen.answers import HistoryAnswer
from harness.checks.jepsen.check import check_histories

__all__ = ["HistoryAnswer", "check_histories"]
