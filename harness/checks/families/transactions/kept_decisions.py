"""How a transaction ended, as its coordinator's log says to the end: the decision that its client was told (KIP-98).

The log names the id, the producer, the partitions, and when the transaction began there, which was while its client was
at it. Two clients of one id may be at it at once, where one has replaced the other: a transaction of the newer one is
told apart by the greater epoch, above a decision of the older one's.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.history.facts.internal_topics import CLOCKS_APART_NS
from harness.history.schema.client_rows import TransactionRow
from harness.history.schema.internal_rows import TransactionStateRow
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK

# The decisions that answer to a client's outcome; no decision that it was told answers to an unknown one.
_STATES_OF_OUTCOME: Mapping[int, Sequence[str]] = {
    STATUS_OK: ("PrepareCommit", "CompleteCommit"),
    STATUS_FAIL: ("PrepareAbort", "CompleteAbort"),
}
_BEGUN = "Ongoing"
COMPLETE = ("CompleteCommit", "CompleteAbort")  # once every marker was written


@dataclass(frozen=True, kw_only=True)
class Written:
    """A record of a transaction: in that partition, of which None is any, after `sent_ns`."""

    topic: str
    partition: int | None
    sent_ns: int


@dataclass(frozen=True, kw_only=True)
class Decision:
    """time_ns: it was certainly written by then. begun_ns: what it ends had certainly not begun by then. client: the
    epoch of the client that is at it, if the log has its begin; that of the record may be a greater one, raised to end
    what a client left open, or for the next transaction (KIP-890)."""

    time_ns: int
    begun_ns: int
    producer: tuple[int | None, int | None]
    partitions: frozenset[tuple[str, int]]
    client: tuple[int | None, int | None] = (None, None)

    @staticmethod
    def of(row: TransactionStateRow, client: tuple[int | None, int | None] = (None, None)) -> "Decision":
        return Decision(
            time_ns=(row["time_ns"] or 0) + CLOCKS_APART_NS,
            begun_ns=_begun(row) - CLOCKS_APART_NS,
            producer=(row["producer_id"], row["producer_epoch"]),
            partitions=frozenset((place["topic"], place["partition"]) for place in row["partitions"] or ()),
            client=client,
        )

    def had_begun_before(self, written: Written) -> bool:
        """Whether it ends what had certainly begun before that record was sent to a partition which it names."""
        named = any(
            topic == written.topic and written.partition in (None, partition) for topic, partition in self.partitions
        )
        return named and self.begun_ns + 2 * CLOCKS_APART_NS <= written.sent_ns

    def is_before(self, producer: tuple[int | None, int | None], time_ns: int) -> bool:
        """Whether it is of a smaller epoch of that producer, which got its own when this one was known."""
        (identity, mine), (their_identity, theirs) = self.producer, producer
        known = mine is not None and theirs is not None and identity == their_identity
        return known and (mine or 0) < (theirs or 0) and self.time_ns < time_ns


def decisions_of(transactions: Sequence[TransactionRow], kept: Sequence[TransactionStateRow]) -> Mapping[int, Decision]:
    """Of each transaction of an id the earliest decision, where it is certain which is its own. kept: what the log has
    of that id to the end."""
    begins = {(row["producer_id"], row["begun_ns"]): _beginning(row) for row in kept if row["state"] == _BEGUN}
    found: dict[int, Decision] = {}
    shared = []
    for row, its in _with_owners(transactions, kept):
        begin = begins.get((row["producer_id"], row["begun_ns"]))
        if len(its) == 1:
            _add(found, row, its[0], begin)
        else:
            shared.append((row, its, begin))
    of_one_alone, began_with = dict(found), beginnings_of(transactions, kept)
    for row, its, begin in shared:
        decision = Decision.of(row)
        left = []
        for each in its:
            end, other = of_one_alone.get(each["transaction"]), began_with.get(each["transaction"])
            is_over = end is not None and end.is_before(decision.producer, decision.time_ns)
            is_older = other is not None and begin is not None and other.is_before(begin.producer, begin.time_ns)
            if not is_over and not is_older:
                left.append(each)
        if len(left) == 1:
            _add(found, row, left[0], begin)
    return found


def beginnings_of(
    transactions: Sequence[TransactionRow], kept: Sequence[TransactionStateRow]
) -> Mapping[int, Decision]:
    """Of each transaction of an id what the log has of its begin, where it can be of no other: with the epoch of the
    client that is at it."""
    return {
        its[0]["transaction"]: _beginning(row)
        for row, its in _with_owners(transactions, kept)
        if len(its) == 1 and row["state"] == _BEGUN
    }


def _beginning(row: TransactionStateRow) -> Decision:
    return Decision.of(row, client=(row["producer_id"], row["producer_epoch"]))


def _with_owners(
    transactions: Sequence[TransactionRow], kept: Sequence[TransactionStateRow]
) -> Iterator[tuple[TransactionStateRow, Sequence[TransactionRow]]]:
    """The records that say when what they are of began, and the transactions that were under way then."""
    begun = sorted((row for row in kept if row["begun_ns"] is not None and row["time_ns"] is not None), key=_begun)
    owners: list[list[TransactionRow]] = [[] for _ in begun]
    for own in transactions:
        first = bisect_left(begun, own["invoked_ns"] - CLOCKS_APART_NS, key=_begun)
        for place in range(first, bisect_right(begun, own["completed_ns"] + CLOCKS_APART_NS, key=_begun)):
            owners[place].append(own)
    return zip(begun, owners, strict=True)


def is_repeated(own: TransactionRow, decision: Decision, row: TransactionStateRow) -> bool:
    """Whether the record says of the transaction what that decision says of it, and its client was told."""
    same = (_begun(row) - CLOCKS_APART_NS, row["producer_id"]) == (decision.begun_ns, decision.producer[0])
    return same and row["state"] in _STATES_OF_OUTCOME.get(own["outcome"], ())


def may_be_decided(own: TransactionRow, rows: Iterable[TransactionStateRow]) -> bool:
    """Whether one of these records may be the decision that its client was told."""
    begin_ns, end_ns = own["invoked_ns"] - CLOCKS_APART_NS, own["completed_ns"] + CLOCKS_APART_NS
    return any(
        row["state"] in _STATES_OF_OUTCOME.get(own["outcome"], ())
        and (row["begun_ns"] is None or begin_ns <= row["begun_ns"] <= end_ns)
        for row in rows
    )


def _add(found: dict[int, Decision], row: TransactionStateRow, own: TransactionRow, begin: Decision | None) -> None:
    if row["state"] in _STATES_OF_OUTCOME.get(own["outcome"], ()):
        number, decision = own["transaction"], Decision.of(row, (None, None) if begin is None else begin.client)
        found[number] = min(found.get(number, decision), decision, key=lambda each: each.time_ns)


def _begun(row: TransactionStateRow) -> int:
    return row["begun_ns"] or 0
