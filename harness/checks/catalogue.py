"""Every family of checks, ordered so that causes come before consequences.

A new check of ours is one file, which ends with its Family, and its name here; the cause of a finding is a code
(rulings.py) with its words (wording/causes.py). The families of installed packages come after ours.
"""

from functools import cache

from harness import extensions
from harness.anomalies import BY_NAME
from harness.checks import passed_over
from harness.checks.families.application import flow
from harness.checks.families.cluster import (
    availability,
    client_stuck,
    expectation,
    high_watermark,
    leader_epochs,
    no_progress,
    node_ended,
    read_epochs,
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
    producer_ids,
    stable_offset,
    told_otherwise,
    torn_transaction,
    zombie_transaction,
)
from harness.checks.family import Family
from harness.checks.spark.fused_query import Flags
from harness.errors import HarnessError

FAMILIES: tuple[Family, ...] = (
    Family(name=passed_over.NAME, query=passed_over.query, follows_detection=True),
    removal.FAMILY,
    isolation.FAMILY,
    node_ended.FAMILY,
    min_isr.FAMILY,
    lost_write.FAMILY,
    unclean_election.FAMILY,
    two_leaders.FAMILY,
    leader_epochs.FAMILY,
    read_epochs.FAMILY,
    high_watermark.FAMILY,
    topic_ids.FAMILY,
    dirty_read.FAMILY,
    aborted_read.FAMILY,
    phantom.FAMILY,
    corrupt_record.FAMILY,
    duplicate.FAMILY,
    inconsistent_offsets.FAMILY,
    inconsistent_offsets.DIVERGENCE,
    acknowledged_regression.FAMILY,
    reordering.FAMILY,
    polls.FAMILY,
    torn_transaction.FAMILY,
    zombie_transaction.FAMILY,
    told_otherwise.FAMILY,
    producer_ids.FAMILY,
    stable_offset.FAMILY,
    hanging_transaction.FAMILY,
    exactly_once.FAMILY,
    group_owners.FAMILY,
    group_generation.FAMILY,
    zombie_commit.FAMILY,
    group_presence.FAMILY,
    group_offsets.FAMILY,
    group_delivery.FAMILY,
    commit_beyond_end.FAMILY,
    flow.FAMILY,
    timestamps.FAMILY,
    end_offset.FAMILY,
    head_skip.FAMILY,
    cycle.FAMILY,
    contradictions.FAMILY,
    expectation.FAMILY,
    reading_gaps.FAMILY,
    availability.FAMILY,
    client_stuck.FAMILY,
    no_progress.FAMILY,
)


FLAGS = Flags([flag for family in FAMILIES for flag in family.flags])


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
    if family.flags:
        raise HarnessError(f"{place}: flags are for checks of ours; ask by a query")
    if family.name not in named:
        raise HarnessError(f"{place}: none of its anomalies is named {family.name!r}; its findings need that page")
    for name in sorted(named):
        if f"{name}/"[: len(family.name) + 1] != f"{family.name}/":
            raise HarnessError(
                f"{place}: an anomaly of it is named {family.name!r} or '{family.name}/KIND', not {name!r}"
            )
    if wordless := [anomaly.title for anomaly in family.anomalies if not anomaly.markdown.strip()]:
        raise HarnessError(f"{place}: the anomaly {wordless[0]!r} has no text; its page is Markdown")
