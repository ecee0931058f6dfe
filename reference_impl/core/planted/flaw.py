"""A planted flaw, and how one changes the rules of a part."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from reference_impl.core.cleaning.cleaning_rules import CleaningRules
from reference_impl.core.controller.controller_rules import ControllerRules
from reference_impl.core.groups.group_rules import GroupRules
from reference_impl.core.producer_rules import ProducerRules
from reference_impl.core.rules import Rules
from reference_impl.core.storage_rules import StorageRules
from reference_impl.core.transactions.transaction_rules import TransactionRules

Part = Literal["replication", "requests", "producers", "groups", "transactions", "compaction", "storage"]


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """part: whose load reaches it. origin: a row of a longer list of historical bugs, and where it happened. hidden_by:
    rules that should repair what it does before anybody sees it, by reasoning; "": none is known."""

    name: str
    part: Part
    origin: str
    description: str
    apply: Callable[[Rules], Rules]
    hidden_by: str = ""


def of_controller(change: Callable[[ControllerRules], ControllerRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, controller=change(rules.controller))


def of_producers(change: Callable[[ProducerRules], ProducerRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, producers=change(rules.producers))


def of_transactions(change: Callable[[TransactionRules], TransactionRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, transactions=change(rules.transactions))


def of_cleaning(change: Callable[[CleaningRules], CleaningRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, cleaning=change(rules.cleaning))


def of_groups(change: Callable[[GroupRules], GroupRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, groups=change(rules.groups))


def of_storage(change: Callable[[StorageRules], StorageRules]) -> Callable[[Rules], Rules]:
    return lambda rules: replace(rules, storage=change(rules.storage))
