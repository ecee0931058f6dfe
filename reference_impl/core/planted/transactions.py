"""Planted flaws of transactions: their coordinator, their markers and their readers."""

from dataclasses import replace

from reference_impl.core.planted.flaw import Flaw, of_groups, of_producers, of_transactions
from reference_impl.core.rules import Rules


def _end_at_high_watermark(last_stable_offset: int, high_watermark: int) -> int:
    return high_watermark


def _count_at_once(is_ended: bool) -> bool:
    return True


def _list_none_aborted() -> bool:
    return False


def _fences_nobody(epoch: int, known_epoch: int) -> bool:
    return False


def _any_epoch(epoch: int, current_epoch: int) -> bool:
    return True


def _answer_end_at_once(is_replicated: bool) -> bool:
    return True


def _other_result_in_the_last(is_commit: bool, number: int, count: int) -> bool:
    return is_commit == (count == 1 or number < count - 1)


def _forget_what_is_prepared() -> bool:
    return False


def _late_ones_go_on() -> bool:
    return False


def _of_zombies(rules: Rules) -> Rules:
    of_log = of_producers(lambda producers: replace(producers, fences_producer=_fences_nobody))
    return of_transactions(lambda transactions: replace(transactions, is_current=_any_epoch))(of_log(rules))


def _not_asked(is_set: bool) -> bool:
    return False


TRANSACTIONS = (
    Flaw(
        name="read-committed-to-high-watermark",
        part="transactions",
        origin="M70, hazard",
        description="readers of committed records are given those of transactions that have not ended",
        apply=lambda rules: replace(rules, stable_end=_end_at_high_watermark),
    ),
    Flaw(
        name="offsets-before-their-marker",
        part="transactions",
        origin="M83, hazard",
        description="offsets sent to a transaction count when they are written, before it is committed, or aborted",
        apply=of_groups(lambda groups: replace(groups, counts_in_transaction=_count_at_once)),
    ),
    Flaw(
        name="no-list-of-aborted",
        part="transactions",
        origin="M72, KAFKA-5376",
        description="readers of committed records are told of no aborted transaction",
        apply=of_producers(lambda producers: replace(producers, lists_aborted=_list_none_aborted)),
    ),
    Flaw(
        name="old-epochs-go-on",
        part="transactions",
        origin="M73, hazard",
        description="neither leaders nor the coordinator fence a producer whose transactional id has a newer one",
        apply=_of_zombies,
    ),
    Flaw(
        name="late-transactions-keep-their-epoch",
        part="transactions",
        origin="M74, KAFKA-6119",
        description="a transaction that timed out is aborted under its own epoch, so that its producer goes on",
        apply=of_transactions(lambda transactions: replace(transactions, fences_late=_late_ones_go_on)),
    ),
    Flaw(
        name="end-before-replication",
        part="transactions",
        origin="M77, hazard",
        description="the end of a transaction is answered after the coordinator's own append",
        apply=of_transactions(lambda transactions: replace(transactions, answers_end=_answer_end_at_once)),
    ),
    Flaw(
        name="forget-prepared-transactions",
        part="transactions",
        origin="M78, hazard",
        description="a new coordinator writes no markers of what it finds decided",
        apply=of_transactions(lambda transactions: replace(transactions, resumes_markers=_forget_what_is_prepared)),
    ),
    Flaw(
        name="other-marker-in-last-partition",
        part="transactions",
        origin="M79, hazard",
        description="of several partitions of a transaction the last one gets the opposite marker",
        apply=of_transactions(lambda transactions: replace(transactions, result_in=_other_result_in_the_last)),
    ),
    Flaw(
        name="markers-of-old-coordinators",
        part="transactions",
        origin="M84, hazard",
        description="leaders take markers of a coordinator that has a successor",
        apply=of_producers(lambda producers: replace(producers, fences_coordinator=_fences_nobody)),
    ),
    Flaw(
        name="no-verification",
        part="transactions",
        origin="M75, KIP-890, KAFKA-14561",
        description="leaders do not ask whether the transaction of what comes is still open",
        apply=of_producers(lambda producers: replace(producers, verifies=_not_asked)),
    ),
    Flaw(
        name="ends-of-any-epoch",
        part="transactions",
        origin="M81, KAFKA-9600",
        description="a coordinator ends the transaction of a producer that has a successor, or had one",
        apply=of_transactions(lambda transactions: replace(transactions, is_current=_any_epoch)),
    ),
)
