"""What may lawfully make a group forget: the offsets that it had committed, and the generation that it had reached.

Both are records of one partition of __consumer_offsets, so what took the ones may have taken the others. One rule for
everything that follows from it: offsets that are gone, records that come again, a generation that comes again, commits
of an old generation, inputs without an output. An offset expires offsets.retention.minutes after it was committed
(KIP-186; since KIP-211 after its group became empty). If a disk was lost, or an unclean election was allowed under a
fault, between the commit and the answer, it is an open question.
"""

from collections.abc import Iterator

from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt
from harness.checks.findings import RunContext
from harness.checks.model.partition_history import DiskLoss, PartitionHistory
from harness.history.facts.finding_facts import Setting
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.facts.releases import GROUPS_KEEP_THEIR_OFFSETS
from harness.history.schema.client_rows import GROUP_EVENTS
from harness.history.schema.schemas import STATUS_OK

_RETENTION = "offsets.retention.minutes"
_MINUTE_NS = 60 * 10**9


def forgetting_ruled(
    context: RunContext, history: PartitionHistory, *, since_ns: int, until_ns: int
) -> tuple[Class, Cause]:
    """Class and cause of what a group forgot between these moments. history: of the partition of its offsets' topic."""
    if any(since_ns <= loss.time_ns <= until_ns and _may_have_held_offsets(loss) for loss in history.disk_losses):
        doubt = Doubt(code="group-offsets-on-a-lost-disk")
        return "observation", Cause(code="group-offsets-on-a-lost-disk", doubt=doubt)
    if context.history.unclean_group_offsets is not False and history.faults_between(since_ns, until_ns):
        doubt = Doubt(code="group-offsets-elected-uncleanly")
        return "observation", Cause(code="group-offsets-elected-uncleanly", doubt=doubt)
    return "violation", NOTHING_PERMITS_IT


def expiry(
    context: RunContext,
    *,
    group: str,
    topic: str,
    process: int | None,
    committed_ns: int | None,
    asked_ns: int,
    gone_ns: int,
) -> Cause | None:
    """The expiry of an offset that was committed at the first moment, and gone when `process`, which asked at the
    second, was answered.

    Before KIP-211 (2.1) offsets expired whether or not their group was in use.
    """
    if committed_ns is None:
        return None
    settings, since = context.history.settings, committed_ns
    if settings.release >= GROUPS_KEEP_THEIR_OFFSETS:
        since = max([since, *_seen_with_a_member(context, group, topic, process, asked_ns)])
    minutes = settings.numbers(_RETENTION, None, since, gone_ns)[0]
    if gone_ns - since < minutes * _MINUTE_NS:
        return None
    setting = Setting(key=_RETENTION, value=str(minutes), scope="broker")
    return Cause(code="group-offsets-expired", settings=(setting,))


def _seen_with_a_member(
    context: RunContext, group: str, topic: str, process: int | None, asked_ns: int
) -> Iterator[int]:
    """When members of the group were seen with partitions of the topic, before `process` asked, but for its joining."""
    for event in context.tables[GROUP_EVENTS]:
        if (event["group"], event["topic"], event["status"]) != (group, topic, STATUS_OK):
            continue
        joined = event["event"] == "assigned" and event["process"] != process
        in_it = event["event"] == "revoked" or (event["event"] == "committed" and (event["generation"] or -1) >= 0)
        if (joined or in_it) and event["completed_ns"] <= asked_ns:
            yield event["completed_ns"]


def _may_have_held_offsets(loss: DiskLoss) -> bool:
    """Whether the lost part may have contained group offsets; damage of another topic's log does not."""
    return loss.event.topic in (None, GROUP_OFFSETS_TOPIC)
