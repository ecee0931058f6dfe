"""Every family of checks, in the order in which a reader wants causes before consequences.

A new check is one file and one line here; why it finds something is a code (rulings.py) with its words
(wording/causes.py). Its `find` turns what is known of one run into findings; its `query`, if it has one, asks the
tables of all runs first, and its rows are `context.rows[name]`. Questions are asked side by side; one that looks at
what the fused pass found says so (`follows_detection`) and is asked after it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from harness.checks import (
    aborted_read,
    acknowledged_regression,
    availability,
    client_stuck,
    contradictions,
    corrupt_record,
    cycle,
    dirty_read,
    divergence,
    duplicate,
    exactly_once,
    expectation,
    group_delivery,
    group_offsets,
    group_owners,
    head_skip,
    inconsistent_offsets,
    isolation,
    lost_write,
    min_isr,
    phantom,
    polls,
    removal,
    reordering,
    stable_offset,
    timestamps,
    torn_transaction,
    two_leaders,
    unclean_election,
    zombie_transaction,
)
from harness.checks.findings import Finding, RunContext
from harness.checks.runs import Query


@dataclass(frozen=True, kw_only=True)
class Family:
    name: str
    find: Callable[[RunContext], list[Finding]]
    query: Query | None = None
    follows_detection: bool = False


def _nothing(context: RunContext) -> list[Finding]:
    """Of families whose answers other families need."""
    return []


FAMILIES: tuple[Family, ...] = (
    Family(name=removal.NAME, find=_nothing, query=removal.query, follows_detection=True),
    Family(name=isolation.NAME, find=_nothing, query=isolation.query),
    Family(name=min_isr.CHECK, find=min_isr.find, query=min_isr.query),
    Family(name="lost-write", find=lost_write.find),
    Family(name="unclean-election", find=unclean_election.find),
    Family(name=two_leaders.CHECK, find=two_leaders.find),
    Family(name="dirty-read", find=dirty_read.find),
    Family(name="aborted-read", find=aborted_read.find),
    Family(name=phantom.CHECK, find=phantom.find, query=phantom.query, follows_detection=True),
    Family(name="corrupt-record", find=corrupt_record.find),
    Family(name="duplicate", find=duplicate.find),
    Family(name="inconsistent-offsets", find=inconsistent_offsets.find),
    Family(name="replica-divergence", find=inconsistent_offsets.find_divergence, query=divergence.query),
    Family(name="acknowledged-regression", find=acknowledged_regression.find),
    Family(name="reordering", find=reordering.find),
    Family(name=polls.NAME, find=polls.find, query=polls.query, follows_detection=True),
    Family(name=torn_transaction.CHECK, find=torn_transaction.find, query=torn_transaction.query),
    Family(name=zombie_transaction.CHECK, find=zombie_transaction.find),
    Family(name=stable_offset.CHECK, find=stable_offset.find, query=stable_offset.query),
    Family(name=exactly_once.CHECK, find=exactly_once.find, query=exactly_once.query),
    Family(name=group_owners.CHECK, find=group_owners.find, query=group_owners.query),
    Family(name=group_offsets.CHECK, find=group_offsets.find, query=group_offsets.query),
    Family(name=group_delivery.CHECK, find=group_delivery.find, query=group_delivery.query),
    Family(name=timestamps.CHECK, find=timestamps.find, query=timestamps.query, follows_detection=True),
    Family(name=head_skip.CHECK, find=head_skip.find, query=head_skip.query),
    Family(name=cycle.CHECK, find=cycle.find, query=cycle.query, follows_detection=True),
    Family(name=contradictions.CHECK, find=contradictions.find, query=contradictions.query),
    Family(name="expectation", find=expectation.find),
    Family(name="availability", find=availability.find, query=availability.query),
    Family(name=client_stuck.CHECK, find=client_stuck.find, query=client_stuck.query, follows_detection=True),
)
