"""Every family of checks, ordered so that causes come before consequences.

A new check of ours is one file and one line here; the cause of a finding is a code (rulings.py) with its words
(wording/causes.py). The families of installed packages come after ours.
"""

from functools import cache

from harness import extensions
from harness.anomalies import BY_NAME
from harness.checks import passed_over
from harness.checks.families.cluster import (
    availability,
    client_stuck,
    expectation,
    high_watermark,
    leader_epochs,
    no_progress,
    node_ended,
    reading_gaps,
    topic_ids,
    two_leaders,
    unclean_election,
)
from harness.checks.families.evidence import contradictions
from harness.checks.families.groups import (
    commit_beyond_end,
    group_delivery,
    group_generation,
    group_offsets,
    group_owners,
    group_presence,
    zombie_commit,
)
from harness.checks.families.reads import dirty_read, end_offset, head_skip, polls
from harness.checks.families.records import (
    acknowledged_regression,
    corrupt_record,
    divergence,
    duplicate,
    inconsistent_offsets,
    lost_write,
    min_isr,
    phantom,
    removal,
    reordering,
    timestamps,
)
from harness.checks.families.transactions import (
    aborted_read,
    cycle,
    exactly_once,
    hanging_transaction,
    isolation,
    open_transactions,
    stable_offset,
    told_otherwise,
    torn_transaction,
    zombie_transaction,
)
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.errors import HarnessError


def _nothing(context: RunContext) -> list[Finding]:
    """For families whose query other families use."""
    return []


FAMILIES: tuple[Family, ...] = (
    Family(name=passed_over.NAME, find=_nothing, query=passed_over.query, follows_detection=True),
    Family(name=removal.NAME, find=_nothing, query=removal.query, follows_detection=True),
    Family(name=isolation.NAME, find=_nothing, query=isolation.query),
    Family(name=node_ended.CHECK, find=node_ended.find),
    Family(name=min_isr.CHECK, find=min_isr.find, query=min_isr.query),
    Family(name="lost-write", find=lost_write.find),
    Family(name="unclean-election", find=unclean_election.find),
    Family(name=two_leaders.CHECK, find=two_leaders.find),
    Family(name=leader_epochs.CHECK, find=leader_epochs.find, query=leader_epochs.query),
    Family(name=high_watermark.CHECK, find=high_watermark.find),
    Family(name=topic_ids.CHECK, find=topic_ids.find),
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
    Family(name=zombie_transaction.CHECK, find=zombie_transaction.find, query=zombie_transaction.query),
    Family(name=told_otherwise.CHECK, find=told_otherwise.find, query=told_otherwise.query),
    Family(name=stable_offset.CHECK, find=stable_offset.find, query=stable_offset.query),
    Family(name=hanging_transaction.CHECK, find=hanging_transaction.find, query=open_transactions.query),
    Family(name=exactly_once.CHECK, find=exactly_once.find, query=exactly_once.query),
    Family(name=group_owners.CHECK, find=group_owners.find, query=group_owners.query),
    Family(name=group_generation.CHECK, find=group_generation.find, query=group_generation.query),
    Family(name=zombie_commit.CHECK, find=zombie_commit.find, query=zombie_commit.query),
    Family(name=group_presence.NAME, find=_nothing, query=group_presence.query),
    Family(name=group_offsets.CHECK, find=group_offsets.find, query=group_offsets.query),
    Family(name=group_delivery.CHECK, find=group_delivery.find, query=group_delivery.query),
    Family(name=commit_beyond_end.CHECK, find=commit_beyond_end.find),
    Family(name=timestamps.CHECK, find=timestamps.find, query=timestamps.query, follows_detection=True),
    Family(name=end_offset.CHECK, find=end_offset.find, query=end_offset.query),
    Family(name=head_skip.CHECK, find=head_skip.find, query=head_skip.query),
    Family(name=cycle.CHECK, find=cycle.find, query=cycle.query, follows_detection=True),
    Family(name=contradictions.CHECK, find=contradictions.find, query=contradictions.query),
    Family(name="expectation", find=expectation.find),
    Family(name=reading_gaps.NAME, find=_nothing, query=reading_gaps.query),
    Family(name="availability", find=availability.find, query=availability.query),
    Family(name=client_stuck.CHECK, find=client_stuck.find, query=client_stuck.query, follows_detection=True),
    Family(name=no_progress.CHECK, find=no_progress.find),
)


@cache
def families() -> tuple[Family, ...]:
    """Our families, then those of installed packages. Raises HarnessError for a wrong package."""
    taken = {family.name for family in FAMILIES} | BY_NAME.keys()
    added = extensions.load(extensions.CHECKS, Family, own=taken)
    for family in added:
        _check_pages(family)
    return (*FAMILIES, *added)


def _check_pages(family: Family) -> None:
    place = f"package {extensions.package_of(extensions.CHECKS, family.name)}, check {family.name!r}"
    named = {name for anomaly in family.anomalies for name in anomaly.names}
    if family.name not in named:
        raise HarnessError(f"{place}: none of its anomalies is named {family.name!r}; its findings need that page")
    for name in sorted(named):
        if f"{name}/"[: len(family.name) + 1] != f"{family.name}/":
            raise HarnessError(
                f"{place}: an anomaly of it is named {family.name!r} or '{family.name}/KIND', not {name!r}"
            )
    if wordless := [anomaly.title for anomaly in family.anomalies if not anomaly.markdown.strip()]:
        raise HarnessError(f"{place}: the anomaly {wordless[0]!r} has no text; its page is Markdown")
